package gitops_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/source"
)

const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: one\ndata:\n  n: \"1\"\n"

// plain is a yard whose engine has no Argo CD.
func plain(t *testing.T) *yard {
	y := newYard(t)
	y.engines.by["hub"] = gitops.Engine{ID: "hub", Runtime: "kubernetes"}
	y.hub.heads["main"] = "c1"
	y.hub.files["c1"] = map[string]string{"one.yaml": configMap, "two.json": `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"two","namespace":"shop"}}`, "README.md": "hello", "sub/x.yaml": "not: [looked at"}
	return y
}

type handed struct {
	Metadata   struct{ Namespace string }
	Deployment struct {
		Commit, Run   string
		Manual, Prune bool
		Retries       int64
		NoNamespace   bool `json:"no_namespace"`
	}
	Manifests []struct {
		Kind     string
		Metadata struct{ Name, Namespace string }
	}
}

func (y *yard) handed(id string) (out handed) {
	y.t.Helper()
	raw, filled, err := y.s.Body(context.Background(), y.get(id).Object, "hub")
	y.must(err)
	if filled {
		y.t.Error("there were secrets in it")
	}
	y.must(json.Unmarshal(raw, &out))
	return out
}

func (h handed) names() string {
	var out []string
	for _, m := range h.Manifests {
		out = append(out, m.Metadata.Namespace+"/"+m.Metadata.Name)
	}
	return strings.Join(out, " ")
}

func TestWithoutArgoCD(t *testing.T) {
	y := plain(t)
	y.apply(y.intent("uid-1", 1))
	y.work(time.Second)
	h := y.handed("uid-1")
	if h.names() != "shop/one shop/two" || h.Metadata.Namespace != "shop" {
		t.Fatalf("the agent is told %+v", h)
	}
	y.report("hub", "uid-1", runtime.Ready, nil)
	y.work(time.Second)
	v := y.told("uid-1")
	if v.Sync.Status != "Synced" || v.Sync.Revision != "c1" || v.Health.Status != "Healthy" || len(v.Resources) != 2 || y.get("uid-1").Phase != gitops.Deployed {
		t.Fatalf("told %+v", v)
	}
	commits, reads := y.store.commits, y.hub.reads
	y.work(time.Hour)
	if y.store.commits != commits || y.hub.reads != reads || y.hub.probes < 50 {
		t.Errorf("at rest: %d commits, %d reads, %d probes in all", y.store.commits-commits, y.hub.reads-reads, y.hub.probes)
	}
	was, _ := y.item("hub", "uid-1")
	y.hub.err = fault.New(fault.Unavailable, "the Git server is away")
	y.work(5 * time.Minute)
	if is, _ := y.item("hub", "uid-1"); is != was || y.condition("uid-1", "ComparisonError") != "True ComparisonError: the Git server is away" {
		t.Errorf("while Git is away: %+v, %q", is, y.condition("uid-1", "ComparisonError"))
	}
	y.hub.err = nil
	y.hub.heads["main"] = "c2"
	y.hub.files["c2"] = map[string]string{"one.yaml": configMap}
	y.work(2 * time.Minute)
	if h := y.handed("uid-1"); h.names() != "shop/one" || y.condition("uid-1", "ComparisonError") != "False ComparisonErrorResolved: " {
		t.Errorf("after a push: %+v, %q", h, y.condition("uid-1", "ComparisonError"))
	}
	y.hub.heads["main"] = "c3"
	y.hub.files["c3"] = map[string]string{"one.yaml": configMap + "---\n" + strings.Replace(configMap, "one", "three", 1)}
	y.must(y.s.Refresh(chief, "uid-1"))
	y.work(5 * time.Second)
	if h := y.handed("uid-1"); h.names() != "shop/one shop/three" {
		t.Errorf("after a refresh: %+v", h)
	}
	y.report("hub", "uid-1", runtime.Ready, nil)
	in := y.intent("uid-1", 1)
	in.Gone = true
	y.apply(in)
	y.work(time.Second)
	y.report("hub", "uid-1", runtime.Deleted, nil)
	y.work(time.Second)
	if y.get("uid-1").Object.Deleted.IsZero() {
		t.Error("it is left")
	}
	y.operationsEnded()
}

// seenAt is what an agent without Argo CD says of a manual deployment.
func seenAt(sync, commit string) *runtime.Deployed {
	return &runtime.Deployed{Sync: runtime.SyncStatus{Status: sync, Revision: commit}, Health: runtime.HealthStatus{Status: "Healthy"}, Resources: []runtime.DeployedResource{{Kind: "ConfigMap", Name: "one"}}}
}

