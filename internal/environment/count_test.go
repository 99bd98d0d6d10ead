package environment_test

import (
	"context"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/reconcile"
)

// between is a ledger in which something happens between two counts.
type between struct {
	*fragile
	phase string // after this one was counted
	do    func()
}

func (b *between) Total(ctx context.Context, q ledger.Query) (int64, error) {
	n, err := b.fragile.Total(ctx, q)
	if q.Kind == "resource" && q.Scope["phase"] == b.phase && b.do != nil {
		do := b.do
		b.do = nil
		do()
	}
	return n, err
}

// A resource that moves while it is counted is not overlooked.
func TestCountedWhileItMoves(t *testing.T) {
	for _, phase := range []string{environment.Failed, environment.Blocked, environment.ResourceLeaving, environment.Ready, environment.Pending, environment.Applying} {
		t.Run(phase, func(t *testing.T) {
			w := newWorld(t, t.TempDir())
			b := &between{fragile: w.store}
			w.configs = append(w.configs, func(c *environment.Config) { c.Store = b })
			w.open()
			t.Cleanup(func() { w.store.Close() })
			w.add("1", shop("db"))
			e := w.up("staging", nil)
			w.forge.trouble = map[string]string{"db": "denied"}
			_, _, err := w.s.Destroy(alice, "staging", "")
			w.must(err)
			for range 20 { // everything but the resource itself is worked on
				for _, piece := range w.claim(8) {
					if piece.Kind != "resource" {
						w.run(piece)
					}
				}
				w.clock = w.clock.Add(time.Second)
			}
			if r := w.resources(e.ID)["db"]; r.Phase != environment.ResourceLeaving {
				t.Fatalf("db is %s", r.Phase)
			}
			b.phase, b.do = phase, func() {
				r := w.resources(e.ID)["db"]
				o := r.Object
				o.Phase = environment.Failed
				_, err := w.store.Ledger.Commit(context.Background(), ledger.Set{Actor: "system", Cause: ledger.ByChange(o.Ref, o.Version), Puts: []ledger.Put{{Object: o, Expect: o.Version, Op: "failed"}}})
				w.must(err)
			}
			res, err := w.all["environment"].Reconcile(context.Background(), reconcile.Task{Ref: e.Ref})
			w.must(err)
			for _, p := range res.Write.Puts {
				if p.Object.Kind == "environment" && !p.Object.Deleted.IsZero() {
					t.Error("it ends while db is still there")
				}
			}
		})
	}
}

// miscounting is a ledger whose counts have gone wrong.
type miscounting struct {
	*fragile
	wrong bool
}

func (m *miscounting) Total(ctx context.Context, q ledger.Query) (int64, error) {
	if m.wrong && q.Kind == "resource" {
		return 0, nil
	}
	return m.fragile.Total(ctx, q)
}

// Whatever the counts say, an environment does not end while something is left.
func TestCountsAreNotBelieved(t *testing.T) {
	w := newWorld(t, t.TempDir())
	m := &miscounting{fragile: w.store}
	w.configs = append(w.configs, func(c *environment.Config) { c.Store = m })
	w.open()
	t.Cleanup(func() { w.store.Close() })
	w.add("1", shop("db", "web<db"))
	e := w.up("staging", nil)
	m.wrong = true
	w.forge.trouble = map[string]string{"db": "denied"}
	_, _, err := w.s.Destroy(alice, "staging", "")
	w.must(err)
	w.work(10 * time.Minute)
	if e = w.env(e.ID); e.Phase != environment.Destroying || len(w.resources(e.ID)) != 1 {
		t.Fatalf("%s, and %d resources are left", e.Phase, len(w.resources(e.ID)))
	}
	w.forge.trouble, m.wrong = nil, false
	_, _, err = w.s.Retry(alice, "staging")
	w.must(err)
	w.work(time.Minute)
	if e = w.env(e.ID); e.Phase != environment.Destroyed || len(w.forge.made) != 0 || len(w.resources(e.ID)) != 0 {
		t.Errorf("%s, %d things and %d resources are left", e.Phase, len(w.forge.made), len(w.resources(e.ID)))
	}
}
