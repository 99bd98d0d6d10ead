//go:build e2e

package argocd_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/droverhq/drover/internal/manifest"
	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/argocd"
	testargo "github.com/droverhq/drover/test/argocd"
	"github.com/droverhq/drover/test/gitserver"
)

// endless is a hook that never ends: nothing runs pods here.
const endless = `apiVersion: batch/v1
kind: Job
metadata:
  name: endless
  annotations:
    argocd.argoproj.io/hook: PreSync
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: a
        image: none
`

func TestTerminates(t *testing.T) {
	a, git, rt := testargo.Shared(t), gitserver.Start(t), open(t, system(t))
	repo, ns := git.Repo(t, "shop"), a.Cluster.Namespace(t)
	repo.Commit(t, "main", map[string]gitserver.Entry{"k8s/a.yaml": configMap("a", "1"), "k8s/hook.yaml": gitserver.File(endless)})
	d := deployment(repo.URL, ns)
	d.Sync = &runtime.SyncRequest{ID: "run-1", Retries: 2}
	apply(t, rt, item(1, d))
	await(t, rt, d, "under way", func(_ runtime.Observed, d runtime.Deployed) bool {
		return d.Run != nil && d.Run.Phase == "Running" && !d.Run.Started.IsZero()
	})
	// Another one waits for its turn.
	d.Sync = &runtime.SyncRequest{ID: "run-2"}
	apply(t, rt, item(2, d))
	await(t, rt, d, "waiting", func(_ runtime.Observed, d runtime.Deployed) bool {
		return d.Run != nil && d.Run.ID == "run-2" && strings.Contains(d.Run.Message, "waits for another operation")
	})
	// And is never begun, if it is ended before.
	d.Sync.Terminate = true
	apply(t, rt, item(3, d))
	await(t, rt, d, "ended before it began", func(_ runtime.Observed, d runtime.Deployed) bool {
		return d.Run.ID == "run-2" && d.Run.Phase == "Terminated"
	})
	d.Sync = &runtime.SyncRequest{ID: "run-1", Retries: 2, Terminate: true}
	apply(t, rt, item(4, d))
	await(t, rt, d, "terminated", func(_ runtime.Observed, d runtime.Deployed) bool {
		return d.Run.ID == "run-1" && d.Run.Phase == "Terminated" && !d.Run.Finished.IsZero()
	})
	a.Wait(t, "gitopsdepl-"+d.UID, "at rest", func(o *unstructured.Unstructured) bool { return o.Object["operation"] == nil && phase(o) == "Failed" })
	// A deployment with a sync that does not end can be removed all the same.
	d.Sync = &runtime.SyncRequest{ID: "run-3"}
	apply(t, rt, item(5, d))
	await(t, rt, d, "under way again", func(_ runtime.Observed, d runtime.Deployed) bool {
		return d.Run.ID == "run-3" && !d.Run.Started.IsZero()
	})
	apply(t, rt, gone(6, d))
	await(t, rt, d, "gone", removed)
}

// mortal lets a runtime die around the write that begins a sync.
type mortal struct {
	next    http.RoundTripper
	before  bool // it dies before the write arrives
	begun   *atomic.Int64
	dead    atomic.Bool
	died    chan struct{}
	oneTime sync.Once
}

func (m *mortal) RoundTrip(r *http.Request) (*http.Response, error) {
	if m.dead.Load() {
		return nil, errors.New("it is dead")
	}
	if r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/applications/") && r.Body != nil {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(bytes.NewReader(b))
		if bytes.Contains(b, []byte(`"operation":{`)) {
			defer m.oneTime.Do(func() { close(m.died) })
			if m.dead.Store(true); m.before {
				return nil, errors.New("it is dead")
			}
			m.begun.Add(1)
		}
	}
	return m.next.RoundTrip(r)
}

