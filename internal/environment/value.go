package environment

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/expr"
	"github.com/droverhq/drover/internal/fault"
)

// hides reports whether anything in a tree is Secret.
func hides(v any) bool {
	switch x := v.(type) {
	case executor.Secret:
		return true
	case map[string]any:
		for _, v := range x {
			if hides(v) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(x, hides)
	}
	return false
}

// secrets collects the texts in a tree that are Secret.
func secrets(v any, inside bool, out *[]string) {
	switch x := v.(type) {
	case executor.Secret:
		secrets(executor.Reveal(x), true, out)
	case map[string]any:
		for _, v := range x {
			secrets(v, inside, out)
		}
	case []any:
		for _, v := range x {
			secrets(v, inside, out)
		}
	case string:
		if inside && len(x) >= shortest {
			*out = append(*out, x)
		}
	}
}

// shortest is the length from which on a secret can be told from other text.
const shortest = 4

// veil strikes secrets out of text for people, as far as they can be recognised:
// as they are, and as JSON writes them.
type veil struct{ strike *strings.Replacer }

func veilOf(trees ...any) veil {
	var found []string
	for _, t := range trees {
		secrets(t, false, &found)
	}
	for _, text := range found {
		if quoted, err := json.Marshal(text); err == nil && string(quoted[1:len(quoted)-1]) != text {
			found = append(found, string(quoted[1:len(quoted)-1]))
		}
		for _, line := range strings.Split(text, "\n") { // a log is written by lines
			if len(line) >= 2*shortest && line != text {
				found = append(found, line)
			}
		}
	}
	if len(found) == 0 {
		return veil{}
	}
	slices.SortFunc(found, func(a, b string) int { return len(b) - len(a) })
	pairs := make([]string, 0, 2*len(found))
	for _, text := range slices.Compact(found) {
		pairs = append(pairs, text, executor.Hidden)
	}
	return veil{strings.NewReplacer(pairs...)}
}

func (v veil) text(s string) string {
	if v.strike == nil {
		return s
	}
	return v.strike.Replace(s)
}

// value shows a tree to people.
func (v veil) value(tree any) any {
	switch x := executor.Show(tree).(type) {
	case string:
		return v.text(x)
	case map[string]any:
		for k, member := range x {
			x[k] = v.value(member)
		}
		return x
	case []any:
		for i, member := range x {
			x[i] = v.value(member)
		}
		return x
	default:
		return x
	}
}

func (v veil) fields(fields []executor.Field) []executor.Field {
	out := make([]executor.Field, 0, len(fields))
	for _, f := range fields {
		f.Before, f.After = v.value(f.Before), v.value(f.After)
		out = append(out, f)
	}
	return out
}

// plainly reads a value of JSON with the types that expressions expect.
func plainly(raw []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fault.New(fault.Internal, "cannot read a kept value: %w", err)
	}
	return expr.Normal(v), nil
}

// values reads outputs for people: secret ones are Hidden, or Secret if they are
// to be revealed.
func (s *Service) values(ctx context.Context, plain map[string]json.RawMessage, sealed map[string]string, reveal bool) (map[string]any, error) {
	if len(plain) == 0 && len(sealed) == 0 {
		return nil, nil
	}
	out := make(map[string]any, len(plain)+len(sealed))
	for name, raw := range plain {
		v, err := plainly(raw)
		if err != nil {
			return nil, err
		}
		out[name] = v
	}
	for name, ref := range sealed {
		if out[name] = executor.Hidden; !reveal {
			continue
		}
		raw, err := s.Keeper.Unseal(ctx, ref)
		if err != nil {
			return nil, err
		}
		v, err := plainly(raw)
		if err != nil {
			return nil, err
		}
		out[name] = executor.NewSecret(v)
	}
	return out, nil
}

