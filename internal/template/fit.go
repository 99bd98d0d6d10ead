package template

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/droverhq/drover/internal/document"
	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/expr"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/graph"
	"github.com/droverhq/drover/internal/schema"
)

// fit tells what is wrong with a value of which some is not known: nothing is
// said about what is unknown, nor about what holds it.
func fit(s *schema.Schema, v map[string]any) []schema.Problem {
	var open [][]string
	plain, _ := fillIn(v, nil, &open).(map[string]any)
	_, err := s.Validate(plain)
	var problems schema.Problems
	if !errors.As(err, &problems) {
		return nil
	}
	return slices.DeleteFunc(problems, func(p schema.Problem) bool {
		return slices.ContainsFunc(open, func(at []string) bool {
			n := min(len(at), len(p.Path))
			return slices.Equal(at[:n], p.Path[:n])
		})
	})
}

// fillIn puts something in the place of what is unknown, and tells where.
func fillIn(v any, path []string, open *[][]string) any {
	switch x := v.(type) {
	case expr.Unknown:
		*open = append(*open, slices.Clone(path))
		return ""
	case executor.Secret:
		return fillIn(executor.Reveal(x), path, open)
	case map[string]any:
		out := make(map[string]any, len(x))
		for k, v := range x {
			out[k] = fillIn(v, append(path, k), open)
		}
		return out
	case []any:
		out := make([]any, len(x))
		for i, v := range x {
			out[i] = fillIn(v, append(path, fmt.Sprint(i)), open)
		}
		return out
	}
	return v
}

// fits tells what is wrong with parameters of which some are not known.
func (t *Template) fits(params map[string]any) []schema.Problem {
	if t.parameters == nil {
		var out []schema.Problem
		for _, name := range slices.Sorted(maps.Keys(params)) {
			out = append(out, schema.Problem{Path: []string{name}, Message: "is not a known parameter"})
		}
		return out
	}
	return fit(t.parameters, params)
}

// Validate checks parameters and fills in their defaults. The error is
// fault.Invalid (reason "parameters").
func (t *Template) Validate(params map[string]any) (map[string]any, error) {
	if t.parameters == nil {
		if problems := t.fits(params); len(problems) > 0 {
			return nil, fault.New(fault.Invalid, "%w", schema.Problems(problems)).Because("parameters")
		}
		return map[string]any{}, nil
	}
	out, err := t.parameters.Validate(params)
	if err == nil {
		if problems := secretly(t.Spec.Parameters, out, nil); len(problems) > 0 {
			err = schema.Problems(problems)
		}
	}
	if err != nil {
		return nil, fault.New(fault.Invalid, "%w", err).Because("parameters")
	}
	return out, nil
}

// secretly lists what is given for parameters that are declared as secrets: those of
// an environment are kept and shown as they are, in its plans and history too. A
// template within another one may be given such, from outputs.
func secretly(doc map[string]any, value any, path []string) (out []schema.Problem) {
	if hidden, _ := doc["writeOnly"].(bool); hidden || doc["format"] == "password" {
		return []schema.Problem{{Path: path, Message: "is a secret, and parameters are kept where many read them: have a resource generate or read it, and refer to its output"}}
	}
	switch x := value.(type) {
	case map[string]any:
		properties, _ := doc["properties"].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(x)) {
			inner, ok := properties[name].(map[string]any)
			if !ok {
				inner, _ = doc["additionalProperties"].(map[string]any)
			}
			out = append(out, secretly(inner, x[name], append(slices.Clone(path), name))...)
		}
	case []any:
		items, _ := doc["items"].(map[string]any)
		for i, v := range x {
			out = append(out, secretly(items, v, append(slices.Clone(path), strconv.Itoa(i)))...)
		}
	}
	return out
}

// constant evaluates a document knowing nothing but itself, and looks at what
// came out.
func (f *file) constant(t *expr.Template, look func(map[string]any) []schema.Problem) []schema.Problem {
	unknown := [][]any{{"params"}, {"env"}, {"index"}, {"files"}}
	for name := range f.t.names {
		unknown = append(unknown, []any{name})
	}
	v, err := t.RenderPartial(f.r.ctx, map[string]any{}, unknown)
	doc, whole := v.(map[string]any)
	switch {
	case err != nil:
		return []schema.Problem{{Message: err.Error()}}
	case !whole && v != any(expr.Unknown{}):
		return []schema.Problem{{Message: "must be a map"}}
	case !whole:
		return nil
	}
	return look(doc)
}

