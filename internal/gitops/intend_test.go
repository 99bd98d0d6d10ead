package gitops_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
	"github.com/droverhq/drover/internal/runtime"
)

func TestIntentsThatAreRefused(t *testing.T) {
	known := func(y *yard) { y.apply(y.intent("uid-1", 3)) }
	for _, c := range []struct {
		reason string
		before func(y *yard)
		in     func(in *gitops.DeploymentIntent)
		kind   fault.Kind
		why    string
	}{
		{"a namespace that is not there has no tenants", nil, func(in *gitops.DeploymentIntent) { in.Namespace.Missing = true }, fault.NotFound, "namespace"},
		{"nothing new comes from a namespace on its way out", nil, func(in *gitops.DeploymentIntent) { in.Namespace.Terminating = true }, fault.Conflict, "terminating"},
		{"what is gone and was never known is nothing", nil, func(in *gitops.DeploymentIntent) { in.Gone = true }, fault.NotFound, "unknown"},
		{"an older generation says nothing new", known, func(in *gitops.DeploymentIntent) { in.Generation = 2 }, fault.Conflict, "stale"},
		{"a UID that was deleted does not come back", func(y *yard) {
			known(y)
			in := y.intent("uid-1", 3)
			in.Gone = true
			y.apply(in)
		}, func(in *gitops.DeploymentIntent) { in.Generation = 4 }, fault.Conflict, "stale"},
		{"a UID of another API is somebody else's", known, func(in *gitops.DeploymentIntent) { in.Generation, in.Namespace.Home = 4, "elsewhere" }, fault.Conflict, "stranger"},
		{"nor may another API tell its end", known, func(in *gitops.DeploymentIntent) { in.Gone, in.Namespace.Home = true, "elsewhere" }, fault.Conflict, "stranger"},
		{"an intent without a UID is none", nil, func(in *gitops.DeploymentIntent) { in.UID = "" }, fault.Invalid, "uid"},
		{"an operator may close a workspace", func(y *yard) {
			known(y)
			y.close(true)
		}, func(in *gitops.DeploymentIntent) { in.UID, in.Name = "uid-2", "other" }, fault.Denied, "workspace"},
	} {
		y := newYard(t)
		if c.before != nil {
			c.before(y)
		}
		in := y.intent("uid-1", 3)
		c.in(&in)
		before := y.store.commits
		err := y.s.IntendDeployment(context.Background(), in)
		if !fault.Is(err, c.kind) || fault.Reason(err) != c.why {
			t.Errorf("%s: %v (%s)", c.reason, err, fault.Reason(err))
		}
		if y.store.commits != before {
			t.Errorf("%s: it has written", c.reason)
		}
	}
}

// An agent that joins wakes what waits for its cluster, also what nobody has looked
// at yet.
func TestNewOnesAreFoundByTheirCluster(t *testing.T) {
	y := newYard(t)
	y.apply(y.intent("uid-1", 1))
	d, _, err := y.s.Create(chief, gitops.Order{Name: "other", Repository: "https://git.example.org/acme/shop.git", Path: "k8s", To: gitops.To{Cluster: "hub", Namespace: "shop"}})
	y.must(err)
	for _, id := range []string{"uid-1", d.ID} {
		if got := y.get(id).Fields["engine"]; got != "hub" {
			t.Errorf("%s is to be found by %q", id, got)
		}
	}
}

// close makes the workspace that of another API, or the namespace's again.
func (y *yard) close(closed bool) {
	y.t.Helper()
	o, err := y.store.Get(context.Background(), ledger.Ref{Kind: "workspace", ID: "ns-1"})
	y.must(err)
	home := map[bool]string{false: "main", true: "elsewhere"}[closed]
	o.Spec = fmt.Appendf(nil, `{"home":%q,"namespace":"shop","engine":"hub"}`, home)
	_, err = y.store.Commit(context.Background(), ledger.Set{Actor: "chief", Cause: "request:1", Puts: []ledger.Put{{Object: o, Expect: o.Version, Op: "update"}}})
	y.must(err)
}

