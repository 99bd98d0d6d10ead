//go:build e2e

package argocd_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/argocd"
	"github.com/droverhq/drover/internal/runtime/kubernetes"
	testargo "github.com/droverhq/drover/test/argocd"
	"github.com/droverhq/drover/test/gitserver"
)

// leaseTime outlasts a machine that stands still for a while: who is done gives a lease back.
const leaseTime = 30 * time.Second

// replica is an agent's runtime with another one beside it, both with a lease.
func replica(t *testing.T, namespace, identity string) *argocd.Runtime {
	t.Helper()
	a := testargo.Shared(t)
	beside, err := kubernetes.New(kubernetes.Config{Kubeconfig: a.Cluster.Kubeconfig(), Namespace: namespace, Home: namespace, Capacity: 10, Lease: "agent", LeaseTime: leaseTime, Identity: identity})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(beside.Close)
	rt, err := argocd.New(argocd.Config{Kubeconfig: a.Cluster.Kubeconfig(), Namespace: namespace, ArgoCD: a.Namespace, Lease: "agent-argocd", LeaseTime: leaseTime, Identity: identity}, beside)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(rt.Close)
	rt.Told(nil)
	return rt
}

// One agent has deployments and everything else, and one replica of it works.
func TestBeside(t *testing.T) {
	a, git, home := testargo.Shared(t), gitserver.Start(t), system(t)
	repo, ns := git.Repo(t, "shop"), a.Cluster.Namespace(t)
	first := repo.Commit(t, "main", map[string]gitserver.Entry{"k8s/a.yaml": configMap("a", "1")})
	d := deployment(repo.URL, ns)
	d.Automated = true
	step := runtime.Item{ID: "step", Kind: "step", Generation: 1, Token: 1,
		Body: json.RawMessage(`{"manifests":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"step"},"data":{"value":"7"}}]}`)}
	done := errors.New("done")

	one, two := replica(t, home, "one"), replica(t, home, "two")
	err := one.Lead(t.Context(), func(ctx context.Context) error {
		if err := two.Apply(ctx, item(1, d)); !fault.Is(err, fault.Unavailable) {
			t.Errorf("the other replica takes items: %v", err)
		}
		apply(t, one, item(1, d))
		apply(t, one, step)
		await(t, one, d, "synced", synced(first))
		awaitStep(t, one, runtime.Ready)
		facts, err := one.Facts(ctx)
		if err != nil || facts.Kind != "argocd" || facts.Unready != "" || facts.Capacity != 10 {
			t.Errorf("facts: %+v, %v", facts, err)
		}
		return done
	})
	if err != done {
		t.Fatal(err)
	}
	err = two.Lead(t.Context(), func(context.Context) error {
		await(t, two, d, "known", func(o runtime.Observed, d runtime.Deployed) bool { return o.State == runtime.Ready })
		apply(t, two, gone(2, d))
		apply(t, two, runtime.Item{ID: "step", Kind: "step", Generation: 2, Token: 2, Delete: true})
		await(t, two, d, "gone", removed)
		awaitStep(t, two, runtime.Deleted)
		return done
	})
	if err != done {
		t.Fatal(err)
	}
}

// An agent carried deployments out itself, and has an Argo CD from now on: what there
// is of them is Argo CD's, and each is told once.
func TestAfterAnotherRuntime(t *testing.T) {
	a, git, home := testargo.Shared(t), gitserver.Start(t), system(t)
	repo, ns := git.Repo(t, "shop"), a.Cluster.Namespace(t)
	first := repo.Commit(t, "main", map[string]gitserver.Entry{"k8s/a.yaml": configMap("a", "2")})
	plain, err := kubernetes.New(kubernetes.Config{Kubeconfig: a.Cluster.Kubeconfig(), Namespace: home, Capacity: 10})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(plain.Close)
	stays, goes := deployment(repo.URL, ns), deployment(repo.URL, ns)
	stays.Automated = true
	for _, d := range []runtime.Deployment{stays, goes} {
		name := map[string]string{stays.UID: "a", goes.UID: "b"}[d.UID]
		it := item(1, d)
		it.Body = json.RawMessage(fmt.Sprintf(`{"metadata":{"namespace":%q},"deployment":{"uid":%q,"namespace":%q},"manifests":[
			{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"namespace":%q},"data":{"value":"1"}}]}`, ns, d.UID, ns, name, ns))
		apply(t, plain, it)
		await(t, plain, d, "ready", func(o runtime.Observed, _ runtime.Deployed) bool { return o.State == runtime.Ready })
	}
	plain.Close()

	beside, err := kubernetes.New(kubernetes.Config{Kubeconfig: a.Cluster.Kubeconfig(), Namespace: home, Capacity: 10})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(beside.Close)
	rt, err := argocd.New(argocd.Config{Kubeconfig: a.Cluster.Kubeconfig(), Namespace: home, ArgoCD: a.Namespace}, beside)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(rt.Close)
	rt.Told(nil)
	apply(t, rt, item(2, stays))
	apply(t, rt, gone(2, goes))
	await(t, rt, goes, "gone", removed)
	await(t, rt, stays, "synced", synced(first))
	if v, w := value(t, ns, "a"), value(t, ns, "b"); v != "2" || w != "none" {
		t.Errorf("what stays is %q, what goes is %q", v, w)
	}
	all, err := rt.Observe(t.Context())
	times := map[string]int{}
	for _, o := range all {
		times[o.ID]++
	}
	if err != nil || len(times) != 2 || times["deployment/"+stays.UID] != 1 {
		t.Errorf("told: %v, %v", times, err)
	}
	if held, err := beside.Holds(t.Context(), "deployment/"+stays.UID); err != nil || held {
		t.Errorf("the other runtime holds it: %v, %v", held, err)
	}
	apply(t, rt, gone(3, stays))
	await(t, rt, stays, "gone", removed)
	if v := value(t, ns, "a"); v != "none" {
		t.Errorf("what is left: %q", v)
	}
}

func awaitStep(t *testing.T, rt runtime.Runtime, state runtime.State) {
	t.Helper()
	limit := time.After(4 * time.Minute)
	for {
		all, err := rt.Observe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range all {
			if o.ID == "step" && o.Kind == "step" && o.State == state {
				return
			}
		}
		select {
		case <-rt.Changed():
		case <-limit:
			t.Fatalf("the step is never %s: %+v", state, all)
		}
	}
}

// Without an Argo CD deployments say so, and the agent too.
func TestNoArgoCD(t *testing.T) {
	rt := open(t, system(t), func(c *argocd.Config) { c.ArgoCD = "there-is-none" })
	d := deployment("https://git.example.com/shop", "shop")
	apply(t, rt, item(1, d))
	await(t, rt, d, "refused", func(o runtime.Observed, _ runtime.Deployed) bool {
		return o.State == runtime.Error && o.Message != ""
	})
	apply(t, rt, gone(2, d))
	await(t, rt, d, "gone", removed)
}
