package ledgertest

import (
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

func testNames(r *rig) {
	a, b := beast("a"), beast("b")
	host := ledger.Name{Space: "host", Name: "rex.example.org"}
	claim := func(n ledger.Name, h ledger.Ref) ledger.Set {
		s := by()
		s.Claims = []ledger.Claim{{Name: n, Holder: h}}
		return s
	}
	free := func(n ledger.Name, h ledger.Ref) ledger.Set {
		s := by()
		s.Frees = []ledger.Claim{{Name: n, Holder: h}}
		return s
	}
	holder := func(n ledger.Name, want ledger.Ref) {
		r.Helper()
		got, err := r.Lookup(r.ctx, n)
		if want == (ledger.Ref{}) {
			r.wantFault(err, fault.NotFound, "")
		} else if err != nil || got != want {
			r.Fatalf("%v is held by %v (%v), want %v", n, got, err, want)
		}
	}
	holder(host, ledger.Ref{})
	r.commit(claim(host, a))
	holder(host, a)
	r.commit(claim(host, a)) // the same holder again is no conflict
	r.refused(claim(host, b), fault.Conflict, "name-taken")
	r.refused(claim(host, cage("a")), fault.Conflict, "name-taken") // the kind is part of the holder
	r.commit(claim(ledger.Name{Space: "bucket", Name: host.Name}, b))
	r.commit(claim(ledger.Name{Space: host.Space, Name: "REX.example.org"}, b)) // names are compared byte by byte
	holder(host, a)

	r.commit(free(host, b)) // b does not hold it
	holder(host, a)
	r.refused(claim(host, b), fault.Conflict, "name-taken")
	r.commit(free(ledger.Name{Space: host.Space, Name: "never"}, a)) // nothing to free

	// Nothing but a free gives a name back: not the end of its holder.
	o := r.put(ledger.Object{Ref: a}, 0, "create")
	o.Deleted = time.Now()
	r.put(o, 1, "delete")
	r.refused(claim(host, b), fault.Conflict, "name-taken")
	r.commit(free(host, a))
	holder(host, ledger.Ref{})
	r.commit(claim(host, b))
	holder(host, b)

	two := by()
	two.Claims = []ledger.Claim{{Name: ledger.Name{Space: "s", Name: "1"}, Holder: a}, {Name: ledger.Name{Space: "s", Name: "1"}, Holder: a}}
	two.Frees = []ledger.Claim{{Name: host, Holder: b}}
	r.commit(two)
	holder(ledger.Name{Space: "s", Name: "1"}, a)
	holder(host, ledger.Ref{})
}

// testNameRace lets many want one name, over and over.
func testNameRace(r *rig) {
	ledgers := r.replicas(3)
	const rounds, n = 5, 24
	var last ledger.Claim
	for round := range rounds {
		name := ledger.Name{Space: "host", Name: "wanted"}
		var winner atomic.Pointer[ledger.Ref]
		race(ledgers, n, func(i int, l ledger.Ledger) {
			ref := beast(fmt.Sprintf("r%d-%d", round, i))
			set := by(create(ledger.Object{Ref: ref}))
			set.Claims = []ledger.Claim{{Name: name, Holder: ref}}
			_, err := l.Commit(r.ctx, set)
			if err == nil {
				if before := winner.Swap(&ref); before != nil {
					r.Errorf("%s and %s both got the name", before, ref)
				}
			} else if !fault.Is(err, fault.Conflict) || fault.Reason(err) != "name-taken" {
				r.Errorf("loser got %v, want a taken name", err)
			}
		})
		if winner.Load() == nil {
			r.Fatalf("nobody got the name in round %d", round)
		}
		last = ledger.Claim{Name: name, Holder: *winner.Load()}
		if h, err := r.Lookup(r.ctx, name); err != nil || h != last.Holder {
			r.Fatalf("the name is held by %v (%v), want the winner %v", h, err, last.Holder)
		}
		if got := r.head().Seq; got != int64(round+1) {
			r.Fatalf("the log has %d changes after round %d: a loser has written", got, round)
		}
		set := by()
		set.Frees = []ledger.Claim{last}
		r.commit(set)
	}
}

func testCounters(r *rig) {
	count := func(cs ...ledger.Count) ledger.Set {
		s := by()
		s.Counts = cs
		return s
	}
	if n := r.counter("c"); n != 0 {
		r.Fatalf("a counter that was never moved is %d", n)
	}
	r.commit(count(ledger.Count{Name: "c", Delta: 3, Max: 3}))
	if n := r.counter("c"); n != 3 {
		r.Fatalf("counter is %d, want 3", n)
	}
	r.refused(count(ledger.Count{Name: "c", Delta: 1, Max: 3}), fault.Exhausted, "counter:c")
	r.commit(count(ledger.Count{Name: "c", Delta: 1, Max: 4}))                                                                           // the bound is the set's
	r.refused(count(ledger.Count{Name: "c", Delta: 1, Max: 2}), fault.Exhausted, "counter:c")                                            // a bound that was lowered below the value
	r.commit(count(ledger.Count{Name: "c", Delta: -1, Max: 0}))                                                                          // does not keep it from falling
	r.commit(count(ledger.Count{Name: "c", Delta: 100, Max: -1}))                                                                        // no bound
	r.refused(count(ledger.Count{Name: "c", Delta: -104}), fault.Conflict, "counter:c")                                                  // 103 are there
	r.commit(count(ledger.Count{Name: "c", Delta: -103}))                                                                                // down to zero
	r.refused(count(ledger.Count{Name: "c", Delta: -1}), fault.Conflict, "counter:c")                                                    // and no further
	r.refused(count(ledger.Count{Name: "c", Delta: 2, Max: 3}, ledger.Count{Name: "c", Delta: 2, Max: 3}), fault.Exhausted, "counter:c") // they add up within a set
	r.commit(count(ledger.Count{Name: "c", Delta: 3, Max: 3}, ledger.Count{Name: "c", Delta: -1}, ledger.Count{Name: "c", Delta: 1, Max: 3}))
	r.refused(count(ledger.Count{Name: "c", Delta: math.MaxInt64, Max: -1}), fault.Exhausted, "counter:c") // no wrapping around
	r.refused(count(ledger.Count{Name: "d", Delta: math.MaxInt64, Max: -1}, ledger.Count{Name: "d", Delta: math.MaxInt64, Max: -1}), fault.Exhausted, "counter:d")
	r.refused(count(ledger.Count{Name: "d", Delta: 1, Max: 0}), fault.Exhausted, "counter:d") // a bound of zero is a bound
}

func testCounterRace(r *rig) {
	const n, bound = 60, 13
	var won atomic.Int64
	race(r.replicas(3), n, func(i int, l ledger.Ledger) {
		set := by(create(ledger.Object{Ref: cage(id("c", i)), Org: "acme"}))
		set.Counts = []ledger.Count{{Name: "quota", Delta: 1, Max: bound}}
		_, err := l.Commit(r.ctx, set)
		switch {
		case err == nil:
			won.Add(1)
		case !fault.Is(err, fault.Exhausted) || fault.Reason(err) != "counter:quota":
			r.Errorf("got %v, want an exhausted quota", err)
		}
	})
	if won.Load() != bound || r.counter("quota") != bound {
		r.Fatalf("%d sets passed a bound of %d, and the counter says %d", won.Load(), bound, r.counter("quota"))
	}
	if got := r.total(ledger.Query{Kind: "cage", Scope: map[string]any{"org": "acme"}}); got != bound {
		r.Fatalf("%d objects were written, want %d", got, bound)
	}
}

// testNamePassing claims and frees a name in one set, while another replica
// claims it for good. If both are accepted, the first must be the earlier one.
func testNamePassing(r *rig) {
	ledgers := r.replicas(2)
	for round := range 40 {
		name := ledger.Name{Space: "host", Name: fmt.Sprint(round)}
		var seqs [2]int64
		race(ledgers, 2, func(i int, l ledger.Ledger) {
			ref := beast(fmt.Sprintf("%d-%d", round, i))
			set := by(create(ledger.Object{Ref: ref}))
			set.Claims = []ledger.Claim{{Name: name, Holder: ref}}
			if i == 0 {
				set.Frees = set.Claims
			}
			res, err := l.Commit(r.ctx, set)
			if err != nil && fault.Reason(err) != "name-taken" {
				r.Errorf("got %v, want a taken name at worst", err)
			}
			seqs[i] = res.Seq
		})
		if seqs[1] == 0 {
			r.Fatal("nobody holds the name, and still it was taken")
		}
		if seqs[0] > seqs[1] {
			r.Fatalf("change %d claimed a name for a moment that change %d holds", seqs[0], seqs[1])
		}
	}
}
