package instance_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/hook"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/offering"
	"github.com/droverhq/drover/internal/operation"
)

// refusing answers for a seller's service, and counts the calls per phase.
type refusing struct {
	phase string // where it refuses
	calls map[string]int
}

func (r *refusing) Call(_ context.Context, c hook.Call) error {
	r.calls[c.Phase]++
	if c.Phase == r.phase {
		return fault.New(fault.Invalid, "the hook of phase %s refused with status 402", c.Phase)
	}
	return nil
}

func newWorld(t *testing.T, hooks instance.Hooks, phases ...string) (*world, *offering.Offering) {
	t.Helper()
	off := dinosaur(t)
	for _, p := range phases {
		off.Spec.Hooks = append(off.Spec.Hooks, offering.Hook{Phase: p, URL: "http://hooks.example.org/"})
	}
	w := &world{t: t, dir: t.TempDir(), registry: offerings{"dinosaur": off}, hooks: hooks}
	w.begin()
	t.Cleanup(func() { w.ledger.Close() })
	return w, off
}

// rounds lets worker and data plane work until nothing is due, and fails if
// that never comes.
func (w *world) rounds() {
	everything := func(string) bool { return true }
	for n := 0; ; n++ {
		work, ok := w.claim()
		if !ok && n > 0 {
			w.apply(everything)
			w.report(everything)
			if work, ok = w.claim(); !ok {
				return
			}
		}
		for ok && !w.run(work) {
			if n++; n > 100 {
				w.t.Fatal("one object keeps a worker busy for good")
			}
		}
		if n > 100 {
			w.t.Fatal("there is always something due")
		}
	}
}

func (w *world) one() instance.Instance {
	all := w.instances(false)
	if len(all) != 1 {
		w.t.Fatalf("%d live instances, want one", len(all))
	}
	return all[0]
}

func TestRefusedHooksFailForGood(t *testing.T) {
	for _, c := range []struct{ phase, reason string }{
		{instance.Accepted, "refused before anything was reserved"},
		{instance.Preparing, "refused before a data plane knew of it"},
		{instance.Provisioning, "the agent's ready must not overrule the seller's no"},
		{instance.Ready, "the agent's ready, already told, must not start over"},
	} {
		t.Run(c.phase, func(t *testing.T) {
			hooks := &refusing{phase: c.phase, calls: map[string]int{}}
			w, off := newWorld(t, hooks, c.phase)
			_, err := w.service.Create(alice, off, instance.Create{Name: "rex"})
			w.must(err)
			w.rounds()
			if in := w.one(); in.Phase != instance.Failed || hooks.calls[c.phase] != 1 {
				t.Errorf("%s: phase %s after %d calls, want failed after one", c.reason, in.Phase, hooks.calls[c.phase])
			}
			hooks.phase = ""
			w.unwanted[w.one().ID] = true
			_, err = w.service.Delete(alice, "dinosaur", "rex")
			w.must(err)
			w.settle()
			w.check(nil)
		})
	}
}

// unreached are hooks of a seller's service that is away, until it is back.
type unreached struct{ back bool }

func (u *unreached) Call(_ context.Context, c hook.Call) error {
	if u.back {
		return nil
	}
	return fault.New(fault.Unavailable, "the hook of phase %s cannot be reached", c.Phase)
}

// A seller's service that is away is waited for, and what waited goes on by itself; but not
// for ever, and then it is said why.
func TestHooksThatAreAwayAreWaitedFor(t *testing.T) {
	for _, c := range []struct {
		reason string
		away   time.Duration
		want   string
	}{
		{"for four minutes", 4 * time.Minute, instance.Ready},
		{"for six", 6 * time.Minute, instance.Failed},
	} {
		t.Run(c.reason, func(t *testing.T) {
			hooks := &unreached{}
			w, off := newWorld(t, hooks, instance.Preparing)
			_, err := w.service.Create(alice, off, instance.Create{Name: "rex"})
			w.must(err)
			w.rounds()
			if in := w.one(); in.Phase != instance.Preparing {
				t.Errorf("without it: %s", in.Phase)
			}
			if w.failed == nil || w.failed.Error() != "the hook of phase preparing cannot be reached" {
				t.Errorf("after the first call the log says %v", w.failed)
			}
			for left := c.away; left > 0; left -= 10 * time.Second {
				w.pass(10 * time.Second)
			}
			hooks.back = true
			for range 3 {
				w.pass(time.Minute)
			}
			if in := w.one(); in.Phase != c.want || (c.want == instance.Failed) != strings.Contains(in.Status.Reason, "cannot be reached") {
				t.Errorf("when it is back: %s, %q", in.Phase, in.Status.Reason)
			}
		})
	}
}

func TestHooksAreCalledWheneverAPhaseIsEntered(t *testing.T) {
	hooks := &refusing{calls: map[string]int{}}
	w, off := newWorld(t, hooks, instance.Ready)
	_, err := w.service.Create(alice, off, instance.Create{Name: "rex"})
	w.must(err)
	w.rounds()
	in := w.one()
	for _, state := range []string{"error", "ready"} {
		w.send([]instance.Observation{{ID: in.ID, Generation: in.Generation, State: state}})
		w.rounds()
	}
	if in := w.one(); in.Phase != instance.Ready || hooks.calls[instance.Ready] != 2 {
		t.Errorf("phase %s after %d calls, want ready after two", in.Phase, hooks.calls[instance.Ready])
	}
}

