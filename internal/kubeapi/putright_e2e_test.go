//go:build e2e

package kubeapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/droverhq/drover/internal/gitops"
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
		if e.InvolvedObject.UID == o.GetUID() && e.Reason == "PutRight" && "*v1alpha1."+e.InvolvedObject.Kind == fmt.Sprintf("%T", o) {
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

// What somebody changes of what the ledger has is found by a comparison, handed over again
// and told, of every kind. What is as it should be is not handed over.
func TestWhatTheLedgerHasIsCompared(t *testing.T) {
	w := enter(t)
	ns := w.Namespace(t)
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: ns, Name: name} }
	all := []client.Object{
		deployment(ns, "shop"), deployment(ns, "untouched"),
		&v1alpha1.GitOpsDeploymentSyncRun{ObjectMeta: named("run"), Spec: v1alpha1.GitOpsDeploymentSyncRunSpec{GitopsDeploymentName: "shop"}},
		&v1alpha1.GitOpsDeploymentRepositoryCredential{ObjectMeta: named("git"), Spec: v1alpha1.GitOpsDeploymentRepositoryCredentialSpec{Repository: "https://a/b"}},
		&v1alpha1.GitOpsDeploymentManagedEnvironment{ObjectMeta: named("prod"), Spec: v1alpha1.GitOpsDeploymentManagedEnvironmentSpec{APIURL: "https://a"}},
		deployment(ns, "dated"),
	}
	for _, o := range all {
		w.create(t, o)
	}
	r := newRecorder()
	w.follow(t, kubeapi.Config{Service: r, Sweep: 500 * time.Millisecond})
	for _, o := range all {
		r.await(t, o.GetName(), of(o))
	}
	for _, c := range []struct {
		reason string
		of     []client.Object
		change func(*gitops.Known)
	}{
		{"what it asks for", []client.Object{all[0], all[2], all[3], all[4]}, func(k *gitops.Known) { k.Asks = "something else" }},
		{"what it is called", all[:1], func(k *gitops.Known) { k.Name = "other" }},
		{"that it was seen", all[:1], func(k *gitops.Known) { k.Generation-- }},
		{"what another version has read", all[5:], func(k *gitops.Known) { k.Asks, k.Dated = "something else", true }},
		{"that it was seen later", all[:1], func(k *gitops.Known) { k.Generation++ }},
	} {
		for _, o := range c.of {
			uid := string(o.GetUID())
			r.mu.Lock()
			r.calls = nil
			known := r.known[uid]
			c.change(&known)
			r.known[uid] = known
			r.mu.Unlock()
			r.await(t, o.GetName()+": "+c.reason, of(o))
		}
	}
	for _, o := range []client.Object{all[0], all[2], all[3], all[4]} {
		for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) { // the API is asked
			if got := w.eventsOf(t, o); len(got) == 1 && got[0] == "put right: what the ledger has of it was changed by somebody else" {
				break
			} else if time.Now().After(end) {
				t.Fatalf("the events of %s are %q", o.GetName(), got)
			}
		}
	}
	if again, told := r.all(of(all[1])), w.eventsOf(t, all[1]); len(again) > 0 || len(told) > 0 {
		t.Errorf("what nobody has touched is handed over %d times, and told %q", len(again), told)
	}
	if told := w.eventsOf(t, all[5]); len(told) > 0 {
		t.Errorf("what another version has read is told as %q", told)
	}
	if gone := r.all(func(c call) bool { return c.Gone }); len(gone) > 0 {
		t.Errorf("taken for gone are %v", gone)
	}
}
