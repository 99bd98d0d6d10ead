package template

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/expr"
	"github.com/droverhq/drover/internal/fault"
)

// PlanFacts are what policies know of a plan.
type PlanFacts struct {
	Environment, Org, Owner              string
	Tags                                 []string // of the environment
	Creates, Changes, Replaces, Destroys int
}

// ChangeFacts are what policies know of one change.
type ChangeFacts struct {
	Address, Executor, Action, Group string
	Tags                             []string
}

// Verdict of a policy on one change.
type Verdict struct {
	Policy, Address string
	Effect          string // deny, approve
	Message         string
}

// judged declares what policies see: the same for every template.
var judged = sync.OnceValues(func() (*expr.Env, error) { return expr.NewEnv(judging(), nil) })

func judging() map[string]*expr.Object {
	fields := func(texts, numbers []string) map[string]expr.Field {
		out := map[string]expr.Field{"tags": member("tags", expr.List(expr.String))}
		for _, name := range texts {
			out[name] = member(name, expr.String)
		}
		for _, name := range numbers {
			out[name] = member(name, expr.Int)
		}
		return out
	}
	return map[string]*expr.Object{
		"change": {Name: "change", Fields: fields([]string{"address", "executor", "action", "group"}, nil)},
		"plan":   {Name: "plan", Fields: fields([]string{"environment", "org", "owner"}, []string{"creates", "changes", "replaces", "destroys"})},
	}
}

func (f *file) compilePolicies(path []any) {
	seen := map[string]bool{}
	env, err := judged()
	if err != nil {
		f.At(path, "cannot be used: %v", err)
		return
	}
	own, scope := f.t.env, f.scope
	defer func() { f.t.env, f.scope, f.judging = own, scope, false }()
	f.t.env, f.scope, f.judging = env, judging(), true
	for i, p := range f.t.Spec.Policies {
		at := under(path, i)
		if f.form(under(at, "name"), p.Name, nameForm, "lower-case letters, digits and dashes, such as keep-data") && seen[p.Name] {
			f.At(under(at, "name"), "the name %.64q is there twice", p.Name)
		}
		seen[p.Name] = true
		if p.Effect == "" {
			f.Missing(under(at, "effect"), "is required: %s or %s", EffectDeny, EffectApprove)
		}
		f.oneOf(under(at, "effect"), p.Effect, EffectDeny, EffectApprove)
		if p.When == "" {
			f.Missing(under(at, "when"), `is required: a condition such as change.action == "destroy"`)
			continue
		}
		f.t.policies = append(f.t.policies, f.condition(p.When, under(at, "when"), place{what: "a policy"}))
	}
}

func texts(words []string) []any {
	out := make([]any, len(words))
	for i, t := range words {
		out[i] = t
	}
	return out
}

// Judge asks every policy about every change, and those of a template within
// about the changes in its group. One that cannot be evaluated denies: what was
// meant to be stopped must not pass because of a mistake.
func (t *Template) Judge(ctx context.Context, plan PlanFacts, changes []ChangeFacts) ([]Verdict, error) {
	var out []Verdict
	vars := map[string]any{"plan": map[string]any{
		"environment": plan.Environment, "org": plan.Org, "owner": plan.Owner, "tags": texts(plan.Tags), "creates": plan.Creates,
		"changes": plan.Changes, "replaces": plan.Replaces, "destroys": plan.Destroys,
	}}
	for i, p := range t.Spec.Policies {
		for _, c := range changes {
			vars["change"] = map[string]any{
				"address": c.Address, "executor": c.Executor, "action": c.Action, "group": c.Group, "tags": texts(c.Tags),
			}
			v, err := t.policies[i].Render(ctx, vars)
			if ctx.Err() != nil {
				return nil, fault.New(fault.Unavailable, "the plan was not judged: %w", ctx.Err())
			}
			verdict := Verdict{Policy: p.Name, Address: c.Address, Effect: p.Effect, Message: p.Message}
			if holds, ok := v.(bool); err != nil || !ok {
				verdict.Effect, verdict.Message = EffectDeny, fmt.Sprintf("the policy cannot be evaluated, so nothing passes it: %v", err)
			} else if !holds {
				continue
			}
			out = append(out, verdict)
		}
	}
	for _, g := range t.groups {
		if g.nested == nil {
			continue
		}
		inside := make([]ChangeFacts, 0, len(changes))
		for _, c := range changes {
			if rest, in := strings.CutPrefix(c.Address, g.Name+"."); in {
				c.Address = rest
				inside = append(inside, c)
			}
		}
		found, err := g.nested.Judge(ctx, plan, inside)
		if err != nil {
			return nil, err
		}
		for _, v := range found {
			v.Policy, v.Address = g.Name+"/"+v.Policy, g.Name+"."+v.Address
			out = append(out, v)
		}
	}
	return out, nil
}

// Verbs that permissions are about.
const (
	VerbPlan    = "plan"
	VerbApply   = "apply"
	VerbDestroy = "destroy"
	VerbAction  = "action"
)

// May tells whether somebody may do something to an environment of this
// organisation and owner; of a template before there is one, to one of their own.
// Operators may do everything. Where a verb is not named, everybody who can see
// the environment may plan, and its owner and the administrators of its
// organisation may do the rest. Nobody may do anything to what they cannot see.
func (p Permissions) May(verb, action string, who access.Principal, org, owner string) bool {
	switch {
	case who.Cluster != "":
		return false // agents do what they are told
	case who.Admin:
		return true
	case !who.Sees(org, owner):
		return false
	}
	var named *Who
	switch verb {
	case VerbPlan:
		if named = p.Plan; named == nil {
			return true
		}
	case VerbApply:
		named = p.Apply
	case VerbDestroy:
		named = p.Destroy
	case VerbAction:
		for _, key := range []string{action, "*"} {
			if w, ok := p.Actions[key]; ok && named == nil {
				named = &w
			}
		}
	default:
		return false
	}
	if named == nil {
		return who.MayChange(org, owner)
	}
	return named.is(who)
}

func (w Who) is(who access.Principal) bool {
	has := func(list []string, values ...string) bool {
		return slices.Contains(list, "*") || slices.ContainsFunc(values, func(v string) bool { return v != "" && slices.Contains(list, v) })
	}
	return has(w.Users, who.User) || has(w.Orgs, who.Org) || has(w.Roles, who.Roles...)
}

func (f *file) permissions(p Permissions, path []any) {
	check := func(w *Who, at []any) {
		if w == nil {
			return
		}
		for name, list := range map[string][]string{"users": w.Users, "orgs": w.Orgs, "roles": w.Roles} {
			for i, entry := range list {
				if strings.TrimSpace(entry) == "" || strings.Contains(entry, "${") {
					f.At(under(at, name, i), "must be a name, or * for everybody who can see the environment")
				}
			}
		}
	}
	check(p.Plan, under(path, "plan"))
	check(p.Apply, under(path, "apply"))
	check(p.Destroy, under(path, "destroy"))
	for name, w := range p.Actions {
		check(&w, under(path, "actions", name))
	}
}
