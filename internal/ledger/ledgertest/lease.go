package ledgertest

import (
	"slices"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

func testLeaseGuards(r *rig) {
	r.commit(waking(ledger.Wake{Ref: beast("a")}, ledger.Wake{Ref: beast("b"), After: time.Hour}))
	w := r.one(time.Hour)
	for _, c := range []struct {
		reason string
		lease  ledger.Lease
	}{
		{"no token", ledger.Lease{Ref: w.Ref}},
		{"token of nobody", ledger.Lease{Ref: w.Ref, Token: w.Token + 1}},
		{"token of another object", ledger.Lease{Ref: beast("b"), Token: w.Token}},
		{"work that nobody has leased has no token", ledger.Lease{Ref: beast("b")}},
		{"no such work", ledger.Lease{Ref: beast("none"), Token: w.Token}},
		{"negative token", ledger.Lease{Ref: w.Ref, Token: -w.Token}},
	} {
		set := by(create(ledger.Object{Ref: beast("written")}))
		set.Lease = &c.lease
		if _, err := r.Commit(r.ctx, set); fault.Reason(err) != "lease-lost" {
			r.Errorf("%s: got %v, want a lost lease", c.reason, err)
		}
	}
	r.absent(beast("written"))

	// A guarded set that does not finish leaves the lease as it is.
	set := by(create(ledger.Object{Ref: beast("written")}))
	set.Lease = &w.Lease
	r.commit(set)
	r.none()
	r.commit(finishing(w, ledger.Finish{}))
}

// testLeaseExpires lets a worker stall past its lease.
func testLeaseExpires(r *rig) {
	all := r.replicas(2)
	other := r.on(all[1])
	r.commit(waking(ledger.Wake{Ref: beast("a"), Org: "acme"}))
	stalled := r.one(instant)
	r.commit(waking(ledger.Wake{Ref: beast("a")}))
	w := other.one(time.Hour)
	r.same(w, ledger.Work{Lease: stalled.Lease, Org: "acme", Dirty: 2, Cause: "request:r1"}, "work of a stalled worker", workOf)
	if w.Token <= stalled.Token {
		r.Fatalf("token %d after %d: tokens must grow", w.Token, stalled.Token)
	}

	set := finishing(stalled, ledger.Finish{})
	set.Puts = []ledger.Put{create(ledger.Object{Ref: beast("a")})}
	r.refused(set, fault.Conflict, "lease-lost")
	r.absent(beast("a"))
	lost, err := r.Renew(r.ctx, []ledger.Lease{stalled.Lease, w.Lease}, time.Hour)
	if err != nil || !cmp.Equal(lost, []ledger.Lease{stalled.Lease}) {
		r.Fatalf("renew lost %v (%v), want the stalled one", lost, err)
	}
	if err := r.Release(r.ctx, []ledger.Lease{stalled.Lease}); err != nil {
		r.Fatal(err)
	}
	r.none() // the stalled worker could not hand back what is not its own
	other.commit(finishing(w, ledger.Finish{}))
	if next := r.none(); next >= 0 {
		r.Fatalf("finished work is due in %v", next)
	}
}

// testTake has whoever finishes go on with what that made due.
func testTake(r *rig) {
	other := r.on(r.replicas(2)[1])
	r.commit(waking(ledger.Wake{Ref: beast("a"), Org: "acme"}, ledger.Wake{Ref: beast("busy")}))
	all := r.claim(10, time.Hour).Work
	if len(all) != 2 {
		r.Fatalf("claimed %+v, want two pieces", all)
	}
	a := all[slices.IndexFunc(all, func(w ledger.Work) bool { return w.Ref == beast("a") })]
	set := finishing(a, ledger.Finish{})
	set.Wakes = []ledger.Wake{{Ref: beast("later"), After: time.Hour}, {Ref: beast("busy")}, {Ref: cage("b")}, {Ref: beast("b"), Org: "acme"}, {Ref: beast("c")}, {Ref: beast("d")}}
	set.Take = &ledger.ClaimRequest{Holder: "h", Kinds: []string{"beast"}, Limit: 2, Lease: time.Hour}
	taken := r.commit(set).Taken
	r.same(taken, []ledger.Work{{Lease: ledger.Lease{Ref: beast("b")}, Org: "acme", Dirty: 1, Cause: "request:r1"},
		{Lease: ledger.Lease{Ref: beast("c")}, Dirty: 1, Cause: "request:r1"}}, "taken: not what is due later, leased, of another kind or beyond the limit", workOf)
	for _, w := range taken {
		if w.Token <= all[0].Token || w.Token <= all[1].Token {
			r.Fatalf("token %d after %d and %d: tokens must grow", w.Token, all[0].Token, all[1].Token)
		}
	}
	left := other.claim(10, time.Hour).Work
	if len(left) != 2 || left[0].Kind == left[1].Kind || slices.ContainsFunc(left, func(w ledger.Work) bool { return w.Token <= taken[1].Token }) {
		r.Fatalf("others claim %+v, want cage/b and beast/d with greater tokens", left)
	}
	r.refused(set, fault.Conflict, "lease-lost") // nothing is taken twice
	unfinished := set
	unfinished.Lease, unfinished.Finish = &taken[0].Lease, nil
	r.refused(unfinished, fault.Invalid, "")
	r.commit(finishing(taken[0], ledger.Finish{}))
	brief := finishing(taken[1], ledger.Finish{})
	brief.Wakes, brief.Take = []ledger.Wake{{Ref: beast("b")}}, &ledger.ClaimRequest{Holder: "h", Kinds: []string{"beast"}, Limit: 1, Lease: instant}
	if stalled := r.commit(brief).Taken; len(stalled) != 1 || other.one(time.Hour).Ref != beast("b") {
		r.Fatalf("took %+v for an instant, want beast/b, which others claim once that is over", stalled)
	}
}

func testRenew(r *rig) {
	r.commit(waking(ledger.Wake{Ref: beast("a")}, ledger.Wake{Ref: beast("b")}))
	got := r.claim(10, time.Minute)
	if len(got.Work) != 2 {
		r.Fatalf("claimed %+v, want two pieces", got)
	}
	r.commit(waking(ledger.Wake{Ref: cage("waiting"), After: time.Hour}))
	leases := []ledger.Lease{got.Work[0].Lease, got.Work[1].Lease, {Ref: beast("none"), Token: 1}, {Ref: cage("waiting")}}
	lost, err := r.Renew(r.ctx, leases, 10*time.Hour)
	if err != nil || !cmp.Equal(lost, leases[2:]) {
		r.Fatalf("renew lost %v (%v), want only what never was", lost, err)
	}
	got2, err := r.Claim(r.ctx, ledger.ClaimRequest{Holder: "h", Kinds: []string{"beast"}, Limit: 9, Lease: time.Hour})
	if next := got2.Next; err != nil || len(got2.Work) != 0 || next <= 9*time.Hour || next > 10*time.Hour {
		r.Fatalf("leases run out in %v (%+v, %v), want 10 hours", next, got2.Work, err)
	}
	if lost, err := r.Renew(r.ctx, nil, time.Hour); err != nil || len(lost) != 0 {
		r.Fatalf("renewing nothing: %v, %v", lost, err)
	}
	// Renewed leases still guard; finished ones are lost.
	r.commit(finishing(got.Work[0], ledger.Finish{}))
	lost, err = r.Renew(r.ctx, leases[:2], instant)
	if err != nil || !cmp.Equal(lost, leases[:1]) {
		r.Fatalf("renew lost %v (%v), want the finished one", lost, err)
	}
	if w := r.one(time.Hour); w.Ref != got.Work[1].Ref {
		r.Fatalf("claimed %v, want what was renewed for an instant", w.Ref)
	}
}

func testRelease(r *rig) {
	r.commit(waking(ledger.Wake{Ref: beast("a"), Org: "acme"}))
	w := r.one(time.Hour)
	r.commit(finishing(w, ledger.Finish{Next: true, Attempts: 3}))
	r.commit(waking(ledger.Wake{Ref: beast("a")}))
	w = r.one(time.Hour)
	if err := r.Release(r.ctx, []ledger.Lease{w.Lease, {Ref: beast("none"), Token: 5}}); err != nil {
		r.Fatal(err)
	}
	r.refused(finishing(w, ledger.Finish{}), fault.Conflict, "lease-lost")
	again := r.one(time.Hour)
	r.same(again, w, "released work", workOf)
	if again.Token <= w.Token {
		r.Fatalf("token %d after %d: tokens must grow", again.Token, w.Token)
	}
	if err := r.Release(r.ctx, nil); err != nil {
		r.Fatalf("releasing nothing: %v", err)
	}
}

// testLostHoldsNothing has a replica answer those who have lost their lease. Its
// answer must be the end of it: a row that is still locked then would be passed
// over by the claim of whoever was waiting for the answer.
func testLostHoldsNothing(r *rig) {
	all := r.replicas(2)
	other := r.on(all[1])
	r.commit(waking(ledger.Wake{Ref: beast("a")}))
	stale := ledger.Lease{Ref: beast("a"), Token: 1 << 40}
	set := by(create(ledger.Object{Ref: beast("a")}))
	set.Lease = &stale
	for n := range 300 {
		var err error
		switch n % 3 {
		case 0:
			err = other.Release(r.ctx, []ledger.Lease{stale})
		case 1:
			_, err = other.Renew(r.ctx, []ledger.Lease{stale}, time.Hour)
		case 2:
			other.refused(set, fault.Conflict, "lease-lost")
		}
		if err != nil {
			r.Fatal(err)
		}
		w := r.one(time.Hour)
		if err := r.Release(r.ctx, []ledger.Lease{w.Lease}); err != nil {
			r.Fatal(err)
		}
	}
}

// testClaimRace has several replicas claim, run and finish while others wake:
// no piece is held twice, and none is forgotten.
func testClaimRace(r *rig) {
	ledgers := r.replicas(3)
	const objects, wakes = 12, 120
	var (
		mu     sync.Mutex
		holder = map[ledger.Ref]int64{}
		tokens = map[int64]bool{}
		served = map[ledger.Ref]int64{}
		woken  = map[ledger.Ref]int64{}
	)
	work := func(l ledger.Ledger, limit int) bool {
		got, err := l.Claim(r.ctx, ledger.ClaimRequest{Holder: "h", Kinds: []string{"beast"}, Limit: limit, Lease: time.Hour})
		if err != nil {
			r.Errorf("cannot claim: %v", err)
			return false
		}
		for _, w := range got.Work {
			mu.Lock()
			if holder[w.Ref] != 0 {
				r.Errorf("%s is held under token %d and %d", w.Ref, holder[w.Ref], w.Token)
			}
			if tokens[w.Token] {
				r.Errorf("token %d was given twice", w.Token)
			}
			holder[w.Ref], tokens[w.Token] = w.Token, true
			mu.Unlock()
		}
		for _, w := range got.Work {
			mu.Lock()
			delete(holder, w.Ref) // from here on another may have it
			served[w.Ref] += w.Dirty
			mu.Unlock()
			if _, err := l.Commit(r.ctx, finishing(w, ledger.Finish{})); err != nil {
				r.Errorf("cannot finish %s: %v", w.Ref, err)
			}
		}
		return len(got.Work) > 0
	}
	race(ledgers, 9, func(i int, l ledger.Ledger) {
		for n := range wakes / 6 {
			if i < 3 {
				work(l, 1+n%4)
				continue
			}
			ref := beast(id("b", (i*7+n)%objects))
			if _, err := l.Commit(r.ctx, waking(ledger.Wake{Ref: ref})); err != nil {
				r.Errorf("cannot wake: %v", err)
				continue
			}
			mu.Lock()
			woken[ref]++
			mu.Unlock()
		}
	})
	for work(ledgers[0], 5) {
	}
	r.same(served, woken, "every wake is served once, none lost")
}
