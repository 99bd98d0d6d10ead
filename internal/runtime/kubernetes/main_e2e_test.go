//go:build e2e

package kubernetes_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	networking "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "k8s.io/client-go/kubernetes"

	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/kubernetes"
	"github.com/droverhq/drover/internal/runtime/runtimetest"
	testkube "github.com/droverhq/drover/test/kubernetes"
)

type object = map[string]any

// patience is a bound for failures, never a measure.
const patience = 4 * time.Minute

// unique is a name that no other test has.
func unique(prefix string) string { return fmt.Sprintf("%s-%x", prefix, time.Now().UnixNano()) }

type option func(*kubernetes.Config)

func open(t *testing.T, namespace string, options ...option) *kubernetes.Runtime {
	t.Helper()
	cfg := kubernetes.Config{Kubeconfig: testkube.Shared(t).Kubeconfig(), Namespace: namespace, Capacity: 10, Routes: "ingress"}
	for _, o := range options {
		o(&cfg)
	}
	rt, err := kubernetes.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(rt.Close)
	return rt
}

func client(t *testing.T) kube.Interface { return testkube.Shared(t).Client(t) }

// system is a namespace for an agent of the test's own.
func system(t *testing.T) string {
	ns, c := unique("sys"), client(t)
	t.Cleanup(func() { _ = c.CoreV1().Namespaces().Delete(context.Background(), ns, metav1.DeleteOptions{}) })
	return ns
}

// controller gives every ingress an address, as whoever runs ingresses does.
func controller(t *testing.T) {
	t.Helper()
	c := client(t)
	w, err := c.NetworkingV1().Ingresses("").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	go func() {
		for ev := range w.ResultChan() {
			in, ok := ev.Object.(*networking.Ingress)
			if !ok || len(in.Status.LoadBalancer.Ingress) > 0 || ev.Type == "DELETED" {
				continue
			}
			in = in.DeepCopy()
			in.Status.LoadBalancer.Ingress = []networking.IngressLoadBalancerIngress{{Hostname: "lb.example.com"}}
			_, _ = c.NetworkingV1().Ingresses(in.Namespace).UpdateStatus(context.Background(), in, metav1.UpdateOptions{})
		}
	}()
}

func body(t *testing.T, doc object) json.RawMessage {
	b, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func configMap(name, value string) object {
	return object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"name": name}, "data": object{"k": value}}
}

func manifests(t *testing.T, all ...object) json.RawMessage {
	return body(t, object{"manifests": all})
}

func apply(t *testing.T, rt runtime.Runtime, it runtime.Item) {
	t.Helper()
	if err := rt.Apply(t.Context(), it); err != nil {
		t.Fatal(err)
	}
}

// await follows Changed until what is seen of the item fits.
func await(t *testing.T, rt runtime.Runtime, id string, fits func(runtime.Observed) bool) runtime.Observed {
	t.Helper()
	limit := time.After(patience)
	for {
		all, err := rt.Observe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var last runtime.Observed
		for _, o := range all {
			if o.ID == id {
				if last = o; fits(o) {
					return o
				}
			}
		}
		select {
		case <-rt.Changed():
		case <-limit:
			t.Fatalf("%s is %+v", id, last)
		}
	}
}

func is(generation int64, state runtime.State) func(runtime.Observed) bool {
	return func(o runtime.Observed) bool { return o.Generation == generation && o.State == state }
}

func says(state runtime.State, words ...string) func(runtime.Observed) bool {
	return func(o runtime.Observed) bool {
		for _, w := range words {
			if !strings.Contains(o.Message, w) {
				return false
			}
		}
		return o.State == state
	}
}

// eventually asks again until it is so: for what no runtime tells.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); {
		if time.Now().After(end) {
			t.Fatalf("never came true: %s", what)
		}
		select {
		case <-t.Context().Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestConformance(t *testing.T) {
	controller(t)
	homes := map[string]string{}
	runtimetest.Run(t, runtimetest.Config{
		Durable: true,
		Open: func(t *testing.T, dir string) (runtime.Runtime, func()) {
			if homes[dir] == "" {
				homes[dir] = system(t)
			}
			rt := open(t, homes[dir], func(c *kubernetes.Config) { c.Home = homes[dir] })
			return rt, rt.Close
		},
		Body: func(host, word string, suspended bool) json.RawMessage {
			b, _ := json.Marshal(object{
				"manifests": []object{configMap("c-"+strings.TrimSuffix(host, ".test"), word),
					{"apiVersion": "v1", "kind": "Service", "metadata": object{"name": "s-" + strings.TrimSuffix(host, ".test")}, "spec": object{"ports": []object{{"port": 80}}}}},
				"routes":    []object{{"host": host, "service": "s-" + strings.TrimSuffix(host, ".test"), "port": 80}},
				"versions":  object{"app": word},
				"suspended": suspended,
			})
			return b
		},
	})
}

func quantity(s string) *resource.Quantity { q := resource.MustParse(s); return &q }

func itoa(n int) string { return strconv.Itoa(n) }
