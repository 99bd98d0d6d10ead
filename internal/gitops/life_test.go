package gitops_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
	"github.com/droverhq/drover/internal/runtime"
)

func TestLifeOfACustomResource(t *testing.T) {
	y := newYard(t)
	in := y.intent("uid-1", 1)
	y.apply(in)
	d := y.get("uid-1")
	op := d.Status.Operation
	if d.Phase != gitops.Pending || op == "" || d.Org != "main/shop" || d.Spec.Origin.Generation != 1 {
		t.Fatalf("after the intent: %+v", d)
	}
	y.work(time.Second)
	b := y.body("hub", "uid-1")
	if b.Repository != in.Repository || b.Path != "k8s" || b.Namespace != "shop" || b.Workspace != "ns-1" || !b.Automated || b.Operation.ID != op {
		t.Fatalf("the agent is told %+v", b)
	}
	if d := y.get("uid-1"); d.Phase != gitops.Deploying || d.Status.Issued != 1 {
		t.Fatalf("handed over: %s, issued %d", d.Phase, d.Status.Issued)
	}
	y.report("hub", "uid-1", runtime.Installing, &runtime.Deployed{
		Sync: runtime.SyncStatus{Status: "OutOfSync"}, Health: runtime.HealthStatus{Status: "Missing"},
		Conditions: []runtime.DeployedCondition{{Type: "ComparisonError", Message: "no such branch"}},
	})
	y.work(time.Second)
	if d := y.get("uid-1"); d.Phase != gitops.Failed || y.condition("uid-1", "ComparisonError") != "True ComparisonError: no such branch" {
		t.Fatalf("in trouble: %s, %+v", d.Phase, y.told("uid-1"))
	}
	y.report("hub", "uid-1", runtime.Ready, fine("c1"))
	y.work(time.Second)
	if d := y.get("uid-1"); d.Phase != gitops.Deployed || y.told("uid-1").Sync.Revision != "c1" || y.condition("uid-1", "ComparisonError") != "False ComparisonErrorResolved: " {
		t.Fatalf("deployed: %s, %+v", d.Phase, y.told("uid-1"))
	}
	if phase, why := y.operation(op); phase != operation.Succeeded {
		t.Fatalf("its operation is %s: %s", phase, why)
	}
	in.Generation, in.Path = 2, "other"
	y.apply(in)
	y.work(time.Second)
	if it, _ := y.item("hub", "uid-1"); it.Generation != 2 || y.body("hub", "uid-1").Path != "other" {
		t.Fatalf("after a change: %+v", it)
	}
	y.report("hub", "uid-1", runtime.Ready, fine("c2"))
	in.Gone, in.Held = true, true
	y.apply(in)
	y.work(time.Second)
	if it, ok := y.item("hub", "uid-1"); !ok || !it.Delete || y.mirror.released["uid-1"] {
		t.Fatalf("to be removed: %+v", it)
	}
	y.report("hub", "uid-1", runtime.Deleted, nil)
	y.work(time.Second)
	if d := y.get("uid-1"); d.Object.Deleted.IsZero() || d.Phase != gitops.Gone || !y.mirror.released["uid-1"] || len(gitops.DesiredItems(d.Object)) > 0 {
		t.Fatalf("gone: %+v", d.Object)
	}
	y.operationsEnded()
}

// Parts of Argo CD that do not reach each other for a moment are told, and nobody who
// waits for the deployment is to give up for them.
func TestRestartOfArgoCDIsNoFailure(t *testing.T) {
	y := newYard(t)
	y.apply(y.intent("uid-1", 1))
	y.work(time.Second)
	const refused = `Failed to load target state: rpc error: code = Unavailable desc = connection error: desc = "transport: Error while dialing: connection refused"`
	y.report("hub", "uid-1", runtime.Installing, &runtime.Deployed{
		Sync: runtime.SyncStatus{Status: "Unknown"}, Conditions: []runtime.DeployedCondition{{Type: "ComparisonError", Message: refused}},
	})
	y.work(time.Second)
	if d := y.get("uid-1"); d.Phase != gitops.Deploying || y.condition("uid-1", "ComparisonError") != "True ComparisonError: "+refused {
		t.Errorf("it is %s, and told %+v", d.Phase, y.told("uid-1"))
	}
}

// What is at rest costs nothing: no write, and nobody is asked.
func TestAtRestNothingIsWritten(t *testing.T) {
	y := newYard(t)
	y.apply(y.intent("uid-1", 1))
	y.work(time.Second)
	y.report("hub", "uid-1", runtime.Ready, fine("c1"))
	y.work(time.Second)
	before, told := y.store.commits, y.mirror.times["uid-1"]
	y.work(24 * time.Hour)
	_, err := y.store.Commit(context.Background(), ledger.Set{Actor: "system", Cause: "schedule:test", Wakes: []ledger.Wake{{Ref: y.get("uid-1").Ref}}})
	y.must(err)
	y.work(time.Hour)
	if y.store.commits != before || y.mirror.times["uid-1"] != told {
		t.Errorf("a look at what is at rest has cost %d commits, and was told %d times", y.store.commits-before, y.mirror.times["uid-1"]-told)
	}
	y.apply(y.intent("uid-1", 1))
	y.report("hub", "uid-1", runtime.Ready, fine("c1"))
	commits := y.store.commits - before // the leaf alone moved
	y.must(y.s.Resync(context.Background(), "deployment", "uid-1"))
	y.work(time.Second)
	if commits > 1 || y.hub.probes > 0 || y.mirror.times["uid-1"] != told+1 {
		t.Errorf("%d commits, %d probes, told %d times more", commits, y.hub.probes, y.mirror.times["uid-1"]-told)
	}
}

