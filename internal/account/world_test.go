package account_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/account"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/reconcile"
	"github.com/droverhq/drover/internal/sqlledger"
	"github.com/droverhq/drover/internal/sso"
)

// world is a ledger and an identity provider that outlive the processes which
// use them.
type world struct {
	ledger *sqlledger.Ledger
	idp    *idp

	mu  sync.Mutex
	now time.Time
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), idp: &idp{clients: map[string]sso.Client{}, random: rand.New(rand.NewPCG(1, 2))}}
	l, err := sqlledger.Open(t.Context(), sqlledger.Config{
		URL: filepath.Join(t.TempDir(), "ledger.db"), Kinds: []ledger.Kind{account.Kind},
		Key: make([]byte, ledger.KeySize), Now: w.clock,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	w.ledger = l
	return w
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

// process is one server; it dies after a number of commits, negative: never.
type process struct {
	*world
	*account.Service

	mu      sync.Mutex
	commits int
	dead    bool
}

func (w *world) start(commits int, change ...func(c *account.Config)) *process {
	p := &process{world: w, commits: commits}
	c := account.Config{Store: mortal{w.ledger, p}, Provider: dying{w.idp, p}, Now: w.clock}
	for _, f := range change {
		f(&c)
	}
	p.Service = account.NewService(c)
	return p
}

var errDead = fault.New(fault.Unavailable, "this process is dead").Because("outcome-unknown")

func (p *process) alive() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return errDead
	}
	return nil
}

// mortal is the ledger as a process sees it that may die after each commit.
type mortal struct {
	*sqlledger.Ledger
	p *process
}

func (m mortal) Commit(ctx context.Context, set ledger.Set) (ledger.Result, error) {
	if err := m.p.alive(); err != nil {
		return ledger.Result{}, err
	}
	r, err := m.Ledger.Commit(ctx, set)
	m.p.mu.Lock()
	defer m.p.mu.Unlock()
	if m.p.commits--; m.p.commits == 0 {
		m.p.dead = true
		return ledger.Result{}, errDead
	}
	return r, err
}

func (m mortal) Shred(ctx context.Context, ref string) error {
	if err := m.p.alive(); err != nil {
		return err
	}
	return m.Ledger.Shred(ctx, ref)
}

// dying is the identity provider as that process sees it.
type dying struct {
	*idp
	p *process
}

func (d dying) Apply(ctx context.Context, c sso.Client) error {
	if err := d.p.alive(); err != nil {
		return err
	}
	return d.idp.Apply(ctx, c)
}

func (d dying) Delete(ctx context.Context, id string) error {
	if err := d.p.alive(); err != nil {
		return err
	}
	return d.idp.Delete(ctx, id)
}

// idp is an identity provider in memory. A share of its calls fails, half of
// those after they had their effect.
type idp struct {
	mu      sync.Mutex
	clients map[string]sso.Client
	share   float64
	random  *rand.Rand
	applied int
	before  func() // runs before the next Apply, once
}

func (i *idp) flaky(effect func()) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.random.Float64() >= i.share {
		effect()
		return nil
	}
	if i.random.Float64() < 0.5 {
		effect()
	}
	return fault.New(fault.Unavailable, "the identity provider is away")
}

func (i *idp) Apply(ctx context.Context, c sso.Client) error {
	i.mu.Lock()
	before := i.before
	i.before = nil
	i.mu.Unlock()
	if before != nil {
		before()
	}
	if ctx.Err() != nil {
		return fault.New(fault.Unavailable, "given up")
	}
	return i.flaky(func() {
		i.applied++
		i.clients[c.ID] = c
	})
}

func (i *idp) Delete(_ context.Context, id string) error {
	return i.flaky(func() { delete(i.clients, id) })
}

func (i *idp) Get(_ context.Context, id string) (sso.Client, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	c, ok := i.clients[id]
	if !ok {
		return c, fault.New(fault.NotFound, "no client %s", id)
	}
	return c, nil
}

func (i *idp) Endpoints() sso.Endpoints { return sso.Endpoints{Name: "fake"} }

func (i *idp) all() map[string]sso.Client {
	i.mu.Lock()
	defer i.mu.Unlock()
	return maps.Clone(i.clients)
}

func (i *idp) fail(share float64) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.share = share
}

// work runs what is due, as the loop does, in turns by the processes, and lets
// time pass until nothing but the next recheck is left.
func (w *world) work(t testing.TB, ps ...*process) {
	t.Helper()
	for round := range 40 {
		for w.once(t, ps[round%len(ps)]) {
		}
		w.pass(time.Minute)
	}
}

// once claims and runs due work, and reports whether there was any.
func (w *world) once(t testing.TB, p *process) bool {
	t.Helper()
	got, err := w.ledger.Claim(t.Context(), ledger.ClaimRequest{Holder: "test", Kinds: []string{account.Kind.Name}, Limit: 100, Lease: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	for _, work := range got.Work {
		r, err := p.Reconcile(t.Context(), reconcile.Task{Ref: work.Ref, Org: work.Org})
		set := r.Write
		set.Actor, set.Cause = "system", "schedule:test"
		set.Lease = &work.Lease
		set.Finish = &ledger.Finish{Dirty: work.Dirty, Next: err != nil || r.Again || r.Next, After: r.After}
		if err != nil {
			set.Finish.After = 10 * time.Second
		}
		if _, err := w.ledger.Commit(t.Context(), set); fault.Reason(err) == "version" {
			if err := w.ledger.Release(t.Context(), []ledger.Lease{work.Lease}); err != nil {
				t.Fatal(err)
			}
		} else if err != nil {
			t.Fatalf("cannot write the result of %s: %v", work.Ref, err)
		}
	}
	return len(got.Work) > 0
}

func as(ctx context.Context, user, org string) context.Context {
	return access.With(ctx, access.Principal{User: user, Org: org, Account: "acc-" + user})
}

// objects returns every account that was ever written.
func (w *world) objects(t testing.TB) []ledger.Object {
	t.Helper()
	all, err := w.ledger.List(t.Context(), ledger.Query{Kind: account.Kind.Name, Deleted: true, Limit: ledger.MaxPage})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func name(i int) string { return fmt.Sprintf("account-%d", i) }
