package ledgertest

import (
	"fmt"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// testClock moves the store's clock, forwards and back.
func testClock(r *rig) {
	r.commit(waking(ledger.Wake{Ref: beast("later"), After: time.Hour}, ledger.Wake{Ref: beast("held")}))
	stalled := r.one(time.Hour)
	r.none()
	r.store.Shift(59 * time.Minute)
	r.none()
	r.store.Shift(2 * time.Minute)
	got := r.claim(10, time.Hour)
	if len(got.Work) != 2 {
		r.Fatalf("claimed %+v, want what waited an hour and what was leased for one", got.Work)
	}
	r.refused(finishing(stalled, ledger.Finish{}), fault.Conflict, "lease-lost")
	for _, w := range got.Work {
		r.commit(finishing(w, ledger.Finish{Next: w.Ref == beast("held"), After: 10 * time.Minute}))
	}
	r.store.Shift(9 * time.Minute)
	r.none()
	r.store.Shift(2 * time.Minute)
	r.commit(finishing(r.one(time.Hour), ledger.Finish{}))

	// The clock was fast, and is set back by a day.
	ahead := r.put(ledger.Object{Ref: beast("a")}, 0, "create")
	r.store.Shift(-24 * time.Hour)
	set := by(create(ledger.Object{Ref: beast("b")}))
	set.Wakes = []ledger.Wake{{Ref: beast("b")}}
	behind := r.commit(set).Objects[0]
	if behind.Updated.Before(ahead.Updated) || behind.Created.After(behind.Updated) {
		r.Fatalf("a later change is of %v, the earlier of %v", behind.Updated, ahead.Updated)
	}
	var at time.Time
	for _, c := range r.changes(ledger.ChangeQuery{}) {
		if c.At.Before(at) {
			r.Fatalf("change %d happened at %v, before the one ahead of it at %v", c.Seq, c.At, at)
		}
		at = c.At
	}
	if c, err := r.At(r.ctx, behind.Ref, ledger.Moment{Time: behind.Updated}); err != nil || c.Object.Version != 1 {
		r.Fatalf("the object at the time of its change: %+v, %v", c, err)
	}
	w := r.one(time.Minute) // new work does not wait until the clock has caught up
	if next := r.none(); next > time.Minute {
		r.Fatalf("a lease of a minute runs out in %v", next)
	}
	r.store.Shift(2 * time.Minute)
	if again := r.one(time.Minute); again.Ref != w.Ref || again.Token <= w.Token {
		r.Fatalf("claimed %+v after %+v has expired", again, w)
	}
}

// testRenewRace renews a lease that has run out while another replica claims the
// work: not both may get it.
func testRenewRace(r *rig) {
	ledgers := r.replicas(2)
	for round := range 40 {
		r.commit(waking(ledger.Wake{Ref: beast("a")}))
		first := r.one(instant)
		var mu sync.Mutex
		var owners []ledger.Work
		renewed := false
		race(ledgers, 12, func(i int, l ledger.Ledger) {
			if i >= 4 { // others keep the store busy, so that renewal and claims come to share a commit
				if _, err := l.Commit(r.ctx, by(create(ledger.Object{Ref: cage(fmt.Sprintf("%d-%d", round, i))}))); err != nil {
					r.Errorf("cannot commit: %v", err)
				}
				return
			}
			if i < 2 { // on either replica
				lost, err := l.Renew(r.ctx, []ledger.Lease{first.Lease}, time.Hour)
				if err != nil {
					r.Errorf("cannot renew: %v", err)
				} else if !cmp.Equal(lost, []ledger.Lease{first.Lease}) {
					mu.Lock()
					if !renewed {
						owners = append(owners, first)
					}
					renewed = true
					mu.Unlock()
				}
				return
			}
			got, err := l.Claim(r.ctx, ledger.ClaimRequest{Holder: "h", Kinds: []string{"beast"}, Limit: 2, Lease: time.Hour})
			if err != nil {
				r.Errorf("cannot claim: %v", err)
			}
			mu.Lock()
			owners = append(owners, got.Work...)
			mu.Unlock()
		})
		if len(owners) == 0 { // all passed it by; now nobody else is about
			owners = append(owners, r.one(time.Hour))
		}
		if len(owners) != 1 {
			r.Fatalf("%d have the work at once: %+v", len(owners), owners)
		}
		r.commit(finishing(owners[0], ledger.Finish{}))
	}
}
