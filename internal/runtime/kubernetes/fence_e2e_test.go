//go:build e2e

package kubernetes_test

import (
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/kubernetes"
)

// Another replica is known by what it writes into an item's Secret. Neither somebody's
// label there nor a write of the agent's own whose answer got lost is another replica,
// and nothing else would ever let the item go on.
func TestOnlyAReplicaFences(t *testing.T) {
	var count, lost atomic.Int64
	var path atomic.Value // of a Secret
	path.Store("")
	sys := system(t)
	loses := func(cfg *kubernetes.Config) {
		cfg.LeaseTime = 30 * time.Millisecond // what was written longer ago than a third of it is looked at again
		cfg.Wrap = func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				res, err := next.RoundTrip(r)
				// The first one says that it is to be removed, the second that this has begun.
				if err == nil && r.Method == http.MethodPut && r.URL.Path == path.Load() && count.Add(1) == 2 {
					res.Body.Close()
					lost.Add(1)
					return nil, errors.New("the answer is lost")
				}
				return res, err
			})
		}
	}
	rt := open(t, sys, loses)
	id := unique("fence")
	ns := "drover-" + id
	item := runtime.Item{ID: id, Generation: 1, Token: 1, Body: manifests(t, configMap("a", "1"))}
	apply(t, rt, item)
	await(t, rt, id, is(1, runtime.Ready))
	c, known := client(t).CoreV1(), map[string]bool{}
	kept := func() (names []string) { // since the last time
		t.Helper()
		all, err := c.Secrets(sys).List(t.Context(), metav1.ListOptions{LabelSelector: "drover.dev/keeps=item"})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range all.Items {
			if !known[s.Name] {
				names, known[s.Name] = append(names, s.Name), true
			}
		}
		if len(names) != 1 {
			t.Fatalf("an item is kept in %q", names)
		}
		return names
	}
	secret := kept()[0]
	label := func(team string) {
		t.Helper()
		if _, err := c.Secrets(sys).Patch(t.Context(), secret, types.MergePatchType, []byte(`{"metadata":{"labels":{"example.com/team":"`+team+`"}}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, team := range []string{"blue", "green"} {
		label(team)
		if _, err := c.ConfigMaps(ns).Patch(t.Context(), "a", types.MergePatchType, []byte(`{"data":{"k":"by hand"}}`), metav1.PatchOptions{FieldManager: "kubectl-edit"}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "what was changed by hand is put right", func() bool { return value(t, ns, "a") == "1" })
		rt.Close() // the next one has written nothing of it
		rt = open(t, sys, loses)
		apply(t, rt, item)
		await(t, rt, id, is(1, runtime.Ready))
	}

	apply(t, rt, runtime.Item{ID: id, Generation: 2, Token: 2, Delete: true})
	await(t, rt, id, is(2, runtime.Deleted))
	label("red")
	if err := rt.Forget(t.Context(), id); err != nil {
		t.Errorf("what was removed and labelled cannot be forgotten: %v", err)
	}

	other := unique("fence")
	apply(t, rt, runtime.Item{ID: other, Generation: 1, Token: 1, Body: manifests(t, configMap("a", "1"))})
	await(t, rt, other, is(1, runtime.Ready))
	path.Store("/api/v1/namespaces/" + sys + "/secrets/" + kept()[0])
	apply(t, rt, runtime.Item{ID: other, Generation: 2, Token: 2, Delete: true})
	await(t, rt, other, is(2, runtime.Deleted))
	if lost.Load() != 1 {
		t.Errorf("%d answers were lost: the test shows nothing", lost.Load())
	}
}
