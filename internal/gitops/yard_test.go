package gitops_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
	"github.com/droverhq/drover/internal/reconcile"
	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/source"
	"github.com/droverhq/drover/internal/sqlledger"
)

var (
	anna  = access.With(context.Background(), access.Principal{User: "anna", Org: "acme"})
	carl  = access.With(context.Background(), access.Principal{User: "carl", Org: "other"})
	chief = access.With(context.Background(), access.Principal{User: "chief", Admin: true})
)

// killed is the panic that stands for kill -9.
type killed struct{}

// frail is a ledger whose user may be killed before or after a commit.
type frail struct {
	*sqlledger.Ledger
	mu      sync.Mutex
	at      []int // effects until the next kill
	kills   int
	commits int  // that changed something
	calls   int  // whether they did or not
	forgets bool // what was written before
}

func (f *frail) tick() {
	if len(f.at) == 0 {
		return
	}
	if f.at[0]--; f.at[0] < 0 {
		f.at, f.kills = f.at[1:], f.kills+1
		panic(killed{})
	}
}

func (f *frail) Commit(ctx context.Context, set ledger.Set) (ledger.Result, error) {
	f.tick()
	f.mu.Lock()
	f.calls++
	f.mu.Unlock()
	r, err := f.Ledger.Commit(ctx, set)
	if r.Seq > 0 {
		f.mu.Lock()
		f.commits++
		f.mu.Unlock()
	}
	f.tick()
	return r, err
}

// engines are clusters by id.
type engines struct {
	mu   sync.Mutex
	by   map[string]gitops.Engine
	away bool
}

func (e *engines) Engine(_ context.Context, id string) (gitops.Engine, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.away {
		return gitops.Engine{}, fault.New(fault.Unavailable, "the fleet cannot be asked")
	}
	if x, ok := e.by[id]; ok {
		return x, nil
	}
	return gitops.Engine{}, fault.New(fault.NotFound, "there is no cluster %s", id)
}

func (e *engines) Engines(context.Context) ([]gitops.Engine, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.away {
		return nil, fault.New(fault.Unavailable, "the fleet cannot be asked")
	}
	return slices.Collect(maps.Values(e.by)), nil
}

// mirror is a Kubernetes API as far as statuses go.
type mirror struct {
	mu       sync.Mutex
	there    map[string]bool // UIDs
	told     map[string]any
	times    map[string]int
	released map[string]bool
	away     bool
	then     func() // happens right after the next one was told; nil: nothing

	stands map[string]int64 // generations by UID, of those that the API has for sure
	asked  func()           // happens right after the next one was asked for; nil: nothing
	mended []string         // UIDs
}

func (m *mirror) Tell(_ context.Context, _, uid string, _ gitops.Origin, status any) error {
	if then := m.then; then != nil {
		m.then = nil
		defer then()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away {
		return fault.New(fault.Unavailable, "the API is away")
	}
	if !m.there[uid] {
		return fault.New(fault.NotFound, "there is none")
	}
	m.told[uid] = status
	m.times[uid]++
	return nil
}

func (m *mirror) Release(_ context.Context, _, uid string, _ gitops.Origin) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away {
		return fault.New(fault.Unavailable, "the API is away")
	}
	m.released[uid] = true
	return nil
}

func (m *mirror) Stands(_ context.Context, _, uid string, _ gitops.Origin) (int64, error) {
	if then := m.asked; then != nil {
		m.asked = nil
		defer then()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away {
		return 0, fault.New(fault.Unavailable, "the API is away")
	}
	generation, ok := m.stands[uid]
	if !ok {
		return 0, fault.New(fault.NotFound, "there is none")
	}
	return generation, nil
}

func (m *mirror) Mended(_ context.Context, _, uid string, _ gitops.Origin) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mended = append(m.mended, uid)
}

// hub is a Git server: commits by repository and revision, files by commit.
type hub struct {
	mu     sync.Mutex
	heads  map[string]string
	files  map[string]map[string]string
	err    error
	probes int
	reads  int
	heavy  map[string]bool // commits that are too large
}

func (h *hub) Probe(_ context.Context, at source.Location, _ source.Credential) (string, error) {
	h.probes++
	if h.err != nil {
		return "", h.err
	}
	if c, ok := h.heads[at.Revision]; ok {
		return c, nil
	}
	return "", fault.New(fault.NotFound, "there is no revision %q", at.Revision)
}

