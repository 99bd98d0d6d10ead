package environment_test

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/breaker"
	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
	"github.com/droverhq/drover/internal/reconcile"
	"github.com/droverhq/drover/internal/sqlledger"
	"github.com/droverhq/drover/internal/template"
)

var (
	alice    = access.With(context.Background(), access.Principal{User: "alice", Org: "acme"})
	bob      = access.With(context.Background(), access.Principal{User: "bob", Org: "acme"})
	operator = access.With(context.Background(), access.Principal{User: "ops", Admin: true})
)

// judge ends a test: of one case, or of one run of a property.
type judge interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
}

// crashed is the panic that stands for kill -9.
type crashed struct{}

// fate ends the process before or after one of its effects.
type fate struct {
	at      []int // effects until the next crash, one by one
	crashes int
}

func (f *fate) tick() {
	if len(f.at) == 0 {
		return
	}
	if f.at[0]--; f.at[0] < 0 {
		f.at, f.crashes = f.at[1:], f.crashes+1
		panic(crashed{})
	}
}

func (f *fate) around(effect func()) {
	f.tick()
	effect()
	f.tick()
}

// fragile is a ledger whose user may be killed.
type fragile struct {
	*sqlledger.Ledger
	*fate
	commits, puts int
	only          func(set ledger.Set) bool // commits that count towards a crash; nil: all
}

func (f *fragile) Commit(ctx context.Context, set ledger.Set) (r ledger.Result, err error) {
	f.commits++
	f.puts += len(set.Puts)
	f.around(func() { r, err = f.Ledger.Commit(ctx, set) })
	return r, err
}

// stencil is a template whose layout is made up by the test.
type stencil struct {
	id, name string
	nodes    func(params map[string]any) []template.Node
	spec     template.Spec
	judge    func(changes []environment.PlannedChange) []environment.Verdict
	silent   bool
}

type stencils map[string]*stencil

func (s stencils) Blueprint(_ context.Context, ref string) (environment.Blueprint, error) {
	if st := s[ref]; st != nil {
		return st, nil
	}
	return nil, fault.New(fault.NotFound, "there is no template %q", ref)
}

func (s stencils) Files(context.Context, string, string) (map[string][]byte, error) { return nil, nil }

func (s *stencil) About() environment.About {
	return environment.About{ID: s.id, Name: s.name, Version: "1", Spec: s.spec}
}
func (s *stencil) Check(p map[string]any) (map[string]any, error) { return p, nil }
func (s *stencil) Expand(_ context.Context, g template.Given) (environment.Layout, error) {
	p := &pattern{nodes: s.nodes(g.Params), params: g.Params, index: map[string]int{}, silent: s.silent}
	for i, n := range p.nodes {
		p.index[n.Address] = i
	}
	return p, nil
}
func (s *stencil) Judge(_ context.Context, _ environment.Plan, c []environment.PlannedChange) ([]environment.Verdict, error) {
	if s.judge == nil {
		return nil, nil
	}
	return s.judge(c), nil
}
func (s *stencil) May(verb, action string, who access.Principal, org, owner string) bool {
	return s.spec.Permissions.May(verb, action, who, org, owner)
}

// pattern is a layout whose resources take the tokens of what they need.
type pattern struct {
	nodes  []template.Node
	index  map[string]int
	params map[string]any
	silent bool // it has no outputs
}

func (p *pattern) Nodes() []template.Node  { return p.nodes }
func (p *pattern) Groups() []template.Part { return nil }
func (p *pattern) Inputs(_ context.Context, address string, known environment.Known) (map[string]any, error) {
	i := p.index[address]
	in := map[string]any{"size": p.params["size"], "name": address}
	for _, need := range p.nodes[i].Needs {
		k, ok := known(need)
		if !ok {
			in["from-"+need] = executor.Unknown{}
			continue
		}
		in["from-"+need] = k.Outputs["token"]
	}
	return in, nil
}
func (p *pattern) Outputs(_ context.Context, known environment.Known) (out []template.Value, _ error) {
	for _, n := range p.nodes {
		k, ok := known(n.Address)
		if p.silent || !ok {
			continue
		}
		out = append(out, template.Value{Output: template.Output{Name: n.Address}, Value: k.Outputs["url"]},
			template.Value{Output: template.Output{Name: "token-" + n.Address}, Value: k.Outputs["token"]})
	}
	return out, nil
}
func (p *pattern) Checks(context.Context, string, environment.Known) ([]template.Check, error) {
	return nil, nil
}
func (p *pattern) Links(context.Context, string, environment.Known) ([]template.Link, error) {
	return nil, nil
}
func (p *pattern) Action(context.Context, string, map[string]any, environment.Known) (template.Command, error) {
	return template.Command{}, nil
}

