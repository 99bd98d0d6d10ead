//go:build e2e

package kubernetes_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/executor/executortest"
	kubernetes "github.com/droverhq/drover/internal/executor/kubernetes"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/manifest"
	cluster "github.com/droverhq/drover/test/kubernetes"
)

type object = map[string]any

func configMap(name string, value any) object {
	return object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"name": name}, "data": object{"k": value}}
}

func secret(name, kind string) object {
	return object{"apiVersion": "v1", "kind": "Secret", "metadata": object{"name": name}, "type": kind, "stringData": object{"s": "x"}}
}

// world is a namespace, and the hands of somebody who knows nothing of Drover.
type world struct {
	kube client.Client
	ns   string
	conn executor.Connection
}

func newWorld(t testing.TB) world {
	t.Helper()
	kubeconfig := cluster.Shared(t).Kubeconfig()
	c, err := manifest.Open(manifest.Config{Kubeconfig: kubeconfig, Manager: "somebody"})
	if err != nil {
		t.Fatal(err)
	}
	w := world{kube: c.Kube(), ns: fmt.Sprintf("x-%x", time.Now().UnixNano()), conn: executor.Connection{"kubeconfig": string(kubeconfig)}}
	ns := &unstructured.Unstructured{Object: object{"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": w.ns}}}
	if err := w.kube.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.kube.Delete(context.Background(), ns) })
	return w
}

func (w world) get(t testing.TB, version, kind, name string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{Object: object{"apiVersion": version, "kind": kind}}
	err := w.kube.Get(context.Background(), client.ObjectKey{Namespace: w.ns, Name: name}, u)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// look shows what is in the namespace, but what Kubernetes puts there itself.
func (w world) look(t testing.TB) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, kind := range []string{"ConfigMap", "Secret"} {
		all := &unstructured.UnstructuredList{Object: object{"apiVersion": "v1", "kind": kind + "List"}}
		if err := w.kube.List(context.Background(), all, client.InNamespace(w.ns)); err != nil {
			t.Fatal(err)
		}
		for _, o := range all.Items {
			if o.GetName() != "kube-root-ca.crt" {
				out[kind+" "+o.GetName()] = fmt.Sprint(o.Object["type"], o.Object["data"], o.GetLabels())
			}
		}
	}
	return out
}

// network is one that can be taken away.
type network struct {
	mu   sync.Mutex
	down bool
	hang bool
	left int // writes that come through; below zero: all
	lost bool
}

var errAway = &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("away")}

func (n *network) wrap(next http.RoundTripper) http.RoundTripper {
	return trip(func(r *http.Request) (*http.Response, error) {
		writes := r.Method != http.MethodGet && r.URL.Query().Get("dryRun") == ""
		n.mu.Lock()
		down, hang := n.down || n.lost, n.hang
		last := false
		if writes && !down && n.left >= 0 {
			n.left--
			last = n.left <= 0
			n.lost = last
		}
		n.mu.Unlock()
		switch {
		case hang:
			<-r.Context().Done()
			return nil, r.Context().Err()
		case down:
			return nil, errAway
		}
		res, err := next.RoundTrip(r)
		if last && err == nil {
			res.Body.Close()
			return nil, errAway
		}
		return res, err
	})
}

type trip func(*http.Request) (*http.Response, error)

func (f trip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (n *network) set(change func()) func() {
	n.mu.Lock()
	defer n.mu.Unlock()
	change()
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.down, n.hang, n.lost, n.left = false, false, false, -1
	}
}

