package environment_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/template"
)

// guarded is an environment with one endpoint, which is well, and a second replica
// that sees it through eyes of its own.
func guarded(t *testing.T, eyes environment.Health, now func() time.Time) (*world, environment.Environment, *environment.Service) {
	w := newWorld(t, t.TempDir())
	st := &checked{stencil: shop("db"), checks: map[string][]template.Check{"": {{Name: "listed", Consul: "web"}}}}
	st.id, st.name = "shop@1", "shop"
	config := func(c *environment.Config) {
		c.Templates, c.Health, c.Connections = checkedOnes{"shop": st}, &consulHealth{1, 1}, anyConnection{}
	}
	w.configs = append(w.configs, config)
	w.open()
	t.Cleanup(func() { w.store.Close() })
	o, _, err := w.s.Create(alice, environment.PlanOrder{Environment: "staging", Template: "shop"})
	w.must(err)
	w.work(15 * time.Minute)
	if e := w.env(o.ID); e.Phase != environment.OK {
		t.Fatalf("%s %q", e.Phase, e.Status.Message)
	}
	c := environment.Config{Store: w.store, Keeper: w.store, Executors: map[string]executor.Executor{"forge": w.forge}, Now: func() time.Time { return w.clock }}
	config(&c)
	c.Health = eyes
	if now != nil {
		c.Now = now
	}
	return w, w.env(o.ID), environment.NewService(c)
}

// A verdict is written by who probes, with no work of the loop's.
func TestVerdictWithoutWork(t *testing.T) {
	w, e, _ := guarded(t, nil, nil)
	for range 4 {
		w.clock = w.clock.Add(11 * time.Second)
		w.s.Health = &consulHealth{0, 1}
		w.s.Patrol(context.Background())
	}
	if e = w.env(e.ID); e.Phase != environment.Fail || *e.Status.Checks[0].OK {
		t.Errorf("%s %q", e.Phase, e.Status.Message)
	}
}

// Two replicas that probe the same for a while, and see it otherwise, do not write in
// turns; the one that has it no longer stops.
func TestTwoReplicasProbe(t *testing.T) {
	blind := &consulHealth{0, 1}
	w, e, other := guarded(t, blind, nil)
	w.must(other.Adopt(context.Background()))
	before := w.store.puts
	for range 25 {
		w.clock = w.clock.Add(10 * time.Second)
		w.s.Patrol(context.Background())
		other.Patrol(context.Background())
	}
	if n := w.store.puts - before; n != 1 || w.env(e.ID).Phase != environment.Fail {
		t.Errorf("%d writes, %s", n, w.env(e.ID).Phase)
	}
	blind.passing = 1
	w.clock = w.clock.Add(50 * time.Second)
	w.work(time.Second) // the first one has it again
	w.clock = w.clock.Add(time.Minute)
	if next := other.Patrol(context.Background()); next >= 0 {
		t.Errorf("the other one goes on after %s", next)
	}
}

// What another replica destroys or changes meanwhile is judged by nobody.
func TestVerdictOfWhatHasGone(t *testing.T) {
	w, e, other := guarded(t, &consulHealth{0, 1}, nil)
	w.must(other.Adopt(context.Background()))
	w.clock = w.clock.Add(11 * time.Second)
	other.Patrol(context.Background())
	_, _, err := w.s.Destroy(alice, e.ID, "")
	w.must(err)
	w.work(time.Second)
	before := w.store.puts
	for range 3 {
		w.clock = w.clock.Add(11 * time.Second)
		other.Patrol(context.Background())
	}
	if next := other.Patrol(context.Background()); w.store.puts != before || next >= 0 {
		t.Errorf("%d writes; it goes on after %s", w.store.puts-before, next)
	}
}

// eyes tell that they were asked.
type eyes chan struct{}

func (e eyes) Passing(ctx context.Context, _ executor.Connection, _ string) (int, int, error) {
	select {
	case e <- struct{}{}:
	case <-ctx.Done():
	}
	return 1, 1, nil
}

// A server that is started probes what is there, until it stops.
func TestProbe(t *testing.T) {
	asked := make(eyes)
	var ticks atomic.Int64
	began := time.Now()
	w, e, other := guarded(t, asked, func() time.Time { return began.Add(time.Duration(ticks.Add(1)) * time.Second) })
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- other.Probe(ctx) }()
	<-asked
	<-asked
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	o, err := w.store.Ledger.Get(context.Background(), ledger.Ref{Kind: "environment", ID: e.ID})
	if err != nil || o.Version != e.Version {
		t.Errorf("%v, version %d after %d", err, o.Version, e.Version)
	}
}
