package gitops_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/runtime"
)

func shopOrder() gitops.Order {
	return gitops.Order{Name: "web", Repository: "https://git.example.org/acme/shop", Path: "k8s", Revision: "main", To: gitops.To{Cluster: "hub", Namespace: "shop"}}
}

func TestOrdersThatAreRefused(t *testing.T) {
	for _, c := range []struct {
		reason string
		who    context.Context
		order  func(o *gitops.Order)
		kind   fault.Kind
		why    string
	}{
		{"a name is a label", anna, func(o *gitops.Order) { o.Name = "Web Shop" }, fault.Invalid, "name"},
		{"nobody is nobody", context.Background(), func(*gitops.Order) {}, fault.Denied, "denied"},
		{"a path is needed", anna, func(o *gitops.Order) { o.Path = "" }, fault.Invalid, "spec"},
		{"nothing leads out", anna, func(o *gitops.Order) { o.Path = "../x" }, fault.Invalid, "spec"},
		{"a repository is needed", anna, func(o *gitops.Order) { o.Repository = "" }, fault.Invalid, "spec"},
		{"options are two", anna, func(o *gitops.Order) { o.SyncOptions = []string{"Force=true"} }, fault.Invalid, "spec"},
		{"a namespace is needed", anna, func(o *gitops.Order) { o.To.Namespace = "" }, fault.Invalid, "namespace"},
		{"one destination is enough", anna, func(o *gitops.Order) { o.To.Selector = map[string]string{"region": "eu"} }, fault.Invalid, "to"},
		{"a label has a value", anna, func(o *gitops.Order) { o.To = gitops.To{Namespace: "shop", Selector: map[string]string{"region": ""}} }, fault.Invalid, "to"},
		{"a cluster must be there", anna, func(o *gitops.Order) { o.To.Cluster = "nowhere" }, fault.NotFound, "cluster"},
		{"others' clusters are not told apart from none", anna, func(o *gitops.Order) { o.To.Cluster = "theirs" }, fault.NotFound, "cluster"},
		{"a namespace must be in reach", anna, func(o *gitops.Order) { o.To.Namespace = "elsewhere" }, fault.Denied, "reach"},
		{"a pattern is no leave for what Kubernetes runs in", anna, func(o *gitops.Order) { o.To.Namespace = "kube-system" }, fault.Denied, "reach"},
		{"and the cluster too", anna, func(o *gitops.Order) { o.To.Cluster = "far" }, fault.Denied, "reach"},
		{"an organisation that reaches nothing deploys nowhere", carl, func(*gitops.Order) {}, fault.Denied, "reach"},
		{"a target must be the workspace's", anna, func(o *gitops.Order) { o.To = gitops.To{Target: "prod", Namespace: "x"} }, fault.NotFound, "target"},
		{"a workspace must be the caller's", carl, func(o *gitops.Order) { o.Workspace = "WS" }, fault.NotFound, "workspace"},
		{"a taken name is taken", anna, func(o *gitops.Order) { o.Name = "taken" }, fault.Conflict, "name-taken"},
	} {
		y := newYard(t)
		w := y.workspace("acme", "hub", "shop", "team-*", "kube-*")
		y.engines.by["far"] = gitops.Engine{ID: "far", Runtime: "argocd"}
		y.engines.by["theirs"] = gitops.Engine{ID: "theirs", Runtime: "argocd", Org: "other"}
		first := shopOrder()
		first.Name, first.To.Namespace = "taken", "team-a"
		_, _, err := y.s.Create(anna, first)
		y.must(err)
		o := shopOrder()
		c.order(&o)
		if o.Workspace == "WS" {
			o.Workspace = w.ID
		}
		before := y.store.commits
		_, _, err = y.s.Create(c.who, o)
		if !fault.Is(err, c.kind) || fault.Reason(err) != c.why {
			t.Errorf("%s: %v (%s)", c.reason, err, fault.Reason(err))
		}
		if y.store.commits != before {
			t.Errorf("%s: it has written", c.reason)
		}
	}
}

