//go:build e2e

package kubeapi_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/droverhq/drover/internal/kubeapi"
	"github.com/droverhq/drover/internal/kubeapi/v1alpha1"
	"github.com/droverhq/drover/internal/runtime"
)

// eventsOf are the messages of events about a custom resource.
func (w *world) eventsOf(t *testing.T, o client.Object) (out []string) {
	t.Helper()
	var list corev1.EventList
	if err := w.List(t.Context(), &list, client.InNamespace(o.GetNamespace())); err != nil {
		t.Fatal(err)
	}
	for _, e := range list.Items {
		if e.InvolvedObject.UID == o.GetUID() && e.Reason == "PutRight" && e.InvolvedObject.Kind == "GitOpsDeployment" {
			out = append(out, e.Message)
		}
	}
	return out
}

// What was put right is told once by an event, by however many replicas, and no
// condition is added for it.
func TestWhatWasPutRightIsAnEvent(t *testing.T) {
	w := enter(t)
	d := deployment(w.Namespace(t), "shop")
	w.create(t, d)
	v := view()
	tell := func(at time.Time, what string) {
		t.Helper()
		v.Healed = &runtime.Healed{At: at, What: what}
		for range 2 {
			for _, h := range []*kubeapi.Home{w.home(t, nil), w.home(t, nil)} {
				if err := h.Tell(t.Context(), "deployment", string(d.UID), originOf(d), v); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	now := time.Now()
	tell(now.Add(-2*time.Hour), "of long ago")
	tell(now, "the Application was deleted")
	tell(now.Add(time.Second), "the AppProject was changed")
	if got := w.eventsOf(t, d); len(got) != 2 || got[0] == got[1] {
		t.Errorf("the events are %q", got)
	}
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(d), d); err != nil {
		t.Fatal(err)
	}
	if len(d.Status.Conditions) != len(view().Conditions) {
		t.Errorf("the conditions are %+v", d.Status.Conditions)
	}
}

// An event that the API does not take is told with the next status.
func TestAnEventThatWasLostIsToldAgain(t *testing.T) {
	w := enter(t)
	d := deployment(w.Namespace(t), "shop")
	w.create(t, d)
	var away atomic.Bool
	h := w.home(t, func(next http.RoundTripper) http.RoundTripper {
		return wrapped{next, func(q *http.Request) (int, string) {
			if away.Load() && strings.HasSuffix(q.URL.Path, "/events") {
				return http.StatusInternalServerError, ""
			}
			return 0, ""
		}}
	})
	v := view()
	v.Healed = &runtime.Healed{At: time.Now(), What: "the Application was deleted"}
	for i, lost := range []bool{true, false, false} {
		away.Store(lost)
		if err := h.Tell(t.Context(), "deployment", string(d.UID), originOf(d), v); err != nil {
			t.Fatal(err)
		}
		if got := w.eventsOf(t, d); len(got) != min(i, 1) {
			t.Errorf("told %d times, the events are %q", i+1, got)
		}
	}
}

// A status that somebody changes is told, too.
func TestAChangedStatusIsAnEvent(t *testing.T) {
	w := enter(t)
	d := deployment(w.Namespace(t), "shop")
	w.create(t, d)
	h := w.home(t, nil)
	if err := h.Tell(t.Context(), "deployment", string(d.UID), originOf(d), view()); err != nil {
		t.Fatal(err)
	}
	r := newRecorder()
	w.follow(t, kubeapi.Config{Service: r, Home: h})
	r.await(t, "known", of(d))
	p := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"health":{"status":"Healthy"}}}`))
	if err := w.Status().Patch(t.Context(), d.DeepCopyObject().(*v1alpha1.GitOpsDeployment), p); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(patience); ; {
		if got := w.eventsOf(t, d); len(got) == 1 && got[0] == "put right: the status was changed by somebody else" {
			return
		} else if time.Now().After(end) {
			t.Fatalf("the events are %q", got)
		}
		time.Sleep(50 * time.Millisecond) // the API is asked
	}
}
