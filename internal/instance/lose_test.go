package instance_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/operation"
)

func TestPlanOfWhatIsLost(t *testing.T) {
	const reason = "Its data plane is lost for good: the site burnt down. Delete it and order anew."
	lost := func(in *instance.Instance) { in.Status.Lost, in.Status.Cluster = "the site burnt down", "c1" }
	running := func(in *instance.Instance) { in.Status.Operation = "op" }
	marked := func(in *instance.Instance) { in.Status.Reason, in.Status.Units, in.Status.Room = reason, 0, nil }
	doc := func(in *instance.Instance) { in.Status.Desired = []byte(`{}`) }
	for _, c := range []struct {
		reason string
		in     instance.Instance
		facts  instance.Facts
		want   []instance.Action
	}{
		{"what ran gives its room back and is failed", at(instance.Ready, lost), instance.Facts{},
			[]instance.Action{instance.Vacate{Reason: reason}, instance.Move{To: instance.Failed, Reason: reason}}},
		{"so is what rested", at(instance.Suspended, lost), instance.Facts{},
			[]instance.Action{instance.Vacate{Reason: reason}, instance.Move{To: instance.Failed, Reason: reason}}},
		{"hooks of the phase are not called any more", at(instance.Preparing, lost), instance.Facts{Hooks: true},
			[]instance.Action{instance.Vacate{Reason: reason}, instance.Move{To: instance.Failed, Reason: reason}}},
		{"what had failed says the new reason", at(instance.Failed, lost), instance.Facts{}, []instance.Action{instance.Vacate{Reason: reason}}},
		{"what somebody waits for has an end", at(instance.Failed, lost, marked, running), instance.Facts{},
			[]instance.Action{instance.Finish{Phase: operation.Failed, Reason: reason}}},
		{"then there is nothing to do", at(instance.Failed, lost, marked), instance.Facts{}, nil},
		{"a deletion waits for nobody", at(instance.Deprovision, lost, doc), instance.Facts{}, []instance.Action{instance.Move{To: instance.Deleting}}},
		{"where nothing is lost it waits for the agent", at(instance.Deprovision, placed), instance.Facts{}, nil},
	} {
		t.Run(c.reason, func(t *testing.T) {
			if diff := cmp.Diff(c.want, instance.Plan(c.in, c.facts, start)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Whatever a lost data plane was doing: everything on it ends as failed, without
// room, with no operation open, can be deleted with nobody there to confirm, and
// only what was deleted is removed if the data plane returns.
func TestNothingThatIsLostIsStuck(t *testing.T) {
	few(t, "40")
	off := dinosaur(t)
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "world")
		if err != nil {
			rt.Fatal(err)
		}
		w := &world{t: rt, dir: dir, registry: offerings{"dinosaur": off}, room: 100}
		w.begin()
		defer func() { w.ledger.Close() }()
		some := func(string) bool { return rapid.Bool().Draw(rt, "this") }
		for i := range rapid.IntRange(1, 4).Draw(rt, "instances") {
			w.order("dinosaur", instance.Create{Name: fmt.Sprintf("rex-%d", i)})
			for range rapid.IntRange(0, 3).Draw(rt, "rounds") {
				if work, ok := w.claim(); ok {
					w.run(work)
				}
				w.apply(some)
				w.report(some)
				w.clock = w.clock.Add(4 * time.Second)
			}
		}
		drop := func(what string) {
			for _, in := range w.instances(false) {
				if rapid.Bool().Draw(rt, what) {
					_, err := w.service.Delete(alice, "dinosaur", in.ID)
					w.must(err)
				}
			}
		}
		drop("deleted before")
		closed := false // as giving it up does first
		_, err = w.clusters.Update(alice, "local", cluster.Edit{Schedulable: &closed})
		w.must(err)
		w.must(w.service.Lose(context.Background(), "local", "the site burnt down"))
		w.must(w.service.Lose(context.Background(), "local", "again")) // as after a crash
		drop("deleted after")
		w.alone()
		for _, in := range w.instances(false) {
			if in.Status.Cluster == "" {
				continue // it never got there, and waits for another place
			}
			if in.Phase != instance.Failed || !strings.Contains(in.Status.Reason, "the site burnt down") || in.Status.Operation != "" || in.Status.Units != 0 {
				rt.Fatalf("%s is %s: %+v", in.Name, in.Phase, in.Status)
			}
			if _, told := instance.DesiredItem(in.Object); told {
				rt.Fatalf("%s would be touched, and nobody deleted it", in.Name)
			}
		}
		for _, in := range w.instances(false) {
			_, err := w.service.Delete(alice, "dinosaur", in.ID)
			w.must(err)
		}
		w.alone()
		if left := w.instances(false); len(left) > 0 {
			rt.Fatalf("%s cannot end: %s, %+v", left[0].Name, left[0].Phase, left[0].Status)
		}
		if n := w.counter(cluster.CapacityCounter("local")); n != 0 {
			rt.Fatalf("%d units are held by nobody", n)
		}
		stones, more, err := instance.Tombstones(context.Background(), w.ledger, "local", "", 100)
		w.must(err)
		if more != "" || len(stones) > 4 {
			rt.Fatalf("%d tombstones", len(stones))
		}
		for _, o := range stones {
			item, ok := instance.DesiredItem(o)
			if !ok || !item.Delete {
				rt.Fatalf("%s is to be %+v", o.Name, item)
			}
			w.send([]instance.Observation{{ID: o.ID, Generation: item.Generation, State: "deleted", Leaf: 7}})
		}
		if stones, _, err = instance.Tombstones(context.Background(), w.ledger, "local", "", 100); err != nil || len(stones) > 0 {
			rt.Fatalf("%d tombstones are left (%v)", len(stones), err)
		}
	})
}

// alone works without any word of the data plane, until nothing is due.
func (w *world) alone() {
	for range 25 {
		for {
			work, ok := w.claim()
			if !ok {
				break
			}
			for range 30 {
				if w.run(work) {
					break
				}
			}
		}
		w.clock = w.clock.Add(4 * time.Second)
	}
}

// An agent that returns is not listened to on what nobody deleted.
func TestALostInstanceDoesNotComeBack(t *testing.T) {
	w := &world{t: t, dir: t.TempDir(), registry: offerings{"dinosaur": dinosaur(t)}, room: 100}
	w.begin()
	t.Cleanup(func() { w.ledger.Close() })
	in := w.order("dinosaur", instance.Create{Name: "rex"})
	w.calm()
	w.must(w.service.Lose(t.Context(), "local", "the site burnt down"))
	w.alone()
	out, err := w.service.Observe(t.Context(), "local", []instance.Observation{{ID: in.ID, Generation: 1, State: "ready"}})
	if err != nil || cmp.Diff([]string{in.ID}, out.Strangers) != "" {
		t.Errorf("%+v, %v", out, err)
	}
	if now := w.one(); now.Phase != instance.Failed {
		t.Errorf("it is %s", now.Phase)
	}
}
