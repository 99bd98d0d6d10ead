//go:build e2e

package dataplane_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/test/drover"
	"github.com/droverhq/drover/test/kubernetes"
)

// Two Kubernetes clusters and a machine with processes are one fleet: each order
// lands where it may, and what is set aside gets no more.
func TestThreeDataPlanes(t *testing.T) {
	w := start(t)
	planes := map[string]*plane{}
	for _, name := range []string{"tent", "hall"} {
		k := kubernetes.Start(t, kubernetes.WithControllers())
		k.Node(t, "n1", "2", "8Gi") // four units
		kubelet(t, k)
		planes[name] = w.register(name, "north", k)
	}
	drover.Join(t, w.s.URL(), "machine", w.s.Cluster(t, "machine"))
	w.is("clusters", "machine", "ready")
	w.run("cluster", "label", "hall", "roof=yes")
	before := map[string]objects{"tent": look(t, planes["tent"].k), "hall": look(t, planes["hall"].k)}

	booth := func(name string) string {
		t.Helper()
		o, err := w.c.Create(context.Background(), "booths", v1.CreateInstance{Name: name, Provider: "metal", Region: "north"})
		if err != nil {
			t.Fatal(err)
		}
		return "drover-" + o.ID
	}
	first := booth("first")
	w.is("booths", "first", "ready")
	w.says("booth", "first", "hall")
	if m, err := planes["hall"].k.Client(t).CoreV1().ConfigMaps(first).Get(t.Context(), "booth", metav1.GetOptions{}); err != nil || m.Data["name"] != "first" {
		t.Errorf("on the hall: %v", err)
	}
	if got := look(t, planes["tent"].k).of(first); len(got) > 0 {
		t.Errorf("the tent has %v", got)
	}
	why := w.ask(http.MethodGet, "/api/v1/booths/first/placement", "")
	if text := string(why.Body); why.Status != http.StatusOK || !strings.Contains(text, "tent") || !strings.Contains(text, "roof") {
		t.Errorf("why not the tent: %d %s", why.Status, text)
	}
	if _, err := w.c.Create(context.Background(), "dinosaurs", v1.CreateInstance{Name: "rex"}); err != nil {
		t.Fatal(err)
	}
	w.is("dinosaurs", "rex", "ready")
	w.says("dinosaur", "rex", "machine")

	if said := w.refused(5, "cluster", "drain", "hall"); !strings.Contains(said, "first") {
		t.Errorf("draining what cannot be moved: %s", said)
	}
	w.run("cluster", "cordon", "hall")
	booth("second")
	w.says("booth", "second", "waiting for")
	if phase, _ := w.get("booths", "first"); phase != "ready" {
		t.Errorf("a cordon makes what runs %s", phase)
	}
	w.run("cluster", "uncordon", "hall")
	w.is("booths", "second", "ready")

	w.run("cluster", "drain", "hall", "--force")
	for _, name := range []string{"first", "second"} {
		w.remove("booths", name)
		w.is("booths", name, "gone")
	}
	w.remove("dinosaurs", "rex")
	w.is("dinosaurs", "rex", "gone")
	for name, p := range planes {
		w.same(p.k, before[name])
	}
}
