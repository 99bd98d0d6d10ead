//go:build e2e

package terraform_test

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/executor/terraform"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/httpapi"
	"github.com/droverhq/drover/internal/reconcile"
	"github.com/droverhq/drover/internal/sqlledger"
	"github.com/droverhq/drover/test/tofu"
)

// world is a ledger behind a server, a real OpenTofu, and a place for what modules
// make.
type world struct {
	states *environment.States
	url    string
	down   atomic.Bool
	// posted is called before a state is taken; nil: nobody asks.
	posted func()
	work   string // of runs
	place  string // of what is made
	x      *terraform.Executor
	fence  atomic.Int64
}

const token = "the-token-of-runs"

func newWorld(t *testing.T) *world {
	t.Helper()
	store, err := sqlledger.Open(t.Context(), sqlledger.Config{URL: filepath.Join(t.TempDir(), "ledger.db"), Kinds: environment.Kinds(), Key: make([]byte, 32)})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{states: &environment.States{Store: store, Keeper: store}, work: filepath.Join(t.TempDir(), "runs"), place: t.TempDir()}
	fail := func(rw http.ResponseWriter, _ *http.Request, err error) {
		status := http.StatusInternalServerError
		switch fault.Of(err) {
		case fault.Conflict:
			status = http.StatusConflict
		case fault.Invalid:
			status = http.StatusBadRequest
		}
		http.Error(rw, err.Error(), status)
	}
	mux := http.NewServeMux()
	mux.Handle("/state/{resource}", httpapi.ServeState(w.states, fail))
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		_, password, _ := r.BasicAuth()
		switch {
		case w.down.Load():
			http.Error(rw, "away", http.StatusServiceUnavailable)
			return
		case password != token:
			http.Error(rw, "no", http.StatusUnauthorized)
			return
		case r.Method == http.MethodPost && w.posted != nil:
			w.posted()
		}
		mux.ServeHTTP(rw, r)
	}))
	w.url = server.URL
	t.Cleanup(func() { server.Close(); store.Close() })
	w.x = w.open(t)
	return w
}

// open makes an executor, as another process on the same machine would.
func (w *world) open(t *testing.T) *terraform.Executor {
	t.Helper()
	x, err := terraform.New(terraform.Config{Binary: tofu.Path(t), Settings: tofu.Config(t), Work: w.work, Cache: filepath.Join(filepath.Dir(w.work), "cache"), States: w})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func (w *world) Read(ctx context.Context, resource string) (terraform.Head, []byte, error) {
	if w.down.Load() {
		return terraform.Head{}, nil, fault.New(fault.Unavailable, "the ledger is away")
	}
	now, data, err := w.states.Read(ctx, resource)
	head := terraform.Head{Serial: now.Serial, Lineage: now.Lineage}
	if l := now.Lock; l != nil {
		head.Lock = &terraform.Lock{ID: l.ID, Host: l.Host, Run: l.Run, Since: l.Since}
	}
	return head, data, err
}

func (w *world) Access(_ context.Context, run terraform.Run) (terraform.Access, error) {
	return terraform.Access{URL: w.url + "/state/" + run.Resource, User: httpapi.RunName(run.Host, run.Dir, run.Fence), Password: token}, nil
}

func (w *world) Rescue(ctx context.Context, resource string, state []byte) error {
	return w.states.Write(ctx, resource, environment.StateWrite{Data: state})
}

func (w *world) Break(ctx context.Context, resource, lock string) error {
	return w.states.Unlock(ctx, resource, lock)
}

func (w *world) Forget(ctx context.Context, resource string) error {
	return w.states.Forget(ctx, resource)
}

// life is one resource as its caller keeps it.
type life struct {
	executor.Resource
	log *text
}

type text struct {
	mu  sync.Mutex
	buf bytes.Buffer
	on  func(string) // each line; nil: nobody asks
}

func (x *text) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.on != nil {
		x.on(string(p))
	}
	return x.buf.Write(p)
}

func (x *text) String() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.buf.String()
}

func (w *world) life(id, module string, variables map[string]any) *life {
	l := &life{log: &text{}}
	l.Resource = executor.Resource{
		ID: id, Address: "it", Environment: "demo", Log: l.log,
		Inputs: map[string]any{"files": map[string]any{"main.tf": module}, "variables": variables},
	}
	l.Save = func(_ context.Context, state []byte) error { l.State = bytes.Clone(state); return nil }
	return l
}

// call is the resource for one call, with a later fence than all before.
func (w *world) call(l *life) executor.Resource {
	r := l.Resource
	r.Inputs = maps.Clone(r.Inputs)
	r.Fence = reconcile.Fence{ID: r.ID, Token: w.fence.Add(1)}
	return r
}

func (w *world) apply(t *testing.T, l *life) executor.Result {
	t.Helper()
	res, err := w.x.Apply(t.Context(), w.call(l))
	if err != nil {
		t.Fatalf("cannot apply: %v\n%s", err, l.log)
	}
	if res.Done {
		l.Outputs = res.Outputs
	}
	return res
}

func (w *world) destroy(t *testing.T, l *life) {
	t.Helper()
	if res, err := w.x.Destroy(t.Context(), w.call(l)); err != nil || !res.Done {
		t.Fatalf("cannot destroy: %+v, %v\n%s", res, err, l.log)
	}
	if left, err := os.ReadDir(w.work); err != nil || len(left) > 0 {
		t.Errorf("runs are left behind: %v, %v", left, err)
	}
}

// look shows the files of a directory.
func look(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		out[e.Name()] = string(data)
	}
	return out
}

// find looks for a text in all files below a directory.
func find(t testing.TB, dir, what string) (in []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte(what)) {
			in = append(in, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// locked is a lock of a run on a host.
func (w *world) locked(t *testing.T, id, host, run string) {
	t.Helper()
	raw, _ := json.Marshal(map[string]string{"ID": "left-behind"})
	if _, err := w.states.Lock(t.Context(), id, environment.StateLock{ID: "left-behind", Host: host, Run: run, Info: raw}); err != nil {
		t.Fatal(err)
	}
}

var _ terraform.States = (*world)(nil)
