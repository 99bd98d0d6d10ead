package gitops_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/runtime"
)

// What is let go of is told without secrets, which may be gone by then, and without
// anything to do: an agent that does not know the word would follow Git, or make again
// what it was removing.
func TestWhatIsToldOfOneThatIsForgotten(t *testing.T) {
	for _, c := range []struct {
		reason, kind, raw, want string
		detached                bool
	}{
		{"on the engine's own cluster", "argocd",
			`{"uid":"u","name":"web","workspace":"w","repository":"r","path":"p","namespace":"shop","credential":{"id":"c","password":"sealed"},"automated":true,"refresh":"2","sync":{"id":"s"}}`,
			`{"uid":"u","name":"web","workspace":"w","repository":"r","path":"p","namespace":"shop","kept":true,"automated":false,"refresh":"2"}`, false},
		{"on a target, without which it would be for the engine's own cluster", "argocd",
			`{"uid":"u","name":"web","workspace":"w","repository":"r","path":"p","namespace":"shop","target":{"id":"t","name":"prod","server":"s","token":"sealed"},"automated":true}`,
			`{"uid":"u","name":"web","workspace":"w","repository":"r","path":"p","namespace":"shop","detached":true,"kept":true,"automated":false}`, true},
		{"its target is gone already", "argocd",
			`{"uid":"u","name":"web","workspace":"w","repository":"r","path":"p","namespace":"shop","detached":true,"automated":false}`,
			`{"uid":"u","name":"web","workspace":"w","repository":"r","path":"p","namespace":"shop","detached":true,"kept":true,"automated":false}`, true},
		{"without Argo CD the manifests stay, and are applied by nobody", "kubernetes",
			`{"metadata":{"namespace":"shop"},"deployment":{"uid":"u","repository":"r","path":"p","commit":"c","namespace":"shop","run":"s","prune":true},"manifests":[{"data":{"n":1},"kind":"ConfigMap"}]}`,
			`{"metadata":{"namespace":"shop"},"deployment":{"uid":"u","repository":"r","path":"p","commit":"c","kept":true,"namespace":"shop","manual":true},"manifests":[{"data":{"n":1},"kind":"ConfigMap"}]}`, false},
	} {
		got, detached, err := gitops.Released(c.kind, []byte(c.raw))
		if err != nil {
			t.Fatalf("%s: %v", c.reason, err)
		}
		var a, b any
		if err := json.Unmarshal(got, &a); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(c.want), &b); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(b, a); diff != "" || detached != c.detached {
			t.Errorf("%s: detached %v, %s", c.reason, detached, diff)
		}
	}
}

// The target of one that is forgotten may be gone, with its token: the agent is told
// nevertheless, and nothing waits for anybody then.
func TestForgottenAfterItsTarget(t *testing.T) {
	y := newYard(t)
	y.apply(y.away(1))
	y.target("t", nil)
	y.work(time.Hour)
	y.report("hub", "uid-1", runtime.Ready, fine("c1"))
	y.work(time.Second)
	gone := y.away(1)
	gone.Gone = true
	y.apply(gone)
	y.work(time.Second)
	_, _, err := y.s.Forget(chief, "uid-1")
	y.must(err)
	y.target("t", func(s *gitops.TargetSpec, st *gitops.TargetStatus) { s.Deleted, st.Access = true, nil })
	y.must(y.s.Resync(context.Background(), "deployment", "uid-1"))
	y.work(time.Hour)
	it, _ := y.item("hub", "uid-1")
	if b := y.body("hub", "uid-1"); it.Delete || !b.Kept || !b.Detached || b.Target != nil || b.Credential != nil || b.Automated {
		t.Fatalf("the agent is told %+v %+v", it, b)
	}
	y.report("hub", "uid-1", runtime.Ready, kept)
	y.work(time.Second)
	if it, _ := y.item("hub", "uid-1"); !it.Delete {
		t.Fatal("it is never removed")
	}
	y.report("hub", "uid-1", runtime.Deleted, nil)
	y.work(time.Second)
	if d := y.get("uid-1"); d.Object.Deleted.IsZero() {
		t.Errorf("it is still %s", d.Phase)
	}
}

// Whoever says again that it is to be deleted, as scripts do, does not have removed what
// was to stay: neither before nor after the agent has let go of it.
func TestWhatIsKeptStays(t *testing.T) {
	y := newYard(t)
	y.workspace("acme", "hub", "shop")
	d, _, err := y.s.Create(anna, shopOrder())
	y.must(err)
	y.work(time.Second)
	_, _, err = y.s.Forget(anna, d.ID)
	y.must(err)
	again := func() {
		t.Helper()
		y.work(time.Second)
		_, _, err = y.s.Delete(anna, d.ID)
		y.must(err)
		if !y.get(d.ID).Spec.Keep {
			t.Error("it is said to be removed with what was deployed")
		}
	}
	again()
	if it, _ := y.item("hub", d.ID); it.Delete {
		t.Error("the agent is to remove it")
	}
	y.report("hub", d.ID, runtime.Ready, kept)
	again()
}

// Those that one with a selector has made are left as it is; one of them alone may be
// forgotten before.
func TestForgottenOneByOne(t *testing.T) {
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
	children := y.children(d.ID)
	told := func(want map[string]bool) {
		t.Helper()
		y.must(y.s.Resync(context.Background(), "deployment", d.ID))
		y.work(time.Second)
		for cluster, c := range children {
			if it, _ := y.item(cluster, c.ID); it.Delete != want[cluster] {
				t.Errorf("%s is to remove it: %v", cluster, it.Delete)
			}
		}
	}
	_, _, err = y.s.Delete(anna, d.ID)
	y.must(err)
	y.work(time.Second)
	_, _, err = y.s.Forget(anna, children["eu-2"].ID)
	y.must(err)
	told(map[string]bool{"eu-1": true})
	_, _, err = y.s.Forget(anna, d.ID)
	y.must(err)
	told(nil)
}

// What a move has left behind on another cluster is removed there, whatever is left.
func TestForgottenWhileItMoves(t *testing.T) {
	y := newYard(t)
	y.engines.by["new"] = gitops.Engine{ID: "new", Runtime: "argocd"}
	_, err := y.s.PutWorkspace(chief, gitops.WorkspaceOrder{Org: "acme", Reach: []gitops.Reach{{Cluster: "*", Namespaces: []string{"shop"}}}})
	y.must(err)
	d, _, err := y.s.Create(anna, shopOrder())
	y.must(err)
	y.work(time.Second)
	y.report("hub", d.ID, runtime.Ready, fine("c1"))
	to := gitops.To{Cluster: "new", Namespace: "shop"}
	_, _, err = y.s.Update(anna, d.ID, gitops.Change{To: &to})
	y.must(err)
	y.work(time.Second)
	_, _, err = y.s.Forget(anna, d.ID)
	y.must(err)
	y.work(time.Second)
	y.report("new", d.ID, runtime.Ready, kept)
	y.work(time.Second)
	y.report("new", d.ID, runtime.Deleted, nil)
	y.work(time.Minute)
	if it, ok := y.item("hub", d.ID); !ok || !it.Delete {
		t.Fatalf("the cluster before is told %+v", it)
	}
	y.report("hub", d.ID, runtime.Deleted, nil)
	y.work(time.Minute)
	if _, err := y.s.Get(anna, d.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("it is still there: %v", err)
	}
}
