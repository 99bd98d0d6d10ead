package environment_test

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
	"github.com/droverhq/drover/internal/reconcile"
	"github.com/droverhq/drover/internal/template"
)

// frugal counts what a walk asks of the ledger.
type frugal struct {
	*counted
	claimed atomic.Int64
	mu      sync.Mutex
	totals  map[any]int64 // by phase
}

func (f *frugal) Total(ctx context.Context, q ledger.Query) (int64, error) {
	f.mu.Lock()
	f.totals[q.Scope["phase"]]++
	f.mu.Unlock()
	return f.counted.Total(ctx, q)
}

func (f *frugal) Claim(ctx context.Context, q ledger.ClaimRequest) (ledger.Claimed, error) {
	got, err := f.counted.Claim(ctx, q)
	f.claimed.Add(int64(len(got.Work)))
	return got, err
}

// A walk of quick resources costs each of them its two writes and hardly anything
// besides: what was counted a moment ago is not counted again, and what a worker
// has woken it takes along.
func TestAQuickWalkAsksLittle(t *testing.T) {
	const many = 400
	nodes := graphs["chains"](many)
	store := &frugal{counted: openCounted(t), totals: map[any]int64{}}
	st := &stencil{id: "shop@1", silent: true, name: "shop", spec: template.Spec{AtOnce: 64}, nodes: func(map[string]any) []template.Node { return nodes }}
	now := time.Now() // stands still, so that what is believed for a moment is believed throughout
	s := environment.NewService(environment.Config{Store: store, Keeper: store, Templates: stencils{"shop": st, "shop@1": st},
		Executors: map[string]executor.Executor{"forge": idle{}}, Now: func() time.Time { return now }})
	loop := reconcile.New(reconcile.Config{Ledger: store, Reconcilers: s.Reconcilers(), Workers: 32, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var ended sync.WaitGroup
	ended.Go(func() { _ = loop.Run(ctx) })
	_, op, err := s.Create(alice, environment.PlanOrder{Environment: "big", Template: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	for hints := store.Hints(ctx); ; <-hints {
		got, err := store.Get(ctx, ledger.Ref{Kind: operation.Kind.Name, ID: op})
		if err != nil || got.Phase == operation.Failed {
			t.Fatalf("%s: %v", got.Status, err)
		}
		if got.Phase == operation.Succeeded {
			break
		}
	}
	stop()
	ended.Wait()
	// The environment asks for all phases whenever it looks; failed ones nobody else asks for.
	looks := store.totals[environment.Failed]
	if asked := store.totals[environment.Pending] + store.totals[environment.Applying] - 2*looks; asked > many/2 {
		t.Errorf("%d resources had the ledger count %d times besides the environment's %d looks", many, asked, looks)
	}
	if claimed := store.claimed.Load() - looks; claimed > many/2 {
		t.Errorf("%d resources were claimed %d times, want most of them to be handed on", many, claimed)
	}
	if puts := store.puts.Load() - looks; puts > 2*many+50 {
		t.Errorf("%d resources took %d writes, want two each", many, puts)
	}
}
