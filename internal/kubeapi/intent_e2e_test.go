//go:build e2e

package kubeapi_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/kubeapi"
	"github.com/droverhq/drover/internal/kubeapi/v1alpha1"
)

func TestIntentIsHandedOver(t *testing.T) {
	w := enter(t)
	ns := w.Namespace(t)
	var space corev1.Namespace
	if err := w.Get(t.Context(), client.ObjectKey{Name: ns}, &space); err != nil {
		t.Fatal(err)
	}
	space.Labels[kubeapi.EngineLabel], space.Labels[kubeapi.OrgLabel] = "eu", "acme"
	if err := w.Update(t.Context(), &space); err != nil {
		t.Fatal(err)
	}
	r := newRecorder()
	w.follow(t, kubeapi.Config{Service: r, Engine: func(label string) string { return "engine-" + label }})
	where := gitops.Namespace{Home: "home", Name: ns, UID: string(space.UID), Engine: "engine-eu", Org: "acme"}

	d := deployment(ns, "shop")
	d.Spec.Source.TargetRevision = "main"
	d.Spec.Destination = v1alpha1.ApplicationDestination{Environment: "prod", Namespace: "shop"}
	d.Spec.SyncPolicy = &v1alpha1.SyncPolicy{SyncOptions: []string{"CreateNamespace=true"}}
	run := &v1alpha1.GitOpsDeploymentSyncRun{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "run"},
		Spec:       v1alpha1.GitOpsDeploymentSyncRunSpec{GitopsDeploymentName: "shop", RevisionID: "v1", Prune: true},
	}
	env := &v1alpha1.GitOpsDeploymentManagedEnvironment{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "prod"},
		Spec: v1alpha1.GitOpsDeploymentManagedEnvironmentSpec{
			APIURL: "https://api.example.com", ClusterCredentialsSecret: "none", AllowInsecureSkipTLSVerify: true,
			CreateNewServiceAccount: true, Namespaces: []string{"shop"}, ClusterResources: true,
		},
	}
	cred := &v1alpha1.GitOpsDeploymentRepositoryCredential{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "git"},
		Spec:       v1alpha1.GitOpsDeploymentRepositoryCredentialSpec{Repository: "https://git.example.com/shop.git", Secret: "none"},
	}
	for _, o := range []client.Object{d, run, env, cred} {
		w.create(t, o)
	}
	intent := func(o client.Object) gitops.Intent {
		return gitops.Intent{Namespace: where, Name: o.GetName(), UID: string(o.GetUID()), Generation: 1, Created: o.GetCreationTimestamp().UTC()}
	}
	for _, c := range []struct {
		o    client.Object
		want any
	}{
		{d, gitops.DeploymentIntent{
			Intent: intent(d), Repository: "https://git.example.com/shop.git", Path: "k8s", Revision: "main",
			Environment: "prod", ToNamespace: "shop", Type: "automated", SyncOptions: []string{"CreateNamespace=true"},
		}},
		{run, gitops.SyncRunIntent{Intent: intent(run), Deployment: "shop", Revision: "v1", Prune: true}},
		{env, gitops.TargetIntent{
			Intent: intent(env), URL: "https://api.example.com", SecretName: "none", Insecure: true, NewAccount: true,
			Namespaces: []string{"shop"}, ClusterResources: true,
		}},
		{cred, gitops.RepositoryIntent{Intent: intent(cred), URL: "https://git.example.com/shop.git", SecretName: "none"}},
	} {
		got := r.await(t, c.o.GetName(), of(c.o))
		if diff := cmp.Diff(c.want, got.whole); diff != "" {
			t.Errorf("%s: %s", c.o.GetName(), diff)
		}
	}

	d.Spec.Type = v1alpha1.Manual
	if err := w.Update(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	got := r.await(t, "another generation", func(c call) bool { return of(d)(c) && c.Generation == 2 })
	if got.whole.(gitops.DeploymentIntent).Type != "manual" {
		t.Errorf("got %+v", got.whole)
	}

	space.Labels[kubeapi.EngineLabel] = "us"
	if err := w.Update(t.Context(), &space); err != nil {
		t.Fatal(err)
	}
	r.await(t, "another engine", func(c call) bool { return of(d)(c) && c.Namespace.Engine == "engine-us" })
}