func TestWhereOrdersMayGo(t *testing.T) {
	y := newYard(t)
	y.workspace("acme", "hub", "shop")
	y.engines.by["own"] = gitops.Engine{ID: "own", Runtime: "argocd", Org: "acme"}
	y.engines.by["far"] = gitops.Engine{ID: "far", Runtime: "argocd"}
	for i, c := range []struct {
		reason string
		who    context.Context
		to     gitops.To
	}{
		{"within reach", anna, gitops.To{Cluster: "hub", Namespace: "shop"}},
		{"the workspace's engine where none is named", anna, gitops.To{Namespace: "shop"}},
		{"anywhere on their own cluster", anna, gitops.To{Cluster: "own", Namespace: "kube-public"}},
		{"operators anywhere", chief, gitops.To{Cluster: "far", Namespace: "kube-system"}},
	} {
		o := shopOrder()
		o.Name, o.To = fmt.Sprint("web-", i), c.to
		d, op, err := y.s.Create(c.who, o)
		if err != nil || op == "" {
			t.Errorf("%s: %v", c.reason, err)
			continue
		}
		y.work(time.Second)
		d = y.get(d.ID)
		if b := y.body(d.Status.Engine, d.ID); b.Namespace != c.to.Namespace || d.Phase != gitops.Deploying {
			t.Errorf("%s: %s, %+v", c.reason, d.Phase, b)
		}
	}
}

func TestChangesAndWhoMayMakeThem(t *testing.T) {
	y := newYard(t)
	y.workspace("acme", "hub", "shop")
	d, _, err := y.s.Create(anna, shopOrder())
	y.must(err)
	y.work(time.Second)
	bert := access.With(context.Background(), access.Principal{User: "bert", Org: "acme"})
	boss := access.With(context.Background(), access.Principal{User: "boss", Org: "acme", OrgAdmin: true})
	path := "other"
	for _, c := range []struct {
		reason string
		who    context.Context
		kind   fault.Kind
	}{
		{"others do not see it", carl, fault.NotFound},
		{"colleagues see it, and leave it alone", bert, fault.Denied},
	} {
		_, _, err := y.s.Update(c.who, d.ID, gitops.Change{Path: &path})
		_, _, gone := y.s.Delete(c.who, d.ID)
		_, _, back := y.s.Rollback(c.who, d.ID, nil, "")
		for _, err := range []error{err, gone, back, y.s.Refresh(c.who, d.ID)} {
			if !fault.Is(err, c.kind) {
				t.Errorf("%s: %v", c.reason, err)
			}
		}
	}
	before := y.store.commits
	same := "k8s"
	if _, op, err := y.s.Update(anna, "web", gitops.Change{Path: &same}); err != nil || op != "" || y.store.commits != before {
		t.Errorf("the same again is written: %v", err)
	}
	_, op, err := y.s.Update(boss, "web", gitops.Change{Path: &path})
	y.must(err)
	y.work(time.Second)
	if b := y.body("hub", d.ID); b.Path != "other" || b.Operation.ID != op {
		t.Errorf("the agent is told %+v", b)
	}
	bad := gitops.To{Cluster: "hub", Namespace: "kube-system"}
	if _, _, err := y.s.Update(anna, "web", gitops.Change{To: &bad}); fault.Reason(err) != "reach" {
		t.Errorf("a change out of reach: %v", err)
	}
	y.apply(y.intent("uid-1", 1))
	y.work(time.Second)
	for _, err := range []error{
		func() error { _, _, err := y.s.Update(chief, "uid-1", gitops.Change{Path: &path}); return err }(),
		func() error { _, _, err := y.s.Delete(chief, "uid-1"); return err }(),
		func() error { _, _, err := y.s.Rollback(chief, "uid-1", nil, ""); return err }(),
	} {
		if fault.Reason(err) != "custom-resource" {
			t.Errorf("what a custom resource asks for is changed there: %v", err)
		}
	}
	y.must(y.s.Refresh(chief, "uid-1"))
	if _, err := y.s.Get(chief, "web"); fault.Reason(err) != "ambiguous" {
		t.Errorf("two of one name: %v", err)
	}
	_, _, err = y.s.Delete(anna, "web")
	y.must(err)
	y.work(time.Second)
	if it, _ := y.item("hub", d.ID); !it.Delete {
		t.Errorf("it is not to go: %+v", it)
	}
	if _, _, err := y.s.Delete(anna, d.ID); err != nil {
		t.Errorf("once more: %v", err)
	}
	y.report("hub", d.ID, runtime.Deleted, nil)
	y.work(time.Second)
	if _, err := y.s.Get(anna, d.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("it is still to be seen: %v", err)
	}
	q := ledger.Query{Kind: "deployment"}
	y.s.Visible(carl, &q)
	if found, err := y.store.List(context.Background(), q); err != nil || len(found) > 0 {
		t.Errorf("a stranger sees %v, %v", found, err)
	}
}

