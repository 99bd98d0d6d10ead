package ledgertest

import (
	"time"

	"github.com/droverhq/drover/internal/ledger"
)

// Traces as requests bring them along.
const (
	traceOne = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	traceTwo = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
)

// testTrace checks that a trace goes with the cause: into the log, to the runs that were
// woken in it, and no further than those.
func testTrace(r *rig) {
	set := by(create(ledger.Object{Ref: beast("a"), Org: "acme"}))
	set.Trace, set.Wakes = traceOne, []ledger.Wake{{Ref: beast("a")}, {Ref: beast("b"), Trace: traceTwo}}
	r.commit(set)
	change := r.changes(ledger.ChangeQuery{})[0]
	if change.Trace != traceOne || change.Cause != "request:r1" {
		r.Fatalf("the log has the trace %q and the cause %q", change.Trace, change.Cause)
	}
	if at, err := r.At(r.ctx, beast("a"), ledger.Moment{Seq: change.Seq}); err != nil || at.Trace != traceOne {
		r.Fatalf("the past has the trace %q: %v", at.Trace, err)
	}
	r.commit(waking(ledger.Wake{Ref: beast("a")})) // somebody whom nobody follows wakes it too
	traces := func(want map[string]string) (all map[string]ledger.Work) {
		all = map[string]ledger.Work{}
		for _, w := range r.claim(10, time.Hour).Work {
			all[w.ID] = w
			r.same(w.Trace, want[w.ID], "trace of the work on "+w.ID)
			r.same(w.Cause, ledger.Cause("request:r1"), "cause of the work on "+w.ID)
		}
		r.same(len(all), len(want), "pieces of work")
		return all
	}
	work := traces(map[string]string{"a": traceOne, "b": traceTwo})

	// A run that comes back at once is part of it, one that looks again in an hour is not.
	r.commit(finishing(work["a"], ledger.Finish{Dirty: work["a"].Dirty, Next: true}))
	r.commit(finishing(work["b"], ledger.Finish{Dirty: work["b"].Dirty, Next: true, After: time.Hour}))
	again := traces(map[string]string{"a": traceOne})
	r.commit(waking(ledger.Wake{Ref: beast("b")}))
	traces(map[string]string{"b": ""})

	// What a run takes along goes on in the trace of its set.
	end := finishing(again["a"], ledger.Finish{Dirty: again["a"].Dirty})
	end.Trace, end.Wakes = traceTwo, []ledger.Wake{{Ref: beast("c")}}
	end.Take = &ledger.ClaimRequest{Holder: "taker", Kinds: []string{"beast"}, Limit: 1, Lease: time.Hour}
	if taken := r.commit(end).Taken; len(taken) != 1 || taken[0].Trace != traceTwo {
		r.Fatalf("taken: %+v", taken)
	}
}
