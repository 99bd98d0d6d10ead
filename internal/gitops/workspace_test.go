package gitops_test

import (
	"testing"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/runtime"
)

// A workspace goes while nothing is in it, by an operator's word, and comes back
// when it is used again.
func TestWorkspacesAreDeletedWhenEmpty(t *testing.T) {
	y := newYard(t)
	w := y.workspace("acme", "hub", "shop").ID
	d, _, err := y.s.Create(anna, shopOrder())
	y.must(err)
	y.work(time.Second)
	if err := y.s.DeleteWorkspace(anna, w); !fault.Is(err, fault.Denied) {
		t.Errorf("a user deletes it: %v", err)
	}
	if err := y.s.DeleteWorkspace(chief, w); fault.Reason(err) != "in-use" {
		t.Errorf("with a deployment in it: %v", err)
	}
	_, _, err = y.s.Delete(anna, d.ID)
	y.must(err)
	y.work(time.Second)
	y.report("hub", d.ID, runtime.Deleted, nil)
	y.work(time.Second)
	y.must(y.s.DeleteWorkspace(chief, w))
	if err := y.s.DeleteWorkspace(chief, w); !fault.Is(err, fault.NotFound) {
		t.Errorf("twice: %v", err)
	}
	if _, _, err := y.s.Create(anna, shopOrder()); fault.Reason(err) != "reach" {
		t.Errorf("what it reached is not forgotten: %v", err)
	}
	if again := y.workspace("acme", "hub", "shop"); again.ID == w {
		t.Error("the old one is used again")
	}

	y.apply(y.intent("uid-1", 1))
	y.work(time.Second)
	home := y.get("uid-1").Parent
	if err := y.s.DeleteWorkspace(chief, home); fault.Reason(err) != "in-use" {
		t.Errorf("a namespace with a custom resource in it: %v", err)
	}
	gone := gitops.DeploymentIntent{Intent: y.intent("uid-1", 1).Intent}
	gone.Gone = true
	y.apply(gone)
	y.work(time.Second)
	y.report("hub", "uid-1", runtime.Deleted, nil)
	y.work(time.Second)
	y.must(y.s.DeleteWorkspace(chief, home))
	y.apply(y.intent("uid-2", 1))
	y.work(time.Second)
	if o, err := y.store.Get(t.Context(), ledger.Ref{Kind: "workspace", ID: home}); err != nil || !o.Deleted.IsZero() || y.get("uid-2").Status.Issued == 0 {
		t.Errorf("a namespace that is used again: %+v, %v", o, err)
	}
}
