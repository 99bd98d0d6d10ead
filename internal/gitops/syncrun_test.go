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

// manual is a deployment that only sync runs change.
func (y *yard) manual() gitops.DeploymentIntent {
	in := y.intent("uid-1", 1)
	in.Type = "manual"
	return in
}

func (y *yard) runIntent(uid string) gitops.SyncRunIntent {
	return gitops.SyncRunIntent{
		Intent:     gitops.Intent{Namespace: y.intent("", 1).Namespace, Name: "run-" + uid, UID: uid, Generation: 1},
		Deployment: "web", Revision: "v1",
	}
}

func (y *yard) ask(in gitops.SyncRunIntent) {
	y.t.Helper()
	y.mirror.there[in.UID] = true
	y.must(y.s.IntendSyncRun(context.Background(), in))
	y.clock = y.clock.Add(time.Millisecond)
}

// syncs tells how a run goes.
func (y *yard) syncs(id, phase, message string) {
	y.t.Helper()
	seen := fine("c1")
	seen.Run = &runtime.SyncRun{ID: id, Phase: phase, Message: message, Revision: "c1", Retries: 2}
	y.report("hub", "uid-1", runtime.Ready, seen)
	y.work(time.Second)
}

func (y *yard) runTold(uid string) gitops.SyncRunView {
	v, _ := y.mirror.told[uid].(gitops.SyncRunView)
	return v
}

func TestSyncRunsGoOneByOne(t *testing.T) {
	y := newYard(t)
	for i := range 3 { // before there is a deployment
		y.ask(y.runIntent(fmt.Sprint("r", i)))
	}
	y.work(time.Minute)
	if v := y.runTold("r0"); v.Phase != "Waiting" {
		t.Fatalf("without its deployment: %+v", v)
	}
	y.apply(y.manual())
	y.work(time.Second)
	for i := range 3 {
		id := fmt.Sprint("r", i)
		b := y.body("hub", "uid-1")
		if b.Sync != nil {
			b.Sync.Operation = nil
		}
		if b.Sync == nil || *b.Sync != (runtime.SyncRequest{ID: id, Revision: "v1", Retries: 5}) || b.Automated {
			t.Fatalf("run %d: the agent is told %+v", i, b.Sync)
		}
		if v := y.runTold(id); v.Phase != "Running" {
			t.Fatalf("%s: %+v", id, v)
		}
		op := y.syncrun(id).Status.Operation
		y.syncs(id, "Running", "syncing")
		if v := y.runTold(id); v.Run == nil || v.Run.Message != "syncing" || len(v.Conditions) > 0 {
			t.Fatalf("%s: %+v", id, v)
		}
		if i == 1 { // one that fails is in nobody's way
			y.syncs(id, "Failed", "two objects cannot be applied")
			v := y.runTold(id)
			if v.Phase != "Failed" || len(v.Conditions) != 1 || v.Conditions[0].Message != "two objects cannot be applied" || v.Conditions[0].Status != "True" {
				t.Fatalf("%s: %+v", id, v)
			}
			if phase, why := y.operation(op); phase != operation.Failed || why == "" {
				t.Fatalf("its operation is %s", phase)
			}
			continue
		}
		y.syncs(id, "Succeeded", "")
		if v := y.runTold(id); v.Phase != "Succeeded" || v.Run.Revision != "c1" || len(v.Conditions) != 1 || v.Conditions[0].Status != "False" {
			t.Fatalf("%s: %+v", id, v)
		}
	}
	y.work(time.Hour)
	if d := y.get("uid-1"); d.Status.Run != "" || d.Phase != gitops.Deployed {
		t.Errorf("at rest: %q, %s", d.Status.Run, d.Phase)
	}
	y.operationsEnded()
}

func TestSyncRunsHaveTheOrderOfTheirResources(t *testing.T) {
	y := newYard(t)
	y.apply(y.manual())
	y.work(time.Second)
	noon := y.clock.Add(-time.Hour) // they were made while nobody looked, and are heard of in any order
	for _, r := range []struct {
		uid  string
		made time.Duration
	}{{"third", 2 * time.Minute}, {"second", time.Minute}, {"first", 0}, {"fourth", 2 * time.Minute}} {
		in := y.runIntent(r.uid)
		in.Created = noon.Add(r.made)
		y.ask(in)
	}
	for _, id := range []string{"first", "second", "third", "fourth"} {
		y.work(time.Second)
		if b := y.body("hub", "uid-1"); b.Sync == nil || b.Sync.ID != id {
			t.Fatalf("it is the turn of %s: the agent is told %+v", id, b.Sync)
		}
		y.syncs(id, "Succeeded", "")
	}
}