// constantInputs finds inputs that the executor will refuse whatever happens.
func (f *file) constantInputs(r *resource) {
	if r.described.Inputs == nil {
		return
	}
	if r.inputs = f.r.inputs[r.Executor]; r.inputs == nil {
		compiled, err := schema.Compile(r.described.Inputs)
		if err != nil {
			f.At(under(r.path, "executor"), "the inputs of executor %s cannot be checked: %v", r.Executor, err)
			return
		}
		f.r.inputs[r.Executor], r.inputs = compiled, compiled
	}
	look := func(v map[string]any) []schema.Problem {
		problems := fit(r.inputs, v)
		if _, several := r.described.Inputs["oneOf"]; several {
			problems = slices.DeleteFunc(problems, func(p schema.Problem) bool { return len(p.Path) == 0 })
		}
		if text := r.forms(v); text != "" && len(problems) == 0 { // what is misspelt is why
			problems = append(problems, schema.Problem{Message: text})
		}
		return problems
	}
	if r.With == nil {
		for _, p := range look(map[string]any{}) {
			f.Missing(under(under(r.path, "with"), steps(p.Path)...), "%s", r.words(p))
		}
		return
	}
	if r.with == nil { // some expression is wrong; what is none can be looked at
		if doc, ok := written(r.With).(map[string]any); ok {
			for _, p := range look(doc) {
				f.At(under(under(r.path, "with"), steps(p.Path)...), "%s", r.words(p))
			}
		}
		return
	}
	for _, p := range f.constant(r.with, look) {
		f.At(under(under(r.path, "with"), steps(p.Path)...), "%s", r.words(p))
	}
}

// written is a document in which every text that holds an expression is unknown.
func written(doc any) any {
	switch x := doc.(type) {
	case string:
		if strings.Contains(x, "${") {
			return expr.Unknown{}
		}
	case map[string]any:
		out := make(map[string]any, len(x))
		for k, v := range x {
			out[k] = written(v)
		}
		return out
	case []any:
		out := make([]any, len(x))
		for i, v := range x {
			out[i] = written(v)
		}
		return out
	}
	return doc
}

// cycles finds what needs itself whatever the parameters are. What is there only
// under a condition, or by an index, is looked at when it is laid out.
func (f *file) cycles() {
	certain := func(r *resource) bool {
		return r != nil && r.When == "" && r.Count == nil && (r.group == nil || r.group.When == "")
	}
	var nodes []graph.Node
	of := map[string]*resource{}
	for _, r := range f.t.resources {
		if of[r.key] != nil || !certain(r) {
			continue
		}
		of[r.key] = r
		var uses []expr.Use
		if r.with != nil {
			uses = r.with.Uses()
		}
		needs := map[string]bool{}
		for _, u := range uses {
			if e := f.t.names[u.Root]; e != nil && certain(e.resource) {
				needs[e.resource.key] = true
			} else if e != nil && e.group != nil && e.group.nested == nil && len(u.Steps) > 0 {
				if inner := e.group.resources[u.Steps[0].Key]; certain(inner) {
					needs[inner.key] = true
				}
			}
		}
		for _, text := range r.Needs {
			if n, err := f.t.parseNeed(text); err == nil && certain(n.resource) {
				needs[n.resource.key] = true
			}
		}
		nodes = append(nodes, graph.Node{Name: r.key, Needs: sortedTrue(needs)})
	}
	_, err := graph.New(nodes)
	var problems graph.Problems
	if errors.As(err, &problems) {
		for _, p := range problems {
			if r := of[p.Node]; r != nil && len(p.Cycle) > 0 {
				f.Report(r.places[""], r.path, p.Message)
			}
		}
	}
}

// try lays the template out with its defaults, where they are enough.
func (f *file) try() {
	params, err := f.t.Validate(map[string]any{})
	if err != nil {
		return // whoever makes an environment says more
	}
	_, err = f.t.Expand(f.r.ctx, Given{Params: params, Env: EnvFacts{Name: "example", Org: "org", Owner: "owner"}})
	var mistakes document.Mistakes
	if errors.As(err, &mistakes) {
		for _, m := range mistakes {
			if m.Source != f.t.where { // of a template within
				f.r.mistakes = append(f.r.mistakes, m)
				continue
			}
			f.Report(document.Place{Line: m.Line, Column: m.Column}, nil, strings.TrimPrefix(m.Path+": "+m.Message, ": "))
		}
	}
}