// Deleted and made again under the same name, three times in a row, with all words
// of the ends missed but the last: each begins when the one before is gone.
func TestTheSameNameThreeTimes(t *testing.T) {
	y := newYard(t)
	y.apply(y.intent("uid-0", 1))
	y.work(time.Second)
	y.report("hub", "uid-0", runtime.Ready, fine("c0"))
	for i := 1; i <= 3; i++ {
		old, uid := fmt.Sprint("uid-", i-1), fmt.Sprint("uid-", i)
		delete(y.mirror.there, old)
		y.apply(y.intent(uid, 1))
		y.work(10 * time.Second)
		if d := y.get(uid); d.Phase != gitops.Pending || y.condition(uid, "ErrorOccurred") == "" || len(gitops.DesiredItems(d.Object)) > 0 {
			t.Fatalf("%s waits: %s %+v", uid, d.Phase, d.Status)
		}
		if it, ok := y.item("hub", old); !ok || !it.Delete {
			t.Fatalf("the old one is to go: %+v", it)
		}
		y.report("hub", old, runtime.Deleted, nil)
		y.work(time.Second)
		if it, ok := y.item("hub", uid); !ok || it.Delete {
			t.Fatalf("the new one begins: %+v", it)
		}
		y.report("hub", uid, runtime.Ready, fine(uid))
		y.work(time.Second)
		if d := y.get(uid); d.Phase != gitops.Deployed || y.condition(uid, "ErrorOccurred") != "False ErrorOccurredResolved: " {
			t.Fatalf("%s: %s, %q", uid, d.Phase, y.condition(uid, "ErrorOccurred"))
		}
	}
	in := y.intent("uid-3", 1)
	in.Gone = true
	y.apply(in)
	y.work(time.Second)
	y.report("hub", "uid-3", runtime.Deleted, nil)
	y.work(time.Minute)
	if _, err := y.store.Lookup(t.Context(), ledger.Name{Space: "deployment/ns-1", Name: "web"}); !fault.Is(err, fault.NotFound) {
		t.Errorf("the name is not free: %v", err)
	}
	y.operationsEnded()
}

// The process is killed before and after each commit of a life.
func TestKilledAtEveryStep(t *testing.T) {
	for at := 0; ; at++ {
		y := newYard(t)
		y.apply(y.intent("uid-1", 1))
		y.store.at = []int{at}
		calm := func(f func()) { // whoever asks is not killed
			rest := y.store.at
			y.store.at = nil
			f()
			y.store.at = rest
		}
		y.work(time.Minute)
		calm(func() { y.report("hub", "uid-1", runtime.Ready, fine("c1")) })
		y.work(time.Minute)
		if d := y.get("uid-1"); d.Phase != gitops.Deployed || y.told("uid-1").Sync.Revision != "c1" {
			t.Fatalf("killed at %d: %s", at, d.Phase)
		}
		calm(func() { in := y.intent("uid-1", 2); in.Gone = true; y.apply(in) })
		y.work(time.Minute)
		calm(func() { y.report("hub", "uid-1", runtime.Deleted, nil) })
		y.work(time.Minute)
		if d := y.get("uid-1"); d.Object.Deleted.IsZero() || !y.mirror.released["uid-1"] {
			t.Fatalf("killed at %d: it is left", at)
		}
		y.operationsEnded()
		if y.store.kills == 0 {
			if at < 6 {
				t.Errorf("only %d steps: this shows little", at)
			}
			return
		}
	}
}

func TestAnAgentThatRefusesIsHeard(t *testing.T) {
	y := newYard(t)
	y.apply(y.intent("uid-1", 1))
	y.work(time.Second)
	item, _ := y.item("hub", "uid-1")
	_, err := y.s.Observe(context.Background(), "hub", []gitops.Observation{
		{ID: "uid-1", Generation: item.Generation, State: string(runtime.Rejected), Message: "it is not signed by whom this agent trusts"}})
	y.must(err)
	y.work(time.Second)
	if d := y.get("uid-1"); d.Phase != gitops.Failed || y.condition("uid-1", "ErrorOccurred") != "True ErrorOccurred: it is not signed by whom this agent trusts" {
		t.Errorf("it is %s, and told %q", d.Phase, y.condition("uid-1", "ErrorOccurred"))
	}
}
