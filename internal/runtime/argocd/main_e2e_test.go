//go:build e2e

package argocd_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/argocd"
	"github.com/droverhq/drover/internal/runtime/runtimetest"
	testargo "github.com/droverhq/drover/test/argocd"
	"github.com/droverhq/drover/test/gitserver"
)

// unique is a name that no other test has.
func unique(prefix string) string { return fmt.Sprintf("%s-%x", prefix, time.Now().UnixNano()) }

type option func(*argocd.Config)

func open(t *testing.T, namespace string, options ...option) *argocd.Runtime {
	t.Helper()
	rt := openUntold(t, namespace, options...)
	rt.Told(nil) // as an agent says that has nothing from before
	return rt
}

func openUntold(t *testing.T, namespace string, options ...option) *argocd.Runtime {
	t.Helper()
	a := testargo.Shared(t)
	cfg := argocd.Config{Kubeconfig: a.Cluster.Kubeconfig(), Namespace: namespace, ArgoCD: a.Namespace, Capacity: 10,
		Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))}
	for _, o := range options {
		o(&cfg)
	}
	rt, err := argocd.New(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(rt.Close)
	return rt
}

// system is a namespace for an agent of the test's own.
func system(t *testing.T) string {
	ns, c := unique("sys"), testargo.Shared(t).Cluster.Client(t)
	t.Cleanup(func() { _ = c.CoreV1().Namespaces().Delete(context.Background(), ns, metav1.DeleteOptions{}) })
	return ns
}

func configMap(name, value string) gitserver.Entry {
	return gitserver.File(fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s\ndata:\n  value: %q\n", name, value))
}

// deployment is one of the repository's directory k8s.
func deployment(repo, namespace string) runtime.Deployment {
	return runtime.Deployment{UID: unique("d"), Name: "shop", Workspace: "ws-" + namespace, Namespaces: []string{namespace},
		Repository: repo, Path: "k8s", Revision: "main", Namespace: namespace}
}

func item(generation int64, d runtime.Deployment) runtime.Item {
	b, _ := json.Marshal(d)
	return runtime.Item{ID: "deployment/" + d.UID, Kind: runtime.KindDeployment, Generation: generation, Token: generation, Body: b}
}

func gone(generation int64, d runtime.Deployment) runtime.Item {
	return runtime.Item{ID: "deployment/" + d.UID, Kind: runtime.KindDeployment, Generation: generation, Token: generation, Delete: true}
}

func apply(t *testing.T, rt runtime.Runtime, it runtime.Item) {
	t.Helper()
	if err := rt.Apply(t.Context(), it); err != nil {
		t.Fatal(err)
	}
}

// deployed is what is seen of a deployment.
func deployed(o runtime.Observed) (d runtime.Deployed) {
	_ = json.Unmarshal(o.Detail, &d)
	return d
}

// await follows Changed until what is seen of the item fits.
func await(t *testing.T, rt runtime.Runtime, d runtime.Deployment, what string, fits func(runtime.Observed, runtime.Deployed) bool) runtime.Deployed {
	t.Helper()
	limit := time.After(4 * time.Minute)
	for {
		all, err := rt.Observe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var last runtime.Observed
		for _, o := range all {
			if o.ID == "deployment/"+d.UID {
				if last = o; fits(o, deployed(o)) {
					return deployed(o)
				}
			}
		}
		select {
		case <-rt.Changed():
		case <-limit:
			t.Fatalf("%s is never %s: %+v\n%s", d.UID, what, last, last.Detail)
		}
	}
}

func synced(commit string) func(runtime.Observed, runtime.Deployed) bool {
	return func(o runtime.Observed, d runtime.Deployed) bool {
		return o.State == runtime.Ready && d.Sync.Status == "Synced" && d.Health.Status == "Healthy" && d.Sync.Revision == commit
	}
}

func removed(o runtime.Observed, _ runtime.Deployed) bool { return o.State == runtime.Deleted }

// value of a ConfigMap; "none": it is not there.
func value(t *testing.T, namespace, name string) string {
	t.Helper()
	m, err := testargo.Shared(t).Cluster.Client(t).CoreV1().ConfigMaps(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "none"
	}
	if err != nil {
		t.Fatal(err)
	}
	return m.Data["value"]
}

// vanishes waits until there is no such ConfigMap: a sync has ended when what it prunes is
// being deleted.
func vanishes(t *testing.T, namespace, name string) {
	t.Helper()
	c, err := dynamic.NewForConfig(testargo.Shared(t).Cluster.Admin())
	if err != nil {
		t.Fatal(err)
	}
	in := c.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(namespace)
	testargo.WaitFor(t, in, name, "gone", func(o *unstructured.Unstructured) bool { return o == nil })
}

func TestConformance(t *testing.T) {
	git := gitserver.Start(t)
	repo := git.Repo(t, "suite")
	repo.Commit(t, "main", map[string]gitserver.Entry{"k8s/a.yaml": configMap("a", "1")})
	homes := map[string]string{}
	var home string
	runtimetest.Run(t, runtimetest.Config{
		Kind: runtime.KindDeployment, Bare: true, Durable: true,
		Open: func(t *testing.T, dir string) (runtime.Runtime, func()) {
			if homes[dir] == "" {
				homes[dir] = system(t)
			}
			home = homes[dir]
			rt := open(t, home)
			return quiet{rt, home}, rt.Close
		},
		Body: func(host, word string, _ bool) json.RawMessage {
			b, _ := json.Marshal(runtime.Deployment{Workspace: home, Namespaces: []string{home},
				Repository: repo.URL, Path: "k8s", Revision: "main", Name: word + host, Namespace: home})
			return b
		},
	})
}

// quiet is a runtime whose deployments are called like their items, and that does
// not tell what Argo CD sees: that moves by itself, and the suite compares.
type quiet struct {
	*argocd.Runtime
	home string
}

func (q quiet) Apply(ctx context.Context, it runtime.Item) error {
	var d runtime.Deployment
	if json.Unmarshal(it.Body, &d) == nil && d.Workspace != "" {
		d.UID = q.home + "-" + it.ID
		it.Body, _ = json.Marshal(d)
	}
	return q.Runtime.Apply(ctx, it)
}

func (q quiet) Observe(ctx context.Context) ([]runtime.Observed, error) {
	all, err := q.Runtime.Observe(ctx)
	for i := range all {
		all[i].Detail = nil
	}
	return all, err
}