// chain makes nodes of "a", "b<a", "c<a,b": each with what it needs.
func chain(text ...string) []template.Node {
	var out []template.Node
	for _, t := range text {
		name, needs, _ := strings.Cut(t, "<")
		n := template.Node{Resource: template.Resource{Name: name, Executor: "forge"}, Address: name, Index: -1, Template: "shop@1"}
		if needs != "" {
			n.Needs = strings.Split(needs, ",")
		}
		out = append(out, n)
	}
	return out
}

// world is a control plane that is killed and started again.
type world struct {
	t       judge
	dir     string
	org     string
	clock   time.Time
	now     *func() time.Time
	since   int64 // the log's head when it began
	store   *fragile
	forge   *forge
	plans   stencils
	s       *environment.Service
	all     map[string]reconcile.Reconciler
	guard   *breaker.Service
	configs []func(*environment.Config)
}

func newWorld(t judge, dir string) *world {
	w := &world{t: t, dir: dir, org: "acme", clock: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), plans: stencils{}}
	now := func() time.Time { return w.clock }
	w.now = &now
	w.store = &fragile{fate: &fate{}}
	w.forge = &forge{w: w, made: map[string]thing{}, saved: map[string]string{}}
	return w
}

// add makes a version of the template "shop" the newest.
func (w *world) add(version string, st *stencil) {
	st.id, st.name = "shop@"+version, "shop"
	w.plans[st.id], w.plans["shop"] = st, st
}