func TestManualWithoutArgoCD(t *testing.T) {
	y := plain(t)
	y.apply(y.manual())
	y.work(time.Second)
	told := func(reason, names, commit, run string, prune bool) {
		t.Helper()
		h := y.handed("uid-1")
		if d := h.Deployment; h.names() != names || !d.Manual || d.Commit != commit || d.Run != run || d.Prune != prune {
			t.Fatalf("%s: the agent is told %+v", reason, h)
		}
	}
	told("nobody has asked for it", "shop/one shop/two", "c1", "", false)
	y.report("hub", "uid-1", runtime.Ready, seenAt("OutOfSync", "c1"))
	y.work(time.Second)
	if d := y.get("uid-1"); d.Phase != gitops.OutOfSync || len(d.Status.History) != 0 {
		t.Errorf("before the first sync: %s, %+v", d.Phase, d.Status.History)
	}
	run := y.runIntent("r1")
	run.Revision = ""
	y.ask(run)
	y.work(time.Second)
	told("a run", "shop/one shop/two", "c1", "r1", false)
	y.report("hub", "uid-1", runtime.Ready, seenAt("Synced", "c1"))
	y.work(time.Second)
	if v := y.runTold("r1"); v.Phase != "Succeeded" || v.Run.Revision != "c1" {
		t.Fatalf("the run: %+v", v)
	}
	told("it is over", "shop/one shop/two", "c1", "", false)
	if d := y.get("uid-1"); d.Phase != gitops.Deployed || len(d.Status.History) != 1 {
		t.Errorf("while the agent compares: %s, %+v", d.Phase, d.Status.History)
	}
	y.report("hub", "uid-1", runtime.Ready, seenAt("Synced", "c1"))
	y.work(time.Second)
	if v := y.told("uid-1"); v.Sync != (runtime.SyncStatus{Status: "Synced", Revision: "c1"}) || len(v.Resources) != 1 {
		t.Errorf("in the runtime's words: %+v", v)
	}
	commits := y.store.commits
	y.work(time.Hour)
	if y.store.commits != commits {
		t.Errorf("%d commits at rest", y.store.commits-commits)
	}
	y.hub.heads["main"], y.hub.heads["v2"] = "c2", "c2"
	y.hub.files["c2"] = map[string]string{"one.yaml": configMap}
	y.work(5 * time.Minute)
	told("Git has something else", "shop/one", "c2", "", false)
	y.report("hub", "uid-1", runtime.Ready, seenAt("OutOfSync", "c2"))
	if d := y.get("uid-1"); d.Phase != gitops.OutOfSync || len(d.Status.History) != 1 {
		t.Errorf("Git has something else: %s, %+v", d.Phase, d.Status.History)
	}
	run = y.runIntent("r2")
	run.Revision = "v2"
	y.ask(run)
	y.work(time.Second)
	told("without prune", "shop/one", "c2", "r2", false)
	y.report("hub", "uid-1", runtime.Ready, seenAt("OutOfSync", "c2"))
	y.work(time.Second)
	if v := y.runTold("r2"); v.Phase != "Succeeded" || y.get("uid-1").Phase != gitops.OutOfSync {
		t.Errorf("with something left behind: %+v, %s", v, y.get("uid-1").Phase)
	}
	run = y.runIntent("r3")
	run.Revision, run.Prune = "v2", true
	y.ask(run)
	y.work(time.Second)
	told("with prune", "shop/one", "c2", "r3", true)
	y.report("hub", "uid-1", runtime.Error, nil)
	y.work(time.Second)
	if v := y.runTold("r3"); v.Phase != "Failed" {
		t.Errorf("the agent cannot: %+v", v)
	}
	told("one that failed is not tried again", "shop/one", "c2", "", false)
}

// One that asks for what there is not is over, and does not hold up the next; nor
// does one that is ended while nobody can be asked.
// A sync run looks at the repository itself: what was read a moment before is not the
// newest any more.
func TestASyncRunBringsTheNewestCommit(t *testing.T) {
	y := plain(t)
	y.apply(y.manual())
	y.work(time.Second)
	y.report("hub", "uid-1", runtime.Ready, seenAt("OutOfSync", "c1"))
	y.work(time.Second)
	for _, commit := range []string{"c2", "c3"} {
		y.hub.heads["main"] = commit
		y.hub.files[commit] = map[string]string{"one.yaml": configMap}
		run := y.runIntent("r-" + commit)
		run.Revision = ""
		y.ask(run)
		y.work(time.Second)
		if h := y.handed("uid-1"); h.Deployment.Commit != commit || h.Deployment.Run != "r-"+commit {
			t.Fatalf("the agent is told %+v, want %s", h.Deployment, commit)
		}
		y.report("hub", "uid-1", runtime.Ready, seenAt("Synced", commit))
		y.work(time.Second)
		if v := y.runTold("r-" + commit); v.Phase != "Succeeded" || v.Run.Revision != commit {
			t.Fatalf("the run: %+v", v)
		}
	}
}