// A sync is begun once, wherever the runtime dies.
func TestSyncsOnce(t *testing.T) {
	a, git := testargo.Shared(t), gitserver.Start(t)
	for _, before := range []bool{true, false} {
		t.Run(fmt.Sprintf("dies before the write: %v", before), func(t *testing.T) {
			repo, ns, home := git.Repo(t, fmt.Sprintf("once-%v", before)), a.Cluster.Namespace(t), system(t)
			repo.Commit(t, "main", map[string]gitserver.Entry{"k8s/a.yaml": configMap("a", "1")})
			d := deployment(repo.URL, ns)
			d.Sync = &runtime.SyncRequest{ID: "run-1"}
			var begun atomic.Int64
			m := &mortal{before: before, begun: &begun, died: make(chan struct{})}
			first := open(t, home, func(c *argocd.Config) {
				c.Wrap = func(next http.RoundTripper) http.RoundTripper { m.next = next; return m }
			})
			apply(t, first, item(1, d))
			<-m.died
			first.Close()
			second := open(t, home, func(c *argocd.Config) {
				c.Wrap = func(next http.RoundTripper) http.RoundTripper { return begins{next, &begun} }
			})
			apply(t, second, item(1, d))
			got := await(t, second, d, "done", func(_ runtime.Observed, d runtime.Deployed) bool {
				return d.Run != nil && d.Run.Phase == "Succeeded" && len(d.History) > 0
			})
			if begun.Load() != 1 || len(got.History) != 1 || got.History[0].By != "run-1" {
				t.Errorf("it was begun %d times: %+v", begun.Load(), got.History)
			}
			apply(t, second, gone(2, d))
			await(t, second, d, "gone", removed)
		})
	}
}

type begins struct {
	next  http.RoundTripper
	begun *atomic.Int64
}

func (c begins) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/applications/") && r.Body != nil {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		if r.Body = io.NopCloser(bytes.NewReader(b)); bytes.Contains(b, []byte(`"operation":{`)) {
			c.begun.Add(1)
		}
	}
	return c.next.RoundTrip(r)
}

