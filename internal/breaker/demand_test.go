package breaker_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/breaker"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// What a policy demands is asked whatever the limit, and an approval is good for
// one.
func TestDemand(t *testing.T) {
	databases(t, func(t *testing.T, url string) {
		c, store := newClock(), open(t, url)
		guard := breaker.NewService(breaker.Config{Store: store, Limit: breaker.Limit{Objects: 1000}, Now: c.Now})
		demand := func(scope string) error {
			t.Helper()
			counts, err := guard.Demand(t.Context(), breaker.Demand{Scope: scope, Rule: "plan 1a2b of environment shop",
				Message: "the database would go", Object: ledger.Ref{Kind: things.Name, ID: "p1"}})
			if err == nil {
				_, err = store.Commit(t.Context(), ledger.Set{Actor: "system", Cause: "schedule:test", Counts: counts})
			}
			return err
		}
		waits := func(reason string, err error, refused bool) string {
			t.Helper()
			var w *breaker.Waiting
			if !errors.As(err, &w) || w.Refused != refused || fault.Reason(err) != "breaker" {
				t.Fatalf("%s: %v", reason, err)
			}
			return w.Approval
		}
		id := waits("nobody has approved", demand("plan/a"), false)
		waits("nor when it is asked again", demand("plan/a"), false)
		if a, err := breaker.Decode(list(t, store)[0]); err != nil || !strings.Contains(a.Status.Message, "the database would go; an operator has to approve: `drover approve "+id+"`") || a.Status.Waiting != 1 {
			t.Errorf("%+v, %v", a.Status, err)
		}
		if _, err := guard.Refuse(operator, id); err != nil {
			t.Fatal(err)
		}
		waits("it was refused", demand("plan/a"), true)
		o, err := guard.Approve(operator, id, breaker.Allow{For: time.Hour})
		if err != nil || !strings.Contains(string(o.Status), "plan 1a2b of environment shop may go on until") {
			t.Fatalf("%s, %v", o.Status, err)
		}
		if other := waits("another is asked about by itself", demand("plan/b"), false); other == id {
			t.Error("two share an approval")
		}
		if err := demand("plan/a"); err != nil {
			t.Errorf("it was approved: %v", err)
		}
		waits("once", demand("plan/a"), false)
		if _, err := guard.Approve(operator, id, breaker.Allow{For: time.Hour}); err != nil {
			t.Fatal(err)
		}
		c.pass(2 * time.Hour)
		waits("its time is over", demand("plan/a"), false)
	})
}
