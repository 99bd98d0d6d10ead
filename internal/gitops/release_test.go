package gitops_test

import (
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/operation"
	"github.com/droverhq/drover/internal/runtime"
)

// lingering is why a removal takes long, as it is told; empty: it is not.
func (y *yard) lingering(id string) string {
	for _, c := range y.get(id).Status.Conditions {
		if c.Type == "DeletionError" && c.Status == "True" {
			return c.Message
		}
	}
	return ""
}

var kept = &runtime.Deployed{Kept: true}

// What is forgotten is removed by an agent only once that has let go of what it has
// deployed: one that does not know how would remove everything.
func TestWhatIsForgottenIsLeftAsItIs(t *testing.T) {
	y := newYard(t)
	y.workspace("acme", "hub", "shop")
	d, _, err := y.s.Create(anna, shopOrder())
	y.must(err)
	y.work(time.Second)
	y.report("hub", d.ID, runtime.Ready, fine("c1"))
	y.work(time.Second)

	_, op, err := y.s.Forget(anna, d.ID)
	y.must(err)
	y.work(time.Second)
	if it, _ := y.item("hub", d.ID); it.Delete || !y.body("hub", d.ID).Kept {
		t.Fatalf("the agent is told %+v, %+v", it, y.body("hub", d.ID))
	}
	y.report("hub", d.ID, runtime.Ready, fine("c1")) // as an older one says
	y.work(time.Minute)
	if it, _ := y.item("hub", d.ID); it.Delete {
		t.Fatal("an agent that has not let go of it is to remove it")
	}
	if c := y.lingering(d.ID); !strings.Contains(c, "has not let go of it") {
		t.Errorf("it is told %s", c)
	}
	y.report("hub", d.ID, runtime.Ready, kept)
	y.work(time.Second)
	if it, _ := y.item("hub", d.ID); !it.Delete {
		t.Fatal("it is never removed")
	}
	y.report("hub", d.ID, runtime.Deleted, nil)
	y.work(time.Second)
	if _, err := y.s.Get(anna, d.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("it is still there: %v", err)
	}
	if phase, why := y.operation(op); phase != operation.Succeeded {
		t.Errorf("the operation is %s: %s", phase, why)
	}
}

// A removal that the agent may not carry out says so, and what to do; the deployment can
// be forgotten then.
func TestARemovalThatTheAgentMayNotCarryOut(t *testing.T) {
	y := newYard(t)
	y.engines.by["bare"] = gitops.Engine{ID: "bare", Runtime: "argocd"}
	y.workspace("acme", "bare", "shop")
	o := shopOrder()
	o.To.Cluster = "bare"
	d, _, err := y.s.Create(anna, o)
	y.must(err)
	y.work(time.Second)
	y.report("bare", d.ID, runtime.Ready, fine("c1"))
	y.work(time.Second)
	_, _, err = y.s.Delete(anna, d.ID)
	y.must(err)
	y.work(time.Second)
	const why = "it cannot be removed yet: the agent may not write ConfigMap shop/a: give its account the right to (delete configmaps)"
	y.tellsOf("bare", d.ID, runtime.Installing, why)
	y.work(time.Minute)
	if c := y.lingering(d.ID); !strings.Contains(c, why) || !strings.Contains(c, "`drover deploy delete web --keep`") {
		t.Errorf("it is told %s", c)
	}
	for range 2 { // saying it again changes nothing
		_, _, err = y.s.Forget(anna, d.ID)
		y.must(err)
		y.work(time.Second)
	}
	if it, _ := y.item("bare", d.ID); it.Delete || !y.body("bare", d.ID).Kept {
		t.Fatalf("the agent is told %+v", it)
	}
	y.report("bare", d.ID, runtime.Ready, kept)
	y.work(time.Second)
	y.report("bare", d.ID, runtime.Deleted, nil)
	y.work(time.Second)
	if _, err := y.s.Get(anna, d.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("it is still there: %v", err)
	}
	if _, _, err := y.s.Forget(anna, "nobody"); !fault.Is(err, fault.NotFound) {
		t.Errorf("nobody: %v", err)
	}
}

// Those that one with a selector has made are forgotten with it.
func TestForgottenOnManyClusters(t *testing.T) {
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
	for cluster, c := range children {
		y.report(cluster, c.ID, runtime.Ready, fine("c1"))
	}
	_, _, err = y.s.Delete(anna, d.ID)
	y.must(err)
	y.work(time.Second)
	_, _, err = y.s.Forget(anna, d.ID)
	y.must(err)
	y.work(time.Second)
	for cluster, c := range children {
		if it, _ := y.item(cluster, c.ID); it.Delete || !y.body(cluster, c.ID).Kept {
			t.Errorf("%s is told %+v", cluster, it)
		}
		y.report(cluster, c.ID, runtime.Ready, kept)
	}
	y.work(time.Second)
	for cluster, c := range children {
		y.report(cluster, c.ID, runtime.Deleted, nil)
	}
	y.work(time.Minute)
	if _, err := y.s.Get(anna, d.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("it is still there: %v", err)
	}
}