// Runs that were made while nobody followed are handed over in their order, though
// several workers take them as they come.
func TestSyncRunsAreHandedOverInTheirOrder(t *testing.T) {
	w := enter(t)
	ns := w.Namespace(t)
	var want []string
	for i := range 30 {
		run := &v1alpha1.GitOpsDeploymentSyncRun{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: fmt.Sprintf("run-%c%d", 'z'-rune(i%7), i)},
			Spec:       v1alpha1.GitOpsDeploymentSyncRunSpec{GitopsDeploymentName: "shop"},
		}
		w.create(t, run)
		want = append(want, run.Name)
	}
	r := newRecorder()
	w.follow(t, kubeapi.Config{Service: r})
	var got []string
	r.await(t, "all of them", func(c call) bool {
		if c.kind == gitops.KindSyncRun.Name && c.Namespace.Name == ns && !slices.Contains(got, c.Name) {
			got = append(got, c.Name)
		}
		return len(got) == len(want)
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Whoever changes a deployment and asks for a sync then means the changed one, though
// the change had to be handed over several times.
func TestSyncRunComesAfterTheChangeBeforeIt(t *testing.T) {
	w := enter(t)
	ns := w.Namespace(t)
	r := newRecorder()
	var refused atomic.Int32
	r.refuse = func(c call) error {
		if c.kind == gitops.KindDeployment.Name && c.Generation == 2 && refused.Add(1) < 6 {
			return fault.New(fault.Unavailable, "the ledger is away")
		}
		return nil
	}
	w.follow(t, kubeapi.Config{Service: r})
	d := &v1alpha1.GitOpsDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "shop"},
		Spec:       v1alpha1.GitOpsDeploymentSpec{Source: v1alpha1.ApplicationSource{RepoURL: "https://git.example.com/shop", Path: "k8s"}, Type: v1alpha1.Automated},
	}
	w.create(t, d)
	r.await(t, "the deployment", of(d))
	d.Spec.Type = v1alpha1.Manual
	if err := w.Update(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	run := &v1alpha1.GitOpsDeploymentSyncRun{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "run"}, Spec: v1alpha1.GitOpsDeploymentSyncRunSpec{GitopsDeploymentName: "shop"},
	}
	w.create(t, run)
	r.await(t, "the run", of(run))
	calls := r.all(func(call) bool { return true })
	changed := slices.IndexFunc(calls, func(c call) bool { return of(d)(c) && c.Generation == 2 })
	if asked := slices.IndexFunc(calls, of(run)); changed < 0 || changed > asked {
		t.Errorf("the run was handed over as call %d, the change before it as %d", asked, changed)
	}
}

// A service that cannot take an intent now is asked again; one that says that the
// matter is settled is not.
func TestFailuresAreTriedAgain(t *testing.T) {
	w := enter(t)
	ns := w.Namespace(t)
	r := newRecorder()
	var refused atomic.Int32
	r.refuse = func(c call) error {
		if c.Name == "late" && refused.Add(1) < 4 {
			return fault.New(fault.Unavailable, "the ledger is away")
		}
		if c.Name == "stale" {
			return fault.New(fault.Conflict, "a newer one is known").Because("stale")
		}
		return nil
	}
	w.follow(t, kubeapi.Config{Service: r})
	late, stale := deployment(ns, "late"), deployment(ns, "stale")
	w.create(t, stale)
	w.create(t, late)
	r.await(t, "the one that failed thrice", of(late))
	if got := r.all(of(stale)); len(got) != 0 {
		t.Errorf("the stale one was taken: %v", got)
	}
}

func TestDeletedAndMadeAnew(t *testing.T) {
	w := enter(t)
	ns := w.Namespace(t)
	r := newRecorder()
	w.follow(t, kubeapi.Config{Service: r, Sweep: time.Hour}) // a comparison may say once more what the watch said
	first := deployment(ns, "first")
	w.create(t, first)
	r.await(t, "one before: now somebody watches", of(first))
	var all []*v1alpha1.GitOpsDeployment
	for range 4 {
		d := deployment(ns, "shop")
		w.create(t, d)
		if len(all) > 0 { // the first three go at once, without being waited for
			r.await(t, "the end of the one before", goneOf(all[len(all)-1]))
		}
		all = append(all, d)
		if len(all) < 4 {
			w.delete(t, d)
		}
	}
	last := all[3]
	r.await(t, "the last", of(last))
	for i, d := range all[:3] {
		if got := r.all(goneOf(d)); len(got) != 1 || got[0].Held || got[0].Namespace.Name != ns || got[0].Namespace.UID == "" {
			t.Errorf("number %d: told %+v", i+1, got)
		}
	}
	if got := r.all(goneOf(last)); len(got) != 0 {
		t.Errorf("the last is said to be gone: %+v", got)
	}
}