// Whose namespace is no workspace of theirs reads that in the resource, which is written
// down nowhere.
func TestRefusalsAreTold(t *testing.T) {
	y := newYard(t)
	y.apply(y.intent("uid-1", 1))
	y.work(time.Second)
	before := y.told("uid-1")
	y.close(true)
	in, run := y.intent("uid-2", 1), y.runIntent("r1")
	in.Name = "other"
	y.mirror.there["uid-2"], y.mirror.there["r1"] = true, true
	for range 2 {
		if err := y.s.IntendDeployment(context.Background(), in); !fault.Is(err, fault.Denied) {
			t.Fatal(err)
		}
		if err := y.s.IntendSyncRun(context.Background(), run); !fault.Is(err, fault.Denied) {
			t.Fatal(err)
		}
	}
	const want = `True ErrorOccurred: the workspace ns-1 is not the namespace "shop" of main`
	if got := y.condition("uid-2", "ErrorOccurred"); got != want {
		t.Errorf("the deployment is told %q", got)
	}
	if v := y.runTold("r1"); v.Phase != "Waiting" || len(v.Conditions) != 1 || v.Conditions[0].Status != "True" {
		t.Errorf("the sync run is told %+v", v)
	}
	next := y.intent("uid-1", 2)
	_ = y.s.IntendDeployment(context.Background(), next)
	if diff := cmp.Diff(before, y.told("uid-1")); diff != "" {
		t.Errorf("what runs is told by its own reconciler: %s", diff)
	}
	y.close(false)
	y.apply(in)
	y.work(time.Second)
	if got := y.condition("uid-2", "ErrorOccurred"); got != "" && got != "False ErrorOccurredResolved: " {
		t.Errorf("once it may: %q", got)
	}
}

func TestSpecsThatCannotBeCarriedOut(t *testing.T) {
	for _, c := range []struct {
		reason string
		in     func(in *gitops.DeploymentIntent)
		says   string
	}{
		{"a path is needed", func(in *gitops.DeploymentIntent) { in.Path = "" }, "spec.source.path is a required field and it cannot be empty"},
		{"the root is none", func(in *gitops.DeploymentIntent) { in.Path = "/" }, "spec.source.path cannot be '/'"},
		{"nothing leads out", func(in *gitops.DeploymentIntent) { in.Path = "a/../../b" }, "spec.source.path leads out of the repository"},
		{"nor from the root", func(in *gitops.DeploymentIntent) { in.Path = "/etc" }, "spec.source.path must not begin with '/': it is relative to the repository"},
		{"what cannot be seen is refused", func(in *gitops.DeploymentIntent) { in.Path = "k8s\n" }, "spec.source.path is too long, or holds characters that no directory of a repository has"},
		{"a namespace needs its environment", func(in *gitops.DeploymentIntent) { in.ToNamespace = "x" }, "the environment field should not be empty when the namespace is non-empty"},
		{"an environment needs its namespace", func(in *gitops.DeploymentIntent) { in.Environment = "prod" }, "the namespace specified in the destination field is invalid"},
		{"options are two", func(in *gitops.DeploymentIntent) { in.SyncOptions = []string{"Prune=false"} }, "the specified sync option in .spec.syncPolicy.syncOptions is either mispelled or is not supported by GitOpsDeployment"},
		{"a URL is no option of git", func(in *gitops.DeploymentIntent) { in.Repository = "--upload-pack=x" }, `the repository URL begins with "-"`},
		{"secrets have their own place", func(in *gitops.DeploymentIntent) { in.Repository = "https://a:canary@h/r" }, "the repository URL holds a password: leave it out, and give a repository credential"},
		{"no files of the server", func(in *gitops.DeploymentIntent) { in.Repository = "file:///etc" }, "the repository URL must begin with https://, http:// or ssh://"},
		{"a revision is no option", func(in *gitops.DeploymentIntent) { in.Revision = "--all" }, "the revision is none: name a branch, a tag or a commit"},
	} {
		y := newYard(t)
		in := y.intent("uid-1", 1)
		c.in(&in)
		y.apply(in)
		op := y.get("uid-1").Status.Operation
		y.work(time.Second)
		if got := y.condition("uid-1", "ErrorOccurred"); got != "True ErrorOccurred: "+c.says {
			t.Errorf("%s: told %q", c.reason, got)
		}
		d := y.get("uid-1")
		if len(gitops.DesiredItems(d.Object)) > 0 || d.Phase != gitops.Failed {
			t.Errorf("%s: it is %s, and handed over", c.reason, d.Phase)
		}
		if phase, why := y.operation(op); phase != operation.Failed || why != c.says {
			t.Errorf("%s: its operation is %s, %q", c.reason, phase, why)
		}
		y.apply(y.intent("uid-1", 2))
		y.work(time.Second)
		if got := y.condition("uid-1", "ErrorOccurred"); got != "False ErrorOccurredResolved: " {
			t.Errorf("%s: once it is mended it is told %q", c.reason, got)
		}
	}
}

