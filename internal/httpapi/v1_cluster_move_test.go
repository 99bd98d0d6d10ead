package httpapi_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/instance"
)

// Of an instance that moves two agents are told: one has it made, the other has
// it removed later, and each speaks for its own copy.
func TestTwoAgentsHaveWhatMoves(t *testing.T) {
	w := newWorld(t)
	w.register("c1")
	w.register("c2")
	rex := w.place(w.create("alice", "rex").ID, "c1")
	one, two := w.agent("c1"), w.agent("c2")
	one.settled()
	two.settled()
	body := json.RawMessage(`{"metadata":{"name":"rex"},"spec":{"on":"c2"}}`)
	w.edit(rex.ID, func(in *instance.Instance) {
		in.Phase = instance.Ready
		in.Status.Other = &instance.Copy{Role: instance.Arriving, Cluster: "c2", Placement: "p2", Desired: body, Digest: v1.BodyDigest(body), Generation: 1, Rendered: 1, Token: 2}
	})
	two.until("of its copy", func() bool { return two.runs[rex.ID] })
	two.settled()
	one.settled()
	other := func() *instance.Observed {
		o, err := w.instances.Get(w.as("alice"), "dinosaur", rex.ID)
		if err != nil {
			t.Fatal(err)
		}
		in, err := instance.Decode(o)
		if err != nil || in.Status.Other == nil {
			t.Fatalf("%+v, %v", in.Status.Other, err)
		}
		return in.Status.Other.Observed
	}
	if seen := other(); seen == nil || seen.State != "ready" || seen.Placement != "p2" || w.observed(rex.ID).Placement != "p-c1" {
		t.Errorf("of its copies is known: %+v and %+v", seen, w.observed(rex.ID))
	}
	w.edit(rex.ID, func(in *instance.Instance) { // the second one serves, and the first goes
		s := &in.Status
		c := *s.Other
		s.Other = &instance.Copy{Role: instance.Leaving, Cluster: s.Cluster, Placement: s.Placement, Desired: s.Desired, Digest: v1.BodyDigest(s.Desired), Generation: 1, Token: s.Token}
		s.Cluster, s.Placement, s.Desired, s.Digest, s.Token, s.Observed = c.Cluster, c.Placement, c.Desired, c.Digest, c.Token, c.Observed
	})
	one.until("to remove it", func() bool { return one.removed[rex.ID] })
	one.settled()
	two.settled()
	if seen := other(); seen == nil || seen.State != "deleted" {
		t.Errorf("that it is removed is not known: %+v", seen)
	}
	if diff := cmp.Diff([]string{rex.ID}, two.ids()); diff != "" || !two.runs[rex.ID] || two.removed[rex.ID] || one.runs[rex.ID] {
		t.Errorf("%s the copies run: %v, %v", diff, one.runs, two.runs)
	}
	again := w.replica() // what a new server reads is the same
	fresh := again.agentAs(two)
	fresh.settled()
	if !fresh.runs[rex.ID] {
		t.Error("a new server has it removed")
	}
	w.edit(rex.ID, func(in *instance.Instance) { in.Status.Other = nil })
	one.until("nothing any more", func() bool { return len(one.told) == 0 })
}
