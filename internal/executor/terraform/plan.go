package terraform

import (
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	tfjson "github.com/hashicorp/terraform-json"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/expr"
)

const (
	maxFields  = 200  // of one change: those who read it read no more
	maxShown   = 1024 // bytes of one value of a field
	maxOutputs = 1 << 20
)

// change reads a plan.
func change(head Head, p *tfjson.Plan, applied bool) executor.Change {
	c := executor.Change{Action: executor.None, Outputs: foreseen(p), Mark: mark(head, p)}
	var creates, updates, replaces, destroys int
	for _, rc := range p.ResourceChanges {
		if rc.Change == nil || rc.Mode != tfjson.ManagedResourceMode {
			continue
		}
		switch a := rc.Change.Actions; {
		case a.Replace():
			replaces++
			c.Fields = append(c.Fields, executor.Field{Path: rc.Address, Before: "made", After: "made anew", Forces: true})
			c.Fields = append(c.Fields, fields(rc, forcing(rc.Change))...)
		case a.Create():
			creates++
			c.Fields = append(c.Fields, executor.Field{Path: rc.Address, After: "made"})
		case a.Update():
			updates++
			c.Fields = append(c.Fields, fields(rc, nil)...)
		case a.Delete(), a.Forget():
			destroys++
			c.Fields = append(c.Fields, executor.Field{Path: rc.Address, Before: "made", Forces: true})
		}
	}
	for _, name := range slices.Sorted(keys(p.OutputChanges)) {
		if o := p.OutputChanges[name]; !o.Actions.NoOp() && !o.Actions.Read() && (creates+updates+replaces+destroys == 0) {
			f := executor.Field{Path: "output." + name, Before: short(o.Before), After: short(o.After)}
			if holds(o.BeforeSensitive) || holds(o.AfterSensitive) {
				f.Before, f.After = executor.Hidden, executor.Hidden
			} else if holds(o.AfterUnknown) {
				f.After = executor.Unknown{}
			}
			c.Fields = append(c.Fields, f)
		}
	}
	c.Fields = c.Fields[:min(len(c.Fields), maxFields)]
	something := len(c.Fields) > 0
	switch {
	case !there(head, p, applied):
		c.Action = executor.Create
		c.Why = fmt.Sprintf("it is not there: %d to create", creates)
	case replaces+destroys > 0: // something that was made goes
		c.Action = executor.Replace
	case something || creates+updates > 0:
		c.Action = executor.Update
	}
	if c.Action == executor.Replace || c.Action == executor.Update {
		c.Why = fmt.Sprintf("in the module %d to create, %d to change, %d to replace, %d to destroy", creates, updates, replaces, destroys)
	}
	if c.Action == executor.None {
		c.Fields = nil
	}
	return c
}