func TestContract(t *testing.T) {
	w, n := newWorld(t), &network{left: -1}
	name := func(n int) string { return fmt.Sprint("thing-", n) }
	edits := 0
	must := func(t testing.TB, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	executortest.Run(t, executortest.Config{
		Executor: kubernetes.New(kubernetes.Config{Wrap: n.wrap}), Connection: w.conn, Crowd: 20, Lives: 30,
		Inputs: func(n int, s executortest.Shape) map[string]any {
			var value any = "one"
			kind := "Opaque"
			switch s {
			case executortest.Changed:
				value = "two"
			case executortest.Moved:
				kind = "example.org/other"
			case executortest.Later:
				value = executor.Unknown{}
			case executortest.Veiled:
				value = executor.NewSecret(executortest.Canary)
			}
			return map[string]any{"namespace": w.ns, "manifests": []any{configMap(name(n), value), secret(name(n), kind)}}
		},
		Look: w.look,
		Take: func(t testing.TB, n int) {
			o := configMap(name(n), "theirs")
			o["metadata"].(object)["namespace"] = w.ns
			must(t, w.kube.Create(context.Background(), &unstructured.Unstructured{Object: o}))
		},
		Edit: func(t testing.TB, n int) {
			edits++
			u := w.get(t, "v1", "ConfigMap", name(n))
			u.Object["data"] = object{"k": fmt.Sprint("edit ", edits)}
			must(t, w.kube.Update(context.Background(), u))
		},
		Delete: func(t testing.TB, n int) {
			for _, kind := range []string{"ConfigMap", "Secret"} {
				if u := w.get(t, "v1", kind, name(n)); u != nil {
					must(t, w.kube.Delete(context.Background(), u))
				}
			}
		},
		Down: func(testing.TB) func() { return n.set(func() { n.down = true }) },
		Hang: func(testing.TB) func() { return n.set(func() { n.hang = true }) },
		Cut:  func(_ testing.TB, writes int) func() { return n.set(func() { n.left = writes }) },
	})
}

// caller keeps what an executor is given from call to call.
type caller struct {
	executor.Resource
	log bytes.Buffer
}

func (w world) resource(id string, in map[string]any) *caller {
	c := &caller{}
	c.Resource = executor.Resource{ID: id, Address: "web", Environment: "demo", Connection: w.conn, Inputs: in, Log: &c.log}
	c.Save = func(_ context.Context, s []byte) error { c.State = s; return nil }
	return c
}

func deployment(name string) object {
	return object{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": object{"name": name}, "spec": object{
		"replicas": 1, "selector": object{"matchLabels": object{"app": name}},
		"template": object{"metadata": object{"labels": object{"app": name}}, "spec": object{"containers": []any{object{"name": "web", "image": "web:1"}}}}}}
}

// What has no namespace yet can be planned, and comes with it; what is not ready is
// waited for; what is no longer named goes, and all of it at the end.
func TestLife(t *testing.T) {
	w, x := newWorld(t), kubernetes.New(kubernetes.Config{})
	inner := w.ns + "-inner"
	c := w.resource("res-life", map[string]any{"namespace": inner, "ready": "objects.exists(o, o.kind == 'Deployment' && o.status.readyReplicas == 1)",
		"manifests": []any{deployment("web"), configMap("old", "1"), object{"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": inner}}}})
	plan, err := x.Plan(t.Context(), c.Resource)
	if err != nil || plan.Action != executor.Create || len(plan.Fields) != 3 {
		t.Fatalf("%+v, %v", plan, err)
	}
	c.Mark = plan.Mark
	res, err := x.Apply(t.Context(), c.Resource)
	if err != nil || res.Done || res.Message == "" {
		t.Fatalf("it is not ready, and the result is %+v, %v", res, err)
	}
	c.Mark = ""
	inside := world{kube: w.kube, ns: inner}
	d := inside.get(t, "apps/v1", "Deployment", "web")
	d.Object["status"] = object{"replicas": 1, "readyReplicas": 1, "updatedReplicas": 1, "availableReplicas": 1, "observedGeneration": d.GetGeneration()}
	if err := w.kube.Status().Update(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	if res, err = x.Apply(t.Context(), c.Resource); err != nil || !res.Done {
		t.Fatalf("%+v, %v", res, err)
	}
	status, _ := res.Outputs["status"].(map[string]any)["Deployment "+inner+"/web"].(map[string]any)
	if fmt.Sprint(status["readyReplicas"]) != "1" || !slices.Contains(res.Made, "ConfigMap "+inner+"/old") {
		t.Errorf("%+v", res)
	}
	c.Inputs["manifests"] = slices.Delete(slices.Clone(c.Inputs["manifests"].([]any)), 1, 2)
	if plan, err = x.Plan(t.Context(), c.Resource); err != nil || plan.Action != executor.Update || plan.Fields[0].Path != "ConfigMap "+inner+"/old" {
		t.Errorf("%+v, %v", plan, err)
	}
	if res, err = x.Apply(t.Context(), c.Resource); err != nil || !res.Done || inside.get(t, "v1", "ConfigMap", "old") != nil {
		t.Errorf("what is no longer named is still there: %+v, %v", res, err)
	}
	for end := time.Now().Add(4 * time.Minute); ; {
		if res, err = x.Destroy(t.Context(), c.Resource); err != nil {
			t.Fatal(err)
		}
		if res.Done {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("it is not gone: %s", res.Message)
		}
		time.Sleep(100 * time.Millisecond)
	}
	if len(c.State) > 0 || inside.get(t, "apps/v1", "Deployment", "web") != nil {
		t.Error("something is left")
	}
}

