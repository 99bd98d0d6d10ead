package gitops_test

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/runtime"
)

// keep writes a credential or a target as its own reconciler would, and wakes every
// deployment; which of them that reconciler wakes is held by TestDeploymentsFollow....
func (y *yard) keep(kind, id, name string, fields ledger.Fields, spec, status any) {
	y.t.Helper()
	o, err := y.store.Get(context.Background(), ledger.Ref{Kind: kind, ID: id})
	if err != nil {
		o = ledger.Object{Ref: ledger.Ref{Kind: kind, ID: id}, Org: "main/shop", Name: name, Parent: "ns-1", Phase: "ready", Fields: fields}
	}
	o.Spec, _ = json.Marshal(spec)
	o.Status, _ = json.Marshal(status)
	found, err := y.store.List(context.Background(), ledger.Query{Kind: "deployment"})
	y.must(err)
	set := ledger.Set{Actor: "system", Cause: "schedule:test", Puts: []ledger.Put{{Object: o, Expect: o.Version, Op: "update"}}}
	for _, d := range found {
		set.Wakes = append(set.Wakes, ledger.Wake{Ref: d.Ref, Org: d.Org})
	}
	_, err = y.store.Commit(context.Background(), set)
	y.must(err)
}

func (y *yard) seal(text string) string {
	y.t.Helper()
	ref, err := y.store.Seal(context.Background(), []byte(text))
	y.must(err)
	return ref
}

func (y *yard) repository(password string) {
	y.t.Helper()
	spec := gitops.RepositorySpec{URL: "https://git.example.org/acme/shop", Username: "bot", Password: y.seal(password)}
	y.keep("repository", "cred-1", "shop", ledger.Fields{"workspace": "ns-1", "url": "https://git.example.org/acme/shop"}, spec, gitops.RepositoryStatus{Valid: true, Good: &spec})
}

func (y *yard) target(token string, change func(s *gitops.TargetSpec, st *gitops.TargetStatus)) {
	y.t.Helper()
	spec := gitops.TargetSpec{URL: "https://prod:6443", Namespaces: []string{"live"}}
	status := gitops.TargetStatus{Ready: true, Access: &gitops.Access{Server: "https://prod:6443", Token: y.seal(token), Namespaces: spec.Namespaces}}
	if change != nil {
		change(&spec, &status)
	}
	y.keep("target", "target-1", "prod", ledger.Fields{"workspace": "ns-1", "url": "https://prod:6443"}, spec, status)
}

// Secrets travel to the agent alone, and another secret is told to it.
func TestSecretsReachTheAgentAlone(t *testing.T) {
	y := newYard(t)
	in := y.intent("uid-1", 1)
	in.Environment, in.ToNamespace = "prod", "live"
	y.apply(in)
	y.work(time.Second)
	if got := y.condition("uid-1", "ErrorOccurred"); got != "True ErrorOccurred: Unable to reconcile the ManagedEnvironment. Verify that the ManagedEnvironment and Secret are correctly defined, and have valid credentials" {
		t.Fatalf("without its target: %q", got)
	}
	if got := y.get("uid-1").Status.Error; !strings.Contains(got, "there is no managed environment prod") {
		t.Errorf("to operators: %q", got)
	}
	y.repository("canary-1")
	y.target("canary-2", nil)
	y.work(time.Second)
	b := y.body("hub", "uid-1")
	if b.Credential == nil || b.Credential.Password != "canary-1" || b.Target == nil || b.Target.Token != "canary-2" || b.Target.Name != "prod" {
		t.Fatalf("the agent is told %+v %+v", b.Credential, b.Target)
	}
	was, _ := y.item("hub", "uid-1")
	y.repository("canary-3")
	y.work(time.Second)
	if is, _ := y.item("hub", "uid-1"); is.Generation != was.Generation+1 || is.Digest == was.Digest || y.body("hub", "uid-1").Credential.Password != "canary-3" {
		t.Fatalf("after another secret came: %+v, before %+v", is, was)
	}
	if d := y.get("uid-1"); d.Fields["credential"] != "cred-1" || d.Fields["target"] != "target-1" {
		t.Errorf("it is not found by what it uses: %v", d.Fields)
	}
	// A tenant's text that looks like a reference is text.
	in.Generation, in.Path = 2, "secret:abc"
	y.apply(in)
	y.work(time.Second)
	if b := y.body("hub", "uid-1"); b.Path != "secret:abc" {
		t.Errorf("a path became %q", b.Path)
	}
	changes, err := y.store.Changes(context.Background(), ledger.ChangeQuery{Limit: 10_000})
	y.must(err)
	for _, c := range changes {
		raw, _ := json.Marshal(c)
		if bytes.Contains(raw, []byte("canary-")) {
			t.Errorf("the log shows a secret of %s", c.Object.Ref)
		}
		var s gitops.Status
		if json.Unmarshal(c.Object.Status, &s) == nil && s.Desired != "" {
			blob, err := y.store.Blob(context.Background(), s.Desired)
			if err != nil || bytes.Contains(blob, []byte("canary-")) {
				t.Errorf("a body is kept with its secrets, %v", err)
			}
		}
	}
}

