//go:build e2e

package kubeapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/kubeapi"
	"github.com/droverhq/drover/internal/kubeapi/v1alpha1"
	"github.com/droverhq/drover/internal/runtime"
)

var noon = time.Date(2026, 11, 15, 12, 0, 0, 123456789, time.UTC)

// view is a deployment that has all there is.
func view() gitops.DeploymentView {
	return gitops.DeploymentView{
		Sync: runtime.SyncStatus{Status: "Synced", Revision: "abc"}, Health: runtime.HealthStatus{Status: "Degraded", Message: "no"},
		Conditions: []gitops.Condition{{Type: "ErrorOccurred", Status: "False", Reason: "ErrorOccurredResolved", Changed: noon}},
		Resources:  []runtime.DeployedResource{{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "shop", Name: "web", Status: "Synced", Health: &runtime.HealthStatus{Status: "Degraded"}}},
		Compared:   &runtime.Compared{Repository: "https://git.example.com/shop.git", Path: "k8s", Revision: "main", Target: "prod", Namespace: "shop"},
		Operation:  json.RawMessage(`{"operation":{"sync":{"revision":"abc","prune":true},"initiatedBy":{"automated":true}},"phase":"Succeeded","startedAt":"2026-11-15T11:00:00Z","syncResult":{"revision":"abc","resources":[{"group":"","version":"v1","kind":"ConfigMap","namespace":"shop","name":"c","status":"Synced"}]}}`),
		History:    []gitops.Revision{{DeployedRevision: runtime.DeployedRevision{ID: 1, Revision: "abc", Started: noon, Deployed: noon, By: "automated"}, Author: "me", Message: "it"}},
	}
}

// counting counts the writes that go out.
func counting(n *atomic.Int32) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return wrapped{next, func(r *http.Request) (int, string) {
			if r.Method == http.MethodPatch {
				n.Add(1)
			}
			return 0, ""
		}}
	}
}

func TestStatusIsMirrored(t *testing.T) {
	w := enter(t)
	ns := w.Namespace(t)
	var writes atomic.Int32
	h := w.home(t, counting(&writes))
	d := deployment(ns, "shop")
	w.create(t, d)
	for range 3 { // the second and the third are nothing new
		if err := h.Tell(t.Context(), "deployment", string(d.UID), originOf(d), view()); err != nil {
			t.Fatal(err)
		}
	}
	if writes.Load() != 1 {
		t.Errorf("written %d times", writes.Load())
	}
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(d), d); err != nil {
		t.Fatal(err)
	}
	s := d.Status
	if s.Sync.Status != "Synced" || s.Health.Message != "no" || len(s.Resources) != 1 || s.ReconciledState.Destination.Name != "prod" ||
		s.OperationState == nil || s.OperationState.SyncResult.Resources[0].Name != "c" || s.History[0].Author != "me" || s.Conditions[0].LastProbeTime == nil {
		t.Errorf("the status is %+v", s)
	}
	// Less than before is less afterwards: nothing is merged.
	if err := h.Tell(t.Context(), "deployment", string(d.UID), originOf(d), gitops.DeploymentView{Sync: runtime.SyncStatus{Status: "Unknown"}}); err != nil {
		t.Fatal(err)
	}
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(d), d); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(v1alpha1.GitOpsDeploymentStatus{Sync: v1alpha1.SyncStatus{Status: "Unknown"}, Digest: d.Status.Digest}, d.Status); diff != "" {
		t.Error(diff)
	}
	for _, c := range []struct {
		reason, uid, name, home string
		want                    fault.Kind
	}{
		{"another one has the name now", "other", "shop", "home", fault.NotFound},
		{"nobody has the name", string(d.UID), "none", "home", fault.NotFound},
		{"another API is meant", string(d.UID), "shop", "elsewhere", fault.Unavailable},
	} {
		err := h.Tell(t.Context(), "deployment", c.uid, gitops.Origin{Home: c.home, Namespace: ns, Name: c.name}, view())
		if !fault.Is(err, c.want) {
			t.Errorf("%s: %v", c.reason, err)
		}
	}
}

