//go:build e2e

package kubeapi_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/kubeapi"
	"github.com/droverhq/drover/internal/kubeapi/v1alpha1"
	"github.com/droverhq/drover/test/kubernetes"
)

// patience bounds what is waited for, on a machine that may have much else to do.
const patience = 4 * time.Minute

// world is a cluster with the definitions and roles in it, and its administrator.
type world struct {
	*kubernetes.Cluster
	client.Client
}

var installed sync.Map // by URL

func enter(t *testing.T) *world {
	t.Helper()
	return enterAt(t, kubernetes.Shared(t))
}

func enterAt(t *testing.T, c *kubernetes.Cluster) *world {
	t.Helper()
	w := &world{c, as(t, c.Admin())}
	once, _ := installed.LoadOrStore(c.URL, &sync.Once{})
	once.(*sync.Once).Do(func() {
		w.apply(t, string(kubeapi.Manifests()))
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "drover", Name: "drover"}}
		for _, o := range []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "drover"}}, account} {
			if err := w.Create(t.Context(), o); err != nil && !apierrors.IsAlreadyExists(err) {
				t.Fatal(err)
			}
		}
		w.established(t)
	})
	return w
}

func as(t *testing.T, cfg *rest.Config) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// documents of a stream of YAML.
func documents(t *testing.T, text string) (out []*unstructured.Unstructured) {
	t.Helper()
	for _, doc := range strings.Split(text, "\n---") {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(strings.TrimPrefix(doc, "---")), &o.Object); err != nil {
			t.Fatalf("%v in %s", err, doc)
		}
		if len(o.Object) > 0 {
			out = append(out, o)
		}
	}
	return out
}

func (w *world) apply(t *testing.T, text string) {
	t.Helper()
	for _, o := range documents(t, text) {
		if err := w.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("test"), client.ForceOwnership); err != nil {
			t.Fatalf("%s %s: %v", o.GetKind(), o.GetName(), err)
		}
	}
}

// established waits until all kinds are served: that is a moment after they are said to be.
func (w *world) established(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinitionList"})
	for {
		if err := w.List(ctx, list); err != nil {
			t.Fatal(err)
		}
		ready := 0
		for _, crd := range list.Items {
			conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
			if slices.ContainsFunc(conditions, func(c any) bool {
				m := c.(map[string]any)
				return m["type"] == "Established" && m["status"] == "True"
			}) {
				ready++
			}
		}
		if ready >= 5 && w.served(ctx) {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal("the definitions are not established")
		case <-time.After(50 * time.Millisecond): // the server offers no better signal
		}
	}
}

func (w *world) served(ctx context.Context) bool {
	for _, list := range []client.ObjectList{&v1alpha1.GitOpsDeploymentList{}, &v1alpha1.GitOpsDeploymentSyncRunList{}, &v1alpha1.GitOpsDeploymentRepositoryCredentialList{},
		&v1alpha1.GitOpsDeploymentManagedEnvironmentList{}, &v1alpha1.OperationList{}} {
		if w.List(ctx, list, client.Limit(1)) != nil {
			return false
		}
	}
	return true
}

// home is reached as the server reaches it: with its own role and no more.
func (w *world) home(t *testing.T, wrap func(http.RoundTripper) http.RoundTripper) *kubeapi.Home {
	t.Helper()
	h, err := kubeapi.Open(kubeapi.Access{Name: "home", Kubeconfig: w.KubeconfigOfAccount(t, "drover", "drover"), Wrap: wrap})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// follow runs controllers until the returned function is called, or the test ends.
func (w *world) follow(t *testing.T, cfg kubeapi.Config) (stop func()) {
	t.Helper()
	if cfg.Home == nil {
		cfg.Home = w.home(t, nil)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = kubeapi.New(cfg).Run(ctx)
	}()
	stop = sync.OnceFunc(func() { cancel(); <-ended })
	t.Cleanup(stop)
	return stop
}

func (w *world) create(t *testing.T, o client.Object) {
	t.Helper()
	if err := w.Create(t.Context(), o); err != nil {
		t.Fatalf("cannot create %s: %v", o.GetName(), err)
	}
}

func (w *world) delete(t *testing.T, o client.Object) {
	t.Helper()
	if err := w.Delete(t.Context(), o); err != nil {
		t.Fatalf("cannot delete %s: %v", o.GetName(), err)
	}
}

func deployment(ns, name string) *v1alpha1.GitOpsDeployment {
	return &v1alpha1.GitOpsDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
		Spec: v1alpha1.GitOpsDeploymentSpec{
			Source: v1alpha1.ApplicationSource{RepoURL: "https://git.example.com/shop.git", Path: "k8s"}, Type: v1alpha1.Automated,
		},
	}
}

