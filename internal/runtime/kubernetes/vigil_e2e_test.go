//go:build e2e

package kubernetes_test

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/kubernetes"
	testkube "github.com/droverhq/drover/test/kubernetes"
)

// Where the agent may look into its namespaces alone, and so watches nothing, what is
// changed is found by lists: one for a kind and a namespace, however many items.
func TestWhatCannotBeWatchedIsPutRight(t *testing.T) {
	home := testkube.Shared(t).Namespace(t)
	var lists, refused atomic.Int64
	rt := open(t, system(t), func(cfg *kubernetes.Config) {
		cfg.Vigil = 300 * time.Millisecond
		cfg.Wrap = func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				switch r.URL.Path {
				case "/api/v1/configmaps": // those of the whole cluster
					refused.Add(1)
					return &http.Response{StatusCode: http.StatusForbidden, Request: r, Header: http.Header{"Content-Type": {"application/json"}},
						Body: io.NopCloser(strings.NewReader(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","message":"not yours","code":403}`))}, nil
				case "/api/v1/namespaces/" + home + "/configmaps":
					lists.Add(1)
				}
				return next.RoundTrip(r)
			})
		}
	})
	var ids []string
	for range 5 {
		id := unique("d")
		ids = append(ids, id)
		apply(t, rt, runtime.Item{ID: id, Kind: runtime.KindDeployment, Generation: 1, Token: 1, Body: body(t, object{
			"metadata": object{"namespace": home}, "manifests": []object{configMap(id, "1")}, "deployment": object{"uid": id, "namespace": home},
		})})
		await(t, rt, id, is(1, runtime.Ready))
	}
	eventually(t, "they are looked at", func() bool { return lists.Load() > 1 })
	c := client(t).CoreV1().ConfigMaps(home)
	if _, err := c.Patch(t.Context(), ids[0], types.MergePatchType, []byte(`{"data":{"k":"by hand"}}`), metav1.PatchOptions{FieldManager: "kubectl-edit"}); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(t.Context(), ids[1], metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for i, what := range []string{"changed", "deleted"} {
		await(t, rt, ids[i], func(o runtime.Observed) bool {
			h := seenOf(o).Healed
			return h != nil && h.What == "the ConfigMap "+home+"/"+ids[i]+" was "+what
		})
		if value(t, home, ids[i]) != "1" {
			t.Errorf("what was %s is not right", what)
		}
	}
	if refused.Load() == 0 {
		t.Error("nothing was refused: it may have been watched")
	}
}

// What somebody does between the time that an item was applied and the first word of
// the watch over its objects is put right, too: the watch tells it as what was there.
func TestWhatIsDoneBeforeTheWatchBeginsIsPutRight(t *testing.T) {
	begins := make(chan struct{})
	var watches atomic.Int64
	rt, id := open(t, system(t), func(cfg *kubernetes.Config) {
		cfg.Vigil = time.Hour // what cannot be watched is not to be found by lists meanwhile
		cfg.Wrap = func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				if r.Method == http.MethodGet && (r.URL.Path == "/api/v1/configmaps" || r.URL.Path == "/api/v1/namespaces") { // those of the whole cluster
					watches.Add(1)
					select {
					case <-begins:
					case <-r.Context().Done():
						return nil, r.Context().Err()
					}
				}
				return next.RoundTrip(r)
			})
		}
	}), unique("early")
	ns := "drover-" + id
	apply(t, rt, runtime.Item{ID: id, Generation: 1, Token: 1, Body: manifests(t, configMap("changed", "1"), configMap("removed", "1"))})
	await(t, rt, id, is(1, runtime.Ready))
	c := client(t).CoreV1().ConfigMaps(ns)
	if _, err := c.Patch(t.Context(), "changed", types.MergePatchType, []byte(`{"data":{"k":"by hand"}}`), metav1.PatchOptions{FieldManager: "kubectl-edit"}); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(t.Context(), "removed", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the watch is on its way", func() bool { return watches.Load() > 0 })
	if value(t, ns, "changed") != "by hand" {
		t.Fatal("it was watched before: the test shows nothing")
	}
	close(begins)
	eventually(t, "what was done before is put right", func() bool { return value(t, ns, "changed") == "1" && value(t, ns, "removed") == "1" })
}