func TestTargetsComeAndGo(t *testing.T) {
	y := newYard(t)
	in := y.intent("uid-1", 1)
	in.Environment, in.ToNamespace = "prod", "live"
	y.apply(in)
	y.target("t", func(_ *gitops.TargetSpec, st *gitops.TargetStatus) {
		st.Access, st.Condition = nil, &gitops.Condition{Message: "no route"}
	})
	y.work(time.Second)
	if d := y.get("uid-1"); d.Phase != gitops.Pending || !strings.HasSuffix(d.Status.Error, "no route") {
		t.Errorf("one that cannot be reached: %s %q", d.Phase, d.Status.Error)
	}
	y.target("t", func(_ *gitops.TargetSpec, st *gitops.TargetStatus) { st.Access.Namespaces = []string{"other"} })
	y.work(time.Second)
	if d := y.get("uid-1"); d.Phase != gitops.Failed || !strings.Contains(d.Status.Error, "does not include the namespace live") {
		t.Errorf("another namespace: %s %q", d.Phase, d.Status.Error)
	}
	y.target("t", nil)
	y.work(time.Second)
	y.report("hub", "uid-1", runtime.Ready, fine("c1"))
	y.work(time.Second)
	y.target("t", func(s *gitops.TargetSpec, _ *gitops.TargetStatus) { s.Deleted = true })
	y.work(time.Second)
	it, ok := y.item("hub", "uid-1")
	if b := y.body("hub", "uid-1"); !ok || it.Delete || !b.Detached || b.Target != nil {
		t.Errorf("its target is gone: %+v %+v", it, b)
	}
	y.report("hub", "uid-1", runtime.Ready, fine("c1"))
	y.work(time.Second)
	if got := y.condition("uid-1", "ErrorOccurred"); !strings.HasPrefix(got, "True ErrorOccurred: there is no managed environment prod any more") || y.get("uid-1").Phase != gitops.Failed {
		t.Errorf("its target is gone: %q, %s", got, y.get("uid-1").Phase)
	}
	y.target("t", nil)
	y.work(time.Second)
	if b := y.body("hub", "uid-1"); b.Detached || b.Target == nil {
		t.Errorf("its target is back: %+v", b)
	}
	if got := y.condition("uid-1", "ErrorOccurred"); got != "False ErrorOccurredResolved: " {
		t.Errorf("its target is back: %q", got)
	}
}

