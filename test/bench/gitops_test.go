//go:build bench

package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/droverhq/drover/internal/app"
	"github.com/droverhq/drover/test/argocd"
	"github.com/droverhq/drover/test/drover"
	"github.com/droverhq/drover/test/kubernetes"
)

var (
	gitopsDeployments = schema.GroupVersionResource{Group: "managed-gitops.redhat.com", Version: "v1alpha1", Resource: "gitopsdeployments"}
	argoApplications  = schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "applications"}
	kubeNamespaces    = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	kubeDefinitions   = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

// station is a Kubernetes with an Argo CD, a server that follows its custom
// resources, and the agent beside Argo CD: all of them real and on this machine.
type station struct {
	a       *argocd.Server
	objects dynamic.Interface
	s       *drover.Server
	agent   *drover.Agent
	e       engine
}

// newStation starts one. DROVER_BENCH_DATABASE=PostgreSQL has the server use that.
func newStation(t *testing.T, options string) *station {
	t.Helper()
	k := kubernetes.Start(t, kubernetes.WithControllers())
	w := &station{a: argocd.Start(t, k, argocd.WithResync(time.Hour)), e: engines()[0]}
	for _, e := range engines() {
		if e.name == os.Getenv("DROVER_BENCH_DATABASE") {
			w.e = e
		}
	}
	admin := k.Admin()
	admin.QPS, admin.WarningHandler = -1, rest.NoWarnings{}
	var err error
	if w.objects, err = dynamic.NewForConfig(admin); err != nil {
		t.Fatal(err)
	}
	w.define(t)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, k.Kubeconfig(), 0o600); err != nil {
		t.Fatal(err)
	}
	w.s = drover.Serve(t, append(w.e.args(t), "--gitops-options", "kubeconfig="+kubeconfig+",engines=edge")...)
	w.agent = drover.Join(t, w.s.URL(), "edge", w.s.Cluster(t, "edge"), "--runtime", "argocd",
		"--runtime-options", "kubeconfig="+kubeconfig+",argocd="+w.a.Namespace+options)
	return w
}

// define makes the custom resources known.
func (w *station) define(t *testing.T) {
	t.Helper()
	for text := range strings.SplitSeq(string(app.Manifests()), "\n---\n") {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
			t.Fatal(err)
		}
		if o.GetKind() != "CustomResourceDefinition" {
			continue // rights: the bench has all of them
		}
		if _, err := w.objects.Resource(kubeDefinitions).Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	drover.Until(t, "the custom resources", func() bool {
		_, err := w.objects.Resource(gitopsDeployments).List(t.Context(), metav1.ListOptions{Limit: 1})
		return err == nil
	})
}

// tenants makes namespaces.
func (w *station) tenants(t *testing.T, prefix string, n int) (names []string) {
	t.Helper()
	for i := range n {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace",
			"metadata": map[string]any{"name": fmt.Sprintf("%s-%d", prefix, i)}}}
		if _, err := w.objects.Resource(kubeNamespaces).Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		names = append(names, o.GetName())
	}
	return names
}

// deploy makes a GitOpsDeployment, and returns where its Application will be.
func (w *station) deploy(namespace, name string, source, destination map[string]any) (application string, err error) {
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": gitopsDeployments.GroupVersion().String(), "kind": "GitOpsDeployment",
		"metadata": map[string]any{"name": name},
		"spec":     map[string]any{"source": source, "destination": destination, "type": "automated"},
	}}
	made, err := w.objects.Resource(gitopsDeployments).Namespace(namespace).Create(context.Background(), o, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return w.a.Namespace + "/gitopsdepl-" + string(made.GetUID()), nil
}

func from(repository, path string) map[string]any {
	return map[string]any{"repoURL": repository, "path": path, "targetRevision": "main"}
}

// sight notes when each object of a kind was first seen to be as is asked, by its
// namespace and name.
type sight struct {
	mu   sync.Mutex
	at   map[string]time.Time
	more chan struct{}
}

func there(*unstructured.Unstructured) bool { return true }

// has is the question for the state of a deployment or of an Application; an empty
// one is not looked at.
func has(sync, health string) func(*unstructured.Unstructured) bool {
	return func(o *unstructured.Unstructured) bool {
		return (sync == "" || argocd.Field(o, "status.sync.status") == sync) && (health == "" || argocd.Field(o, "status.health.status") == health)
	}
}

// look watches a kind until the test ends, with one goroutine.
func (w *station) look(t *testing.T, kind schema.GroupVersionResource, is func(*unstructured.Unstructured) bool) *sight {
	t.Helper()
	return w.lookAnd(t, kind, is, func(*unstructured.Unstructured) {})
}