func TestASyncRunThatIsHeardOfLateWaitsForTheOneThatRuns(t *testing.T) {
	y := newYard(t)
	y.apply(y.manual())
	y.work(time.Second)
	noon := y.clock.Add(-time.Hour)
	for i, uid := range []string{"second", "first"} {
		in := y.runIntent(uid)
		in.Created = noon.Add(time.Duration(-i) * time.Minute)
		y.ask(in)
		y.work(time.Second)
		if b := y.body("hub", "uid-1"); b.Sync == nil || b.Sync.ID != "second" || b.Sync.Terminate {
			t.Fatalf("it is still the turn of the second: the agent is told %+v", b.Sync)
		}
	}
	y.syncs("second", "Succeeded", "")
	if b := y.body("hub", "uid-1"); b.Sync == nil || b.Sync.ID != "first" {
		t.Errorf("then it is the turn of the first: the agent is told %+v", b.Sync)
	}
}

func TestSyncRunsThatAreRefused(t *testing.T) {
	for _, c := range []struct {
		reason string
		of     func(y *yard) gitops.DeploymentIntent
		then   func(in *gitops.SyncRunIntent) // what it is changed to; nil: nothing
		says   string
		phase  string
	}{
		{"an automated deployment syncs itself", func(y *yard) gitops.DeploymentIntent { return y.intent("uid-1", 1) }, nil,
			"invalid GitOpsDeploymentSyncRun 'run-r1'. Syncing a GitOpsDeployment with Automated sync policy is not allowed", "Failed"},
		{"its deployment stays the same", (*yard).manual, func(in *gitops.SyncRunIntent) { in.Deployment = "other" },
			"deployment name field is immutable: changing it from its initial value is not supported", "Running"},
		{"its revision stays the same", (*yard).manual, func(in *gitops.SyncRunIntent) { in.Revision = "v2" },
			"revision change is not supported: changing it from its initial value is not supported", "Running"},
	} {
		y := newYard(t)
		y.apply(c.of(y))
		y.work(time.Second)
		in := y.runIntent("r1")
		y.ask(in)
		y.work(time.Second)
		if c.then != nil {
			in.Generation = 2
			c.then(&in)
			y.ask(in)
			y.work(time.Second)
		}
		v := y.runTold("r1")
		if v.Phase != c.phase || len(v.Conditions) != 1 || v.Conditions[0].Message != c.says || v.Conditions[0].Reason != "ErrorOccurred" {
			t.Errorf("%s: %+v", c.reason, v)
		}
		if b := y.body("hub", "uid-1"); c.then != nil && (b.Sync == nil || b.Sync.Revision != "v1") {
			t.Errorf("%s: the agent is told %+v", c.reason, b.Sync)
		}
		before := y.store.commits
		y.must(y.s.IntendSyncRun(context.Background(), in))
		if y.store.commits != before {
			t.Errorf("%s: the same again is written again", c.reason)
		}
	}
}

// A mistake in a run that waits is told, and what it was made with is carried out.
func TestAWaitingRunStaysWhatItWas(t *testing.T) {
	y := newYard(t)
	in := y.runIntent("r1")
	y.ask(in)
	in.Generation, in.Revision = 2, "v2"
	y.ask(in)
	bad := y.runIntent("r2")
	bad.Revision = "--all"
	y.ask(bad)
	y.apply(y.manual())
	y.work(time.Second)
	if b := y.body("hub", "uid-1"); b.Sync == nil || b.Sync.ID != "r1" || b.Sync.Revision != "v1" {
		t.Errorf("the agent is told %+v", b.Sync)
	}
	if v := y.runTold("r2"); v.Phase != "Failed" || len(v.Conditions) != 1 {
		t.Errorf("a revision that is none: %+v", v)
	}
	y.syncs("r1", "Succeeded", "")
	if v := y.runTold("r1"); v.Phase != "Succeeded" || v.Conditions[0].Status != "True" {
		t.Errorf("told %+v", v)
	}
}

// Deleted just as it was handed over, before the agent has said anything of it.
func TestASyncRunThatWasEndedAsItBegan(t *testing.T) {
	y := newYard(t)
	y.apply(y.manual())
	y.ask(y.runIntent("r1"))
	y.work(time.Second)
	o := y.syncrun("r1").Object
	o.Phase = gitops.Terminated // as its reconciler had decided a moment before
	_, err := y.store.Commit(context.Background(), ledger.Set{
		Actor: "system", Cause: "schedule:test", Puts: []ledger.Put{{Object: o, Expect: o.Version, Op: "terminated"}},
		Wakes: []ledger.Wake{{Ref: y.get("uid-1").Ref}},
	})
	y.must(err)
	y.work(time.Second)
	if b := y.body("hub", "uid-1"); b.Sync == nil || !b.Sync.Terminate {
		t.Errorf("the agent would begin it: %+v", b.Sync)
	}
}

