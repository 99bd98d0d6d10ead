package environment_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/template"
)

func shop(nodes ...string) *stencil {
	return &stencil{nodes: func(map[string]any) []template.Node { return chain(nodes...) }}
}

// From a plan to a ready environment and to nothing again.
func TestLife(t *testing.T) {
	w := begin(t)
	w.add("1", shop("db", "cache", "web<db,cache", "lb<web"))
	planned, err := w.s.Plan(alice, environment.PlanOrder{Environment: "staging", Template: "shop", Parameters: map[string]any{"size": "small"}, TTL: time.Hour})
	w.must(err)
	w.work(time.Second)
	p := w.plan(planned)
	if p.Phase != environment.Planned || p.Status.Creates != 4 || len(w.forge.effects) != 0 {
		t.Fatalf("%s %+v, effects %v", p.Phase, p.Status, w.forge.effects)
	}
	changes, err := w.s.Changes(alice, p.Object)
	w.must(err)
	if c := changes[2]; c.Address != "web" || c.Action != executor.Create || !c.Unknown {
		t.Errorf("%+v", c)
	}
	if _, err := w.s.Get(alice, "staging"); !fault.Is(err, fault.NotFound) {
		t.Errorf("a plan makes nothing: %v", err)
	}
	o, op, err := w.s.Apply(alice, environment.ApplyOrder{Environment: "staging", Plan: p.Status.Hash[:12]})
	w.must(err)
	w.work(3 * time.Second)
	e := w.env(o.ID)
	if e.Phase != environment.OK || e.Status.Counts.Ready != 4 || e.Spec.Ends.IsZero() {
		t.Fatalf("%s %+v", e.Phase, e.Status)
	}
	if phase, reason := w.operation(op); phase != "succeeded" {
		t.Errorf("%s %s", phase, reason)
	}
	want := []string{"make cache", "make db", "make web", "make lb"}
	got := slices.Clone(w.forge.effects)
	slices.Sort(got[:2])
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("order: %s", diff)
	}
	outputs, err := w.s.Outputs(alice, "staging", false)
	w.must(err)
	if outputs["web"] != "http://web" || outputs["token-web"] != executor.Hidden {
		t.Errorf("outputs %v", outputs)
	}
	if outputs, err = w.s.Outputs(alice, "staging", true); err != nil || outputs["token-web"] != canary(w.resources(o.ID)["web"].ID) {
		t.Errorf("revealed %v, %v", outputs, err)
	}
	why, err := w.s.Why(alice, "staging", "web")
	w.must(err)
	if len(why.DependsOn) != 2 || len(why.UsedBy) != 1 || why.UsedBy[0].Object.Name != "lb" {
		t.Errorf("why %+v", why)
	}
	if tail, err := w.s.Log(alice, "staging", "web", 0); err != nil || len(tail.Text) == 0 || tail.Running {
		t.Errorf("log %q %v", tail.Text, err)
	}
	_, op, err = w.s.Destroy(alice, "staging", "")
	w.must(err)
	w.work(3 * time.Second)
	if e := w.env(o.ID); e.Phase != environment.Destroyed || e.Deleted.IsZero() {
		t.Fatalf("%s %+v", e.Phase, e.Status)
	}
	if phase, reason := w.operation(op); phase != "succeeded" || len(w.forge.made) != 0 {
		t.Errorf("%s %s %v", phase, reason, w.forge.made)
	}
	got = w.forge.effects[4:]
	slices.Sort(got[2:])
	if diff := cmp.Diff([]string{"unmake lb", "unmake web", "unmake cache", "unmake db"}, got); diff != "" {
		t.Errorf("order: %s", diff)
	}
	if _, err := w.s.Plan(alice, environment.PlanOrder{Environment: "staging", Template: "shop"}); err != nil {
		t.Errorf("its name is free again: %v", err)
	}
	w.hidesSecrets()
}
