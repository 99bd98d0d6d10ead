//go:build e2e

package kubernetes_test

import (
	"net/http"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/kubernetes"
	testkube "github.com/droverhq/drover/test/kubernetes"
)

// Whenever the agent is killed while it puts something right, the next one tells
// what was: at each of its writes in turn, before it arrives or after.
func TestWhatIsPutRightIsToldWheneverKilled(t *testing.T) {
	for _, arrives := range []bool{false, true} {
		for at := int64(1); putRightKilled(t, at, arrives); at++ {
		}
	}
}

// putRightKilled kills at one write; false: there are fewer.
func putRightKilled(t *testing.T, at int64, arrives bool) (killed bool) {
	home, sys, id := testkube.Shared(t).Namespace(t), system(t), unique("d")
	var armed atomic.Bool
	var writes atomic.Int64
	rt := open(t, sys, func(cfg *kubernetes.Config) {
		cfg.Wrap = func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				if !armed.Load() {
					return next.RoundTrip(r)
				}
				if writes.Load() >= at {
					return nil, errKilled
				}
				write := r.Method != http.MethodGet && r.URL.Query().Get("dryRun") == ""
				if !write || writes.Add(1) < at {
					return next.RoundTrip(r)
				}
				if arrives {
					if res, err := next.RoundTrip(r); err == nil {
						res.Body.Close()
					}
				}
				return nil, errKilled
			})
		}
	})
	it := runtime.Item{ID: id, Kind: runtime.KindDeployment, Generation: 1, Token: 1, Body: body(t, object{
		"metadata": object{"namespace": home}, "manifests": []object{configMap("a", "1"), configMap("b", "1")}, "deployment": object{"uid": id, "namespace": home},
	})}
	apply(t, rt, it)
	await(t, rt, id, is(1, runtime.Ready))
	armed.Store(true)
	if _, err := client(t).CoreV1().ConfigMaps(home).Patch(t.Context(), "a", types.MergePatchType, []byte(`{"data":{"k":"by hand"}}`), metav1.PatchOptions{FieldManager: "kubectl-edit"}); err != nil {
		t.Fatal(err)
	}
	told := func(o runtime.Observed) bool {
		h := seenOf(o).Healed
		return h != nil && h.What == "the ConfigMap "+home+"/a was changed" && !h.At.IsZero()
	}
	eventually(t, "it is told, or the agent is dead", func() bool {
		all, err := rt.Observe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range all {
			if o.ID == id && told(o) {
				return true
			}
		}
		return writes.Load() >= at
	})
	if killed = writes.Load() >= at; !killed {
		if at < 4 { // the note, the repair, that it is done
			t.Errorf("only %d writes were cut short", at-1)
		}
		return false
	}
	rt.Close()
	rt = open(t, sys)
	apply(t, rt, it)
	await(t, rt, id, told)
	if value(t, home, "a") != "1" {
		t.Errorf("killed at write %d: it is not as it should be", at)
	}
	rt.Close()
	return true
}
