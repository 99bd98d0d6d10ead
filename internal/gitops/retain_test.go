package gitops_test

import (
	"context"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/runtime"
)

// runs lists the sync runs that there are.
func (y *yard) runs() []ledger.Object {
	y.t.Helper()
	found, err := y.store.List(context.Background(), ledger.Query{Kind: "syncrun", Limit: 1000, Order: []ledger.Order{{Column: "created"}}})
	y.must(err)
	return found
}

// TestEndedSyncRunsAreKept has more runs than are kept, by the API and by custom
// resources, and then removes their deployment.
func TestEndedSyncRunsAreKept(t *testing.T) {
	y := newYard(t)
	y.workspace("acme", "hub", "shop")
	order := shopOrder()
	order.Manual = true
	d, _, err := y.s.Create(anna, order)
	y.must(err)
	y.work(time.Second)
	sync := func(n int) (last string) {
		for range n {
			r, _, err := y.s.Sync(anna, d.ID, "", false)
			y.must(err)
			y.work(time.Second)
			seen := fine("c1")
			seen.Run = &runtime.SyncRun{ID: r.ID, Phase: "Succeeded"}
			y.report("hub", d.ID, runtime.Ready, seen)
			y.work(time.Second)
			last = r.ID
		}
		return last
	}
	first := sync(1)
	sync(21)
	last := sync(1)
	found := y.runs()
	if len(found) != 20 || found[19].ID != last {
		t.Fatalf("%d sync runs are kept, want the newest 20", len(found))
	}
	if r := y.syncrun(first); r.Deleted.IsZero() {
		t.Fatal("the oldest is still listed")
	}

	_, _, err = y.s.Delete(anna, d.ID)
	y.must(err)
	y.work(time.Second)
	if len(y.runs()) != 20 {
		t.Fatalf("%d sync runs while their deployment is being removed", len(y.runs()))
	}
	y.report("hub", d.ID, runtime.Deleted, nil)
	y.work(time.Second)
	if y.get(d.ID).Deleted.IsZero() || len(y.runs()) != 0 {
		t.Fatalf("%d sync runs are left without their deployment", len(y.runs()))
	}
	y.operationsEnded()
}

// TestSyncRunsOfCustomResourcesAreTheirOwners keeps all that somebody's resource asks
// for: forgotten, it would be taken for a new one and carried out again.
func TestSyncRunsOfCustomResourcesAreTheirOwners(t *testing.T) {
	y := newYard(t)
	y.apply(y.manual())
	y.work(time.Second)
	for i := range 22 {
		uid := string(rune('a' + i))
		y.ask(y.runIntent(uid))
		y.work(time.Second)
		y.syncs(uid, "Succeeded", "")
	}
	if n := len(y.runs()); n != 22 {
		t.Fatalf("%d of 22 runs are left", n)
	}
	y.must(y.s.IntendDeployment(context.Background(), gone(y.manual())))
	y.work(time.Second)
	y.report("hub", "uid-1", runtime.Deleted, nil)
	y.work(time.Second)
	if n := len(y.runs()); n != 22 || y.get("uid-1").Deleted.IsZero() {
		t.Fatalf("%d of 22 runs are left without their deployment", n)
	}
}

func gone(in gitops.DeploymentIntent) gitops.DeploymentIntent {
	in.Gone = true
	return in
}