func (h *hub) Read(_ context.Context, at source.Location, _ source.Credential, _ source.Limits) (source.Tree, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reads++
	if h.err != nil {
		return source.Tree{}, h.err
	}
	if h.heavy[at.Revision] {
		return source.Tree{}, fault.New(fault.Invalid, "the repository is too large").Because("too-large")
	}
	out := source.Tree{Commit: at.Revision, Files: map[string]source.File{}, Author: "Ada", Message: "of " + at.Revision}
	for name, text := range h.files[at.Revision] {
		out.Files[name] = source.File{Data: []byte(text)}
	}
	return out, nil
}

// yard is a control plane with agents, which is killed and started again.
type yard struct {
	t       testing.TB
	ticking sync.Mutex // what reads commits beside a run has the time, too
	clock   time.Time
	store   *frail
	engines *engines
	mirror  *mirror
	hub     *hub
	s       *gitops.Service
	all     map[string]reconcile.Reconciler
	failed  []error // runs, which the loop tells
}

func newYard(t testing.TB) *yard {
	t.Helper()
	y := &yard{
		t: t, clock: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC), store: &frail{},
		engines: &engines{by: map[string]gitops.Engine{"hub": {ID: "hub", Runtime: "argocd", Ready: true}}},
		mirror:  &mirror{there: map[string]bool{}, told: map[string]any{}, times: map[string]int{}, released: map[string]bool{}},
		hub:     &hub{heads: map[string]string{}, files: map[string]map[string]string{}},
	}
	l, err := sqlledger.Open(context.Background(), sqlledger.Config{
		URL: filepath.Join(t.TempDir(), "drover.db"), Key: bytes.Repeat([]byte{7}, 32), Now: y.now,
		Kinds: append(gitops.Kinds(), operation.Kind),
	})
	y.must(err)
	t.Cleanup(func() {
		y.moves()
		l.Close()
	})
	y.store.Ledger = l
	y.start()
	return y
}

func (y *yard) now() time.Time {
	y.ticking.Lock()
	defer y.ticking.Unlock()
	return y.clock
}

func (y *yard) set(now time.Time) {
	y.ticking.Lock()
	defer y.ticking.Unlock()
	y.clock = now
}

// start is what a new process has: the ledger, and nothing in memory.
func (y *yard) start() {
	y.s = gitops.NewService(gitops.Config{
		Store: y.store, Keeper: y.store, Engines: y.engines, Mirror: y.mirror, Source: y.hub, Prober: y.hub,
		Now: y.now,
	})
	y.all = y.s.Reconcilers()
}

func (y *yard) must(err error) {
	y.t.Helper()
	if err != nil {
		y.t.Fatal(err)
	}
}

// run works on a piece until it rests; a kill ends it early.
func (y *yard) run(work ledger.Work) {
	defer func() {
		if v := recover(); v != nil {
			if _, ok := v.(killed); !ok {
				panic(v)
			}
			y.start()
		}
	}()
	for range 50 {
		res, err := y.all[work.Kind].Reconcile(context.Background(), reconcile.Task{Ref: work.Ref, Org: work.Org, Cause: work.Cause, Attempts: work.Attempts, Token: work.Token})
		set := res.Write
		if set.Actor == "" {
			set.Actor, set.Cause = "system", work.Cause
		}
		set.Lease = &work.Lease
		switch {
		case reconcile.IsTerminal(err), err != nil && fault.Of(err) == fault.Internal:
			y.t.Fatalf("%s: %v", work.Ref, err)
		case err != nil:
			y.failed = append(y.failed, err)
			set.Finish = &ledger.Finish{Dirty: work.Dirty, Next: true, After: time.Second, Attempts: work.Attempts + 1}
		case !res.Again:
			set.Finish = &ledger.Finish{Dirty: work.Dirty, Next: res.Next, After: res.After}
		}
		_, err = y.store.Commit(context.Background(), set)
		if fault.Reason(err) == "lease-lost" {
			return
		}
		if err != nil && !fault.Is(err, fault.Conflict) {
			y.t.Fatalf("commit of %s: %v", work.Ref, err)
		}
		if err == nil && set.Finish != nil {
			return
		}
	}
	y.t.Fatalf("%s never comes to rest", work.Ref)
}