// Many deployments at once are made, and known again after a restart.
func TestMany(t *testing.T) {
	const n = 200
	a, git, home := testargo.Shared(t), gitserver.Start(t), system(t)
	rt := open(t, home)
	repo, ns := git.Repo(t, "many"), a.Cluster.Namespace(t)
	repo.Commit(t, "main", map[string]gitserver.Entry{"k8s/a.yaml": configMap("a", "1")})
	items := make([]runtime.Item, n)
	for i := range items {
		d := deployment(repo.URL, ns)
		d.UID, d.Workspace = fmt.Sprintf("%s-%d", ns, i), fmt.Sprintf("ws-%s-%d", ns, i%5)
		items[i] = item(1, d)
	}
	all := func(rt runtime.Runtime, state runtime.State) {
		t.Helper()
		const patience = 4 * time.Minute // for one more of them
		limit := time.NewTimer(patience)
		defer limit.Stop()
		for before := n; ; {
			seen, err := rt.Observe(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			left := n
			for _, o := range seen {
				if o.State == state {
					left--
				}
			}
			if left == 0 {
				return
			}
			if left < before {
				before = left
				limit.Reset(patience)
			}
			select {
			case <-rt.Changed():
			case <-limit.C:
				t.Fatalf("%d are not %s", left, state)
			}
		}
	}
	start := time.Now()
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := w; i < n; i += 8 {
				if err := rt.Apply(t.Context(), items[i]); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	all(rt, runtime.Ready)
	t.Logf("%d deployments were made in %s", n, time.Since(start).Round(time.Millisecond))
	rt.Close()

	start = time.Now()
	rt = open(t, home)
	for _, it := range items {
		apply(t, rt, it)
	}
	all(rt, runtime.Ready)
	t.Logf("and known again in %s", time.Since(start).Round(time.Millisecond))
	for _, it := range items {
		apply(t, rt, runtime.Item{ID: it.ID, Kind: it.Kind, Generation: 2, Token: 2, Delete: true})
	}
	all(rt, runtime.Deleted)
}

// Operations are shown while they matter, and ten minutes longer.
func TestOperations(t *testing.T) {
	a, git := testargo.Shared(t), gitserver.Start(t)
	definition(t, a)
	now := atomic.Pointer[time.Time]{}
	at := time.Now()
	now.Store(&at)
	home := system(t)
	clock := func(c *argocd.Config) { c.Now = func() time.Time { return *now.Load() } }
	rt := open(t, home, clock)
	repo, ns := git.Repo(t, "shop"), a.Cluster.Namespace(t)
	repo.Commit(t, "main", map[string]gitserver.Entry{"k8s/a.yaml": configMap("a", "1")})
	c, err := dynamic.NewForConfig(a.Cluster.Admin())
	if err != nil {
		t.Fatal(err)
	}
	in := c.Resource(schema.GroupVersionResource{Group: "managed-gitops.redhat.com", Version: "v1alpha1", Resource: "operations"}).Namespace(a.Namespace)
	d := deployment(repo.URL, ns)
	d.Operation = &runtime.DeploymentOperation{ID: "op-" + ns, Owner: d.Workspace, Resource: d.UID, Type: "GitOpsDeployment", Cause: "it was asked for"}
	apply(t, rt, item(1, d))
	got := testargo.WaitFor(t, in, "operation-op-"+ns, "completed", testargo.Is(map[string]string{"status.state": "Completed"}))
	if testargo.Field(got, "spec.operationID") != "op-"+ns || testargo.Field(got, "spec.owner") != d.Workspace || testargo.Field(got, "spec.resource") != d.UID || testargo.Field(got, "spec.resourceType") != "GitOpsDeployment" {
		t.Errorf("got %v", got.Object["spec"])
	}
	d.Path, d.Operation = "../up", &runtime.DeploymentOperation{ID: "bad-" + ns, Owner: d.Workspace, Resource: d.UID, Type: "GitOpsDeployment"}
	apply(t, rt, item(2, d))
	got = testargo.WaitFor(t, in, "operation-bad-"+ns, "failed", testargo.Is(map[string]string{"status.state": "Failed"}))
	if !strings.Contains(testargo.Field(got, "status.message"), "out of the repository") {
		t.Errorf("got %v", got.Object["status"])
	}
	d.Path = "k8s"
	apply(t, rt, item(3, d))
	testargo.WaitFor(t, in, "operation-bad-"+ns, "completed", testargo.Is(map[string]string{"status.state": "Completed"}))

	rt.Close()
	later := at.Add(11 * time.Minute)
	now.Store(&later)
	rt = open(t, home, clock)
	apply(t, rt, gone(4, d))
	await(t, rt, d, "gone", removed)
	for _, name := range []string{"operation-op-" + ns, "operation-bad-" + ns} {
		testargo.WaitFor(t, in, name, "gone", func(o *unstructured.Unstructured) bool { return o == nil })
	}
}

// definition of Operations, as it is installed.
func definition(t *testing.T, a *testargo.Server) {
	t.Helper()
	const dir = "../../kubeapi/manifests/crd/"
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(dir + f.Name())
		if err != nil {
			t.Fatal(err)
		}
		var crd apiextensions.CustomResourceDefinition
		if yaml.Unmarshal(b, &crd) != nil || crd.Spec.Names.Kind != "Operation" {
			continue
		}
		j, _ := yaml.YAMLToJSON(b)
		var o map[string]any
		if err := json.Unmarshal(j, &o); err != nil {
			t.Fatal(err)
		}
		m, err := manifest.Open(manifest.Config{Kubeconfig: a.Cluster.Kubeconfig(), Establish: 4 * time.Minute})
		if err == nil {
			_, err = m.Apply(t.Context(), manifest.Set{Owner: "definition", Objects: []map[string]any{o}})
		}
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatal("there is no definition of Operations")
}
