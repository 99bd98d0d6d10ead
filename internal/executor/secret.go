package executor

import "encoding/json"

// Secret is a value that must be seen by nobody: however it is printed, it is
// Hidden. Executors take it out at the last moment with Reveal.
type Secret struct{ value any }

// NewSecret wraps a value.
func NewSecret(v any) Secret { return Secret{v} }

// String implements fmt.Stringer.
func (Secret) String() string { return Hidden }

// GoString implements fmt.GoStringer.
func (Secret) GoString() string { return Hidden }

// MarshalJSON implements json.Marshaler.
func (Secret) MarshalJSON() ([]byte, error) { return json.Marshal(Hidden) }

// Reveal returns a copy of a tree in which every Secret is its value.
func Reveal(v any) any {
	switch x := v.(type) {
	case Secret:
		return Reveal(x.value)
	case map[string]any:
		out := make(map[string]any, len(x))
		for k, v := range x {
			out[k] = Reveal(v)
		}
		return out
	case []any:
		out := make([]any, len(x))
		for i, v := range x {
			out[i] = Reveal(v)
		}
		return out
	}
	return v
}

// Show returns a copy of a tree for people: every Secret is Hidden, and what is
// Unknown says so.
func Show(v any) any {
	switch x := v.(type) {
	case Secret:
		return Hidden
	case Unknown:
		return x.String()
	case map[string]any:
		out := make(map[string]any, len(x))
		for k, v := range x {
			out[k] = Show(v)
		}
		return out
	case []any:
		out := make([]any, len(x))
		for i, v := range x {
			out[i] = Show(v)
		}
		return out
	}
	return v
}

// Whole reports whether nothing in a tree is Unknown.
func Whole(v any) bool {
	switch x := v.(type) {
	case Unknown:
		return false
	case Secret:
		return Whole(x.value)
	case map[string]any:
		for _, v := range x {
			if !Whole(v) {
				return false
			}
		}
	case []any:
		for _, v := range x {
			if !Whole(v) {
				return false
			}
		}
	}
	return true
}
