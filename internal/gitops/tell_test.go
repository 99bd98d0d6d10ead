package gitops_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/runtime"
)

// The agent has what is new before the custom resource is told; and that is told of
// what there is to tell, or after a while that there is nothing yet.
func TestTheAgentComesFirst(t *testing.T) {
	unknown := &runtime.Deployed{Sync: runtime.SyncStatus{Status: "Unknown"}, Health: runtime.HealthStatus{Status: "Unknown"}}
	for name, c := range map[string]struct {
		says   *runtime.Deployed // the agent, at once; nil: nothing
		soon   int               // times that the custom resource was told then
		later  int               // and two seconds later
		reason string
	}{
		"nobody answers":      {nil, 0, 1, "whoever waits is told that it is under way"},
		"the engine is quiet": {unknown, 0, 1, "that nothing is known is worth a write after a while"},
		"it is deployed":      {fine("c1"), 1, 1, "news are told at once, and once"},
	} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t)
			y.apply(y.intent("uid-1", 1))
			y.work(10 * time.Millisecond)
			if _, there := y.item("hub", "uid-1"); !there || y.mirror.times["uid-1"] != 0 {
				t.Fatalf("the agent has it: %v; the custom resource was told %d times", there, y.mirror.times["uid-1"])
			}
			if c.says != nil {
				y.report("hub", "uid-1", runtime.Ready, c.says)
				y.work(10 * time.Millisecond)
			}
			if n := y.mirror.times["uid-1"]; n != c.soon {
				t.Errorf("%s: told %d times at once", c.reason, n)
			}
			y.work(2 * time.Second)
			if n := y.mirror.times["uid-1"]; n != c.later {
				t.Errorf("%s: told %d times after two seconds", c.reason, n)
			}
		})
	}
}

// That an agent has begun with something new is nobody's work; what became of it is.
func TestThatItIsBegunIsNobodysWork(t *testing.T) {
	for _, tc := range []struct {
		reason  string
		before  func(y *yard)
		state   runtime.State
		message string
		detail  string
		want    int
	}{
		{"it has it", func(*yard) {}, runtime.Installing, "", "", 0},
		{"it waits for something", func(*yard) {}, runtime.Installing, "there is no Argo CD", "", 1},
		{"it says what is there", func(*yard) {}, runtime.Installing, "", `{"sync":{"status":"OutOfSync"}}`, 1},
		{"it is done", func(*yard) {}, runtime.Ready, "", "", 1},
		{"it begins anew", func(y *yard) { y.report("hub", "uid-1", runtime.Error, nil); y.work(time.Millisecond) }, runtime.Installing, "", "", 1},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			y := newYard(t)
			y.apply(y.intent("uid-1", 1))
			y.work(10 * time.Millisecond)
			tc.before(y)
			it, _ := y.item("hub", "uid-1")
			o := gitops.Observation{ID: "uid-1", Generation: it.Generation, State: string(tc.state), Message: tc.message, Detail: []byte(tc.detail), Leaf: it.Seen + 1}
			if _, err := y.s.Observe(t.Context(), "hub", []gitops.Observation{o}); err != nil {
				t.Fatal(err)
			}
			due, err := y.store.Claim(t.Context(), ledger.ClaimRequest{Holder: "test", Kinds: []string{"deployment"}, Limit: 8, Lease: time.Millisecond})
			if err != nil || len(due.Work) != tc.want {
				t.Errorf("%d runs are due, want %d, %v", len(due.Work), tc.want, err)
			}
			y.set(y.clock.Add(time.Second)) // the lease has ended
			if y.work(2 * time.Second); y.mirror.times["uid-1"] == 0 {
				t.Error("the custom resource is told nothing")
			}
		})
	}
}

// What was told and could not be written down any more is corrected, though what was
// written down before is right again.
func TestWhatWasToldInVainIsCorrected(t *testing.T) {
	broken := &runtime.Deployed{Sync: runtime.SyncStatus{Status: "OutOfSync", Revision: "c1"}, Health: runtime.HealthStatus{Status: "Degraded"}}
	for _, tc := range []struct {
		reason       string
		news, denial func(y *yard)
	}{
		{"an agent takes it back", func(y *yard) { y.report("hub", "uid-1", runtime.Ready, broken) },
			func(y *yard) { y.report("hub", "uid-1", runtime.Ready, fine("c1")) }},
		{"its user takes it back", func(y *yard) {
			in := y.intent("uid-1", 2)
			in.Path = ""
			y.apply(in)
		}, func(y *yard) { y.apply(y.intent("uid-1", 3)) }},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			y := newYard(t)
			y.apply(y.intent("uid-1", 1))
			y.work(time.Second)
			y.report("hub", "uid-1", runtime.Ready, fine("c1"))
			y.work(time.Minute)
			want := y.told("uid-1")
			if want.Sync.Status != "Synced" || len(want.Conditions) != 0 {
				t.Fatalf("at first %+v", want)
			}
			in := false
			y.mirror.then = func() {
				in = !cmp.Equal(y.told("uid-1"), want)
				tc.denial(y)
			}
			tc.news(y)
			y.work(time.Minute)
			if !in {
				t.Fatal("nothing was told in between")
			}
			if got := y.told("uid-1"); !cmp.Equal(got, want) {
				t.Errorf("in the end %s", cmp.Diff(want, got))
			}
		})
	}
}