func TestSyncRunsThatCannotBeRead(t *testing.T) {
	for _, known := range []bool{false, true} {
		y := plain(t)
		y.apply(y.manual())
		y.work(time.Second)
		if known {
			run := y.runIntent("r0")
			run.Revision = ""
			y.ask(run)
			y.work(time.Second)
			y.report("hub", "uid-1", runtime.Ready, nil)
			y.work(time.Second)
		}
		bad := y.runIntent("r1")
		bad.Revision = "nowhere"
		y.ask(bad)
		y.work(2 * time.Second)
		if v := y.runTold("r1"); v.Phase != "Failed" || !strings.Contains(v.Message, "nowhere") {
			t.Fatalf("the run that cannot be read: %+v", v)
		}
		y.hub.err = fault.New(fault.Unavailable, "the Git server is away")
		away := y.runIntent("r2")
		y.ask(away)
		y.work(5 * time.Minute)
		if v := y.runTold("r2"); v.Phase != "Running" {
			t.Fatalf("while Git is away: %+v", v)
		}
		away.Gone = true
		y.ask(away)
		y.work(2 * time.Minute)
		if r := y.syncrun("r2"); r.Object.Deleted.IsZero() {
			t.Fatalf("one that was deleted is %s", r.Phase)
		}
		y.hub.err = nil
		good := y.runIntent("r3")
		good.Revision = ""
		y.ask(good)
		y.work(2 * time.Minute)
		y.report("hub", "uid-1", runtime.Ready, nil)
		y.work(time.Second)
		if v := y.runTold("r3"); v.Phase != "Succeeded" {
			t.Fatalf("the run after them: %+v", v)
		}
		y.operationsEnded()
	}
}

func TestManifestsThatAreRefused(t *testing.T) {
	for _, c := range []struct{ reason, file, text, says string }{
		{"Kustomize needs Argo CD", "kustomization.yaml", "resources: []", "need a cluster with Argo CD"},
		{"Helm too", "Chart.yaml", "name: x", "need a cluster with Argo CD"},
		{"no YAML", "bad.yaml", "a: [", "bad.yaml: it is no YAML"},
		{"no manifest", "values.yaml", "a: 1", "values.yaml: it is no Kubernetes manifest"},
		{"no object", "list.yaml", "- 1", "list.yaml: it holds something else than objects"},
		{"no name", "n.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {}", "n.yaml: a ConfigMap has no name"},
		{"others' namespaces", "n.yaml", strings.Replace(configMap, "name: one", "name: one\n  namespace: kube-system", 1), "which this workspace may not deploy into"},
		{"the whole cluster", "r.yaml", "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: root}", "is for the whole cluster"},
		{"in a list of a list", "l.yaml", "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: List, metadata: {name: x}, items: [{apiVersion: v1, kind: Namespace, metadata: {name: x}}]}", "a list in a list"},
		{"in a list of another kind", "l.yaml", "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: NamespaceList, metadata: {name: x}, items: [{apiVersion: v1, kind: Namespace, metadata: {name: x}}]}", "a list in a list"},
		{"in a list too", "l.yaml", "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Namespace, metadata: {name: x}}", "is for the whole cluster"},
		{"twice", "t.yaml", configMap + "---\n" + configMap, "is in t.yaml already"},
		{"a bomb", "bomb.yaml", bomb(), "bomb.yaml: it is no YAML"},
	} {
		y := plain(t)
		y.hub.files["c1"] = map[string]string{c.file: c.text}
		y.apply(y.intent("uid-1", 1))
		y.work(time.Second)
		d := y.get("uid-1")
		if got := y.condition("uid-1", "ComparisonError"); !strings.Contains(got, c.says) || d.Phase != gitops.Failed || len(gitops.DesiredItems(d.Object)) > 0 {
			t.Errorf("%s: %s, told %q", c.reason, d.Phase, got)
		}
	}
}

// bomb is a document whose aliases are a billion times what is written.
func bomb() string {
	var b strings.Builder
	b.WriteString("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\na0: &a0 [x,x,x,x,x,x,x,x,x,x]\n")
	for i := range 8 {
		from := "a" + string(rune('0'+i))
		b.WriteString("a" + string(rune('0'+i+1)) + ": &a" + string(rune('0'+i+1)) + " [" + strings.TrimSuffix(strings.Repeat("*"+from+",", 10), ",") + "]\n")
	}
	return b.String()
}

func FuzzManifests(f *testing.F) {
	for _, seed := range []string{configMap, configMap + "---\n" + configMap, "a: [", "---\n---\n", `{"kind":"List","apiVersion":"v1","items":[{}]}`, "apiVersion: v1\nkind: Namespace\nmetadata: {name: x}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		objects, err := gitops.ManifestsOf(map[string]source.File{"x.yaml": {Data: data}}, "shop")
		if err != nil {
			if !fault.Is(err, fault.Invalid) {
				t.Errorf("%v is not said to be a mistake of the file", err)
			}
			return
		}
		for _, o := range objects {
			meta, _ := o["metadata"].(map[string]any)
			if meta["namespace"] != "shop" || meta["name"] == "" {
				t.Errorf("%v got out of its namespace", o)
			}
		}
	})
}
