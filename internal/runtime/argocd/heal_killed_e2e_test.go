//go:build e2e

package argocd_test

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/argocd"
	testargo "github.com/droverhq/drover/test/argocd"
)

// Whenever the agent is killed while it puts something right, the next one tells
// what was: at each of its writes in turn, before it arrives or after.
func TestPutsRightWheneverKilled(t *testing.T) {
	a := testargo.Shared(t)
	for _, tc := range []struct {
		told  string
		spoil func(d runtime.Deployment) error
	}{
		{"the Application was changed", func(d runtime.Deployment) error {
			_, err := a.Applications().Patch(t.Context(), "gitopsdepl-"+d.UID, types.MergePatchType, []byte(`{"spec":{"source":{"path":"other"}}}`), metav1.PatchOptions{})
			return err
		}},
		{"the AppProject was deleted", func(d runtime.Deployment) error {
			return a.Projects().Delete(t.Context(), "app-project-"+d.Workspace, metav1.DeleteOptions{})
		}},
	} {
		t.Run(tc.told, func(t *testing.T) {
			for _, arrives := range []bool{false, true} {
				for at := int64(1); putRightKilled(t, at, arrives, tc.told, tc.spoil); at++ {
				}
			}
		})
	}
}

// putRightKilled kills at one write; false: it was told before there were so many.
func putRightKilled(t *testing.T, at int64, arrives bool, what string, spoil func(runtime.Deployment) error) (killed bool) {
	home := system(t)
	var armed atomic.Bool
	var writes atomic.Int64
	rt := open(t, home, func(c *argocd.Config) {
		c.Wrap = func(next http.RoundTripper) http.RoundTripper {
			return trip(func(r *http.Request) (*http.Response, error) {
				if !armed.Load() {
					return next.RoundTrip(r)
				}
				if writes.Load() >= at {
					return nil, errKilled
				}
				if r.Method == http.MethodGet || writes.Add(1) < at {
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
	d := deployment("https://127.0.0.1:1/none.git", testargo.Shared(t).Cluster.Namespace(t))
	apply(t, rt, item(1, d))
	await(t, rt, d, "made", func(o runtime.Observed, _ runtime.Deployed) bool { return o.State == runtime.Ready })
	armed.Store(true)
	if err := spoil(d); err != nil {
		t.Fatal(err)
	}
	told := func(_ runtime.Observed, d runtime.Deployed) bool {
		return d.Healed != nil && strings.Contains(d.Healed.What, what) && !d.Healed.At.IsZero()
	}
	for end := time.Now().Add(4 * time.Minute); ; {
		all, err := rt.Observe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(all) > 0 && told(all[0], deployed(all[0])) {
			break
		}
		if writes.Load() >= at {
			killed = true
			break
		}
		if time.Now().After(end) {
			t.Fatalf("write %d: it is neither told nor dead: %s", at, all[0].Detail)
		}
		select {
		case <-rt.Changed():
		case <-time.After(20 * time.Millisecond): // that it is dead is told by nobody
		}
	}
	rt.Close()
	rt = open(t, home)
	defer rt.Close()
	apply(t, rt, item(1, d))
	await(t, rt, d, what, told)
	apply(t, rt, gone(2, d))
	await(t, rt, d, "gone", removed)
	if !killed && at < 4 { // the note, the repair, that it is done
		t.Errorf("only %d writes were cut short", at-1)
	}
	return killed && !t.Failed()
}

// A repair whose answer was lost, and which is made again, meets itself. It is told all
// the same.
func TestPutsRightThoughTheAnswerIsLost(t *testing.T) {
	a := testargo.Shared(t)
	var armed atomic.Bool
	rt := open(t, system(t), func(c *argocd.Config) {
		c.Wrap = func(next http.RoundTripper) http.RoundTripper {
			return trip(func(r *http.Request) (*http.Response, error) {
				res, err := next.RoundTrip(r)
				if r.Method != http.MethodPatch || !strings.Contains(r.URL.Path, "/applications/") || !armed.CompareAndSwap(true, false) || err != nil {
					return res, err
				}
				res.Body.Close()
				again := r.Clone(r.Context())
				again.Body, err = r.GetBody()
				if err != nil {
					return nil, err
				}
				return next.RoundTrip(again)
			})
		}
	})
	d := deployment("https://127.0.0.1:1/none.git", a.Cluster.Namespace(t))
	apply(t, rt, item(1, d))
	await(t, rt, d, "made", func(o runtime.Observed, _ runtime.Deployed) bool { return o.State == runtime.Ready })
	armed.Store(true)
	if _, err := a.Applications().Patch(t.Context(), "gitopsdepl-"+d.UID, types.MergePatchType, []byte(`{"spec":{"source":{"path":"other"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, rt, d, "told", func(_ runtime.Observed, d runtime.Deployed) bool {
		return d.Healed != nil && strings.Contains(d.Healed.What, "the Application was changed")
	})
	if armed.Load() {
		t.Error("no answer was lost")
	}
	apply(t, rt, gone(2, d))
	await(t, rt, d, "gone", removed)
}

var errKilled = errors.New("the agent was killed")

type trip func(*http.Request) (*http.Response, error)

func (f trip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