// lookAnd is look, and has each one that is first seen handed on.
func (w *station) lookAnd(t *testing.T, kind schema.GroupVersionResource, is func(*unstructured.Unstructured) bool, then func(*unstructured.Unstructured)) *sight {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s, done := &sight{at: map[string]time.Time{}, more: make(chan struct{}, 1)}, make(chan struct{})
	t.Cleanup(func() { cancel(); <-done })
	begun := make(chan struct{})
	note := func(o *unstructured.Unstructured) {
		if s.see(o, is) {
			then(o)
		}
	}
	go func() {
		defer close(done)
		first := sync.OnceFunc(func() { close(begun) })
		for ctx.Err() == nil { // a watch may end
			list, err := w.objects.Resource(kind).List(ctx, metav1.ListOptions{})
			if err != nil {
				continue
			}
			for i := range list.Items {
				note(&list.Items[i])
			}
			events, err := w.objects.Resource(kind).Watch(ctx, metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
			if err != nil {
				continue
			}
			first()
			for e := range events.ResultChan() {
				if o, ok := e.Object.(*unstructured.Unstructured); ok && e.Type != apiwatch.Error && e.Type != apiwatch.Deleted {
					note(o)
				}
			}
			events.Stop()
		}
	}()
	<-begun
	return s
}

func (s *sight) see(o *unstructured.Unstructured, is func(*unstructured.Unstructured) bool) (first bool) {
	now, key := time.Now(), o.GetNamespace()+"/"+o.GetName()
	if !is(o) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, seen := s.at[key]; seen {
		return false
	}
	s.at[key] = now
	select {
	case s.more <- struct{}{}:
	default:
	}
	return true
}

// count tells how many were seen.
func (s *sight) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.at)
}

// since is when they were seen, counted from a moment.
func (s *sight) since(began time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var took []time.Duration
	for _, at := range s.at {
		took = append(took, at.Sub(began))
	}
	return quantiles(took)
}

// await waits until n were seen.
func (s *sight) await(t *testing.T, what string, n int, d time.Duration) {
	t.Helper()
	deadline := time.After(d)
	for s.count() < n {
		select {
		case <-s.more:
		case <-deadline:
			t.Fatalf("%d of %d are %s after %s", s.count(), n, what, d)
		}
	}
}

// when waits until these were seen, and returns when the last was.
func (s *sight) when(t *testing.T, what string, keys []string, d time.Duration) (last time.Time) {
	t.Helper()
	deadline := time.Now().Add(d)
	for _, key := range keys {
		for {
			s.mu.Lock()
			at, seen := s.at[key]
			s.mu.Unlock()
			if seen {
				if at.After(last) {
					last = at
				}
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s is not %s after %s", key, what, d)
			}
			time.Sleep(10 * time.Millisecond) // when it was seen is noted elsewhere
		}
	}
	return last
}

// paced does something n times at an even pace, each of which leads to an object
// that is seen, and returns how long that took.
func (s *sight) paced(t *testing.T, n int, pace time.Duration, do func(i int) (key string, err error)) (took []time.Duration) {
	t.Helper()
	tick := time.NewTicker(pace)
	defer tick.Stop()
	var wg sync.WaitGroup
	begun, keys := make([]time.Time, n), make([]string, n)
	for i := range n {
		<-tick.C
		wg.Go(func() {
			begun[i] = time.Now()
			var err error
			if keys[i], err = do(i); err != nil {
				t.Errorf("%d: %v", i, err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	s.when(t, "seen", keys, 15*time.Minute)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, key := range keys {
		took = append(took, s.at[key].Sub(begun[i]))
	}
	return took
}

// say is what Argo CD would have said of an Application.
func (w *station) say(o *unstructured.Unstructured, sync, health string, conditions ...any) error {
	compared := map[string]any{}
	for _, field := range []string{"source", "destination"} {
		compared[field], _, _ = unstructured.NestedMap(o.Object, "spec", field)
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{
		"sync":   map[string]any{"status": sync, "revision": "0123456789abcdef0123456789abcdef01234567", "comparedTo": compared},
		"health": map[string]any{"status": health}, "conditions": conditions,
	}})
	if err != nil {
		return err
	}
	_, err = w.objects.Resource(argoApplications).Namespace(o.GetNamespace()).Patch(context.Background(), o.GetName(), types.MergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// play has every Application get a state at once, as if Argo CD worked for nothing:
// what is measured is what we do. Eight goroutines end with the test.
func (w *station) play(t *testing.T, state func(*unstructured.Unstructured) (sync, health string, conditions []any)) {
	t.Helper()
	if err := w.a.Controller.Kill(); err != nil {
		t.Fatal(err)
	}
	todo := make(chan *unstructured.Unstructured, 100_000)
	var wg sync.WaitGroup
	t.Cleanup(func() { close(todo); wg.Wait() })
	for range 8 {
		wg.Go(func() {
			for o := range todo {
				sync, health, conditions := state(o)
				if err := w.say(o, sync, health, conditions...); err != nil && t.Context().Err() == nil {
					t.Errorf("%s: %v", o.GetName(), err)
				}
			}
		})
	}
	// Registered after the channel's end, so that nobody sends any more by then.
	w.lookAnd(t, argoApplications, there, func(o *unstructured.Unstructured) { todo <- o })
}