// What the controllers have just seen is not read again before its first status is
// written, unless it is another by then.
func TestFirstStatusIsOneCall(t *testing.T) {
	w := enter(t)
	ns := w.Namespace(t)
	var mu sync.Mutex
	asked := map[string][]string{}
	h := w.home(t, func(next http.RoundTripper) http.RoundTripper {
		return wrapped{next, func(r *http.Request) (int, string) {
			if _, name, ok := strings.Cut(r.URL.Path, ns+"/gitopsdeployments/"); ok {
				mu.Lock()
				defer mu.Unlock()
				name = strings.TrimSuffix(name, "/status")
				asked[name] = append(asked[name], r.Method)
			}
			return 0, ""
		}}
	})
	r := newRecorder()
	w.follow(t, kubeapi.Config{Home: h, Service: r})
	for _, c := range []struct {
		reason, name string
		meanwhile    func(*v1alpha1.GitOpsDeployment)
		want         []string
	}{
		{"it is as it was seen", "same", func(*v1alpha1.GitOpsDeployment) {}, []string{"PATCH"}},
		{"somebody has changed it since", "other", func(d *v1alpha1.GitOpsDeployment) {
			d.Labels = map[string]string{"a": "b"}
			if err := w.Update(t.Context(), d); err != nil {
				t.Fatal(err)
			}
		}, []string{"PATCH", "GET", "PATCH"}},
	} {
		d := deployment(ns, c.name)
		w.create(t, d)
		r.await(t, c.name, of(d))
		c.meanwhile(d)
		if err := h.Tell(t.Context(), "deployment", string(d.UID), originOf(d), view()); err != nil {
			t.Fatalf("%s: %v", c.reason, err)
		}
		mu.Lock()
		if diff := cmp.Diff(c.want, asked[c.name]); diff != "" {
			t.Errorf("%s: %s", c.reason, diff)
		}
		mu.Unlock()
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(d), d); err != nil || d.Status.Sync.Status != "Synced" {
			t.Errorf("%s: the status is %+v, %v", c.reason, d.Status, err)
		}
	}
}

func TestOtherStatuses(t *testing.T) {
	w := enter(t)
	ns := w.Namespace(t)
	h := w.home(t, nil)
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: ns, Name: name} }
	for _, c := range []struct {
		kind   string
		o      client.Object
		status any
		want   string
	}{
		{"syncrun", &v1alpha1.GitOpsDeploymentSyncRun{ObjectMeta: named("run"), Spec: v1alpha1.GitOpsDeploymentSyncRunSpec{GitopsDeploymentName: "shop"}},
			gitops.SyncRunView{Phase: "Succeeded", Conditions: []gitops.Condition{{Type: "ErrorOccurred", Status: "False", Changed: noon}},
				Run: &runtime.SyncRun{Revision: "abc", Started: noon, Finished: noon, Resources: []runtime.SyncedResource{{Kind: "ConfigMap", Name: "c", Status: "Synced"}}}},
			`"phase":"Succeeded","revision":"abc","startedAt":"2026-11-15T12:00:00Z","finishedAt":"2026-11-15T12:00:00Z","resources":[{"kind":"ConfigMap","name":"c","status":"Synced"}]`},
		{"repository", &v1alpha1.GitOpsDeploymentRepositoryCredential{ObjectMeta: named("git"), Spec: v1alpha1.GitOpsDeploymentRepositoryCredentialSpec{Repository: "https://a/b", Secret: "s"}},
			gitops.RepositoryView{Conditions: []gitops.Condition{{Type: "ErrorOccurred", Status: "True", Reason: "SecretNotFound", Message: "no Secret", Changed: noon}}},
			`{"type":"ErrorOccurred","status":"True","lastTransitionTime":"2026-11-15T12:00:00Z","reason":"SecretNotFound","message":"no Secret"}`},
		{"target", &v1alpha1.GitOpsDeploymentManagedEnvironment{ObjectMeta: named("prod"), Spec: v1alpha1.GitOpsDeploymentManagedEnvironmentSpec{APIURL: "https://a", ClusterCredentialsSecret: "s"}},
			gitops.TargetView{Conditions: []gitops.Condition{{Type: "ConnectionInitializationSucceeded", Status: "Unknown", Changed: noon}}},
			`"status":"Unknown","lastTransitionTime":"2026-11-15T12:00:00Z","reason":"ConnectionInitializationSucceeded"`},
	} {
		t.Run(c.kind, func(t *testing.T) {
			w.create(t, c.o)
			if err := h.Tell(t.Context(), c.kind, string(c.o.GetUID()), originOf(c.o), c.status); err != nil {
				t.Fatal(err)
			}
			if err := w.Get(t.Context(), client.ObjectKeyFromObject(c.o), c.o); err != nil {
				t.Fatal(err)
			}
			if text, _ := json.Marshal(c.o); !strings.Contains(string(text), c.want) {
				t.Errorf("%s lacks %s", text, c.want)
			}
		})
	}
}