// work does everything that is due, for so long.
func (y *yard) work(d time.Duration) {
	y.t.Helper()
	until := y.clock.Add(d)
	for range 100_000 {
		due, err := y.store.Claim(context.Background(), ledger.ClaimRequest{Holder: "test", Kinds: slices.Sorted(maps.Keys(y.all)), Limit: 8, Lease: 3 * time.Second})
		y.must(err)
		for _, piece := range due.Work {
			y.run(piece)
		}
		if len(due.Work) > 0 || due.Next == 0 {
			y.set(y.clock.Add(time.Millisecond))
			continue
		}
		if due.Next < 0 || y.clock.Add(due.Next).After(until) {
			y.set(until)
			return
		}
		y.set(y.clock.Add(due.Next + time.Millisecond))
	}
	y.t.Fatal("it never comes to rest")
}

func (y *yard) get(id string) gitops.Deployment {
	y.t.Helper()
	o, err := y.store.Get(context.Background(), ledger.Ref{Kind: "deployment", ID: id})
	y.must(err)
	d, err := gitops.Decode(o)
	y.must(err)
	return d
}

func (y *yard) syncrun(id string) gitops.SyncRun {
	y.t.Helper()
	o, err := y.store.Get(context.Background(), ledger.Ref{Kind: "syncrun", ID: id})
	y.must(err)
	r, err := gitops.DecodeSyncRun(o)
	y.must(err)
	return r
}

func (y *yard) operation(id string) (phase, reason string) {
	y.t.Helper()
	o, err := y.store.Get(context.Background(), ledger.Ref{Kind: "operation", ID: id})
	y.must(err)
	var s operation.Status
	if len(o.Status) > 0 {
		y.must(json.Unmarshal(o.Status, &s))
	}
	return o.Phase, s.Reason
}

// operationsEnded fails where an operation runs that nobody will end.
func (y *yard) operationsEnded() {
	y.t.Helper()
	found, err := y.store.List(context.Background(), ledger.Query{Kind: "operation", Limit: 1000})
	y.must(err)
	for _, o := range found {
		if o.Phase == operation.Running {
			y.t.Errorf("%s still runs", o.Name)
		}
	}
}

// item is what a cluster must have of a deployment.
func (y *yard) item(cluster, id string) (gitops.Item, bool) {
	y.t.Helper()
	for _, it := range gitops.DesiredItems(y.get(id).Object) {
		if it.Cluster == cluster {
			return it, true
		}
	}
	return gitops.Item{}, false
}

// body is an item's, with its secrets.
func (y *yard) body(cluster, id string) (d runtime.Deployment) {
	y.t.Helper()
	raw, _, err := y.s.Body(context.Background(), y.get(id).Object, cluster)
	y.must(err)
	y.must(json.Unmarshal(raw, &d))
	return d
}

// report tells what an agent sees of a deployment, in the generation it was told.
func (y *yard) report(cluster, id string, state runtime.State, seen *runtime.Deployed) {
	y.t.Helper()
	it, ok := y.item(cluster, id)
	if !ok {
		y.t.Fatalf("%s has nothing of %s", cluster, id)
	}
	o := gitops.Observation{ID: id, Generation: it.Generation, State: string(state), Leaf: it.Seen + 1}
	if seen != nil {
		o.Detail, _ = json.Marshal(seen)
	}
	out, err := y.s.Observe(context.Background(), cluster, []gitops.Observation{o})
	y.must(err)
	if len(out.Refused) > 0 {
		y.t.Fatalf("refused: %v", out)
	}
}

// fine is what Argo CD says of what is in order.
func fine(commit string) *runtime.Deployed {
	return &runtime.Deployed{Sync: runtime.SyncStatus{Status: "Synced", Revision: commit}, Health: runtime.HealthStatus{Status: "Healthy"}}
}

// intent is a GitOpsDeployment of namespace "shop".
func (y *yard) intent(uid string, generation int64) gitops.DeploymentIntent {
	return gitops.DeploymentIntent{
		Intent: gitops.Intent{
			Namespace: gitops.Namespace{Home: "main", Name: "shop", UID: "ns-1", Engine: "hub"}, Name: "web", UID: uid, Generation: generation,
		},
		Repository: "https://git.example.org/acme/shop.git", Path: "k8s", Revision: "main", Type: "automated",
	}
}

func (y *yard) apply(in gitops.DeploymentIntent) {
	y.t.Helper()
	y.mirror.there[in.UID] = true
	y.must(y.s.IntendDeployment(context.Background(), in))
}

func (y *yard) told(uid string) gitops.DeploymentView {
	v, _ := y.mirror.told[uid].(gitops.DeploymentView)
	return v
}

// condition is one that was told, as "status reason: message".
func (y *yard) condition(uid, kind string) string {
	for _, c := range y.told(uid).Conditions {
		if c.Type == kind {
			return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
		}
	}
	return ""
}
