//go:build e2e

package dataplane_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/droverhq/drover/test/kubernetes"
)

// A cluster joins by the printed line; what is ordered becomes so on it, stays so,
// and leaves nothing behind.
func TestFromTheLineToTheLastObject(t *testing.T) {
	t.Parallel()
	k := kubernetes.Start(t, kubernetes.WithControllers())
	k.Node(t, "n1", "4", "16Gi")
	k.Node(t, "n2", "4", "16Gi")
	w := start(t)
	p := w.register("edge", "north", k)

	w.until("a capacity of 16, since nodes have 8 cpus and 32Gi for units of 500m and 1Gi", func() bool {
		_, status := w.get("clusters", "edge")
		var told struct{ Capacity int64 }
		return json.Unmarshal([]byte(status), &told) == nil && told.Capacity == 16
	})
	w.says("cluster", "edge", "shop/space", "shop/kinds", "shop/floor")
	floor, err := k.Client(t).CoreV1().ConfigMaps("shop-floor").Get(t.Context(), "floor", metav1.GetOptions{})
	if err != nil || floor.Data["cluster"] != "edge" {
		t.Errorf("the last step: %v, %v", floor.Data, err)
	}
	before := look(t, k)
	if before["Till shop-floor/main"] == "" {
		t.Errorf("the object of the new kind is not there: %v", before.of("shop-floor"))
	}

	ns := w.order("corner", "north", map[string]any{"greeting": "hello"})
	client := k.Client(t)
	w.until("the Deployment", func() bool {
		_, err := client.AppsV1().Deployments(ns).Get(t.Context(), "web", metav1.GetOptions{})
		return err == nil
	})
	w.says("shop", "corner", "Deployment")
	if phase, _ := w.get("shops", "corner"); phase == "ready" {
		t.Error("it is ready before its Deployment is")
	}
	kubelet(t, k)
	w.is("shops", "corner", "ready")
	there := look(t, k)
	want := []string{"ConfigMap " + ns + "/settings", "Deployment " + ns + "/web",
		"Ingress " + ns + "/", "Service " + ns + "/web", "ServiceAccount " + ns + "/default"}
	got := there.of(ns)
	for i := range got {
		if strings.HasPrefix(got[i], "Ingress ") {
			got[i] = "Ingress " + ns + "/"
		}
	}
	got = slices.DeleteFunc(got, func(s string) bool { return strings.HasPrefix(s, "Endpoint") })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("objects of the instance (-want +got):\n%s", diff)
	}
	routes, err := client.NetworkingV1().Ingresses(ns).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(routes.Items) != 1 || routes.Items[0].Spec.Rules[0].Host != "corner.shops.example.com" {
		t.Errorf("its route: %+v, %v", routes, err)
	}
	w.says("shop", "corner", "corner.shops.example.com")

	w.update("corner", map[string]any{"greeting": "good day", "replicas": 3})
	w.until("the new settings", func() bool {
		m, err := client.CoreV1().ConfigMaps(ns).Get(t.Context(), "settings", metav1.GetOptions{})
		d, derr := client.AppsV1().Deployments(ns).Get(t.Context(), "web", metav1.GetOptions{})
		return err == nil && derr == nil && m.Data["greeting"] == "good day" && *d.Spec.Replicas == 3
	})
	w.is("shops", "corner", "ready")
	unharmed(t, k, there)

	// By hand: a value, and a whole object.
	if _, err := client.CoreV1().ConfigMaps(ns).Patch(t.Context(), "settings", types.MergePatchType, []byte(`{"data":{"greeting":"go away"}}`), metav1.PatchOptions{FieldManager: "kubectl-edit"}); err != nil {
		t.Fatal(err)
	}
	if err := client.CoreV1().Services(ns).Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.until("what was done by hand to be undone", func() bool {
		m, err := client.CoreV1().ConfigMaps(ns).Get(t.Context(), "settings", metav1.GetOptions{})
		_, serr := client.CoreV1().Services(ns).Get(t.Context(), "web", metav1.GetOptions{})
		return err == nil && serr == nil && m.Data["greeting"] == "good day"
	})

	w.remove("shops", "corner")
	w.is("shops", "corner", "gone")
	if _, err := client.CoreV1().Namespaces().Get(t.Context(), ns, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("it is told as gone, its namespace is there: %v", err)
	}
	w.same(k, before)
	if strings.Contains(p.agent.Log(), "panic") {
		t.Error("the agent panicked")
	}
}