func (w *world) open() {
	l, err := sqlledger.Open(context.Background(), sqlledger.Config{
		URL: filepath.Join(w.dir, "drover.db"), Key: bytes.Repeat([]byte{7}, 32), Now: func() time.Time { return (*w.now)() },
		Kinds: slices.Concat(environment.Kinds(), []ledger.Kind{operation.Kind}, breaker.Kinds(), template.Kinds()),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.store.Ledger = l
	w.start()
}

// start is what a new process has: the ledger, and nothing in memory.
func (w *world) start() {
	w.guard = breaker.NewService(breaker.Config{Store: w.store.Ledger, Now: func() time.Time { return w.clock }})
	c := environment.Config{
		Store: w.store, Keeper: w.store, Templates: w.plans, Approvals: w.guard, Finder: w.store.Ledger,
		Executors: map[string]executor.Executor{"forge": w.forge}, Now: func() time.Time { return w.clock },
	}
	for _, change := range w.configs {
		change(&c)
	}
	w.s = environment.NewService(c)
	w.s.SetPatience(time.Hour, time.Hour) // the machine may be slow; nothing else is
	w.s.SetRest(time.Microsecond)         // breakers have a clock of their own
	w.guard.Waiters = map[string]breaker.Waiters{environment.KindPlan.Name: w.s}
	w.all = maps.Clone(w.s.Reconcilers())
	w.all[breaker.KindApproval.Name] = &breaker.Reconciler{Service: w.guard}
	w.must(w.s.Adopt(context.Background()))
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// claim leases at most so many pieces of due work.
func (w *world) claim(most int) []ledger.Work { return w.claimed(most).Work }

func (w *world) claimed(most int) ledger.Claimed {
	c, err := w.store.Ledger.Claim(context.Background(), ledger.ClaimRequest{Holder: "test", Kinds: slices.Sorted(maps.Keys(w.all)), Limit: most, Lease: 3 * time.Second})
	w.must(err)
	return c
}

// run works on a piece until it rests; a kill ends it early.
func (w *world) run(work ledger.Work) (killed bool) {
	defer func() {
		if v := recover(); v != nil {
			if _, ok := v.(crashed); !ok {
				panic(v)
			}
			w.start()
			killed = true
		}
	}()
	for range 50 {
		res, err := w.all[work.Kind].Reconcile(context.Background(), reconcile.Task{Ref: work.Ref, Org: work.Org, Cause: work.Cause, Attempts: work.Attempts, Token: work.Token})
		set := res.Write
		if set.Actor == "" {
			set.Actor, set.Cause = "system", work.Cause
		}
		set.Lease = &work.Lease
		switch {
		case reconcile.IsTerminal(err):
			w.t.Fatalf("%s: %v", work.Ref, err)
		case err != nil:
			if k := fault.Of(err); k == fault.Internal {
				w.t.Fatalf("%s: %v", work.Ref, err)
			}
			set.Finish = &ledger.Finish{Dirty: work.Dirty, Next: true, After: time.Second, Attempts: work.Attempts + 1}
		case !res.Again:
			set.Finish = &ledger.Finish{Dirty: work.Dirty, Next: res.Next, After: res.After}
		}
		_, err = w.store.Commit(context.Background(), set)
		if fault.Reason(err) == "lease-lost" {
			return false
		}
		if err != nil && !fault.Is(err, fault.Conflict) && !fault.Is(err, fault.Exhausted) {
			w.t.Fatalf("commit of %s: %v", work.Ref, err)
		}
		if err == nil && set.Finish != nil {
			return false
		}
	}
	w.t.Fatalf("%s never comes to rest", work.Ref)
	return false
}

// work does everything that is due, for so long: from one moment at which something
// is due to the next.
func (w *world) work(d time.Duration) {
	until := w.clock.Add(d)
	for range 100_000 {
		due := w.claimed(8)
		for _, piece := range due.Work {
			w.run(piece)
		}
		if next := w.s.Patrol(context.Background()); next >= 0 && (due.Next < 0 || next < due.Next) {
			due.Next = max(next, time.Millisecond)
		}
		if len(due.Work) > 0 || due.Next == 0 {
			w.clock = w.clock.Add(time.Millisecond)
			continue
		}
		if due.Next < 0 || w.clock.Add(due.Next).After(until) {
			w.clock = until
			return
		}
		w.clock = w.clock.Add(due.Next + time.Millisecond)
	}
	w.t.Fatal("it never comes to rest")
}

func (w *world) env(id string) environment.Environment {
	w.t.Helper()
	o, err := w.store.Ledger.Get(context.Background(), ledger.Ref{Kind: "environment", ID: id})
	w.must(err)
	e, err := environment.Decode(o)
	w.must(err)
	return e
}

func (w *world) resources(parent string) map[string]environment.Resource {
	w.t.Helper()
	found, err := w.store.Ledger.List(context.Background(), ledger.Query{Kind: "resource", Scope: map[string]any{"parent": parent}, Limit: 10_000})
	w.must(err)
	out := map[string]environment.Resource{}
	for _, o := range found {
		r, err := environment.DecodeResource(o)
		w.must(err)
		out[r.Spec.Address] = r
	}
	return out
}

func (w *world) plan(o ledger.Object) environment.Plan {
	w.t.Helper()
	o, err := w.store.Ledger.Get(context.Background(), o.Ref)
	w.must(err)
	p, err := environment.DecodePlan(o)
	w.must(err)
	return p
}

func (w *world) operation(id string) (phase, reason string) {
	w.t.Helper()
	o, err := w.store.Ledger.Get(context.Background(), ledger.Ref{Kind: "operation", ID: id})
	w.must(err)
	var s operation.Status
	if len(o.Status) > 0 {
		w.must(json.Unmarshal(o.Status, &s))
	}
	return o.Phase, s.Reason
}

func begin(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, t.TempDir())
	w.open()
	t.Cleanup(func() { w.store.Close() })
	return w
}

// hidesSecrets looks for what nobody may see in everything that is kept.
func (w *world) hidesSecrets() {
	w.t.Helper()
	ctx := context.Background()
	look := func(where string, v any) {
		raw, err := json.Marshal(v)
		w.must(err)
		if strings.Contains(string(raw), "canary-") {
			at := strings.Index(string(raw), "canary-")
			w.t.Fatalf("%s shows a secret: ...%s", where, raw[max(0, at-200):min(len(raw), at+60)])
		}
	}
	for after := w.since; ; {
		changes, err := w.store.Changes(ctx, ledger.ChangeQuery{After: after, Limit: 1000})
		w.must(err)
		if len(changes) == 0 {
			return
		}
		for _, c := range changes {
			after = c.Seq
			look(c.Object.Ref.String(), c)
			var digests struct{ Changes, Log string }
			if len(c.Object.Status) > 0 {
				w.must(json.Unmarshal(c.Object.Status, &digests))
			}
			for _, d := range []string{digests.Changes, digests.Log} {
				if d != "" {
					blob, err := w.store.Blob(ctx, d)
					w.must(err)
					look("a blob of "+c.Object.Ref.String(), string(blob))
				}
			}
		}
	}
}
