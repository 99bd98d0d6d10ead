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

// children of a deployment by cluster, those that are being deleted aside.
func (y *yard) children(id string) map[string]gitops.Deployment {
	y.t.Helper()
	found, err := y.store.List(context.Background(), ledger.Query{Kind: "deployment", Scope: map[string]any{"parent": id}, Limit: 1000})
	y.must(err)
	out := map[string]gitops.Deployment{}
	for _, o := range found {
		d, err := gitops.Decode(o)
		y.must(err)
		if !d.Spec.Deleted {
			out[d.Spec.To.Cluster] = d
		}
	}
	return out
}

func TestASelectorFollowsTheFleet(t *testing.T) {
	y := newYard(t)
	region := func(id, region string) gitops.Engine {
		return gitops.Engine{ID: id, Runtime: "argocd", Labels: map[string]string{"region": region, "tier": "prod"}}
	}
	for i := range 120 { // more than one commit makes
		id := fmt.Sprintf("eu-%03d", i)
		y.engines.by[id] = region(id, "eu")
	}
	y.engines.by["us-1"] = region("us-1", "us")
	y.workspace("acme", "hub", "shop")
	_, err := y.s.PutWorkspace(chief, gitops.WorkspaceOrder{Org: "acme", Reach: []gitops.Reach{{Cluster: "*", Namespaces: []string{"shop"}}}})
	y.must(err)
	o := shopOrder()
	o.To = gitops.To{Namespace: "shop", Selector: map[string]string{"region": "eu", "tier": "prod"}}
	d, op, err := y.s.Create(anna, o)
	y.must(err)
	y.work(time.Minute)
	if got := y.children(d.ID); len(got) != 120 || got["us-1"].ID != "" {
		t.Fatalf("%d were made", len(got))
	}
	for cluster, c := range y.children(d.ID) {
		y.report(cluster, c.ID, runtime.Ready, fine("c1"))
	}
	y.work(time.Minute)
	if p := y.get(d.ID); p.Phase != gitops.Deployed || p.Status.Tally.Deployed != 120 {
		t.Errorf("the whole is %s, %+v", p.Phase, p.Status.Tally)
	}
	if phase, why := y.operation(op); phase != operation.Succeeded {
		t.Errorf("its operation is %s %s", phase, why)
	}
	commits := y.store.commits
	y.work(10 * time.Minute)
	if y.store.commits != commits {
		t.Errorf("at rest it has cost %d commits", y.store.commits-commits)
	}
	// Nothing goes because nobody can be asked, or because nobody is there.
	all := y.engines.by
	y.engines.away = true
	y.work(5 * time.Minute)
	y.engines.away, y.engines.by = false, map[string]gitops.Engine{}
	y.work(5 * time.Minute)
	y.engines.by = all
	y.work(6 * time.Minute)
	if got := y.children(d.ID); len(got) != 120 {
		t.Fatalf("%d are left", len(got))
	}
	leaving := region("eu-001", "eu")
	leaving.Leaving = true
	y.engines.by["eu-000"], y.engines.by["eu-001"] = region("eu-000", "us"), leaving
	y.engines.by["eu-new"] = region("eu-new", "eu")
	delete(y.engines.by, "eu-002")
	y.work(6 * time.Minute) // nobody told: Follow does
	got := y.children(d.ID)
	for _, gone := range []string{"eu-000", "eu-001", "eu-002"} {
		if got[gone].ID != "" {
			t.Errorf("that of %s is still wanted", gone)
		}
	}
	if len(got) != 118 || got["eu-new"].ID == "" {
		t.Errorf("%d are wanted", len(got))
	}
	path := "other"
	if _, _, err := y.s.Update(anna, got["eu-new"].ID, gitops.Change{Path: &path}); fault.Reason(err) != "selector" {
		t.Errorf("one of them alone: %v", err)
	}
	_, _, err = y.s.Update(anna, d.ID, gitops.Change{Path: &path})
	y.must(err)
	y.work(time.Minute)
	for cluster := range y.children(d.ID) {
		if b := y.body(cluster, y.children(d.ID)[cluster].ID); b.Path != "other" {
			t.Fatalf("%s has not heard of the change", cluster)
		}
		break
	}
	last := y.children(d.ID)
	_, _, err = y.s.Delete(anna, d.ID)
	y.must(err)
	y.work(time.Minute)
	if p := y.get(d.ID); !p.Object.Deleted.IsZero() {
		t.Error("it is gone before what it has made")
	}
	for cluster, c := range last {
		y.report(cluster, c.ID, runtime.Deleted, nil)
	}
	y.report("eu-000", childOn(y, d.ID, "eu-000"), runtime.Deleted, nil)
	y.report("eu-001", childOn(y, d.ID, "eu-001"), runtime.Deleted, nil)
	y.work(10 * time.Minute)
	if p := y.get(d.ID); p.Object.Deleted.IsZero() {
		t.Errorf("it is left: %+v", y.children(d.ID))
	}
	y.operationsEnded()
}

func childOn(y *yard, parent, cluster string) string {
	found, err := y.store.List(context.Background(), ledger.Query{Kind: "deployment", Scope: map[string]any{"parent": parent}, Deleted: true, Limit: 1000})
	y.must(err)
	for _, o := range found {
		if d, err := gitops.Decode(o); err == nil && d.Spec.To.Cluster == cluster {
			return d.ID
		}
	}
	return ""
}

