package gitops_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
	"github.com/droverhq/drover/internal/runtime"
)

var annsPush = gitops.Push{Repositories: []string{"https://git.example.org/acme/shop"}, Ref: "refs/heads/main", After: newCommit, From: "github", Pusher: "ann"}

const byAnn = "push:github/refs/heads/main@" + newCommit + " by ann"

func (y *yard) causeOfOperation(o ledger.Object) string {
	y.t.Helper()
	var s operation.Spec
	y.must(json.Unmarshal(o.Spec, &s))
	return string(s.Cause)
}

// A push is the cause of what it leads to: in the log, of an operation, and of the
// revision in the history; of going back to that commit later it is not.
func TestAPushIsTheCause(t *testing.T) {
	y := newYard(t)
	y.workspace("acme", "hub", "shop")
	d, _, err := y.s.Create(anna, shopOrder())
	y.must(err)
	y.work(time.Second)
	y.report("hub", d.ID, runtime.Ready, fine(oldCommit))
	y.work(time.Minute)

	_, err = y.s.Pushed(context.Background(), "acme", annsPush)
	y.must(err)
	changes, err := y.store.Changes(context.Background(), ledger.ChangeQuery{Kind: "deployment", ID: d.ID, Reverse: true, Limit: 1})
	y.must(err)
	if len(changes) != 1 || changes[0].Cause != byAnn {
		t.Errorf("the log says %+v", changes)
	}
	op := y.operationsAbout(d.ID)["push"]
	if got := y.causeOfOperation(op); got != byAnn || op.Phase != operation.Running {
		t.Errorf("the operation is %s because of %q", op.Phase, got)
	}
	y.work(time.Second)
	if told := y.body("hub", d.ID).Operation; told == nil || told.ID != op.ID || told.Cause != byAnn {
		t.Errorf("the agent is told %+v", told)
	}
	if op := y.operationsAbout(d.ID)["push"]; op.Phase != operation.Running {
		t.Errorf("it is %s before the agent has it", op.Phase)
	}

	seen := fine(newCommit)
	at := y.clock.UTC().Truncate(time.Second)
	seen.History = []runtime.DeployedRevision{{ID: 1, Revision: oldCommit, Deployed: at.Add(-time.Minute), By: "automated"}, {ID: 2, Revision: newCommit, Deployed: at, By: "automated"}}
	y.report("hub", d.ID, runtime.Ready, seen)
	y.work(time.Second)
	if op := y.operationsAbout(d.ID)["push"]; op.Phase != operation.Succeeded {
		t.Errorf("it is %s when the agent has it", op.Phase)
	}
	seen.History = append(seen.History, runtime.DeployedRevision{ID: 3, Revision: oldCommit, Deployed: at.Add(time.Minute), By: "automated"},
		runtime.DeployedRevision{ID: 4, Revision: newCommit, Deployed: at.Add(2 * time.Minute), By: "automated"})
	y.report("hub", d.ID, runtime.Ready, seen)
	var causes []string
	for _, r := range y.get(d.ID).Status.History {
		causes = append(causes, r.Cause)
	}
	if got := strings.Join(causes, "|"); got != "|"+byAnn+"||" {
		t.Errorf("the history has the causes %s", got)
	}
}

// A push that comes while something else is under way is a part of that, and one to
// a manual deployment leads to nothing that would end.
func TestAPushEndsNoOperation(t *testing.T) {
	y := newYard(t)
	y.workspace("acme", "hub", "shop")
	d, made, err := y.s.Create(anna, shopOrder())
	y.must(err)
	o := shopOrder()
	o.Name, o.Manual = "asked", true
	manual, _, err := y.s.Create(anna, o)
	y.must(err)
	y.work(time.Second)
	y.report("hub", manual.ID, runtime.Ready, fine(oldCommit))
	y.work(time.Minute)
	_, err = y.s.Pushed(context.Background(), "acme", annsPush)
	y.must(err)
	y.work(time.Second)
	if phase, why := y.operation(made); phase != operation.Running {
		t.Errorf("what was under way is %s: %s", phase, why)
	}
	for _, id := range []string{d.ID, manual.ID} {
		if op, ok := y.operationsAbout(id)["push"]; ok {
			t.Errorf("%s has %+v", id, op)
		}
	}
}

// Deployments that one with a selector has made have the push for their cause, and
// its own operation ends with theirs.
func TestAPushToManyClusters(t *testing.T) {
	y := newYard(t)
	for _, id := range []string{"eu-1", "eu-2"} {
		y.engines.by[id] = gitops.Engine{ID: id, Runtime: "argocd", Labels: map[string]string{"region": "eu"}}
	}
	_, err := y.s.PutWorkspace(chief, gitops.WorkspaceOrder{Org: "acme", Reach: []gitops.Reach{{Cluster: "*", Namespaces: []string{"shop"}}}})
	y.must(err)
	o := shopOrder()
	o.To = gitops.To{Namespace: "shop", Selector: map[string]string{"region": "eu"}}
	d, _, err := y.s.Create(anna, o)
	y.must(err)
	y.work(time.Minute)
	ready := func(commit string) {
		for cluster, c := range y.children(d.ID) {
			y.report(cluster, c.ID, runtime.Ready, fine(commit))
		}
		y.work(time.Minute)
	}
	ready(oldCommit)
	_, err = y.s.Pushed(context.Background(), "acme", annsPush)
	y.must(err)
	y.work(time.Second)
	children := y.children(d.ID)
	if len(children) != 2 || y.operationsAbout(d.ID)["push"].Phase != operation.Running {
		t.Fatalf("%d, %+v", len(children), y.operationsAbout(d.ID)["push"])
	}
	for cluster, c := range children {
		if got := y.causeOfOperation(y.operationsAbout(c.ID)["push"]); got != byAnn {
			t.Errorf("on %s it is %q", cluster, got)
		}
	}
	ready(newCommit)
	if op := y.operationsAbout(d.ID)["push"]; op.Phase != operation.Succeeded {
		t.Errorf("it is %s", op.Phase)
	}
}
