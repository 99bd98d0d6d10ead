package cluster_test

import (
	"context"
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/reconcile"
)

// second adds a profile of the same place.
func (y *yard) second() ledger.Ref {
	y.Helper()
	spec, err := json.Marshal(scaled)
	if err != nil {
		y.Fatal(err)
	}
	ref := ledger.Ref{Kind: cluster.KindProfile.Name, ID: "other"}
	y.commit(ledger.Set{Puts: []ledger.Put{{Object: ledger.Object{Ref: ref, Spec: spec}, Op: "create"}}})
	return ref
}

func (y *yard) state(ref ledger.Ref) cluster.ScaleState {
	y.Helper()
	o, err := y.Get(y.Context(), ref)
	if err != nil {
		y.Fatal(err)
	}
	if all := cluster.Scalings(o); len(all) > 0 {
		return all[0]
	}
	return cluster.ScaleState{}
}

// Two profiles for one place, whichever of them is at work whenever: one cluster
// comes.
func TestOneClusterComesAtATime(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		y := newYard(t, scaled)
		refs := []ledger.Ref{y.ref, y.second()}
		pending := map[ledger.Ref]ledger.Set{}
		for range rapid.IntRange(4, 24).Draw(rt, "moves") {
			ref := refs[rapid.IntRange(0, 1).Draw(rt, "who")]
			if set, ok := pending[ref]; ok { // what was decided is written, late
				delete(pending, ref)
				if _, err := y.Commit(context.Background(), set); err != nil && !fault.Is(err, fault.Conflict) {
					rt.Fatal(err)
				}
				continue
			}
			r, err := y.scaler.Reconcile(context.Background(), reconcile.Task{Ref: ref})
			if err != nil {
				rt.Fatal(err)
			}
			if len(r.Write.Puts) > 0 {
				pending[ref] = r.Write
			}
			if n := len(y.clusters()); n > 1 {
				rt.Fatalf("%d clusters come", n)
			}
		}
	})
}

// A turn that nobody uses any more is in nobody's way.
func TestAForgottenTurnIsTaken(t *testing.T) {
	y := newYard(t, scaled)
	other := y.second()
	r, err := y.scaler.Reconcile(t.Context(), reconcile.Task{Ref: other})
	if err != nil || len(r.Write.Claims) != 1 {
		t.Fatalf("%+v, %v", r.Write, err)
	}
	if _, err := y.Commit(t.Context(), r.Write); err != nil {
		t.Fatal(err)
	}
	if s := y.run(); s.Do != cluster.Stay || s.Code != "turn" || len(y.clusters()) != 0 {
		t.Fatalf("while another has the turn: %+v", s)
	}
	o, err := y.Get(t.Context(), other)
	if err != nil {
		t.Fatal(err)
	}
	o.Deleted = y.now
	y.commit(ledger.Set{Puts: []ledger.Put{{Object: o, Expect: o.Version, Op: "delete"}}})
	if y.run(); len(y.clusters()) != 1 {
		t.Errorf("nothing comes: %+v", y.state(y.ref))
	}
	if _, err := y.Lookup(t.Context(), ledger.Name{Space: "cluster/scaling", Name: "aws/east"}); !fault.Is(err, fault.NotFound) {
		t.Errorf("the turn was not given back: %v", err)
	}
}

// A profile whose scaling is turned off while it has the turn gives it back, and
// does not do later what it was about to do.
func TestScalingThatIsTurnedOffGivesItsTurnBack(t *testing.T) {
	y := newYard(t, scaled)
	other := y.second()
	r, err := y.scaler.Reconcile(t.Context(), reconcile.Task{Ref: other})
	if err != nil || len(r.Write.Claims) != 1 {
		t.Fatalf("%+v, %v", r.Write, err)
	}
	y.commit(r.Write)
	o, err := y.Get(t.Context(), other)
	if err != nil {
		t.Fatal(err)
	}
	off := scaled
	off.Scaling.Mode = cluster.ScalingOff
	if o.Spec, err = json.Marshal(off); err != nil {
		t.Fatal(err)
	}
	y.commit(ledger.Set{Puts: []ledger.Put{{Object: o, Expect: o.Version, Op: "update"}}})
	if r, err = y.scaler.Reconcile(t.Context(), reconcile.Task{Ref: other}); err != nil || r.Next || r.Again {
		t.Fatalf("%+v, %v", r, err)
	}
	y.commit(r.Write)
	if s := y.state(other); s.Pending || s.Turn != "" {
		t.Errorf("it is still about to do something: %+v", s)
	}
	if r, err = y.scaler.Reconcile(t.Context(), reconcile.Task{Ref: other}); err != nil || len(r.Write.Puts) > 0 {
		t.Errorf("it writes again and again: %+v, %v", r.Write, err)
	}
	if y.run(); len(y.clusters()) != 1 {
		t.Errorf("the other profile waits for it: %+v", y.state(y.ref))
	}
}