func TestASelectorStaysWithinReach(t *testing.T) {
	y := newYard(t)
	for _, e := range []gitops.Engine{{ID: "near"}, {ID: "far"}, {ID: "own", Org: "acme"}, {ID: "theirs", Org: "other"}} {
		e.Runtime, e.Labels = "argocd", map[string]string{"tier": "prod"}
		y.engines.by[e.ID] = e
	}
	y.workspace("acme", "near", "shop")
	o := shopOrder()
	o.To = gitops.To{Namespace: "shop", Selector: map[string]string{"tier": "prod"}}
	d, _, err := y.s.Create(anna, o)
	y.must(err)
	y.work(time.Minute)
	if got := y.children(d.ID); len(got) != 2 || got["near"].ID == "" || got["own"].ID == "" {
		t.Errorf("it went to %v", got)
	}
	// What is taken from a workspace later takes nothing away that is there.
	y.workspace("acme", "near", "elsewhere")
	y.work(time.Minute)
	if got := y.children(d.ID); len(got) != 2 || len(y.body("near", got["near"].ID).Namespaces) != 1 || y.body("near", got["near"].ID).Namespaces[0] != "elsewhere" {
		t.Errorf("out of reach: %v", got)
	}
}

// What an operator deploys anywhere is no way for tenants to go there, too.
func TestOperatorsAreKeptApart(t *testing.T) {
	y := newYard(t)
	w := y.workspace("acme", "hub", "shop")
	for who, c := range map[string]struct {
		ctx       context.Context
		namespace string
		project   string
	}{
		"mine":   {anna, "shop", w.ID},
		"theirs": {chief, "kube-system", w.ID + "-operators"},
		"ours":   {chief, "shop", w.ID},
	} {
		o := shopOrder()
		o.Name, o.Workspace, o.To.Namespace = who, w.ID, c.namespace
		d, _, err := y.s.Create(c.ctx, o)
		y.must(err)
		y.work(time.Second)
		if b := y.body("hub", d.ID); b.Workspace != c.project || len(b.Namespaces) != 1 || b.Namespaces[0] != c.namespace {
			t.Errorf("%s: in %s, with %v", who, b.Workspace, b.Namespaces)
		}
	}
}

func TestAChangeOfManyEndsWithTheLastOfThem(t *testing.T) {
	y := newYard(t)
	for _, id := range []string{"eu-1", "eu-2"} {
		y.engines.by[id] = gitops.Engine{ID: id, Runtime: "argocd", Labels: map[string]string{"region": "eu"}}
	}
	y.workspace("acme", "hub", "shop")
	_, err := y.s.PutWorkspace(chief, gitops.WorkspaceOrder{Org: "acme", Reach: []gitops.Reach{{Cluster: "*", Namespaces: []string{"shop"}}}})
	y.must(err)
	o := shopOrder()
	o.To = gitops.To{Namespace: "shop", Selector: map[string]string{"region": "eu"}}
	d, _, err := y.s.Create(anna, o)
	y.must(err)
	done := func(clusters ...string) {
		y.work(time.Minute)
		for _, cluster := range clusters {
			y.report(cluster, y.children(d.ID)[cluster].ID, runtime.Ready, fine("c1"))
		}
		y.work(time.Minute)
	}
	done("eu-1", "eu-2")
	revision := "v2"
	_, op, err := y.s.Update(anna, d.ID, gitops.Change{Revision: &revision})
	y.must(err)
	done("eu-1")
	if phase, why := y.operation(op); phase != operation.Running {
		t.Fatalf("eu-2 has not said a word, and the operation is %s %s", phase, why)
	}
	done("eu-2")
	if phase, why := y.operation(op); phase != operation.Succeeded {
		t.Errorf("the operation is %s %s", phase, why)
	}
}

// A namespace that is out of reach is no cluster that is missing; of clusters that
// the workspace has no part of nothing is told.
func TestASelectorOutOfReach(t *testing.T) {
	for _, c := range []struct {
		reason, namespace, region, says, phase string
	}{
		{"another namespace of the same cluster", "kube-system", "eu", "this workspace may not deploy into namespace kube-system of the clusters that fit the selector: ask your operator, or name another", gitops.Failed},
		{"a cluster that is others'", "shop", "us", "no cluster fits the selector", gitops.Pending},
		{"no cluster at all", "shop", "mars", "no cluster fits the selector", gitops.Pending},
	} {
		y := newYard(t)
		y.engines.by["eu-1"] = gitops.Engine{ID: "eu-1", Runtime: "argocd", Labels: map[string]string{"region": "eu"}}
		y.engines.by["us-1"] = gitops.Engine{ID: "us-1", Runtime: "argocd", Labels: map[string]string{"region": "us"}}
		y.workspace("acme", "eu-1", "shop")
		o := shopOrder()
		o.To = gitops.To{Namespace: c.namespace, Selector: map[string]string{"region": c.region}}
		d, _, err := y.s.Create(anna, o)
		y.must(err)
		y.work(time.Second)
		if got := y.get(d.ID); got.Status.Error != c.says || got.Phase != c.phase || len(y.children(d.ID)) > 0 {
			t.Errorf("%s: %s, %q", c.reason, got.Phase, got.Status.Error)
		}
	}
}