func TestFinalizerHolds(t *testing.T) {
	w := enter(t)
	ns := w.Namespace(t)
	r := newRecorder()
	w.follow(t, kubeapi.Config{Service: r})
	d := deployment(ns, "shop")
	d.Finalizers = []string{"example.com/other", v1alpha1.Finalizer}
	w.create(t, d)
	if got := r.await(t, "it", of(d)); !got.Held {
		t.Error("it is not said to be held")
	}
	w.delete(t, d)
	if got := r.await(t, "its deletion", goneOf(d)); !got.Held {
		t.Error("a deleted one is not said to be held")
	}
	h := w.home(t, nil)
	if err := h.Release(t.Context(), "deployment", "another", originOf(d)); err != nil {
		t.Errorf("releasing one that is not there: %v", err)
	}
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(d), d); err != nil || len(d.Finalizers) != 2 {
		t.Fatalf("another one's release took %v, %v", d.Finalizers, err)
	}
	for range 2 { // once more is fine
		if err := h.Release(t.Context(), "deployment", string(d.UID), originOf(d)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(d), d); err != nil || !slices.Equal(d.Finalizers, []string{"example.com/other"}) {
		t.Fatalf("left are %v, %v", d.Finalizers, err)
	}
	d.Finalizers = nil
	if err := w.Update(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	r.await(t, "its end", func(c call) bool { return goneOf(d)(c) && !c.Held })
}

func TestDeletesWhileNobodyWatched(t *testing.T) {
	w := enter(t)
	ns := w.Namespace(t)
	r := newRecorder()
	stop := w.follow(t, kubeapi.Config{Service: r})
	kept, gone, anew := deployment(ns, "kept"), deployment(ns, "gone"), deployment(ns, "anew")
	run := &v1alpha1.GitOpsDeploymentSyncRun{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "run"}, Spec: v1alpha1.GitOpsDeploymentSyncRunSpec{GitopsDeploymentName: "shop"},
	}
	for _, o := range []client.Object{kept, gone, anew, run} {
		w.create(t, o)
		r.await(t, o.GetName(), of(o))
	}
	stop()
	for _, o := range []client.Object{gone, anew, run} {
		w.delete(t, o)
	}
	again := deployment(ns, "anew")
	w.create(t, again)
	w.follow(t, kubeapi.Config{Service: r})
	for _, o := range []client.Object{gone, anew, run} {
		r.await(t, o.GetName()+" is gone", goneOf(o))
	}
	r.await(t, "the new one", of(again))
	if got := append(r.all(goneOf(kept)), r.all(goneOf(again))...); len(got) != 0 {
		t.Errorf("said to be gone: %+v", got)
	}
}

// wrapped is a transport that a function may answer for.
type wrapped struct {
	next  http.RoundTripper
	trick func(*http.Request) (status int, body string)
}

func (w wrapped) RoundTrip(r *http.Request) (*http.Response, error) {
	status, body := w.trick(r)
	if status == 0 {
		return w.next.RoundTrip(r)
	}
	rec := &http.Response{StatusCode: status, Status: http.StatusText(status), Request: r, Header: http.Header{"Content-Type": {"text/plain"}}, Body: http.NoBody, ProtoMajor: 1, ProtoMinor: 1}
	if body != "" {
		rec.Header.Set("Content-Type", "application/json")
		rec.Body = &text{strings.NewReader(body)}
	}
	return rec, nil
}

type text struct{ *strings.Reader }

func (text) Close() error { return nil }

// What the ledger knows and what is not in the cache is asked for by name; no
// answer but a clear one counts.
func TestFailingListsDeleteNothing(t *testing.T) {
	w := enter(t)
	ns := w.Namespace(t)
	for _, c := range []struct {
		reason string
		status int
	}{
		{"the API is in trouble", http.StatusInternalServerError},
		{"the API is busy", http.StatusTooManyRequests},
		{"the API does not serve the kind for a moment", http.StatusNotFound},
		{"the rights were taken away", http.StatusForbidden},
	} {
		t.Run(c.reason, func(t *testing.T) {
			r := newRecorder()
			ghost := gitops.Known{Kind: "deployment", UID: "00000000-dead", Namespace: ns, Name: "ghost", NamespaceUID: "n"}
			r.known[ghost.UID] = ghost
			asked, heal := make(chan struct{}, 100), atomic.Bool{}
			h := w.home(t, func(next http.RoundTripper) http.RoundTripper {
				return wrapped{next, func(q *http.Request) (int, string) {
					if strings.Contains(q.URL.RawQuery, "metadata.name%3Dghost") && !heal.Load() {
						asked <- struct{}{}
						return c.status, ""
					}
					return 0, ""
				}}
			})
			w.follow(t, kubeapi.Config{Service: r, Home: h})
			for range 3 {
				select {
				case <-asked:
				case <-time.After(patience):
					t.Fatal("the API was not asked whether it is gone")
				}
			}
			if got := r.all(func(c call) bool { return c.Gone && c.UID == ghost.UID }); len(got) != 0 {
				t.Fatalf("said to be gone: %+v", got)
			}
			heal.Store(true)
			got := r.await(t, "the ghost, once the API answers", func(c call) bool { return c.Gone && c.UID == ghost.UID })
			if !got.Namespace.Missing || got.Namespace.UID != "n" {
				t.Errorf("its namespace, which is another one now, is told as %+v", got.Namespace)
			}
		})
	}
}