func TestADeletedSyncRunIsTerminated(t *testing.T) {
	y := newYard(t)
	y.apply(y.manual())
	for _, id := range []string{"r1", "r2"} {
		y.ask(y.runIntent(id))
	}
	y.work(time.Second)
	y.syncs("r1", "Running", "")
	for _, id := range []string{"r2", "r1"} {
		in := y.runIntent(id)
		in.Gone = true
		y.must(y.s.IntendSyncRun(context.Background(), in))
	}
	y.work(time.Second)
	if r := y.syncrun("r2"); r.Object.Deleted.IsZero() {
		t.Errorf("one that never began is still there: %s", r.Phase)
	}
	if b := y.body("hub", "uid-1"); b.Sync == nil || b.Sync.ID != "r1" || !b.Sync.Terminate {
		t.Fatalf("the agent is told %+v", b.Sync)
	}
	y.syncs("r1", "Terminated", "")
	if r := y.syncrun("r1"); r.Object.Deleted.IsZero() || r.Phase != gitops.Terminated {
		t.Errorf("it is %s", r.Phase)
	}
	y.ask(y.runIntent("r3"))
	y.work(time.Second)
	if b := y.body("hub", "uid-1"); b.Sync.ID != "r3" {
		t.Errorf("the next one does not begin: %+v", b.Sync)
	}
	in := y.manual()
	in.Gone = true
	y.apply(in)
	y.work(time.Second)
	y.report("hub", "uid-1", runtime.Deleted, nil)
	y.work(time.Second)
	if r := y.syncrun("r3"); r.Phase != gitops.Terminated || y.runTold("r3").Conditions[0].Message != "the deployment web was deleted" {
		t.Errorf("its deployment is gone: %s, %+v", r.Phase, y.runTold("r3"))
	}
	y.operationsEnded()
}

func TestSyncByTheAPI(t *testing.T) {
	y := newYard(t)
	w := y.workspace("acme", "hub", "shop")
	order := gitops.Order{Name: "web", Repository: "https://git.example.org/acme/shop", Path: "k8s", Revision: "main", To: gitops.To{Namespace: "shop"}, Manual: true}
	d, _, err := y.s.Create(anna, order)
	y.must(err)
	if d.Fields["workspace"] != w.ID {
		t.Errorf("it is in workspace %v", d.Fields["workspace"])
	}
	y.work(time.Second)
	run, op, err := y.s.Sync(anna, "web", "v7", true)
	y.must(err)
	y.work(time.Second)
	if b := y.body("hub", d.ID); b.Sync == nil || b.Sync.Revision != "v7" || !b.Sync.Prune {
		t.Errorf("the agent is told %+v", b.Sync)
	}
	for reason, try := range map[string]func() error{
		"a stranger sees none": func() error { return y.s.Terminate(carl, run.ID) },
		"nor syncs":            func() error { _, _, err := y.s.Sync(carl, d.ID, "", false); return err },
	} {
		if err := try(); !fault.Is(err, fault.NotFound) {
			t.Errorf("%s: %v", reason, err)
		}
	}
	y.must(y.s.Terminate(anna, run.ID))
	y.work(time.Second)
	if b := y.body("hub", d.ID); !b.Sync.Terminate {
		t.Errorf("the agent is told %+v", b.Sync)
	}
	seen := fine("c1")
	seen.Run = &runtime.SyncRun{ID: run.ID, Phase: "Terminated"}
	y.report("hub", d.ID, runtime.Ready, seen)
	y.work(time.Second)
	if r := y.syncrun(run.ID); r.Phase != gitops.Terminated || !r.Object.Deleted.IsZero() {
		t.Errorf("it is %s", r.Phase)
	}
	if phase, _ := y.operation(op); phase != operation.Failed {
		t.Errorf("its operation is %s", phase)
	}
	if err := y.s.Terminate(anna, run.ID); fault.Reason(err) != "phase" {
		t.Errorf("once more: %v", err)
	}
}

// workspace is what an operator gives an organisation.
func (y *yard) workspace(org, cluster string, namespaces ...string) gitops.Workspace {
	y.t.Helper()
	w, err := y.s.PutWorkspace(chief, gitops.WorkspaceOrder{Org: org, Engine: cluster, Reach: []gitops.Reach{{Cluster: cluster, Namespaces: namespaces}}})
	y.must(err)
	return w
}