func originOf(o client.Object) gitops.Origin {
	return gitops.Origin{Home: "home", Namespace: o.GetNamespace(), Name: o.GetName(), Generation: o.GetGeneration()}
}

// call is one intent, or a resync, that the service was handed.
type call struct {
	kind   string
	resync bool
	gitops.Intent
	whole  any // the intent of its kind
	secret *gitops.SecretData
}

// recorder is a service that remembers what it is told, as the ledger would.
type recorder struct {
	mu     sync.Mutex
	calls  []call
	known  map[string]gitops.Known
	told   chan struct{} // closed with the next call
	refuse func(call) error
}

func newRecorder() *recorder {
	return &recorder{known: map[string]gitops.Known{}, told: make(chan struct{})}
}

func (r *recorder) take(c call) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refuse != nil {
		if err := r.refuse(c); err != nil {
			return err
		}
	}
	r.calls = append(r.calls, c)
	if c.Gone {
		delete(r.known, c.UID)
	} else if !c.resync {
		r.known[c.UID] = gitops.Known{Kind: c.kind, UID: c.UID, Namespace: c.Namespace.Name, Name: c.Name, NamespaceUID: c.Namespace.UID,
			Generation: c.Generation, Asks: c.whole.(interface{ Asks() string }).Asks()}
	}
	close(r.told)
	r.told = make(chan struct{})
	return nil
}

func (r *recorder) IntendDeployment(_ context.Context, in gitops.DeploymentIntent) error {
	return r.take(call{kind: "deployment", Intent: in.Intent, whole: in})
}

func (r *recorder) IntendSyncRun(_ context.Context, in gitops.SyncRunIntent) error {
	return r.take(call{kind: "syncrun", Intent: in.Intent, whole: in})
}

func (r *recorder) IntendRepository(_ context.Context, in gitops.RepositoryIntent) error {
	return r.take(call{kind: "repository", Intent: in.Intent, whole: in, secret: in.Secret})
}

func (r *recorder) IntendTarget(_ context.Context, in gitops.TargetIntent) error {
	return r.take(call{kind: "target", Intent: in.Intent, whole: in, secret: in.Secret})
}

func (*recorder) IntendWorkspace(context.Context, gitops.Namespace) error { return nil }

func (r *recorder) Resync(_ context.Context, kind, uid string) error {
	return r.take(call{kind: kind, resync: true, Intent: gitops.Intent{UID: uid}})
}

func (r *recorder) KnownOf(_ context.Context, _, kind, after string, limit int) (out []gitops.Known, _ error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range r.known {
		if k.Kind == kind && k.UID > after {
			out = append(out, k)
		}
	}
	slices.SortFunc(out, func(a, b gitops.Known) int { return strings.Compare(a.UID, b.UID) })
	return out[:min(limit, len(out))], nil
}

// all returns the calls so far that fit.
func (r *recorder) all(fits func(call) bool) (out []call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.calls {
		if fits(c) {
			out = append(out, c)
		}
	}
	return out
}

// await returns the first call that fits, once there is one.
func (r *recorder) await(t *testing.T, what string, fits func(call) bool) call {
	t.Helper()
	deadline := time.After(patience)
	for {
		r.mu.Lock()
		next := r.told
		i := slices.IndexFunc(r.calls, fits)
		if i >= 0 {
			defer r.mu.Unlock()
			return r.calls[i]
		}
		r.mu.Unlock()
		select {
		case <-next:
		case <-deadline:
			text, _ := json.Marshal(r.all(func(call) bool { return true }))
			t.Fatalf("never told: %s; told was %s", what, text)
		}
	}
}

func of(o client.Object) func(call) bool {
	uid := string(o.GetUID())
	return func(c call) bool { return c.UID == uid && !c.Gone && !c.resync }
}

func goneOf(o client.Object) func(call) bool {
	uid := string(o.GetUID())
	return func(c call) bool { return c.UID == uid && c.Gone }
}

// pemOf is a certificate as webhooks are registered with it.
func pemOf(der []byte) string {
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}
