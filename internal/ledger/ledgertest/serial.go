package ledgertest

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// testSerial lets clients on several replicas commit random sets over the same
// objects, names and counters at once. The log tells the order in which they
// took effect: done in that order, one by one, the model must accept every one
// of them and hold the same in the end.
func testSerial(r *rig) {
	ledgers := r.replicas(3)
	type done struct {
		set ledger.Set
		res ledger.Result
	}
	for round := range 3 {
		prefix := fmt.Sprintf("s%d", round)
		base := r.head().Seq
		var mu sync.Mutex
		var all []done
		race(ledgers, 6, func(i int, l ledger.Ledger) {
			for n := range 20 {
				set, err := drawAgainst(r.ctx, l, prefix, 1000*round+100*i+n)
				if err != nil {
					r.Errorf("cannot read: %v", err)
					return
				}
				// A marker gives every set a place in the log.
				marker := ledger.Object{Ref: cage(fmt.Sprintf("%s-marker-%d-%d", prefix, i, n))}
				set.Puts = append(set.Puts, create(marker))
				res, err := l.Commit(r.ctx, set)
				switch {
				case err == nil:
					mu.Lock()
					all = append(all, done{set, res})
					mu.Unlock()
				case fault.Is(err, fault.Internal) || fault.Is(err, fault.Unavailable):
					r.Errorf("cannot commit: %v", err)
				}
			}
		})
		slices.SortFunc(all, func(a, b done) int { return cmp.Compare(a.res.Seq, b.res.Seq) })
		if len(all) < 15 {
			r.Fatalf("only %d sets were accepted", len(all))
		}
		model := NewModel()
		for _, d := range all {
			want, failures := model.Commit(time.Now(), d.set)
			if len(failures) > 0 {
				r.Fatalf("change %d was made, but in its place in the log it must fail: %+v of %+v", d.res.Seq, failures, d.set)
			}
			r.same(d.res.Seq, want.Seq+base, "sequence")
			r.same(d.res.Objects, want.Objects, "objects", lenient, ledgerTimes)
		}
		m := &machine{rig: r, hand: r.hand, model: model, run: prefix, base: base, claimed: map[int64]ledger.Work{}}
		m.compare()
		m.drain()
	}
}

// drawAgainst draws a set that fits what the ledger holds at this moment. It
// writes the holders of its names, as the contract asks.
func drawAgainst(ctx context.Context, l ledger.Ledger, prefix string, seed int) (ledger.Set, error) {
	now := NewModel()
	for _, ref := range refsOf(prefix) {
		o, err := l.Get(ctx, ref)
		if err == nil {
			now.Objects[ref] = o
		} else if !fault.Is(err, fault.NotFound) {
			return ledger.Set{}, err
		}
	}
	set := rapid.Custom(func(t *rapid.T) ledger.Set { return DrawSet(t, now, prefix) }).Example(seed)
	unwritten := func(c ledger.Claim) bool {
		return !slices.ContainsFunc(set.Puts, func(p ledger.Put) bool { return p.Object.Ref == c.Holder })
	}
	set.Claims, set.Frees = slices.DeleteFunc(set.Claims, unwritten), slices.DeleteFunc(set.Frees, unwritten)
	return set, nil
}

// testCancelled gives up on commits at any moment. What was not acknowledged is
// either said to be unknown, or was not written.
func testCancelled(r *rig) {
	gone, cancel := context.WithCancel(r.ctx)
	cancel()
	_, err := r.Commit(gone, by(create(ledger.Object{Ref: beast("never")})))
	r.wantFault(err, fault.Unavailable, "")
	if fault.Reason(err) != "outcome-unknown" {
		r.absent(beast("never"))
	}

	const n = 300
	outcome := make([]error, n)
	race(r.replicas(2), n, func(i int, l ledger.Ledger) {
		rnd := rand.New(rand.NewPCG(uint64(i), 4))
		ctx, cancel := context.WithTimeout(r.ctx, time.Duration(rnd.IntN(20_000))*time.Microsecond)
		defer cancel()
		_, outcome[i] = l.Commit(ctx, by(create(ledger.Object{Ref: beast(id("c", i))})))
	})
	r.commit(by(create(ledger.Object{Ref: cage("behind them")}))) // whatever was under way has ended
	unknown := 0
	for i, err := range outcome {
		_, missing := r.Get(r.ctx, beast(id("c", i)))
		switch {
		case err == nil && missing != nil:
			r.Errorf("commit %d was acknowledged and is not there: %v", i, missing)
		case err != nil && !fault.Is(err, fault.Unavailable):
			r.Errorf("commit %d: got %v, want unavailable", i, err)
		case err != nil && fault.Reason(err) == "outcome-unknown":
			unknown++
		case err != nil && missing == nil:
			r.Errorf("commit %d was refused (%v) and is there", i, err)
		}
	}
	r.Logf("%d of %d outcomes are unknown", unknown, n)
}

