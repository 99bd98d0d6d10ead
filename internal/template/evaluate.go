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
	by := make(map[string][]expr.Use, 4)
	for _, u := range uses {
		by[u.Root] = append(by[u.Root], u)
	}
	for root, uses := range by {
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
			v, err = s.named(ctx, root, uses, index, known)
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
func (s *scope) named(ctx context.Context, root string, uses []expr.Use, index int, known Lookup) (any, error) {
	e := s.t.names[root]
	switch {
	case e == nil:
		return nil, nil // a type
	case e.resource != nil:
		return s.resource(ctx, e.resource, uses, index, known), nil
	case e.group.nested != nil:
		return s.nested(ctx, e.group, uses, known)
	}
	out := map[string]any{}
	for name, r := range e.group.resources {
		var inner []expr.Use
		for _, u := range uses {
			if len(u.Steps) > 0 && u.Steps[0].Key == name {
				u.Steps = u.Steps[1:]
				inner = append(inner, u)
			} else if len(u.Steps) == 0 {
				inner = append(inner, u)
			}
		}
		if len(inner) > 0 {
			out[name] = s.resource(ctx, r, inner, index, known)
		}
	}
	return out, nil
}

// list of a resource with a count, of which only some are asked for.
type list struct {
	n  int
	at map[int]any
}

// nothing is what is not asked for.
var nothing = map[string]any{}

func (s *scope) resource(ctx context.Context, r *resource, uses []expr.Use, index int, known Lookup) any {
	base := s.prefix + r.key
	n := s.there[r.key]
	wanted := r.wanted(uses)
	if r.Count == nil {
		if n == absent {
			return nothing
		}
		return r.value(base, known, wanted)
	}
	out := list{n: max(n, 0), at: map[int]any{}}
	for _, u := range uses {
		if u.Over && len(u.Steps) == 0 {
			continue
		}
		if at := s.pick(ctx, r, u.Steps, index); at >= 0 && at < out.n {
			out.at[at] = nil
		} else if at < 0 {
			for i := range out.n {
				out.at[i] = nil
			}
		}
	}
	for i := range out.at {
		out.at[i] = r.value(address(base, i), known, wanted)
	}
	return out
}

// wanted are the outputs that references read; nil: all of them. What is not read
// is not there, so that nothing becomes unknown or secret because of it.
func (r *resource) wanted(uses []expr.Use) map[string]bool {
	out := map[string]bool{}
	for _, u := range uses {
		rest := u.Steps
		if r.Count != nil {
			if len(rest) == 0 && u.Over {
				continue
			}
			rest = rest[min(1, len(rest)):]
		}
		switch {
		case len(rest) > 0 && rest[0].Key == "address":
		case u.Test && len(rest) == 1: // whether it is there is decided by the layout
		case len(rest) > 1 && rest[0].Key == "outputs" && rest[1].Key != "":
			out[rest[1].Key] = true
		default:
			return nil
		}
	}
	return out
}

// value of one resource.
func (r *resource) value(address string, known Lookup, wanted map[string]bool) map[string]any {
	out := map[string]any{"address": address}
	k, ok := Known{}, false
	if known != nil {
		k, ok = known(address)
	}
	if !ok {
		if out["outputs"] = any(expr.Unknown{}); wanted != nil {
			unknown := make(map[string]any, len(wanted))
			for name := range wanted {
				unknown[name] = expr.Unknown{}
			}
			out["outputs"] = unknown
		}
		return out
	}
	outputs := make(map[string]any, len(k.Outputs))
	for name, v := range k.Outputs {
		if wanted != nil && !wanted[name] {
			continue
		}
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
func (s *scope) nested(ctx context.Context, g *group, uses []expr.Use, known Lookup) (any, error) {
	inner := s.inner[g.Name]
	switch {
	case s.there[g.Name] == absent:
		return nothing, nil
	case known == nil || inner == nil:
		return map[string]any{"outputs": expr.Unknown{}}, nil
	}
	outputs := map[string]any{}
	for _, o := range g.nested.outputs {
		if !slices.ContainsFunc(uses, func(u expr.Use) bool {
			return len(u.Steps) < 2 || u.Steps[1].Key == o.Name || u.Steps[1].Key == ""
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
	case list:
		out := make([]any, x.n) // nobody reads those that are not asked for
		for i, v := range x.at {
			out[i] = f.strip(v, append(path, i))
		}
		return out
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