func TestLargeStatus(t *testing.T) {
	w := enter(t)
	ns := w.Namespace(t)
	h := w.home(t, nil)
	d := deployment(ns, "shop")
	w.create(t, d)
	v := view()
	v.Resources = nil
	for i := range 5000 {
		name := fmt.Sprintf("%s-%05d", strings.Repeat("n", 100), i)
		v.Resources = append(v.Resources, runtime.DeployedResource{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "shop", Name: name, Status: "Synced", Health: &runtime.HealthStatus{Status: "Healthy", Message: strings.Repeat("m", 60)}})
	}
	v.Resources[4999].Status = "OutOfSync"
	if err := h.Tell(t.Context(), "deployment", string(d.UID), originOf(d), v); err != nil {
		t.Fatal(err)
	}
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(d), d); err != nil {
		t.Fatal(err)
	}
	last := d.Status.Conditions[len(d.Status.Conditions)-1]
	if n := len(d.Status.Resources); n < 1000 || n >= 5000 || last.Type != "ResourcesTruncated" || last.Status != "True" || d.Status.Resources[n-1].Status != "OutOfSync" {
		t.Errorf("%d are listed, the last as %+v; %+v", n, d.Status.Resources[n-1], last)
	}
}

// Somebody changes or clears a status; another replica's writes are not taken for that.
func TestDamagedStatusIsNoticed(t *testing.T) {
	w := enter(t)
	ns := w.Namespace(t)
	h := w.home(t, nil)
	tell := func(d *v1alpha1.GitOpsDeployment, revision string) {
		t.Helper()
		v := view()
		v.Sync.Revision = revision
		if err := h.Tell(t.Context(), "deployment", string(d.UID), originOf(d), v); err != nil {
			t.Fatal(err)
		}
	}
	cases := []struct{ reason, patch string }{
		{"a field is changed", `{"status":{"sync":{"status":"OutOfSync"}}}`},
		{"a field is removed", `{"status":{"health":null}}`},
		{"the status is cleared", `{"status":null}`},
		{"the digest is removed", `{"status":{"digest":null}}`},
	}
	var all []*v1alpha1.GitOpsDeployment
	for i := range len(cases) + 1 {
		d := deployment(ns, fmt.Sprintf("d%d", i))
		w.create(t, d)
		tell(d, "0") // before anybody looks, so that nobody waits for a first status
		all = append(all, d)
	}
	one, two := newRecorder(), newRecorder()
	w.follow(t, kubeapi.Config{Service: one, Mend: 100 * time.Millisecond})
	w.follow(t, kubeapi.Config{Service: two, Mend: 100 * time.Millisecond})
	for _, d := range all {
		one.await(t, d.Name, of(d))
		two.await(t, d.Name, of(d))
		for i := range 3 { // as another replica does it
			tell(d, fmt.Sprint(i))
		}
	}
	resynced := func(o client.Object) func(call) bool {
		uid := string(o.GetUID())
		return func(c call) bool { return c.resync && c.UID == uid }
	}
	for i, c := range cases {
		t.Run(c.reason, func(t *testing.T) {
			d := all[i]
			if err := w.Status().Patch(t.Context(), d, client.RawPatch("application/merge-patch+json", []byte(c.patch))); err != nil {
				t.Fatal(err)
			}
			one.await(t, "resync by one", resynced(d))
			two.await(t, "resync by the other", resynced(d))
			tell(d, "2")
			if err := w.Get(t.Context(), client.ObjectKeyFromObject(d), d); err != nil || d.Status.Sync.Revision != "2" || d.Status.Health.Status != "Degraded" {
				t.Errorf("it was not put right: %+v, %v", d.Status, err)
			}
		})
	}
	if got := one.all(resynced(all[len(cases)])); len(got) != 0 {
		t.Errorf("what another replica wrote was taken for damage: %v", got)
	}
	late := deployment(ns, "late")
	w.create(t, late)
	one.await(t, "one that has no status for too long", resynced(late))
}

