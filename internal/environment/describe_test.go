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