// Whoever changed it is named, and what only Kubernetes reports is no change.
func TestDrift(t *testing.T) {
	w, x := newWorld(t), kubernetes.New(kubernetes.Config{})
	c := w.resource("res-drift", map[string]any{"namespace": w.ns, "ready": "true", "manifests": []any{deployment("web")}})
	if res, err := x.Apply(t.Context(), c.Resource); err != nil || !res.Done {
		t.Fatalf("%+v, %v", res, err)
	}
	before, err := x.Observe(t.Context(), c.Resource)
	if err != nil || !before.Exists || len(before.Drift) > 0 {
		t.Fatalf("%+v, %v", before, err)
	}
	d := w.get(t, "apps/v1", "Deployment", "web")
	d.Object["status"] = object{"replicas": 1}
	if err := w.kube.Status().Update(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	if o, err := x.Observe(t.Context(), c.Resource); err != nil || len(o.Drift) > 0 || o.Mark != before.Mark {
		t.Errorf("a status: %+v, %v", o, err)
	}
	d = w.get(t, "apps/v1", "Deployment", "web")
	_ = unstructured.SetNestedField(d.Object, int64(5), "spec", "replicas")
	if err := w.kube.Update(t.Context(), d, client.FieldOwner("kubectl-edit")); err != nil {
		t.Fatal(err)
	}
	o, err := x.Observe(t.Context(), c.Resource)
	want := executor.Field{Path: "Deployment " + w.ns + "/web spec.replicas", Before: int64(1), After: int64(5)}
	if err != nil || len(o.Drift) != 1 || o.Drift[0] != want || o.By != "kubectl-edit" || o.Mark == before.Mark {
		t.Errorf("%+v, %v", o, err)
	}
}

func TestRefuses(t *testing.T) {
	w, x := newWorld(t), kubernetes.New(kubernetes.Config{})
	cases := []struct {
		reason string
		in     map[string]any
		kind   fault.Kind
		says   string
	}{
		{"no such kind", map[string]any{"manifests": []any{object{"apiVersion": "example.org/v1", "kind": "Toy", "metadata": object{"name": "x"}}}}, fault.Invalid, "does not know the kind"},
		{"no name", map[string]any{"manifests": []any{object{"apiVersion": "v1", "kind": "ConfigMap"}}}, fault.Invalid, "metadata.name"},
		{"a secret name", map[string]any{"manifests": []any{object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"name": executor.NewSecret("x")}}}}, fault.Invalid, "secret"},
		{"a wrong type", map[string]any{"namespace": w.ns, "manifests": []any{configMap("x", int64(5))}}, fault.Invalid, ""},
		{"no CEL", map[string]any{"ready": "objects.", "manifests": []any{configMap("x", "1")}}, fault.Invalid, "ready"},
		{"no namespace", map[string]any{"namespace": w.ns + "-none", "manifests": []any{configMap("x", "1")}}, fault.Unavailable, "is not there"},
	}
	for _, c := range cases {
		_, err := x.Plan(t.Context(), w.resource("res-bad", c.in).Resource)
		if !fault.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v (%v)", c.reason, err, fault.Of(err))
		}
	}
	r := w.resource("res-bad", map[string]any{"manifests": []any{configMap("x", "1")}}).Resource
	r.Connection = executor.Connection{"kubeconfg": "x"}
	if _, err := x.Plan(t.Context(), r); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "kubeconfg") {
		t.Errorf("a misspelt option: %v", err)
	}
}
