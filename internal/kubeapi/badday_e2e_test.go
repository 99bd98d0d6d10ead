//go:build e2e

package kubeapi_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/kubeapi"
	"github.com/droverhq/drover/internal/kubeapi/v1alpha1"
	"github.com/droverhq/drover/test/kubernetes"
)

// One call in five fails, at the API and at the ledger, and the controllers are
// stopped and started in between; in the end the ledger knows what is there, and
// never was one said to be gone that was there.
func TestOneCallInFiveFails(t *testing.T) {
	w := enter(t)
	ns := w.Namespace(t)
	random := rand.New(rand.NewPCG(1, 2)) // used under the recorder's lock
	r := newRecorder()
	r.refuse = func(call) error {
		if random.IntN(5) == 0 {
			return fault.New(fault.Unavailable, "the ledger is away")
		}
		return nil
	}
	var calls atomic.Uint64
	codes := []int{http.StatusInternalServerError, http.StatusNotFound, http.StatusTooManyRequests, http.StatusConflict, http.StatusServiceUnavailable}
	frail := w.home(t, func(next http.RoundTripper) http.RoundTripper {
		return wrapped{next, func(q *http.Request) (int, string) {
			if n := calls.Add(1); n%5 == 0 {
				return codes[n/5%uint64(len(codes))], ""
			}
			return 0, ""
		}}
	})
	stop := w.follow(t, kubeapi.Config{Service: r, Home: frail})
	there := map[string]*v1alpha1.GitOpsDeployment{}
	var gone []client.Object
	for round := range 6 {
		for i := range 10 {
			name := fmt.Sprintf("d%d", i)
			if d := there[name]; d != nil && (i+round)%3 == 0 {
				w.delete(t, d)
				gone = append(gone, d)
			} else if d != nil {
				continue
			}
			d := deployment(ns, name)
			w.create(t, d)
			there[name] = d
		}
		if round%2 == 1 {
			stop()
			stop = w.follow(t, kubeapi.Config{Service: r, Home: frail})
		}
	}
	for name, d := range there {
		r.await(t, name, of(d))
	}
	until(t, "the ledger knows those that are there and no others", func() bool {
		known, err := r.KnownOf(context.Background(), "home", "deployment", "", 1000)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, k := range known {
			if k.Namespace != ns {
				continue
			}
			if d := there[k.Name]; d == nil || string(d.UID) != k.UID {
				return false
			}
			n++
		}
		return n == len(there)
	})
	for name, d := range there {
		if got := r.all(goneOf(d)); len(got) != 0 {
			t.Errorf("%s is said to be gone: %+v", name, got)
		}
	}
	if len(gone) == 0 {
		t.Error("nothing was deleted: the test shows nothing")
	}
}

// The API server dies and comes back. What happened meanwhile is found out.
func TestServerDiesAndComesBack(t *testing.T) {
	w := enterAt(t, kubernetes.Start(t))
	ns := w.Namespace(t)
	r := newRecorder()
	w.follow(t, kubeapi.Config{Service: r})
	kept, gone := deployment(ns, "kept"), deployment(ns, "gone")
	for _, d := range []client.Object{kept, gone} {
		w.create(t, d)
		r.await(t, d.GetName(), of(d))
	}
	for range 2 {
		if err := w.API.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := w.API.Start(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		if err := w.Ready(ctx); err != nil {
			t.Fatal(err)
		}
		cancel()
	}
	w.delete(t, gone)
	r.await(t, "the end of one, by a watch that was begun again", goneOf(gone))
	late := deployment(ns, "late")
	w.create(t, late)
	r.await(t, "one that came later", of(late))
	if got := r.all(goneOf(kept)); len(got) != 0 {
		t.Errorf("said to be gone: %+v", got)
	}
}
