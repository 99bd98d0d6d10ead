package gitops_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
	"github.com/droverhq/drover/internal/runtime"
)

// operationsAbout are the operations of an object, by their verbs.
func (y *yard) operationsAbout(id string) map[string]ledger.Object {
	y.t.Helper()
	found, err := y.store.List(context.Background(), ledger.Query{Kind: operation.Kind.Name, Scope: map[string]any{"parent": id}, Limit: 100})
	y.must(err)
	out := map[string]ledger.Object{}
	for _, o := range found {
		out[o.Fields["verb"].(string)] = o
	}
	return out
}

// Operations say which Argo CD, whose, what and of which type, and the agent is told
// the same: of changes, of syncs and of removals.
func TestOperationsSayWhatTheyAreAbout(t *testing.T) {
	y := newYard(t)
	y.apply(y.manual())
	y.work(time.Second)
	y.report("hub", "uid-1", runtime.Ready, fine("c1"))
	y.work(time.Second)
	check := func(o ledger.Object, subject, kind string) {
		t.Helper()
		var s operation.Spec
		y.must(json.Unmarshal(o.Spec, &s))
		if s.Subject.ID != subject || s.Type != kind || s.Instance != "hub" || s.Owner != "ns-1" || s.Cause == "" && o.ID == "" || o.Fields["type"] != kind || o.Fields["instance"] != "hub" {
			t.Errorf("the operation of %s: %+v, %v", subject, s, o.Fields)
		}
	}
	made := y.operationsAbout("uid-1")["create"]
	check(made, "uid-1", "GitOpsDeployment")
	body := y.body("hub", "uid-1")
	want := &runtime.DeploymentOperation{ID: made.ID, Owner: "ns-1", Resource: "uid-1", Type: "GitOpsDeployment", Instance: "hub", Cause: body.Operation.Cause}
	if d := cmp.Diff(want, body.Operation); d != "" {
		t.Error(d)
	}

	y.ask(y.runIntent("r1"))
	y.work(time.Second)
	body = y.body("hub", "uid-1")
	sync := y.operationsAbout("r1")["sync"]
	want = &runtime.DeploymentOperation{ID: sync.ID, Owner: "ns-1", Resource: "r1", Type: "GitOpsDeploymentSyncRun", Instance: "hub"}
	if body.Sync == nil || body.Sync.Operation == nil {
		t.Fatalf("the agent is told %+v", body.Sync)
	}
	want.Cause = body.Sync.Operation.Cause
	if d := cmp.Diff(want, body.Sync.Operation); d != "" {
		t.Error(d)
	}
	seen := fine("c1")
	seen.Run = &runtime.SyncRun{ID: "r1", Phase: "Succeeded"}
	y.report("hub", "uid-1", runtime.Ready, seen)
	y.work(time.Second)
	check(y.operationsAbout("r1")["sync"], "r1", "GitOpsDeploymentSyncRun")

	in := y.manual()
	in.Gone = true
	y.apply(in)
	y.work(time.Second)
	gone := y.operationsAbout("uid-1")["delete"]
	check(gone, "uid-1", "GitOpsDeployment")
	var told runtime.Farewell
	y.must(json.Unmarshal(gitops.Farewell(y.get("uid-1").Object, "hub"), &told))
	if told.Operation == nil || told.Operation.ID != gone.ID || told.Operation.Instance != "hub" || told.Operation.Resource != "uid-1" {
		t.Errorf("the removal says %+v", told.Operation)
	}
	y.report("hub", "uid-1", runtime.Deleted, nil)
	y.work(time.Second)
	y.operationsEnded()
}