func keys[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// mark digests what was seen: which state, and how what is there differs from it.
// Values that are sensitive are left out.
func mark(head Head, p *tfjson.Plan) string {
	state := executor.Mark(head.Lineage, head.Serial)
	if p == nil {
		return state + "."
	}
	seen := drift(p)
	if len(seen) == 0 {
		return state + "."
	}
	for i, f := range seen {
		seen[i].Before, seen[i].After = executor.Show(f.Before), executor.Show(f.After)
	}
	return state + "." + executor.Mark(seen)
}

// unmoved reports whether what a plan has seen is still so. One that could not look
// has seen the state alone.
func unmoved(planned, now string) bool {
	if looked := strings.Contains(planned, "."); !looked {
		now, _, _ = strings.Cut(now, ".")
	}
	return planned == now
}

// there reports whether what was made is there. A module that makes nothing is
// there once its state is; one that tells nothing either never has one.
func there(head Head, p *tfjson.Plan, applied bool) bool {
	if p.PriorState != nil && p.PriorState.Values != nil && managed(p.PriorState.Values.RootModule) > 0 {
		return true
	}
	for _, d := range p.ResourceDrift {
		if d.Change != nil && d.Change.Actions.Delete() {
			return false
		}
	}
	if !applied || p.PlannedValues != nil && managed(p.PlannedValues.RootModule) > 0 {
		return false
	}
	return head.Lineage != "" || p.PlannedValues != nil && len(p.OutputChanges) == 0
}

func managed(m *tfjson.StateModule) (n int) {
	if m == nil {
		return 0
	}
	for _, r := range m.Resources {
		if r.Mode == tfjson.ManagedResourceMode {
			n++
		}
	}
	for _, child := range m.ChildModules {
		n += managed(child)
	}
	return n
}

// drift is how what is there differs from what was applied.
func drift(p *tfjson.Plan) (out []executor.Field) {
	for _, d := range p.ResourceDrift {
		switch {
		case d.Change == nil || d.Mode != tfjson.ManagedResourceMode:
		case d.Change.Actions.Delete():
			out = append(out, executor.Field{Path: d.Address, Before: "made"})
		default:
			out = append(out, fields(d, nil)...)
		}
	}
	return out[:min(len(out), maxFields)]
}

// fields are the attributes of something that differ. Where one of them is sensitive
// no value is told: providers make others of it, digests and URLs, and do not say
// so.
func fields(rc *tfjson.ResourceChange, forces map[string]bool) (out []executor.Field) {
	before, _ := rc.Change.Before.(map[string]any)
	after, _ := rc.Change.After.(map[string]any)
	unknown, _ := rc.Change.AfterUnknown.(map[string]any)
	names := map[string]bool{}
	for _, m := range []map[string]any{before, after, unknown} {
		for name := range m {
			names[name] = true
		}
	}
	veiled := holds(rc.Change.BeforeSensitive) || holds(rc.Change.AfterSensitive)
	for _, name := range slices.Sorted(keys(names)) {
		f := executor.Field{Path: rc.Address + "." + name, Before: short(before[name]), After: short(after[name]), Forces: forces[name]}
		open := holds(unknown[name])
		if !open && same(before[name], after[name]) {
			continue
		}
		switch {
		case veiled:
			f.Before, f.After = executor.Hidden, executor.Hidden
		case open:
			f.After = executor.Unknown{}
		}
		out = append(out, f)
	}
	return out
}

// forcing are the attributes that cannot be changed in place.
func forcing(c *tfjson.Change) map[string]bool {
	out := map[string]bool{}
	for _, p := range c.ReplacePaths {
		if steps, ok := p.([]any); ok && len(steps) > 0 {
			if name, ok := steps[0].(string); ok {
				out[name] = true
			}
		}
	}
	return out
}

func same(a, b any) bool {
	x, err := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err == nil && err2 == nil && string(x) == string(y)
}

// short is a value for people.
func short(v any) any {
	v = expr.Normal(v)
	if data, err := json.Marshal(v); err != nil || len(data) > maxShown {
		return fmt.Sprintf("(%d bytes)", len(data))
	}
	return v
}

// holds reports whether anything in a tree of marks is set.
func holds(marks any) bool {
	switch x := marks.(type) {
	case bool:
		return x
	case map[string]any:
		for _, v := range x {
			if holds(v) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(x, holds)
	}
	return false
}

// foreseen are the outputs as they will be.
func foreseen(p *tfjson.Plan) map[string]any {
	out := map[string]any{}
	for name, o := range p.OutputChanges {
		switch {
		case o.Actions.Delete():
		case holds(o.AfterUnknown):
			out[name] = executor.Unknown{}
		case holds(o.AfterSensitive):
			out[name] = executor.NewSecret(expr.Normal(o.After))
		default:
			out[name] = expr.Normal(o.After)
		}
	}
	return out
}

var declares = regexp.MustCompile(`(?m)^[ \t]*output[ \t]+"([^"]{1,200})"`)

// later is the change of a module whose inputs are not known yet: nothing is asked.
func later(r executor.Resource, m module, head Head, state contained) executor.Change {
	c := executor.Change{Action: executor.Create, Why: "what it is made with is known only after others were applied", Outputs: map[string]any{}}
	c.Mark, _, _ = strings.Cut(mark(head, nil), ".")
	if len(state.made) > 0 || r.Outputs != nil && head.Lineage != "" {
		c.Action = executor.Update
	}
	for _, in := range []string{"module", "files"} {
		if i := r.Input(in); i.Given && !i.Known {
			c.Fields = append(c.Fields, executor.Field{Path: in, After: executor.Unknown{}})
		}
	}
	given, _ := r.Inputs["variables"].(map[string]any)
	if i := r.Input("variables"); given == nil && !i.Known {
		c.Fields = append(c.Fields, executor.Field{Path: "variables", After: executor.Unknown{}})
	}
	for _, name := range slices.Sorted(keys(given)) {
		if !executor.Whole(given[name]) {
			c.Fields = append(c.Fields, executor.Field{Path: "variables." + name, After: executor.Unknown{}})
		}
	}
	for name := range state.outputs {
		c.Outputs[name] = executor.Unknown{}
	}
	for name, data := range m.files {
		if path.Dir(name) != m.dir {
			continue
		}
		for _, found := range declares.FindAllSubmatch(data, -1) {
			c.Outputs[string(found[1])] = executor.Unknown{}
		}
	}
	return c
}

// contained is what a state says.
type contained struct {
	made    []string // addresses of what was made
	outputs map[string]any
	size    int // of the outputs
}

// contents reads a state.
func contents(state []byte) (h contained) {
	var s struct {
		Outputs map[string]struct {
			Value     json.RawMessage `json:"value"`
			Sensitive bool            `json:"sensitive"`
		} `json:"outputs"`
		Resources []struct {
			Module    string            `json:"module"`
			Mode      string            `json:"mode"`
			Type      string            `json:"type"`
			Name      string            `json:"name"`
			Instances []json.RawMessage `json:"instances"`
		} `json:"resources"`
	}
	if len(state) == 0 || json.Unmarshal(state, &s) != nil {
		return contained{}
	}
	h.outputs = map[string]any{}
	for name, o := range s.Outputs {
		h.size += len(o.Value)
		var v any
		if json.Unmarshal(o.Value, &v) != nil {
			continue
		}
		if h.outputs[name] = expr.Normal(v); o.Sensitive {
			h.outputs[name] = executor.NewSecret(expr.Normal(v))
		}
	}
	for _, r := range s.Resources {
		if r.Mode != "managed" || len(r.Instances) == 0 {
			continue
		}
		name := r.Type + "." + r.Name
		if r.Module != "" {
			name = r.Module + "." + name
		}
		if len(r.Instances) > 1 {
			name = fmt.Sprintf("%s (%d)", name, len(r.Instances))
		}
		h.made = append(h.made, name)
	}
	return h
}