// keep is the way back: what nobody may see is sealed, unless it is so already. The
// references that nothing refers to any more are to be shredded once that is
// written.
func (s *Service) keep(ctx context.Context, outputs map[string]any, before map[string]string) (plain map[string]json.RawMessage, sealed map[string]string, stale []string, err error) {
	for name, v := range outputs {
		raw, err := json.Marshal(executor.Reveal(v))
		if err != nil {
			return nil, nil, nil, fault.New(fault.Invalid, "output %s cannot be kept: %w", name, err)
		}
		if !hides(v) {
			if plain == nil {
				plain = map[string]json.RawMessage{}
			}
			plain[name] = raw
			continue
		}
		ref := before[name]
		if ref == "" || !s.holds(ctx, ref, raw) {
			if ref, err = s.Keeper.Seal(ctx, raw); err != nil {
				return nil, nil, nil, err
			}
		}
		if sealed == nil {
			sealed = map[string]string{}
		}
		sealed[name] = ref
	}
	for name, ref := range before {
		if sealed[name] != ref {
			stale = append(stale, ref)
		}
	}
	return plain, sealed, stale, nil
}

func (s *Service) holds(ctx context.Context, ref string, raw []byte) bool {
	kept, err := s.Keeper.Unseal(ctx, ref)
	return err == nil && bytes.Equal(kept, raw)
}

// shred destroys secrets; those that are not there are fine.
func (s *Service) shred(ctx context.Context, refs ...string) error {
	for _, ref := range refs {
		if ref == "" {
			continue
		}
		if err := s.Keeper.Shred(ctx, ref); err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
	}
	return nil
}

func (s *Service) unseal(ctx context.Context, ref string) ([]byte, error) {
	if ref == "" {
		return nil, nil
	}
	return s.Keeper.Unseal(ctx, ref)
}

// secretKey marks a Secret in inputs that are kept sealed.
const secretKey = "$secret"

// marked writes inputs so that what is Secret stays so when they are read again.
func marked(v any) any {
	switch x := v.(type) {
	case executor.Secret:
		return map[string]any{secretKey: executor.Reveal(x)}
	case map[string]any:
		out := make(map[string]any, len(x))
		for k, v := range x {
			out[k] = marked(v)
		}
		return out
	case []any:
		out := make([]any, len(x))
		for i, v := range x {
			out[i] = marked(v)
		}
		return out
	}
	return v
}

func unmarked(v any) any {
	switch x := v.(type) {
	case map[string]any:
		if v, ok := x[secretKey]; ok && len(x) == 1 {
			return executor.NewSecret(v)
		}
		for k, v := range x {
			x[k] = unmarked(v)
		}
	case []any:
		for i, v := range x {
			x[i] = unmarked(v)
		}
	}
	return v
}

// maxWith is the size beyond which inputs are kept apart from their object.
const maxWith = 16 << 10

// keepInputs notes the inputs that a resource is made with, so that it can be taken
// away when no template says them any more.
func (s *Service) keepInputs(ctx context.Context, inputs map[string]any, status *ResourceStatus) (stale []string, err error) {
	raw, err := json.Marshal(marked(inputs))
	if err != nil {
		return nil, fault.New(fault.Invalid, "the inputs cannot be kept: %w", err)
	}
	before := status.Sealed
	if !hides(inputs) && len(raw) <= maxWith {
		status.With, status.Sealed = raw, ""
	} else {
		status.With = nil
		if before != "" && s.holds(ctx, before, raw) {
			return nil, nil
		}
		if status.Sealed, err = s.Keeper.Seal(ctx, raw); err != nil {
			return nil, err
		}
	}
	if before != "" && before != status.Sealed {
		stale = []string{before}
	}
	return stale, nil
}

// keptInputs are those that were applied last; nil: none are known.
func (s *Service) keptInputs(ctx context.Context, status ResourceStatus) (map[string]any, error) {
	raw := []byte(status.With)
	if status.Sealed != "" {
		var err error
		if raw, err = s.Keeper.Unseal(ctx, status.Sealed); err != nil {
			return nil, err
		}
	}
	if len(raw) == 0 {
		return nil, nil
	}
	v, err := plainly(raw)
	if err != nil {
		return nil, err
	}
	inputs, _ := unmarked(v).(map[string]any)
	return inputs, nil
}

// made are the outputs of a resource as its executor gave them.
func (s *Service) made(ctx context.Context, r Resource) (map[string]any, error) {
	return s.values(ctx, r.Status.Outputs, r.Status.Secrets, true)
}