// That a cluster cannot be seen removes nothing; that it is being removed does.
func TestEnginesComeAndGo(t *testing.T) {
	y := newYard(t)
	delete(y.engines.by, "hub")
	y.apply(y.intent("uid-1", 1))
	y.work(time.Second)
	if d := y.get("uid-1"); d.Phase != gitops.Pending || d.Status.Error == "" {
		t.Errorf("without its engine: %s %q", d.Phase, d.Status.Error)
	}
	y.engines.by["hub"] = gitops.Engine{ID: "hub"}
	y.work(time.Minute)
	if d := y.get("uid-1"); !strings.HasPrefix(d.Status.Error, "waiting for the agent of cluster hub") || !strings.Contains(d.Status.Error, "drover cluster join hub") {
		t.Errorf("without an agent: %q", d.Status.Error)
	}
	y.engines.by["hub"] = gitops.Engine{ID: "hub", Runtime: "process"}
	y.work(time.Minute)
	if d := y.get("uid-1"); d.Phase != gitops.Failed {
		t.Errorf("on a runtime that cannot: %s", d.Phase)
	}
	hub := gitops.Engine{ID: "hub", Runtime: "argocd"}
	y.engines.by["hub"] = hub
	y.work(time.Hour)
	y.report("hub", "uid-1", runtime.Ready, fine("c1"))
	y.work(time.Second)
	was, ok := y.item("hub", "uid-1")
	if !ok {
		t.Fatal("it was not handed over")
	}
	y.engines.away = true
	y.must(y.s.Resync(context.Background(), "deployment", "uid-1"))
	y.work(time.Minute)
	y.engines.away = false
	delete(y.engines.by, "hub")
	y.must(y.s.Resync(context.Background(), "deployment", "uid-1"))
	y.work(time.Minute)
	if is, _ := y.item("hub", "uid-1"); is != was {
		t.Errorf("while its cluster was not to be seen it became %+v", is)
	}
	hub.Leaving = true
	y.engines.by["hub"] = hub
	y.work(time.Minute)
	if is, _ := y.item("hub", "uid-1"); is.Delete || is.Generation != was.Generation {
		t.Errorf("its cluster is being removed, and what was deployed there by name goes with it: %+v", is)
	}
	hub.Leaving = false
	y.engines.by["hub"] = hub
	y.work(time.Minute)
	if is, ok := y.item("hub", "uid-1"); !ok || is.Delete || is.Generation != was.Generation {
		t.Errorf("its cluster stays after all: %+v", is)
	}
	delete(y.engines.by, "hub")
	in := y.intent("uid-1", 1)
	in.Gone = true
	y.apply(in)
	y.work(10 * time.Second)
	if d := y.get("uid-1"); !d.Object.Deleted.IsZero() {
		t.Error("it is forgotten at once, and its cluster may be back")
	}
	y.work(5 * time.Minute)
	if d := y.get("uid-1"); d.Object.Deleted.IsZero() {
		t.Error("it waits for ever for a cluster that is gone")
	}
}

func TestMovesFromOneEngineToAnother(t *testing.T) {
	y := newYard(t)
	y.engines.by["spoke"] = gitops.Engine{ID: "spoke", Runtime: "argocd"}
	y.workspace("acme", "hub", "shop")
	d, _, err := y.s.Create(chief, gitops.Order{Name: "web", Workspace: "acme", Repository: "https://h/r", Path: "k8s", To: gitops.To{Cluster: "hub", Namespace: "shop"}})
	y.must(err)
	y.work(time.Second)
	y.report("hub", d.ID, runtime.Ready, fine("c1"))
	y.work(time.Second)
	to := gitops.To{Cluster: "spoke", Namespace: "shop"}
	_, _, err = y.s.Update(chief, d.ID, gitops.Change{To: &to})
	y.must(err)
	y.work(time.Second)
	old, _ := y.item("hub", d.ID)
	is, ok := y.item("spoke", d.ID)
	if !old.Delete || !ok || is.Delete || is.Generation <= 1 {
		t.Fatalf("it moves: %+v and %+v", old, is)
	}
	if _, _, err := y.s.Body(context.Background(), y.get(d.ID).Object, "hub"); err != nil {
		t.Errorf("the body of what is to go: %v", err)
	}
	out, err := y.s.Observe(context.Background(), "elsewhere", []gitops.Observation{{ID: d.ID, State: "ready"}, {ID: "nobody", State: "ready"}, {ID: d.ID, State: "odd"}})
	if err != nil || len(out.Refused) != 3 || len(out.Strangers) != 2 {
		t.Errorf("of strangers: %+v %v", out, err)
	}
	y.report("hub", d.ID, runtime.Deleted, nil)
	y.report("spoke", d.ID, runtime.Ready, fine("c1"))
	y.work(time.Second)
	if d := y.get(d.ID); d.Status.Leaving != nil || d.Phase != gitops.Deployed || len(gitops.DesiredItems(d.Object)) != 1 {
		t.Errorf("it has moved: %s %+v", d.Phase, d.Status.Leaving)
	}
	y.operationsEnded()
}