func TestRollback(t *testing.T) {
	y := newYard(t)
	y.workspace("acme", "hub", "shop")
	d, _, err := y.s.Create(anna, shopOrder())
	y.must(err)
	y.work(time.Second)
	seen := fine("ccccccc3")
	for i, c := range []string{"ccccccc0", "ccccccc1", "ccccccc2", "ccccccc3"} {
		seen.History = append(seen.History, runtime.DeployedRevision{ID: int64(i), Revision: c, Deployed: y.clock.Add(time.Duration(i) * time.Minute),
			Repository: "https://git.example.com/shop.git", Path: "k8s", Asked: "main"})
	}
	seen.History[1].Path, seen.History[0].Repository = "before", "https://git.example.com/old.git"
	y.report("hub", d.ID, runtime.Ready, seen)
	y.work(time.Second)
	nth := func(id int64) *int64 { return &id }
	const now = "https://git.example.com/shop.git"
	for _, c := range []struct {
		reason           string
		id               *int64
		revision         string
		want, path, repo string
	}{
		{"the one before", nil, "", "ccccccc2", "k8s", now},
		{"by its id, from the directory that it was deployed from", nth(1), "", "ccccccc1", "before", now},
		{"the first, from the repository that it was deployed from", nth(0), "", "ccccccc0", "k8s", "https://git.example.com/old.git"},
		{"by its commit", nil, "ccccccc3", "ccccccc3", "k8s", now},
	} {
		got, _, err := y.s.Rollback(anna, "web", c.id, c.revision)
		y.must(err)
		y.work(time.Second)
		b := y.body("hub", d.ID)
		if got.Spec.Revision != c.want || got.Spec.Previous != "main" || b.Revision != c.want || b.Path != c.path || b.Repository != c.repo {
			t.Errorf("%s: %+v, the agent is told %+v", c.reason, got.Spec, b)
		}
	}
	if _, _, err := y.s.Rollback(anna, "web", nth(9), ""); fault.Reason(err) != "revision" {
		t.Errorf("to what never was: %v", err)
	}
	seen.History[1].Path = "../../etc"
	seen.History[1].Deployed = y.clock.Add(time.Hour)
	y.report("hub", d.ID, runtime.Ready, seen)
	y.work(time.Second)
	if _, _, err := y.s.Rollback(anna, "web", nth(1), ""); !fault.Is(err, fault.Invalid) {
		t.Errorf("a path that its cluster made up: %v", err)
	}
}

func TestPushes(t *testing.T) {
	y := newYard(t)
	y.workspace("acme", "hub", "shop")
	d, _, err := y.s.Create(anna, shopOrder())
	y.must(err)
	y.work(time.Second)
	for _, c := range []struct {
		reason string
		org    string
		push   gitops.Push
		want   int
	}{
		{"the branch it follows, by another name of the repository", "acme", gitops.Push{Repositories: []string{"https://GIT.example.org:443/acme/shop.git/"}, Ref: "refs/heads/main"}, 1},
		{"another branch", "acme", gitops.Push{Repositories: []string{"https://git.example.org/acme/shop"}, Ref: "refs/heads/dev"}, 0},
		{"another organisation's webhook", "other", gitops.Push{Repositories: []string{"https://git.example.org/acme/shop"}, Ref: "refs/heads/main"}, 0},
		{"paths have their case", "", gitops.Push{Repositories: []string{"https://git.example.org/Acme/shop"}, Ref: "refs/heads/main"}, 0},
		{"all organisations", "", gitops.Push{Repositories: []string{"git@git.example.org:acme/shop", "https://git.example.org/acme/shop"}}, 1},
	} {
		y.clock = y.clock.Add(time.Minute)
		before := y.get(d.ID).Status.Refresh
		n, err := y.s.Pushed(context.Background(), c.org, c.push)
		y.work(time.Second)
		if err != nil || n != c.want || y.get(d.ID).Status.Refresh != before+int64(c.want) {
			t.Errorf("%s: %d, %v", c.reason, n, err)
		}
	}
	y.clock = y.clock.Add(time.Minute)
	before, commits := y.get(d.ID).Status.Refresh, y.store.calls
	for range 500 {
		_, err := y.s.Pushed(context.Background(), "", gitops.Push{Repositories: []string{"https://git.example.org/acme/shop"}})
		y.must(err)
	}
	if n := y.store.calls - commits; n > 2 {
		t.Errorf("a storm of pushes costs %d commits", n)
	}
	y.work(5 * time.Second)
	if got := y.get(d.ID).Status; got.Refresh != before+2 || got.Pushed || y.body("hub", d.ID).Refresh != fmt.Sprint(before+2) {
		t.Errorf("the last push is not lost, and the others are one: %d after %d", got.Refresh, before)
	}
}