// Another API behind the same address has nothing of what the first one had, and
// the watches say so: that deletes nothing.
func TestAnotherAPIDeletesNothing(t *testing.T) {
	w := enter(t)
	ns := w.Namespace(t)
	r := newRecorder()
	var other atomic.Bool
	asked := make(chan struct{}, 100)
	w.follow(t, kubeapi.Config{Service: r, Admit: func(context.Context, string) error {
		if !other.Load() {
			return nil
		}
		select {
		case asked <- struct{}{}:
		default:
		}
		return errors.New("this is another API")
	}})
	d := deployment(ns, "shop")
	w.create(t, d)
	r.await(t, "the deployment", of(d))
	other.Store(true)
	w.delete(t, d)
	for range 3 {
		select {
		case <-asked:
		case <-time.After(patience):
			t.Fatal("nobody asked which API this is")
		}
	}
	if got := r.all(goneOf(d)); len(got) != 0 {
		t.Fatalf("said to be gone: %+v", got)
	}
	other.Store(false)
	r.await(t, "its end, once the API is the right one", goneOf(d))
}

// No list at all can be had: nobody knows what is there, so nothing is compared.
func TestNothingIsComparedBeforeAllIsListed(t *testing.T) {
	w := enter(t)
	ns := w.Namespace(t)
	d := deployment(ns, "shop")
	w.create(t, d)
	r := newRecorder()
	r.known[string(d.UID)] = gitops.Known{Kind: "deployment", UID: string(d.UID), Namespace: ns, Name: "shop"}
	failed, heal := make(chan struct{}, 1000), atomic.Bool{}
	h := w.home(t, func(next http.RoundTripper) http.RoundTripper {
		return wrapped{next, func(q *http.Request) (int, string) {
			if strings.HasSuffix(q.URL.Path, "/gitopsdeployments") && !heal.Load() {
				failed <- struct{}{}
				return http.StatusInternalServerError, ""
			}
			return 0, ""
		}}
	})
	w.follow(t, kubeapi.Config{Service: r, Home: h})
	for range 2 {
		<-failed
	}
	if got := r.all(func(call) bool { return true }); len(got) != 0 {
		t.Errorf("told without knowing all: %+v", got)
	}
	heal.Store(true)
	r.await(t, "it, once it can be listed", of(d))
	if got := r.all(goneOf(d)); len(got) != 0 {
		t.Errorf("said to be gone: %+v", got)
	}
}

func TestReplicasAgree(t *testing.T) {
	w := enter(t)
	ns := w.Namespace(t)
	one, two := newRecorder(), newRecorder()
	w.follow(t, kubeapi.Config{Service: one})
	stop := w.follow(t, kubeapi.Config{Service: two})
	d := deployment(ns, "shop")
	w.create(t, d)
	one.await(t, "it", of(d))
	two.await(t, "it", of(d))
	stop()
	w.delete(t, d)
	one.await(t, "its end", goneOf(d))
	w.follow(t, kubeapi.Config{Service: two})
	two.await(t, "its end, by the other that was down", goneOf(d))
}

func TestNamespaceTerminates(t *testing.T) {
	w := enter(t)
	ns := w.Namespace(t)
	r := newRecorder()
	w.follow(t, kubeapi.Config{Service: r})
	d, loose := deployment(ns, "held"), deployment(ns, "loose")
	d.Finalizers = []string{v1alpha1.Finalizer}
	w.create(t, d)
	w.create(t, loose)
	r.await(t, "held", of(d))
	first := r.await(t, "loose", of(loose))
	w.delete(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
	r.await(t, "the loose one's end", goneOf(loose))
	got := r.await(t, "the held one's deletion in a namespace that goes", func(c call) bool { return goneOf(d)(c) && c.Namespace.Terminating })
	if !got.Held || got.Namespace.UID != first.Namespace.UID {
		t.Errorf("told %+v", got)
	}
	if err := w.home(t, nil).Release(t.Context(), "deployment", string(d.UID), originOf(d)); err != nil {
		t.Fatal(err)
	}
	got = r.await(t, "the held one's end", func(c call) bool { return goneOf(d)(c) && !c.Held })
	if got.Namespace.UID != first.Namespace.UID {
		t.Errorf("its namespace is told as %+v", got.Namespace)
	}
}
