package template

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/expr"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/schema"
)

// facts are variables for one evaluation, and where in them is what is unknown or
// secret.
type facts struct {
	values          map[string]any
	unknown, secret [][]any
}

// evaluate renders a document in the scope: with Secret wherever anything secret
// went in, and Unknown wherever anything unknown did. Without a lookup nothing of
// any resource is known.
//
// What is secret is found by evaluating twice: what becomes unknown when the
// secrets are taken for unknown depends on them, whichever way.
func (s *scope) evaluate(ctx context.Context, t *expr.Template, index int, known Lookup, args map[string]any) (any, error) {
	f, err := s.facts(ctx, t.Uses(), index, known, args)
	if err != nil {
		return nil, err
	}
	out, err := t.RenderPartial(ctx, f.values, f.unknown)
	if err != nil || len(f.secret) == 0 {
		return out, err
	}
	shadow, err := t.RenderPartial(ctx, f.values, slices.Concat(f.unknown, f.secret))
	if err != nil {
		if ctx.Err() != nil {
			return nil, fault.New(fault.Unavailable, "evaluation was stopped: %w", ctx.Err())
		}
		return veil(out), nil // what cannot be told apart is secret
	}
	return taint(out, shadow), nil
}

// taint wraps what the shadow does not know.
func taint(v, shadow any) any {
	if _, unknown := v.(expr.Unknown); unknown {
		return v
	}
	switch x := v.(type) {
	case map[string]any:
		other, ok := shadow.(map[string]any)
		if !ok || len(other) != len(x) {
			return executor.NewSecret(v)
		}
		out := make(map[string]any, len(x))
		for k, v := range x {
			o, there := other[k]
			if !there {
				return executor.NewSecret(x)
			}
			out[k] = taint(v, o)
		}
		return out
	case []any:
		other, ok := shadow.([]any)
		if !ok || len(other) != len(x) {
			return executor.NewSecret(v)
		}
		out := make([]any, len(x))
		for i, v := range x {
			out[i] = taint(v, other[i])
		}
		return out
	}
	if v != shadow {
		return executor.NewSecret(v)
	}
	return v
}

// veil makes everything secret, and keeps the outer map.
func veil(v any) any {
	m, ok := v.(map[string]any)
	if !ok {
		return executor.NewSecret(v)
	}
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[k] = executor.NewSecret(v)
	}
	return out
}

// facts gathers what the references ask for, and no more: a resource of
// thousands is not built for one of them.
func (s *scope) facts(ctx context.Context, uses []expr.Use, index int, known Lookup, args map[string]any) (*facts, error) {
	f := &facts{values: make(map[string]any, 4)}
	by := map[string][][]expr.Step{}
	for _, u := range uses {
		by[u.Root] = append(by[u.Root], u.Steps)
	}
	for root, steps := range by {
		var v any
		var err error
		switch root {
		case "params":
			v, err = s.parameters(ctx, known)
		case "env":
			v = s.env
		case "index":
			v = int64(index)
		case "args":
			v = args
		case "files":
			f.values[root] = s.t.files // no secrets, and too many to walk
			continue
		default:
			v, err = s.named(ctx, root, steps, index, known)
		}
		if err != nil {
			return nil, err
		}
		if v != nil {
			f.values[root] = f.strip(v, []any{root})
		}
	}
	return f, nil
}

// parameters of the scope: those of a template within are evaluated again as soon
// as more is known.
func (s *scope) parameters(ctx context.Context, known Lookup) (map[string]any, error) {
	if !s.open || known == nil {
		return s.params, nil
	}
	v, err := s.parent.evaluate(ctx, s.group.with, -1, known, nil)
	if err != nil {
		return nil, err
	}
	out := maps.Clone(s.params)
	given, _ := v.(map[string]any)
	maps.Copy(out, given)
	if problems := s.t.fits(out); len(problems) > 0 {
		return nil, fault.New(fault.Invalid, "parameters of %s: %w", s.prefix[:len(s.prefix)-1], schema.Problems(problems))
	}
	return out, nil
}

