package environment_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/template"
)

// tagged is a template that makes "extra" only for environments with a tag.
type tagged struct{ stencils }

type taggedOne struct{ *stencil }

func (t tagged) Blueprint(ctx context.Context, ref string) (environment.Blueprint, error) {
	b, err := t.stencils.Blueprint(ctx, ref)
	if err != nil {
		return nil, err
	}
	return taggedOne{b.(*stencil)}, nil
}

func (t taggedOne) Expand(ctx context.Context, g template.Given) (environment.Layout, error) {
	nodes := t.nodes(g.Params)
	if slices.Contains(g.Env.Tags, "prod") {
		nodes = append(nodes, chain("extra")...)
	}
	return (&stencil{nodes: func(map[string]any) []template.Node { return nodes }}).Expand(ctx, g)
}

// What people write beside an environment changes nothing that was planned: the
// next plan shows what it means.
func TestDescribingTouchesNothing(t *testing.T) {
	w := newWorld(t, t.TempDir())
	w.configs = append(w.configs, func(c *environment.Config) { c.Templates = tagged{w.plans} })
	w.open()
	t.Cleanup(func() { w.store.Close() })
	w.add("1", shop("db", "web<db"))
	o, _, err := w.s.Create(alice, environment.PlanOrder{Environment: "staging", Template: "shop", Tags: []string{"prod"}})
	w.must(err)
	w.work(time.Minute)
	made := len(w.forge.effects)
	_, err = w.s.Describe(alice, "staging", nil, &[]string{"old"})
	w.must(err)
	w.work(time.Minute)
	_, _, err = w.s.Retry(alice, "staging")
	w.must(err)
	w.work(time.Minute)
	if got := w.forge.effects[made:]; len(got) > 0 {
		t.Errorf("nobody has planned %v", got)
	}
	if _, there := w.resources(o.ID)["extra"]; !there {
		t.Error("extra was destroyed without a plan")
	}
	p, err := w.s.Plan(alice, environment.PlanOrder{Environment: "staging", Keep: true})
	w.must(err)
	w.work(time.Second)
	if s := w.plan(p).Status; s.Destroys != 1 {
		t.Errorf("the plan does not tell what the tags mean: %+v", s)
	}
}

// What was written between a plan and its apply stays, unless the plan named it.
func TestDescribedMeanwhile(t *testing.T) {
	w := begin(t)
	w.add("1", shop("db"))
	o, _, err := w.s.Create(alice, environment.PlanOrder{Environment: "staging", Template: "shop", Description: "mine", Tags: []string{"old"}})
	w.must(err)
	w.work(time.Minute)
	apply := func(order environment.PlanOrder) environment.Environment {
		t.Helper()
		order.Environment, order.Parameters = "staging", map[string]any{"size": order.Description + "x"}
		p, err := w.s.Plan(alice, order)
		w.must(err)
		w.work(time.Second)
		text := "ours"
		_, err = w.s.Describe(alice, "staging", &text, &[]string{"new"})
		w.must(err)
		_, _, err = w.s.Apply(alice, environment.ApplyOrder{Plan: p.ID})
		w.must(err)
		w.work(time.Minute)
		e := w.env(o.ID)
		if e.Phase != environment.OK || e.Spec.Plan != p.ID {
			t.Fatalf("%s %q", e.Phase, e.Status.Message)
		}
		return e
	}
	if e := apply(environment.PlanOrder{}); e.Spec.Description != "ours" || !slices.Equal(e.Spec.Tags, []string{"new"}) {
		t.Errorf("what was written meanwhile is lost: %q %v", e.Spec.Description, e.Spec.Tags)
	}
	if e := apply(environment.PlanOrder{Description: "theirs"}); e.Spec.Description != "theirs" || !slices.Equal(e.Spec.Tags, []string{"new"}) {
		t.Errorf("what the plan names is not taken, or more than that: %q %v", e.Spec.Description, e.Spec.Tags)
	}
	if e := apply(environment.PlanOrder{Tags: []string{"prod"}}); e.Spec.Description != "ours" || !slices.Equal(e.Spec.Tags, []string{"prod"}) {
		t.Errorf("what the plan names is not taken, or more than that: %q %v", e.Spec.Description, e.Spec.Tags)
	}
}