// testClosed uses a handle after its end.
func testClosed(r *rig) {
	r.put(ledger.Object{Ref: beast("a")}, 0, "create")
	old := r.hand.Ledger
	hints := old.Hints(r.ctx)
	r.hand.Ledger = r.store.Reopen(r.T)
	_, err := old.Commit(r.ctx, by(create(ledger.Object{Ref: beast("b")})))
	r.wantFault(err, fault.Unavailable, "")
	_, err = old.Get(r.ctx, beast("a"))
	r.wantFault(err, fault.Unavailable, "")
	_, err = old.Claim(r.ctx, ledger.ClaimRequest{Holder: "h", Kinds: []string{"beast"}, Limit: 1, Lease: time.Hour})
	r.wantFault(err, fault.Unavailable, "")
	_ = hints // may have closed with the handle, or closes with its context
	r.absent(beast("b"))
	r.get(beast("a"))
}

// testLargeSet writes more in one set than a database takes parameters.
func testLargeSet(r *rig) {
	const n = 4000
	set := by()
	for i := range n {
		ref := beast(id("o", i))
		set.Puts = append(set.Puts, create(ledger.Object{Ref: ref, Org: "acme", Name: fmt.Sprint(i), Fields: ledger.Fields{"legs": i, "species": "x"}}))
		set.Claims = append(set.Claims, ledger.Claim{Name: ledger.Name{Space: "s", Name: ref.ID}, Holder: ref})
		set.Counts = append(set.Counts, ledger.Count{Name: id("c", i%100), Delta: 1, Max: n})
		set.Wakes = append(set.Wakes, ledger.Wake{Ref: ref})
	}
	res := r.commit(set)
	if res.Seq != n || len(res.Objects) != n {
		r.Fatalf("a set of %d puts ended at %d with %d objects", n, res.Seq, len(res.Objects))
	}
	r.same(r.total(ledger.Query{Kind: "beast", Scope: map[string]any{"org": "acme"}}), int64(n), "total")
	r.same(len(r.list(ledger.Query{Kind: "beast", Limit: ledger.MaxPage})), n, "objects in one page")
	r.same(len(r.changes(ledger.ChangeQuery{Limit: 10_000})), n, "changes in one page")
	r.same(len(r.changes(ledger.ChangeQuery{})), 1000, "changes in a page of the default size")
	r.same(r.counter(id("c", 7)), int64(n/100), "counter")

	again := by()
	for i, o := range res.Objects {
		o.Phase = "ready"
		again.Puts = append(again.Puts, ledger.Put{Object: o, Expect: 1, Op: "ready"})
		again.Frees = append(again.Frees, set.Claims[i])
	}
	r.commit(again)
	_, err := r.Lookup(r.ctx, set.Claims[n-1].Name)
	r.wantFault(err, fault.NotFound, "")

	var leases []ledger.Lease
	claimed := map[ledger.Ref]bool{}
	for len(claimed) < n {
		got := r.claim(n, time.Hour)
		if len(got.Work) == 0 {
			r.Fatalf("claimed %d of %d", len(claimed), n)
		}
		for _, w := range got.Work {
			claimed[w.Ref] = true
			leases = append(leases, w.Lease)
		}
	}
	if lost, err := r.Renew(r.ctx, leases, time.Hour); err != nil || len(lost) > 0 {
		r.Fatalf("renew of %d leases lost %d: %v", len(leases), len(lost), err)
	}
	if err := r.Release(r.ctx, leases); err != nil {
		r.Fatal(err)
	}
	if got := r.claim(1, time.Hour); len(got.Work) != 1 || got.Next != 0 {
		r.Fatalf("claimed %+v of what was released", got)
	}
}