// named is the value of a resource or group as far as the references go.
func (s *scope) named(ctx context.Context, root string, steps [][]expr.Step, index int, known Lookup) (any, error) {
	e := s.t.names[root]
	switch {
	case e == nil:
		return nil, nil // a type
	case e.resource != nil:
		return s.resource(ctx, e.resource, steps, index, known), nil
	case e.group.nested != nil:
		return s.nested(ctx, e.group, steps, known)
	}
	out := map[string]any{}
	for name, r := range e.group.resources {
		var rest [][]expr.Step
		wanted := false
		for _, path := range steps {
			if len(path) == 0 {
				rest, wanted = append(rest, nil), true
			} else if path[0].Key == name {
				rest, wanted = append(rest, path[1:]), true
			}
		}
		if wanted {
			out[name] = s.resource(ctx, r, rest, index, known)
		}
	}
	return out, nil
}

func (s *scope) resource(ctx context.Context, r *resource, steps [][]expr.Step, index int, known Lookup) any {
	base := s.prefix + r.key
	n := s.there[r.key]
	if r.Count == nil {
		if n == absent {
			return map[string]any{}
		}
		return r.value(base, known)
	}
	out := make([]any, max(n, 0))
	for _, path := range steps {
		at := s.pick(ctx, r, path, index)
		for i := range out {
			if out[i] == nil && (at < 0 || at == i) {
				out[i] = r.value(address(base, i), known)
			}
		}
	}
	for i := range out {
		if out[i] == nil {
			out[i] = map[string]any{}
		}
	}
	return out
}

// value of one resource.
func (r *resource) value(address string, known Lookup) map[string]any {
	out := map[string]any{"address": address, "outputs": expr.Unknown{}}
	if known == nil {
		return out
	}
	k, ok := known(address)
	if !ok {
		return out
	}
	outputs := make(map[string]any, len(k.Outputs))
	for name, v := range k.Outputs {
		if declared := r.described.Outputs[name].Type; declared != nil && declared.IsExactType(expr.Double) {
			v = double(v)
		}
		if _, unknown := v.(expr.Unknown); r.secret[name] && !unknown {
			v = executor.NewSecret(v)
		}
		outputs[name] = v
	}
	out["outputs"] = outputs
	return out
}

// fraction is a number that stays a float64, whole or not.
type fraction float64

func double(v any) any {
	switch x := v.(type) {
	case float64:
		return fraction(x)
	case int64:
		return fraction(x)
	case int:
		return fraction(x)
	}
	return v
}

// nested is the value of a group that is a template: its outputs.
func (s *scope) nested(ctx context.Context, g *group, steps [][]expr.Step, known Lookup) (any, error) {
	inner := s.inner[g.Name]
	switch {
	case s.there[g.Name] == absent:
		return map[string]any{}, nil
	case known == nil || inner == nil:
		return map[string]any{"outputs": expr.Unknown{}}, nil
	}
	outputs := map[string]any{}
	for _, o := range g.nested.outputs {
		if !slices.ContainsFunc(steps, func(path []expr.Step) bool {
			return len(path) < 2 || path[1].Key == o.Name || path[1].Key == ""
		}) {
			continue
		}
		v, err := inner.evaluate(ctx, o.value, -1, known, nil)
		if err != nil {
			return nil, err
		}
		if o.Secret {
			v = executor.NewSecret(v)
		}
		outputs[o.Name] = v
	}
	return map[string]any{"outputs": outputs}, nil
}

// strip returns a tree as expressions take it, and remembers where it was unknown
// or secret.
func (f *facts) strip(v any, path []any) any {
	switch x := v.(type) {
	case expr.Unknown:
		f.unknown = append(f.unknown, slices.Clone(path))
		return nil
	case executor.Secret:
		f.secret = append(f.secret, slices.Clone(path))
		return f.strip(executor.Reveal(x), path)
	case fraction:
		return float64(x)
	case float64, int, json.Number:
		return expr.Normal(v)
	case map[string]any:
		out := make(map[string]any, len(x))
		for k, v := range x {
			if stripped := f.strip(v, append(path, k)); stripped != nil || v == nil {
				out[k] = stripped // what is unknown is not there at all
			}
		}
		return out
	case []any:
		out := make([]any, len(x))
		for i, v := range x {
			out[i] = f.strip(v, append(path, i))
		}
		return out
	}
	return v
}
