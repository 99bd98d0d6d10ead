package breaker_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/breaker"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/reconcile"
	"github.com/droverhq/drover/internal/sqlledger"
)

// queue is the room of those who wait.
type queue struct{ ids []string }

func (q *queue) CountAwaiting(context.Context, string) (int64, error) {
	return int64(len(q.ids)), nil
}

func (q *queue) Awaiting(_ context.Context, _, after string, limit int) ([]ledger.Wake, string, error) {
	var wakes []ledger.Wake
	for _, id := range q.ids {
		if id > after && len(wakes) < limit {
			wakes = append(wakes, ledger.Wake{Ref: ledger.Ref{Kind: things.Name, ID: id}})
		}
	}
	if len(wakes) < limit {
		return wakes, "", nil
	}
	return wakes, wakes[len(wakes)-1].ID, nil
}

// step runs the reconciler until it waits, and tells for how long.
func step(t *testing.T, store *sqlledger.Ledger, r *breaker.Reconciler) (breaker.Approval, time.Duration) {
	t.Helper()
	for range 10 {
		ref := list(t, store)[0].Ref
		result, err := r.Reconcile(t.Context(), reconcile.Task{Ref: ref})
		if err != nil {
			t.Fatal(err)
		}
		if len(result.Write.Puts) > 0 {
			if _, err := store.Commit(t.Context(), result.Write); err != nil {
				t.Fatal(err)
			}
		}
		if result.Again {
			continue
		}
		a, err := breaker.Decode(list(t, store)[0])
		if err != nil {
			t.Fatal(err)
		}
		if !result.Next {
			return a, 0
		}
		return a, result.After
	}
	t.Fatal("it never rests")
	return breaker.Approval{}, 0
}

// An approval from the first question to the last, with a thousand that wait.
func TestThoseWhoWait(t *testing.T) {
	c, store, waits := newClock(), open(t, t.TempDir()+"/ledger.db"), &queue{}
	guard := breaker.NewService(breaker.Config{Store: store, Now: c.Now})
	guard.Waiters = map[string]breaker.Waiters{things.Name: waits}
	r := &breaker.Reconciler{Service: guard}
	ask := func() {
		t.Helper()
		if _, err := guard.Take(t.Context(), removal("things", "a list", "t1")); !fault.Is(err, fault.Exhausted) {
			t.Fatal(err)
		}
	}
	want := func(reason, phase string, waiting int64, after time.Duration) breaker.Approval {
		t.Helper()
		a, wait := step(t, store, r)
		if a.Phase != phase || a.Status.Waiting != waiting || wait != after {
			t.Fatalf("%s: %s, %d wait, looked at again after %s; want %s, %d, %s", reason, a.Phase, a.Status.Waiting, wait, phase, waiting, after)
		}
		return a
	}
	woken := func() int {
		t.Helper()
		work, err := store.Claim(t.Context(), ledger.ClaimRequest{Holder: "test", Kinds: []string{things.Name}, Limit: 5000, Lease: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range work.Work {
			if _, err := store.Commit(t.Context(), ledger.Set{Actor: "system", Cause: "schedule:test", Lease: &w.Lease, Finish: &ledger.Finish{Dirty: w.Dirty}}); err != nil {
				t.Fatal(err)
			}
		}
		return len(work.Work)
	}
	ask()
	want("whoever asked has yet to write it down", breaker.Open, 0, 5*time.Minute)
	for i := range 1001 {
		waits.ids = append(waits.ids, fmt.Sprintf("t%04d", i))
	}
	c.pass(time.Hour)
	id := want("they are counted", breaker.Open, 1001, 5*time.Minute).ID
	if n := woken(); n != 0 {
		t.Errorf("%d were woken before anything was decided", n)
	}
	if _, err := guard.Refuse(operator, id); err != nil {
		t.Fatal(err)
	}
	want("refused", breaker.Refused, 1001, 5*time.Minute)
	if n := woken(); n != 1001 {
		t.Errorf("%d were told of the no", n)
	}
	want("told once", breaker.Refused, 1001, 5*time.Minute)
	if n := woken(); n != 0 {
		t.Errorf("%d were told again", n)
	}
	if _, err := guard.Approve(operator, id, breaker.Allow{Count: 1000, For: 30 * time.Minute}); err != nil {
		t.Fatal(err)
	}
	want("approved", breaker.Approved, 1001, 30*time.Minute)
	if n := woken(); n != 1001 {
		t.Errorf("%d were told of the yes", n)
	}
	waits.ids = slices.Clip(waits.ids[:3])
	c.pass(30 * time.Minute)
	want("its time is over, and three have not gone", breaker.Open, 3, 5*time.Minute)
	waits.ids = nil
	want("they have, but others may be about to wait", breaker.Open, 0, 5*time.Minute)
	c.pass(10 * time.Minute)
	want("nobody waits", breaker.Expired, 0, 0)
	ask()
	c.pass(time.Second)
	want("it is asked again", breaker.Open, 0, 5*time.Minute)
}

// What a room removes that has nobody to count and to wake is asked for until
// somebody decides.
func TestARoomThatCannotCount(t *testing.T) {
	c, store := newClock(), open(t, t.TempDir()+"/ledger.db")
	guard := breaker.NewService(breaker.Config{Store: store, Now: c.Now})
	r := &breaker.Reconciler{Service: guard}
	if _, err := guard.Take(t.Context(), removal("things", "a list", "t1")); !fault.Is(err, fault.Exhausted) {
		t.Fatal(err)
	}
	c.pass(48 * time.Hour)
	a, _ := step(t, store, r)
	if a.Phase != breaker.Open || a.Status.Waiting != 1 {
		t.Fatalf("%s, %d wait", a.Phase, a.Status.Waiting)
	}
	if _, err := guard.Approve(operator, a.ID, breaker.Allow{}); err != nil {
		t.Fatal(err)
	}
	if a, _ = step(t, store, r); a.Phase != breaker.Approved {
		t.Fatal(a.Phase)
	}
	c.pass(time.Hour)
	if a, _ = step(t, store, r); a.Phase != breaker.Expired {
		t.Fatal(a.Phase)
	}
}
