package environment_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/reconcile"
)

// left lists what is there of a kind, oldest first.
func (w *world) left(kind string) []ledger.Object {
	w.t.Helper()
	found, err := w.store.Ledger.List(context.Background(), ledger.Query{Kind: kind, Order: []ledger.Order{{Column: "created"}}, Limit: 10_000})
	w.must(err)
	return found
}

// resync wakes what the loop finds once in a while, and works on it.
func (w *world) resync(kind string) {
	w.t.Helper()
	wakes, _, err := w.all[kind].(reconcile.Resyncer).Unsettled(context.Background(), "", 1000)
	w.must(err)
	for i := range wakes {
		wakes[i].IfIdle = true
	}
	_, err = w.store.Ledger.Commit(context.Background(), ledger.Set{Actor: "system", Cause: "test", Wakes: wakes})
	w.must(err)
	w.work(time.Minute)
}

// Of many plans the last are there, and the one that was carried out; so it is with
// an environment that never came to be.
func TestPlansAreRetained(t *testing.T) {
	w := begin(t)
	w.add("1", shop("db"))
	e := w.up("staging", nil)
	for i := range 30 {
		for _, name := range []string{e.ID, "draft"} {
			_, err := w.s.Plan(alice, environment.PlanOrder{Environment: name, Template: "shop", Parameters: map[string]any{"size": fmt.Sprint(i)}})
			w.must(err)
			w.work(time.Second)
		}
	}
	count, current := map[string]int{}, false
	for _, o := range w.left("plan") {
		count[o.Name]++
		current = current || o.ID == e.Spec.Plan
	}
	if count["staging"] != 21 || !current || count["draft"] != 20 {
		t.Errorf("%v; the one that was carried out is there: %v", count, current)
	}
	old, err := w.store.Ledger.List(context.Background(), ledger.Query{Kind: "plan", Deleted: true, Order: []ledger.Order{{Column: "created"}}, Limit: 3})
	w.must(err)
	if _, _, err := w.s.Apply(alice, environment.ApplyOrder{Plan: old[2].ID}); err == nil {
		t.Error("a plan that was removed is applied")
	}
	_, _, err = w.s.Destroy(alice, e.ID, "")
	w.must(err)
	w.work(time.Minute)
	w.clock = w.clock.Add(89 * 24 * time.Hour)
	w.resync("plan")
	if n := len(w.left("plan")); n != 40 && n != 41 {
		t.Errorf("%d plans are left within the time", n)
	}
	w.clock = w.clock.Add(2 * 24 * time.Hour)
	w.resync("plan")
	if left := w.left("plan"); len(left) != 0 {
		t.Errorf("%d plans outlive what they were for", len(left))
	}
}

func TestKept(t *testing.T) {
	e := environment.Environment{Object: ledger.Object{Ref: ledger.Ref{ID: "e"}}, Spec: environment.Spec{Turn: 3, Plan: "now", Next: &environment.Next{Plan: "next"}},
		Status: environment.Status{EndPlan: "end"}}
	cases := []struct {
		reason, id, phase, of, approval string
		basis                           int64
		want                            bool
	}{
		{"it is carried out", "now", environment.Applied, "e", "", 2, true},
		{"it is next", "next", environment.Planned, "e", "", 3, true},
		{"it is made again each hour", "end", environment.Forbidden, "e", "", 3, true},
		{"it is being made", "x", environment.Planning, "e", "", 3, true},
		{"somebody is asked", "x", environment.Asking, "e", "a", 3, true},
		{"it was approved and can be applied", "x", environment.Planned, "e", "a", 3, true},
		{"it was approved and something else was done since", "x", environment.Planned, "e", "a", 2, false},
		{"it was approved for one that is gone", "x", environment.Planned, "before", "a", 3, false},
		{"nobody wanted it", "x", environment.Planned, "e", "", 3, false},
		{"it was carried out once", "x", environment.Applied, "e", "", 1, false},
	}
	for _, c := range cases {
		p := environment.Plan{Object: ledger.Object{Ref: ledger.Ref{ID: c.id}, Phase: c.phase}, Spec: environment.PlanSpec{ID: c.of}, Status: environment.PlanStatus{Approval: c.approval, Basis: c.basis}}
		if got := environment.Kept(p, e); got != c.want {
			t.Errorf("%s: %v", c.reason, got)
		}
	}
}

func TestRunsAreRetained(t *testing.T) {
	w, _, e := theatre(t)
	for i := range 55 {
		_, err := w.s.RunAction(alice, e.ID, "greet", map[string]any{"name": fmt.Sprint(i)})
		w.must(err)
		w.work(time.Second)
	}
	if left := w.left("actionrun"); len(left) != 50 {
		t.Errorf("%d runs are left", len(left))
	}
	_, _, err := w.s.Destroy(alice, e.ID, "")
	w.must(err)
	w.work(time.Minute)
	w.clock = w.clock.Add(91 * 24 * time.Hour)
	w.resync("actionrun")
	if left := w.left("actionrun"); len(left) != 0 {
		t.Errorf("%d runs outlive their environment", len(left))
	}
}

// Records are there for as long as they are open, and a while after.
func TestDriftIsRetained(t *testing.T) {
	w, g := plant(t)
	w.add("1", shop("db", "web"))
	e := w.up("staging", nil)
	all := w.resources(e.ID)
	g.spoil(all["db"])
	g.spoil(all["web"])
	e = w.look(e)
	g.made[all["db"].ID] = thing{asked(executor.Resource{Inputs: map[string]any{"size": nil, "name": "db"}}), 9}
	e = w.look(e)
	w.clock = w.clock.Add(89 * 24 * time.Hour)
	w.resync("drift")
	if left := w.left("drift"); len(left) != 2 {
		t.Fatalf("%d records are left within the time", len(left))
	}
	w.clock = w.clock.Add(2 * 24 * time.Hour)
	w.resync("drift")
	if left := w.left("drift"); len(left) != 1 || left[0].Phase != environment.DriftOpen {
		t.Errorf("left are %d", len(left))
	}
}

// An end that is denied is tried each hour with the same plan, and what is not denied
// any more is carried out as an operation.
func TestDeniedEndIsNotCounted(t *testing.T) {
	w := begin(t)
	st, effect := shop("db"), "deny"
	st.judge = func(changes []environment.PlannedChange) (out []environment.Verdict) {
		for _, c := range changes {
			if c.Action == "destroy" && effect != "" {
				out = append(out, environment.Verdict{Policy: "data", Address: c.Address, Effect: effect, Message: "data would be lost"})
			}
		}
		return out
	}
	w.add("1", st)
	e := w.until("staging", 5*time.Minute)
	w.work(10 * time.Hour)
	if plans, ops, tried := len(w.left("plan")), len(w.left("operation")), count(w.ops(e.ID), "destroy"); plans != 2 || ops != 2 || tried < 9 {
		t.Errorf("%d plans and %d operations after %d tries", plans, ops, tried)
	}
	effect = ""
	w.work(2 * time.Hour)
	e = w.env(e.ID)
	if ops := w.left("operation"); e.Phase != environment.Destroyed || len(ops) != 3 || ops[2].Phase != "succeeded" {
		t.Errorf("%s %q, %d operations", e.Phase, e.Status.Message, len(ops))
	}
}