// The test's cluster gathers no roles into others: the one that edit is given is
// bound by itself.
func TestTenantsRights(t *testing.T) {
	w := enter(t)
	mine, theirs := w.Namespace(t), w.Namespace(t)
	role, err := w.Cluster.Client(t).RbacV1().ClusterRoles().Get(t.Context(), "drover-gitops-edit", metav1.GetOptions{})
	if err != nil || role.Labels["rbac.authorization.k8s.io/aggregate-to-edit"] != "true" {
		t.Fatalf("the role edit does not have it: %v, %v", role, err)
	}
	_, err = w.Cluster.Client(t).RbacV1().RoleBindings(mine).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "tenant"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "tenant"}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := clientcmd.RESTConfigFromKubeConfig(w.KubeconfigOf(t, "tenant"))
	if err != nil {
		t.Fatal(err)
	}
	tenant := as(t, cfg)
	d := deployment(mine, "shop")
	deadline := time.Now().Add(patience)
	for err = tenant.Create(t.Context(), d); apierrors.IsForbidden(err) && time.Now().Before(deadline); { // the API learns of bindings in the background
		err = tenant.Create(t.Context(), d)
	}
	if err != nil {
		t.Fatalf("the tenant may not: %v", err)
	}
	clear := client.RawPatch("application/merge-patch+json", []byte(`{"status":null}`))
	if err := tenant.Status().Patch(t.Context(), d, clear); !apierrors.IsForbidden(err) {
		t.Errorf("the tenant may write the status: %v", err)
	}
	if err := tenant.Create(t.Context(), deployment(theirs, "shop")); !apierrors.IsForbidden(err) {
		t.Errorf("the tenant may deploy elsewhere: %v", err)
	}
	op := &v1alpha1.Operation{ObjectMeta: metav1.ObjectMeta{Namespace: mine, Name: "op"}}
	if err := tenant.Create(t.Context(), op); !apierrors.IsForbidden(err) {
		t.Errorf("the tenant may make operations: %v", err)
	}
}

// warned collects what the API warns of.
type warned struct{ texts []string }

func (w *warned) HandleWarningHeader(_ int, _, text string) { w.texts = append(w.texts, text) }

func TestRunsThatComeToNothingAreWarnedOf(t *testing.T) {
	w := enter(t)
	ns := w.Namespace(t)
	server := httptest.NewTLSServer(w.home(t, nil).Admission())
	t.Cleanup(server.Close)
	hook := documents(t, string(kubeapi.Webhook()))[0]
	hooks, _, _ := unstructured.NestedSlice(hook.Object, "webhooks")
	ca := server.Certificate()
	hooks[0].(map[string]any)["clientConfig"] = map[string]any{"url": server.URL + kubeapi.AdmissionPath, "caBundle": pemOf(ca.Raw)}
	hooks[0].(map[string]any)["failurePolicy"] = "Fail" // so that the test sees failures
	hooks[0].(map[string]any)["timeoutSeconds"] = int64(30)
	hook.Object["webhooks"] = hooks
	hook.SetName("test-" + ns)
	hooks[0].(map[string]any)["namespaceSelector"] = map[string]any{"matchLabels": map[string]any{"kubernetes.io/metadata.name": ns}}
	w.create(t, hook)
	t.Cleanup(func() { _ = w.Delete(context.Background(), hook) })
	auto, manual := deployment(ns, "auto"), deployment(ns, "manual")
	manual.Spec.Type = v1alpha1.Manual
	w.create(t, auto)
	w.create(t, manual)
	heard := &warned{}
	cfg := w.Admin()
	cfg.WarningHandler = heard
	me := as(t, cfg)
	for _, c := range []struct{ name, says string }{
		{"auto", "invalid GitOpsDeploymentSyncRun 'run-auto'. Syncing a GitOpsDeployment with Automated sync policy is not allowed"},
		{"manual", ""},
		{"later", `there is no GitOpsDeployment "later"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			ok := func() bool {
				return strings.Contains(strings.Join(heard.texts, "\n"), c.says) && (c.says != "") == (len(heard.texts) > 0)
			}
			for deadline := time.Now().Add(patience); ; { // webhooks are taken up in the background
				heard.texts = nil
				run := &v1alpha1.GitOpsDeploymentSyncRun{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "run-" + c.name}, Spec: v1alpha1.GitOpsDeploymentSyncRunSpec{GitopsDeploymentName: c.name}}
				if err := me.Create(t.Context(), run, client.DryRunAll); err != nil {
					t.Fatal(err)
				}
				if ok() || time.Now().After(deadline) {
					break
				}
			}
			if !ok() {
				t.Errorf("warned of %q", heard.texts)
			}
		})
	}
}
