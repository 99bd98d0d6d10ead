//go:build e2e

package kubernetes_test

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/kubernetes"
	testkube "github.com/droverhq/drover/test/kubernetes"
)

func dyn(t *testing.T) dynamic.Interface {
	t.Helper()
	c, err := dynamic.NewForConfig(testkube.Shared(t).Admin())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestNamespaceStuckTerminating(t *testing.T) {
	rt, c := open(t, system(t), func(cfg *kubernetes.Config) { cfg.Workers = 1 }), client(t)
	id, other := unique("stuck"), unique("other")
	ns := "drover-" + id
	apply(t, rt, runtime.Item{ID: id, Generation: 1, Token: 1, Body: manifests(t, configMap("a", "1"))})
	await(t, rt, id, is(1, runtime.Ready))
	held := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "held", Finalizers: []string{"example.com/hold"}}}
	if _, err := c.CoreV1().ConfigMaps(ns).Create(t.Context(), held, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	apply(t, rt, runtime.Item{ID: id, Generation: 2, Token: 1, Delete: true})
	await(t, rt, id, says(runtime.Installing, ns, "stuck"))
	apply(t, rt, runtime.Item{ID: other, Generation: 1, Token: 1, Body: manifests(t, configMap("a", "1"))})
	await(t, rt, other, is(1, runtime.Ready)) // with one worker: nobody waits for the stuck one
	if _, err := c.CoreV1().ConfigMaps(ns).Patch(t.Context(), "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, rt, id, is(2, runtime.Deleted))
}

// What comes back while its namespace is still going waits and says so.
func TestMadeAgainWhileItsNamespaceGoes(t *testing.T) {
	rt, c := open(t, system(t)), client(t)
	id := unique("again")
	ns := "drover-" + id
	apply(t, rt, runtime.Item{ID: id, Generation: 1, Token: 1, Body: manifests(t, configMap("a", "1"))})
	await(t, rt, id, is(1, runtime.Ready))
	held := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "held", Finalizers: []string{"example.com/hold"}}}
	if _, err := c.CoreV1().ConfigMaps(ns).Create(t.Context(), held, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	apply(t, rt, runtime.Item{ID: id, Generation: 2, Token: 2, Delete: true})
	await(t, rt, id, says(runtime.Installing, "stuck"))
	apply(t, rt, runtime.Item{ID: id, Generation: 3, Token: 3, Body: manifests(t, configMap("a", "3"))})
	await(t, rt, id, says(runtime.Installing, ns, "removed"))
	if _, err := c.CoreV1().ConfigMaps(ns).Patch(t.Context(), "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, rt, id, is(3, runtime.Ready))
}

func herds(group string) object {
	return object{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": object{"name": "herds." + group},
		"spec": object{"group": group, "scope": "Namespaced", "names": object{"kind": "Herd", "plural": "herds", "singular": "herd"},
			"versions": []any{object{"name": "v1", "served": true, "storage": true, "subresources": object{"status": object{}},
				"schema": object{"openAPIV3Schema": object{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}}
}

// A bare object whose kind is missing waits for it, and then tells what its
// operator tells.
func TestBareObjectAndItsOperator(t *testing.T) {
	rt, d := open(t, system(t)), dyn(t)
	id, step := unique("herd"), unique("operator")
	group := unique("g") + ".example.com"
	herd := object{"apiVersion": group + "/v1", "kind": "Herd", "metadata": object{"name": "h"}, "spec": object{"heads": 40, "versions": object{"herd": "2"}}}
	apply(t, rt, runtime.Item{ID: id, Generation: 1, Token: 1, Body: body(t, herd)})
	await(t, rt, id, says(runtime.Error, "Herd", "CustomResourceDefinition"))
	apply(t, rt, runtime.Item{ID: step, Kind: "step", Generation: 1, Token: 1, Body: manifests(t, herds(group))})
	if o := await(t, rt, step, is(1, runtime.Ready)); o.Kind != "step" {
		t.Errorf("the step is told as %+v", o)
	}
	await(t, rt, id, says(runtime.Installing, "operator"))
	status := func(s string) {
		t.Helper()
		_, err := d.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: "herds"}).Namespace("drover-"+id).
			Patch(t.Context(), "h", types.MergePatchType, []byte(`{"status":`+s+`}`), metav1.PatchOptions{}, "status")
		if err != nil {
			t.Fatal(err)
		}
	}
	status(`{"conditions":[{"type":"Ready","status":"False","reason":"Installing","message":"buying cows"}]}`)
	await(t, rt, id, says(runtime.Installing, "buying cows"))
	status(`{"conditions":[{"type":"Ready","status":"False","reason":"Error","message":"no hay"}]}`)
	await(t, rt, id, says(runtime.Error, "no hay"))
	status(`{"conditions":[{"type":"Ready","status":"True"}],"versions":{"herd":"2"},"routes":[{"domain":"h.example.com","router":"r.example.com"}]}`)
	o := await(t, rt, id, is(1, runtime.Ready))
	if o.Versions["herd"] != "2" || o.Routes["h.example.com"] != "r.example.com" || len(o.Conditions) != 1 || o.Conditions[0].Status != "True" {
		t.Errorf("told of itself: %+v", o)
	}
	apply(t, rt, runtime.Item{ID: id, Generation: 2, Token: 1, Delete: true})
	await(t, rt, id, is(2, runtime.Deleted))
	apply(t, rt, runtime.Item{ID: step, Kind: "step", Generation: 2, Token: 1, Delete: true})
	await(t, rt, step, is(2, runtime.Deleted))
	crds := d.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	if _, err := crds.Get(t.Context(), "herds."+group, metav1.GetOptions{}); err != nil {
		t.Errorf("the definition went with its step, and so would everybody's herds: %v", err)
	}
	_ = crds.Delete(t.Context(), "herds."+group, metav1.DeleteOptions{})
}

func TestRefusalsAreTold(t *testing.T) {
	sys := system(t)
	rt, c := open(t, sys, func(cfg *kubernetes.Config) { cfg.Home = sys }), client(t)
	if _, err := rt.Observe(t.Context()); err != nil {
		t.Fatal(err)
	}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "q"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/services": *quantity("0")}}}
	if _, err := c.CoreV1().ResourceQuotas(sys).Create(t.Context(), quota, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the quota counts", func() bool {
		_, err := c.CoreV1().Services(sys).Create(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil && strings.Contains(err.Error(), "exceeded quota")
	})
	service := object{"apiVersion": "v1", "kind": "Service", "metadata": object{"name": "s"}, "spec": object{"ports": []object{{"port": 80}}}}
	for _, tc := range []struct {
		reason string
		doc    object
		state  runtime.State
		words  []string
	}{
		{"what does not fit may go elsewhere", object{"manifests": []object{service}}, runtime.Rejected, []string{"quota"}},
		{"a field that there is not", object{"manifests": []object{{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": object{"name": "d"}, "spec": object{"replcas": 1}}}}, runtime.Error, []string{"replcas"}},
		{"no kind at all", object{"manifests": []object{{"metadata": object{"name": "d"}}}}, runtime.Error, []string{"kind"}},
		{"nothing to apply", object{"spec": object{}}, runtime.Error, []string{"manifests"}},
		{"an expression that is none", object{"manifests": []object{configMap("e", "1")}, "ready": "objects.all("}, runtime.Error, []string{"ready"}},
		{"the same object twice", object{"manifests": []object{configMap("e", "1"), configMap("e", "2")}}, runtime.Error, []string{"twice"}},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			id := unique("refused")
			apply(t, rt, runtime.Item{ID: id, Generation: 1, Token: 1, Body: body(t, tc.doc)})
			await(t, rt, id, says(tc.state, tc.words...))
			// What is right mends it.
			apply(t, rt, runtime.Item{ID: id, Generation: 2, Token: 1, Body: manifests(t, configMap(id, "1"))})
			await(t, rt, id, is(2, runtime.Ready))
			// And a mistake leaves what runs as it is.
			apply(t, rt, runtime.Item{ID: id, Generation: 3, Token: 1, Body: body(t, tc.doc)})
			await(t, rt, id, func(o runtime.Observed) bool { return o.Generation == 3 && o.State == runtime.Error && o.Message != "" })
			if _, err := c.CoreV1().ConfigMaps(sys).Get(t.Context(), id, metav1.GetOptions{}); err != nil {
				t.Errorf("what ran before the mistake: %v", err)
			}
		})
	}
}

// While the API server fails nothing that runs is called broken, and everything
// is so when it is back.
func TestServerFailsForAWhile(t *testing.T) {
	for _, tc := range []struct {
		reason string
		answer func(*http.Request) (*http.Response, error)
	}{
		{"429", status(429, "TooManyRequests")},
		{"500", status(500, "InternalError")},
		{"conflicts", status(409, "Conflict")},
		{"every write conflicts", status(409, "Conflict")},
		{"nobody there", func(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF }},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			var bad atomic.Bool
			sys := system(t)
			rt := open(t, sys, func(cfg *kubernetes.Config) {
				cfg.Home = sys
				cfg.Wrap = func(next http.RoundTripper) http.RoundTripper {
					return roundTrip(func(r *http.Request) (*http.Response, error) {
						every := tc.reason == "every write conflicts" && r.Method != http.MethodGet
						if bad.Load() && (r.Method == http.MethodPatch || every || tc.reason == "nobody there") {
							return tc.answer(r)
						}
						return next.RoundTrip(r)
					})
				}
			})
			id, late := unique("before"), unique("during")
			apply(t, rt, runtime.Item{ID: id, Generation: 1, Token: 1, Body: manifests(t, configMap(id, "1"))})
			await(t, rt, id, is(1, runtime.Ready))
			bad.Store(true)
			err := rt.Apply(t.Context(), runtime.Item{ID: late, Generation: 1, Token: 1, Body: manifests(t, configMap(late, "1"))})
			if tc.reason == "every write conflicts" {
				if !fault.Is(err, fault.Unavailable) {
					t.Errorf("what passes by itself is no failure of the item: %v", err)
				}
			} else if tc.reason == "nobody there" {
				if !fault.Is(err, fault.Unavailable) {
					t.Errorf("nothing can be kept: %v", err)
				}
				if f, err := rt.Facts(t.Context()); err != nil || f.Unready == "" {
					t.Errorf("facts: %+v, %v", f, err)
				}
			} else if err != nil {
				t.Fatal(err)
			} else {
				await(t, rt, late, func(o runtime.Observed) bool { return o.Message != "" })
			}
			await(t, rt, id, is(1, runtime.Ready))
			bad.Store(false)
			apply(t, rt, runtime.Item{ID: late, Generation: 1, Token: 1, Body: manifests(t, configMap(late, "1"))})
			await(t, rt, late, is(1, runtime.Ready))
		})
	}
}

func status(code int, reason string) func(*http.Request) (*http.Response, error) {
	return func(r *http.Request) (*http.Response, error) {
		b := `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"` + reason + `","code":` + itoa(code) + `}`
		return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(b)), Request: r}, nil
	}
}

// The newest warning about what is not ready is told with it.
func TestWarningIsTold(t *testing.T) {
	rt, c := open(t, system(t)), client(t)
	id := unique("warned")
	ns := "drover-" + id
	deployment := object{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": object{"name": "web"}, "spec": object{
		"selector": object{"matchLabels": object{"app": "web"}},
		"template": object{"metadata": object{"labels": object{"app": "web"}}, "spec": object{"containers": []object{{"name": "web", "image": "web:1"}}}}}}
	doc := object{"manifests": []object{deployment}, "versions": object{"web": "1"}}
	apply(t, rt, runtime.Item{ID: id, Generation: 1, Token: 1, Body: body(t, doc)})
	await(t, rt, id, says(runtime.Installing, "Deployment"))
	now := metav1.Now()
	_, err := c.CoreV1().Events(ns).Create(t.Context(), &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "e"}, Type: "Warning", Reason: "FailedScheduling",
		Message: "0/3 nodes are available", LastTimestamp: now, InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: ns, Name: "web-1"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	d := dyn(t).Resource(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}).Namespace(ns)
	// A status that changes has it looked at.
	if _, err := d.Patch(t.Context(), "web", types.MergePatchType, []byte(`{"metadata":{"annotations":{"look":"now"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, rt, id, says(runtime.Installing, "0/3 nodes are available"))
	testkube.Shared(t).MakeReady(t, ns, "web")
	if o := await(t, rt, id, is(1, runtime.Ready)); o.Message != "" || o.Versions["web"] != "1" {
		t.Errorf("ready: %+v", o)
	}
	doc["suspended"] = true
	apply(t, rt, runtime.Item{ID: id, Generation: 2, Token: 1, Body: body(t, doc)})
	eventually(t, "a suspended deployment has no replicas", func() bool {
		o, err := d.Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		n, _, _ := unstructured.NestedInt64(o.Object, "spec", "replicas")
		return n == 0
	})
}