// An agent that says "deleted" unasked must not be taken at its word when the
// deletion is asked for later: what it runs would be forgotten.
func TestDeletedBeforeItWasAskedDoesNotCount(t *testing.T) {
	w, off := newWorld(t, nil)
	o, err := w.service.Create(alice, off, instance.Create{Name: "rex"})
	w.must(err)
	w.rounds()
	w.send([]instance.Observation{{ID: o.ID, Generation: w.one().Generation, State: "deleted"}})
	w.unwanted[o.ID] = true
	_, err = w.service.Delete(alice, "dinosaur", "rex")
	w.must(err)
	work, _ := w.claim()
	for !w.run(work) {
	}
	if in := w.one(); in.Phase != instance.Deprovision {
		t.Fatalf("phase %s although the data plane was never asked to remove it", in.Phase)
	}
	w.settle()
	w.check(nil)
}

// What is wrong with one instance must not keep the word on others from counting.
func TestOneBrokenInstanceDoesNotSilenceTheOthers(t *testing.T) {
	for _, c := range []struct {
		reason, spec string
		again        bool
	}{
		{"an offering that is not loaded yet is asked for again", `{"offering":"vanished"}`, true},
		{"a damaged one is refused: telling it again mends nothing", `{"offering":5}`, false},
	} {
		t.Run(c.reason, func(t *testing.T) {
			w, off := newWorld(t, nil)
			var items []instance.Observation
			for _, name := range []string{"a", "b", "c"} {
				o, err := w.service.Create(alice, off, instance.Create{Name: name})
				w.must(err)
				items = append(items, instance.Observation{ID: o.ID, Generation: 1, State: "ready"})
			}
			for work, ok := w.claim(); ok; work, ok = w.claim() {
				for !w.run(work) {
				}
			}
			all := w.instances(false)
			lost := all[0].Object
			lost.Spec = []byte(c.spec)
			_, err := w.ledger.Commit(context.Background(), ledger.Set{Actor: "test", Cause: "test",
				Puts: []ledger.Put{{Object: lost, Expect: lost.Version, Op: "damage"}}})
			w.must(err)
			refused, err := w.service.Report(context.Background(), "local", items)
			if (err != nil) != c.again || (len(refused) == 1) == c.again {
				t.Errorf("refused %v, %v", refused, err)
			}
			for _, in := range all[1:] {
				o, err := w.ledger.Get(context.Background(), in.Ref)
				w.must(err)
				if now, err := instance.Decode(o); err != nil || now.Status.Observed == nil {
					t.Errorf("the word on %s did not count: %v", in.Name, err)
				}
			}
		})
	}
}

// Room that is made while somebody begins to wait for it must not go unnoticed
// by both, wherever the one is when the other comes.
func TestRoomIsNeverMissed(t *testing.T) {
	for held := range 4 { // the round of the deletion that is written late
		w, off := newWorld(t, nil)
		for _, name := range []string{"a", "b", "c"} {
			_, err := w.service.Create(alice, off, instance.Create{Name: name})
			w.must(err)
		}
		w.rounds()
		o, err := w.service.Delete(alice, "dinosaur", "a")
		w.must(err)
		w.unwanted[o.ID] = true
		w.apply(func(string) bool { return true })
		w.report(func(string) bool { return true })
		work, _ := w.claim()
		ended := false
		for range held {
			ended = ended || w.run(work)
		}
		if ended {
			break // the deletion has no more rounds
		}
		w.runWith(work, func() {
			_, err := w.service.Create(alice, off, instance.Create{Name: "d"})
			w.must(err)
			later, ok := w.claim()
			for ok && !w.run(later) {
			}
		})
		for ok := true; ok; work, ok = w.claim() {
			for n := 0; n < 10 && !w.run(work); n++ {
			}
		}
		for _, in := range w.instances(false) {
			if in.Name == "d" && in.Status.Cluster == "" {
				t.Errorf("round %d: it waits although there is room", held)
			}
		}
	}
}

func TestOperationsEndWithTheLastWord(t *testing.T) {
	running := func(in *instance.Instance) { in.Status.Operation = "op1" }
	cases := []struct {
		reason string
		in     instance.Instance
		want   string
	}{
		{"an update of a suspended one is done when the agent has it", at(instance.Suspended, placed, seen("suspended", ""), func(in *instance.Instance) { in.Spec.Suspended = true }), operation.Succeeded},
		{"an update that does not heal a failed one has failed", at(instance.Failed, placed, seen("error", "still broken")), operation.Failed},
		{"an update of what never reached a data plane has failed", at(instance.Failed, running), operation.Failed},
	}
	for _, c := range cases {
		t.Run(c.reason, func(t *testing.T) {
			actions := instance.Plan(c.in, instance.Facts{Units: 1}, start)
			if len(actions) != 1 {
				t.Fatalf("%v, want the end of the operation", actions)
			}
			if f, ok := actions[0].(instance.Finish); !ok || f.Phase != c.want || f.Phase == operation.Failed && f.Reason == "" {
				t.Errorf("%#v, want a finish that says %s", actions[0], c.want)
			}
		})
	}
}