// What runs is left alone when its resource is changed to what cannot be.
func TestAMistakeTakesNothingAway(t *testing.T) {
	y := newYard(t)
	y.apply(y.intent("uid-1", 1))
	y.work(time.Second)
	y.report("hub", "uid-1", runtime.Ready, fine("c1"))
	y.work(time.Second)
	was, _ := y.item("hub", "uid-1")
	in := y.intent("uid-1", 2)
	in.Environment = "prod"
	y.apply(in)
	y.work(time.Minute)
	if is, ok := y.item("hub", "uid-1"); !ok || is != was {
		t.Errorf("it was %+v, is %+v", was, is)
	}
	if got := y.condition("uid-1", "ErrorOccurred"); !strings.HasSuffix(got, "destination namespace specified in the .spec.Destination.Namespace field is invalid") {
		t.Errorf("told %q", got)
	}
}

// Characters that mean something elsewhere are data here.
func TestNothingIsStripped(t *testing.T) {
	y := newYard(t)
	in := y.intent("uid-1", 1)
	in.Path, in.Revision, in.Type = "k8s/a'b\"c`d;e&f%g", "release/1.x;&%'", "Automated"
	y.apply(in)
	y.work(time.Second)
	if b := y.body("hub", "uid-1"); b.Path != in.Path || b.Revision != in.Revision || !b.Automated {
		t.Errorf("the agent is told %+v", b)
	}
}

// A finalizer of what was never known would stay for ever.
func TestAnUnknownOneIsLetGo(t *testing.T) {
	y := newYard(t)
	in := y.intent("uid-1", 1)
	in.Gone, in.Held = true, true
	if err := y.s.IntendDeployment(context.Background(), in); fault.Reason(err) != "unknown" || !y.mirror.released["uid-1"] {
		t.Errorf("%v, released %v", err, y.mirror.released)
	}
}

// Three replicas see the same events at the same time.
func TestReplicasTellTheSame(t *testing.T) {
	y := newYard(t)
	var all sync.WaitGroup
	fates := make(chan error, 1000)
	for range 3 {
		all.Go(func() {
			for i := range 10 {
				for gen := range 2 {
					in := y.intent(fmt.Sprint("uid-", i), int64(gen+1))
					in.Name, in.Path = fmt.Sprint("web-", i), fmt.Sprint("k8s-", gen)
					fates <- y.s.IntendDeployment(context.Background(), in)
				}
			}
		})
	}
	all.Wait()
	close(fates)
	var bad error
	for err := range fates {
		if err != nil && fault.Reason(err) != "stale" {
			bad = errors.Join(bad, err)
		}
	}
	if bad != nil {
		t.Fatal(bad)
	}
	found, err := y.store.List(context.Background(), ledger.Query{Kind: "operation", Limit: 1000})
	y.must(err)
	if len(found) != 20 {
		t.Errorf("%d operations of 20 changes", len(found))
	}
	for i := range 10 {
		if d := y.get(fmt.Sprint("uid-", i)); d.Spec.Path != "k8s-1" || d.Spec.Origin.Generation != 2 {
			t.Errorf("%s: %+v", d.ID, d.Spec)
		}
	}
	known, err := y.s.KnownOf(context.Background(), "main", "deployment", "", 4)
	y.must(err)
	rest, err := y.s.KnownOf(context.Background(), "main", "deployment", known[3].UID, 100)
	y.must(err)
	want := y.intent("uid-0", 2)
	want.Path = "k8s-1"
	if len(known)+len(rest) != 10 || known[0] != (gitops.Known{Kind: "deployment", UID: "uid-0", Namespace: "shop", Name: "web-0", NamespaceUID: "ns-1", Generation: 2, Asks: want.Asks()}) {
		t.Errorf("known are %v and %v", known, rest)
	}
	if none, err := y.s.KnownOf(context.Background(), "elsewhere", "deployment", "", 4); err != nil || len(none) > 0 {
		t.Errorf("of another home: %v %v", none, err)
	}
}