// What is too large to stand with the deployment is kept aside, and shown whole.
func TestManyResourcesAreShown(t *testing.T) {
	y := newYard(t)
	y.apply(y.intent("uid-1", 1))
	y.work(time.Second)
	seen := fine("c1")
	for range 2000 {
		seen.Resources = append(seen.Resources, runtime.DeployedResource{Kind: "ConfigMap", Namespace: "shop", Name: strings.Repeat("x", 60), Status: "Synced"})
	}
	y.report("hub", "uid-1", runtime.Ready, seen)
	y.work(time.Second)
	if v := y.told("uid-1"); len(v.Resources) != 2000 || v.Sync.Status != "Synced" {
		t.Errorf("%d resources are told", len(v.Resources))
	}
	if d := y.get("uid-1"); len(d.Object.Status) > 64<<10 {
		t.Errorf("the deployment has %d bytes", len(d.Object.Status))
	}
}

// What an agent cannot have seen is refused, and what it saw before is no news.
func TestWordsOfAgentsThatMakeNoSense(t *testing.T) {
	y := newYard(t)
	y.apply(y.intent("uid-1", 1))
	y.work(time.Second)
	in := y.intent("uid-1", 2)
	in.Path = "other"
	y.apply(in)
	y.work(time.Second)
	y.report("hub", "uid-1", runtime.Ready, fine("c2"))
	before := y.store.commits
	for reason, o := range map[string]gitops.Observation{
		"a generation that never was": {Generation: 3, State: "ready"},
		"one before the first":        {Generation: -1, State: "ready"},
		"a state that there is not":   {Generation: 2, State: "fine"},
		"what cannot be read":         {Generation: 2, State: "ready", Detail: []byte("{")},
		"what is too large":           {Generation: 2, State: "ready", Detail: bytes.Repeat([]byte(" "), 9<<20)},
	} {
		o.ID = "uid-1"
		out, err := y.s.Observe(context.Background(), "hub", []gitops.Observation{o})
		if err != nil || len(out.Refused) != 1 || len(out.Strangers) > 0 {
			t.Errorf("%s: %+v %v", reason, out, err)
		}
	}
	out, err := y.s.Observe(context.Background(), "hub", []gitops.Observation{{ID: "uid-1", Generation: 1, State: "error"}})
	if err != nil || len(out.Known) != 1 || y.store.commits != before || y.get("uid-1").Phase != gitops.Deployed {
		t.Errorf("a late word of an older generation: %+v %v", out, err)
	}
}

// A namespace that is given another engine takes everything along, though none of
// its resources has changed.
func TestANamespaceOfAnotherEngine(t *testing.T) {
	y := newYard(t)
	y.engines.by["spoke"] = gitops.Engine{ID: "spoke", Runtime: "argocd"}
	y.apply(y.intent("uid-1", 1))
	other := y.intent("uid-2", 1)
	other.Name = "other"
	y.apply(other)
	y.work(time.Second)
	in := y.intent("uid-1", 1)
	in.Namespace.Engine = "spoke"
	y.apply(in)
	y.work(time.Second)
	for _, id := range []string{"uid-1", "uid-2"} {
		old, _ := y.item("hub", id)
		if is, ok := y.item("spoke", id); !ok || is.Delete || !old.Delete {
			t.Errorf("%s: %+v and %+v", id, old, is)
		}
	}
}

func TestMovesOnFromAClusterThatIsGone(t *testing.T) {
	y := newYard(t)
	for _, id := range []string{"one", "two", "three"} {
		y.engines.by[id] = gitops.Engine{ID: id, Runtime: "argocd"}
	}
	y.workspace("acme", "hub", "shop")
	d, _, err := y.s.Create(chief, gitops.Order{Name: "web", Workspace: "acme", Repository: "https://h/r", Path: "k8s", To: gitops.To{Cluster: "one", Namespace: "shop"}})
	y.must(err)
	for _, next := range []string{"two", "three"} {
		y.work(time.Second)
		y.report(y.get(d.ID).Status.Engine, d.ID, runtime.Ready, fine("c1"))
		y.work(time.Second)
		_, _, err = y.s.Update(chief, d.ID, gitops.Change{To: &gitops.To{Cluster: next, Namespace: "shop"}})
		y.must(err)
		y.work(time.Second)
		delete(y.engines.by, "one") // before it has removed what it had
	}
	y.work(5 * time.Minute)
	if is, ok := y.item("three", d.ID); !ok || is.Delete || y.get(d.ID).Status.Error != "" {
		t.Errorf("it is on %s: %q", y.get(d.ID).Status.Engine, y.get(d.ID).Status.Error)
	}
	if was, ok := y.item("two", d.ID); !ok || !was.Delete {
		t.Errorf("what the second has of it stays: %+v", was)
	}
}
