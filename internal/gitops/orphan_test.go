package gitops_test

import (
	"context"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/runtime"
)

// away is a deployment to the target "prod".
func (y *yard) away(generation int64) gitops.DeploymentIntent {
	in := y.intent("uid-1", generation)
	in.Environment, in.ToNamespace = "prod", "live"
	return in
}

// A removal has no body: the agent is told first that nothing can be taken away.
func TestDeletedAfterItsTarget(t *testing.T) {
	for _, begun := range []bool{false, true} { // the removal
		y := newYard(t)
		y.apply(y.away(1))
		y.target("t", nil)
		y.work(time.Hour)
		y.report("hub", "uid-1", runtime.Ready, fine("c1"))
		y.work(time.Second)
		gone := y.away(1)
		gone.Gone = true
		if begun {
			y.apply(gone)
			y.work(time.Second)
			if it, ok := y.item("hub", "uid-1"); !ok || !it.Delete {
				t.Fatalf("with its target: %+v", it)
			}
		}
		y.target("t", func(s *gitops.TargetSpec, st *gitops.TargetStatus) { s.Deleted, st.Access = true, nil })
		y.apply(gone)
		y.must(y.s.Resync(context.Background(), "deployment", "uid-1"))
		y.work(time.Hour)
		it, _ := y.item("hub", "uid-1")
		if b := y.body("hub", "uid-1"); it.Delete || !b.Detached || b.Target != nil || b.Credential != nil || b.Automated {
			t.Fatalf("removal begun %v: the agent is told %+v %+v", begun, it, b)
		}
		y.report("hub", "uid-1", runtime.Error, nil) // whatever it makes of it
		y.work(time.Second)
		if it, ok := y.item("hub", "uid-1"); !ok || !it.Delete {
			t.Fatalf("removal begun %v: after that %+v", begun, it)
		}
		y.report("hub", "uid-1", runtime.Deleted, nil)
		y.work(time.Second)
		if d := y.get("uid-1"); d.Phase != gitops.Gone && d.Object.Deleted.IsZero() {
			t.Errorf("removal begun %v: in the end it is %s", begun, d.Phase)
		}
		y.operationsEnded()
	}
}

// What was on a target that is gone stays there when the deployment goes elsewhere;
// otherwise the agent is to remove it.
func TestAnotherDestinationAfterItsTarget(t *testing.T) {
	for _, c := range []struct {
		reason string
		target func(s *gitops.TargetSpec, st *gitops.TargetStatus)
		want   string
	}{
		{"the target is there", nil, ""},
		{"the target is gone", func(s *gitops.TargetSpec, st *gitops.TargetStatus) { s.Deleted, st.Access = true, nil }, "target-1"},
	} {
		y := newYard(t)
		y.apply(y.away(1))
		y.target("t", nil)
		y.work(time.Hour)
		if c.target != nil {
			y.target("t", c.target)
		}
		y.apply(y.intent("uid-1", 2))
		y.work(time.Hour)
		if b := y.body("hub", "uid-1"); b.Target != nil || b.Abandoned != c.want || b.Namespace != "shop" {
			t.Errorf("%s: the agent is told %+v", c.reason, b)
		}
	}
}

// A target that goes together with its deployments waits for them: it is needed to
// remove what they have there, but not for ever.
func TestTargetsWaitForThoseThatLeave(t *testing.T) {
	y := newYard(t)
	y.apply(y.away(1))
	y.target("t", nil)
	y.work(time.Hour)
	gone := y.away(1)
	gone.Gone = true
	y.apply(gone)
	y.target("t", func(s *gitops.TargetSpec, _ *gitops.TargetStatus) { s.Deleted = true })
	look := func() gitops.Target {
		o, err := y.store.Get(context.Background(), ledger.Ref{Kind: "target", ID: "target-1"})
		y.must(err)
		tt, err := gitops.DecodeTarget(o)
		y.must(err)
		return tt
	}
	y.must(y.s.Resync(context.Background(), "target", "target-1"))
	y.work(30 * time.Second)
	if tt := look(); tt.Status.Access == nil {
		t.Fatal("it went before its deployments")
	}
	y.work(time.Hour)
	if tt := look(); tt.Status.Access != nil {
		t.Error("it waits for ever")
	}
}