// What is accepted is one commit: what is wanted, its operation and its due work are there
// together or not at all.
func TestAnAcceptedIntentIsOneCommit(t *testing.T) {
	d := newDesk(t)
	gone := func(in gitops.Intent) gitops.Intent { in.Gone = true; return in }
	web, run := d.manual(), d.runIntent("run")
	cred, env := d.credential("cred", 1, password("reader", "one")), d.environment("env", 1, environmentSecret(withToken("t0k3n")))
	changed, rotated, moved := web, cred, env
	changed.Generation, changed.Path = 2, "other"
	rotated.Secret = password("reader", "two")
	moved.Generation, moved.Insecure = 2, true
	noWeb, noRun, noCred, noEnv := changed, run, rotated, moved
	noWeb.Intent, noRun.Intent, noCred.Intent, noEnv.Intent = gone(changed.Intent), gone(run.Intent), gone(rotated.Intent), gone(moved.Intent)
	for _, c := range []struct {
		reason    string
		of        ledger.Ref
		operation string
		hand      func() error
	}{
		{"a deployment, and the workspace with it", ledger.Ref{Kind: "deployment", ID: "uid-1"}, "create", func() error { return d.s.IntendDeployment(t.Context(), web) }},
		{"a changed deployment", ledger.Ref{Kind: "deployment", ID: "uid-1"}, "update", func() error { return d.s.IntendDeployment(t.Context(), changed) }},
		{"a sync run", ledger.Ref{Kind: "syncrun", ID: "run"}, "sync", func() error { return d.s.IntendSyncRun(t.Context(), run) }},
		{"a credential", ledger.Ref{Kind: "repository", ID: "cred"}, "create", func() error { return d.s.IntendRepository(t.Context(), cred) }},
		{"another Secret of it", ledger.Ref{Kind: "repository", ID: "cred"}, "update", func() error { return d.s.IntendRepository(t.Context(), rotated) }},
		{"an environment", ledger.Ref{Kind: "target", ID: "env"}, "create", func() error { return d.s.IntendTarget(t.Context(), env) }},
		{"a changed environment", ledger.Ref{Kind: "target", ID: "env"}, "update", func() error { return d.s.IntendTarget(t.Context(), moved) }},
		{"no more environment", ledger.Ref{Kind: "target", ID: "env"}, "delete", func() error { return d.s.IntendTarget(t.Context(), noEnv) }},
		{"no more credential", ledger.Ref{Kind: "repository", ID: "cred"}, "delete", func() error { return d.s.IntendRepository(t.Context(), noCred) }},
		{"no more sync run", ledger.Ref{Kind: "syncrun", ID: "run"}, "sync", func() error { return d.s.IntendSyncRun(t.Context(), noRun) }},
		{"no more deployment", ledger.Ref{Kind: "deployment", ID: "uid-1"}, "delete", func() error { return d.s.IntendDeployment(t.Context(), noWeb) }},
	} {
		commits, before := d.store.calls, d.store.commits
		d.must(c.hand())
		if calls, made := d.store.calls-commits, d.store.commits-before; calls != 1 || made != 1 {
			t.Errorf("%s: %d commits, of which %d wrote", c.reason, calls, made)
		}
		if o, ok := d.operationsAbout(c.of.ID)[c.operation]; !ok || o.Phase != operation.Running {
			t.Errorf("%s: its operation is %q", c.reason, o.Phase)
		}
		again := d.store.commits
		if d.must(c.hand()); d.store.commits != again {
			t.Errorf("%s: told again it was written again", c.reason)
		}
	}
}
