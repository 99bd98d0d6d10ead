package environment_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/template"
)

// Whoever may not destroy cannot have it done by a date, and an end that was set
// later passes by no approval.
func TestEndsOfOthers(t *testing.T) {
	w := begin(t)
	st := shop("db")
	st.spec.Permissions = template.Permissions{Apply: &template.Who{Users: []string{"bob"}}, Destroy: &template.Who{Users: []string{"carol"}}}
	w.add("1", st)
	ends := w.clock.Add(48 * time.Hour)
	o, _, err := w.s.Create(bob, environment.PlanOrder{Environment: "staging", Template: "shop", TTL: 48 * time.Hour})
	w.must(err)
	w.work(time.Minute)
	if _, err := w.s.Extend(bob, o.ID, w.clock.Add(time.Second)); !fault.Is(err, fault.Denied) {
		t.Errorf("one who may not destroy has brought the end forward: %v", err)
	}
	if _, err := w.s.Extend(bob, o.ID, ends.Add(time.Hour)); err != nil {
		t.Errorf("later: %v", err)
	}
	if _, err := w.s.Extend(bob, o.ID, time.Time{}); err != nil {
		t.Errorf("never: %v", err)
	}
	if _, err := w.s.Extend(bob, o.ID, w.clock.Add(time.Hour)); !fault.Is(err, fault.Denied) {
		t.Errorf("one who may not destroy has given it an end: %v", err)
	}
	if _, _, err := w.s.Change(bob, environment.PlanOrder{Environment: o.ID, TTL: time.Second}); !fault.Is(err, fault.Denied) {
		t.Errorf("by a plan: %v", err)
	}
}

// A version that allows more is no way around the one that an environment has.
func TestOlderVersionAllowsNoMore(t *testing.T) {
	w := begin(t)
	w.add("1", shop("db"))
	st := shop("db", "web<db")
	st.spec.Permissions = template.Permissions{Apply: &template.Who{Users: []string{"carol"}}}
	st.judge = func(changes []environment.PlannedChange) (out []environment.Verdict) {
		for _, c := range changes {
			if c.Action == "destroy" {
				out = append(out, environment.Verdict{Policy: "keep", Address: c.Address, Effect: "deny", Message: c.Address + " stays"})
			}
		}
		return out
	}
	w.add("2", st)
	carol := access.With(context.Background(), access.Principal{User: "carol", Org: "acme"})
	o, _, err := w.s.Create(carol, environment.PlanOrder{Environment: "staging", Template: "shop"})
	w.must(err)
	w.work(time.Minute)
	boss := access.With(context.Background(), access.Principal{User: "boss", Org: "acme", OrgAdmin: true})
	down := environment.PlanOrder{Environment: "staging", Template: "shop@1"}
	if _, _, err := w.s.Change(boss, down); !fault.Is(err, fault.Denied) {
		t.Errorf("version 2 does not let boss apply: %v", err)
	}
	p, err := w.s.Plan(carol, down)
	w.must(err)
	w.work(time.Second)
	if got := w.plan(p); got.Phase != environment.Forbidden || !strings.Contains(got.Status.Message, "web stays") {
		t.Errorf("%s %q", got.Phase, got.Status.Message)
	}
	if _, there := w.resources(o.ID)["web"]; !there {
		t.Error("web is gone")
	}
}

// An approval that a policy demands cannot be gone around by a date that somebody
// sets later; the end that it was made with needs none.
func TestApprovalOfAnEnd(t *testing.T) {
	for _, moved := range []bool{false, true} {
		w := begin(t)
		st := shop("db")
		st.judge = func(changes []environment.PlannedChange) (out []environment.Verdict) {
			for _, c := range changes {
				if c.Action == "destroy" {
					out = append(out, environment.Verdict{Policy: "data", Address: c.Address, Effect: "approve", Message: "db holds data"})
				}
			}
			return out
		}
		w.add("1", st)
		o, _, err := w.s.Create(alice, environment.PlanOrder{Environment: "staging", Template: "shop", TTL: 48 * time.Hour})
		w.must(err)
		w.work(time.Minute)
		if moved {
			_, err = w.s.Extend(alice, "staging", w.clock.Add(time.Hour))
			w.must(err)
			w.work(3 * time.Hour)
		} else {
			w.work(49 * time.Hour)
		}
		if gone := !w.env(o.ID).Deleted.IsZero(); gone == moved {
			t.Errorf("brought forward: %v, gone: %v", moved, gone)
		}
	}
}
