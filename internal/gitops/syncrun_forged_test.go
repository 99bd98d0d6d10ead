package gitops_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/ledger"
)

// That a sync run is to end is the word of whoever terminated it, and of nobody else: it is
// put right from the log, whether or not somebody has acted on it, and told.
func TestForgedStopsOfSyncRunsArePutRight(t *testing.T) {
	ref := ledger.Ref{Kind: "syncrun", ID: "r1"}
	stop := func(_ *ledger.Object, spec map[string]any) { spec["stop"] = true }
	goOn := func(_ *ledger.Object, spec map[string]any) { delete(spec, "stop") }
	for _, c := range []struct {
		reason    string
		ask       bool // before
		forgery   func(o *ledger.Object, spec map[string]any)
		askLater  bool // that it ends, before the forgery is found
		lost      bool // what it was made with is lost too
		stops     bool
		terminate bool // what the agent is told in the end
	}{
		{reason: "somebody wrote that it ends", forgery: stop},
		{reason: "somebody wrote that it ends, and it does", forgery: stop, askLater: true, stops: true, terminate: true},
		{reason: "somebody wrote that it goes on", ask: true, forgery: goOn, stops: true, terminate: true},
		{reason: "and of nobody's", ask: true, lost: true, stops: true, terminate: true, forgery: func(_ *ledger.Object, spec map[string]any) {
			delete(spec, "stop")
			delete(spec, "origin")
		}},
		{reason: "it cannot be read", ask: true, lost: true, stops: true, terminate: true, forgery: func(_ *ledger.Object, spec map[string]any) { spec["stop"] = "perhaps" }},
		{reason: "another revision", ask: true, stops: true, terminate: true, forgery: func(_ *ledger.Object, spec map[string]any) { spec["revision"] = "c0ffee" }},
		{reason: "another time", forgery: func(_ *ledger.Object, spec map[string]any) { spec["made"] = "2001-01-01T00:00:00Z" }},
	} {
		for _, worked := range []bool{false, true} {
			y := newYard(t)
			d, run := y.intent("uid-1", 1), y.runIntent("r1")
			d.Type = "manual"
			y.apply(d)
			y.work(time.Second)
			y.mirror.there["r1"] = true
			y.must(y.s.IntendSyncRun(context.Background(), run))
			y.work(time.Second)
			if c.ask {
				y.must(y.s.Terminate(chief, "r1"))
				y.work(time.Second)
			}
			right := y.document(ref)
			y.forge(ref, c.forgery)
			if worked && !c.lost {
				y.work(time.Second)
			}
			if c.askLater {
				y.must(y.s.Terminate(chief, "r1"))
			} else if known, err := y.s.KnownOf(context.Background(), "main", "syncrun", "", 10); err != nil || len(known) > 0 && known[0].Asks == run.Asks() {
				t.Errorf("%s: nobody sees that it was changed: %v, %v", c.reason, known, err)
			}
			y.mirror.stands = map[string]int64{"r1": 1}
			y.must(y.s.IntendSyncRun(context.Background(), run))
			y.work(time.Second)
			got := y.document(ref)
			if c.askLater {
				delete(got, "stop")
				delete(got, "seal")
				delete(right, "seal")
			}
			if diff := cmp.Diff(right, got); diff != "" {
				t.Errorf("%s, worked on %v: %s", c.reason, worked, diff)
			}
			if r := y.syncrun("r1"); r.Spec.Stop != c.stops {
				t.Errorf("%s, worked on %v: it is to end: %v", c.reason, worked, r.Spec.Stop)
			}
			if sync := y.body("hub", "uid-1").Sync; sync == nil || sync.ID != "r1" || sync.Terminate != c.terminate {
				t.Errorf("%s, worked on %v: the agent is told %+v", c.reason, worked, sync)
			}
			if diff := cmp.Diff([]string{"r1"}, y.mirror.mended); diff != "" {
				t.Errorf("%s, worked on %v: it is told: %s", c.reason, worked, diff)
			}
			calls := y.store.commits
			if y.must(y.s.IntendSyncRun(context.Background(), run)); y.store.commits != calls {
				t.Errorf("%s: the same intent has written", c.reason)
			}
		}
	}
}

// A run that was to end, and that the ledger has lost, is to end still: its resource says so.
func TestALostSyncRunThatWasToEnd(t *testing.T) {
	y := newYard(t)
	run := y.runIntent("r1")
	run.Phase = "Terminating"
	y.must(y.s.IntendSyncRun(context.Background(), run))
	if r := y.syncrun("r1"); !r.Spec.Stop || r.Phase != gitops.Waiting {
		t.Errorf("it is %s: %+v", r.Phase, r.Spec)
	}
}
