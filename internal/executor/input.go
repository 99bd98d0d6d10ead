package executor

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/droverhq/drover/internal/fault"
)

// Input is one value of a resource's "with".
type Input struct {
	Name   string
	Value  any  // without Secret; nil where it is not Known
	Given  bool // it is there
	Known  bool // nothing in it is Unknown
	Secret bool // something in it must be seen by nobody
}

// Input returns a value by its name.
func (r Resource) Input(name string) Input {
	v, ok := r.Inputs[name]
	return NewInput(name, v, ok && v != nil)
}

// NewInput takes a value apart, that of a map in an input for example.
func NewInput(name string, v any, given bool) Input {
	i := Input{Name: name, Given: given, Known: Whole(v), Secret: secret(v)}
	if i.Known {
		i.Value = Reveal(v)
	}
	return i
}

// secret reports whether anything in a tree is a Secret.
func secret(v any) bool {
	switch x := v.(type) {
	case Secret:
		return true
	case map[string]any:
		for _, v := range x {
			if secret(v) {
				return true
			}
		}
	case []any:
		for _, v := range x {
			if secret(v) {
				return true
			}
		}
	}
	return false
}

// Text is the value as text, empty if it is none.
func (i Input) Text() string { s, _ := i.Value.(string); return s }

// Show is the value for people: Hidden, Unknown or as it is.
func (i Input) Show() any {
	switch {
	case i.Secret:
		return Hidden
	case !i.Known:
		return Unknown{}
	}
	return i.Value
}

// Digest tells the value from others, a secret too: it is to be kept as one. Empty: it is
// not known yet.
func (i Input) Digest() string {
	if !i.Known {
		return ""
	}
	data, err := json.Marshal(i.Value)
	if err != nil { // no input is such: they come from a document
		data = nil
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Open refuses a secret where everybody will read it: in a name, a path, a rule.
func (i Input) Open() error {
	if i.Secret {
		return fault.New(fault.Invalid, "%s holds a secret, and would be read by many; use something else for it", i.Name)
	}
	return nil
}

// Settled refuses what is still Unknown: it can be planned, and not be applied.
func (r Resource) Settled() error {
	for name, v := range r.Inputs {
		if !Whole(v) {
			return fault.New(fault.Invalid, "%s is not known yet; what it is taken from must be applied first", name)
		}
	}
	return nil
}

// Mark digests what was seen. It must be given nothing of a secret.
func Mark(seen ...any) string {
	data, err := json.Marshal(seen)
	if err != nil {
		panic("executor: a mark of something that has no JSON: " + err.Error())
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:12])
}

// Moved is the refusal of a plan that has seen something else.
func Moved(what string) error {
	return fault.New(fault.Conflict, "%s has changed since the plan was made; make a new plan and look at it", what).Because("moved")
}

// NotOurs is the refusal to touch what the resource has not made.
func NotOurs(what string) error {
	return fault.New(fault.Conflict, "%s is there already and was not made by this resource; use another name, or remove it if it is yours", what).Because("not-ours")
}
