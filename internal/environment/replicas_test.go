package environment_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
	"github.com/droverhq/drover/internal/reconcile"
	"github.com/droverhq/drover/internal/sqlledger"
	"github.com/droverhq/drover/internal/template"
	"github.com/droverhq/drover/test/postgres"
)

// yard is a world that several replicas work on at once.
type yard struct {
	idle
	t      *testing.T
	mu     sync.Mutex
	made   map[string]bool     // by address
	needs  map[string][]string // by address
	users  map[string][]string
	busy   map[string]bool
	most   int
	killed func() // once a few are made
}

func (y *yard) enter(r executor.Resource) func() {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.busy[r.ID] {
		y.t.Errorf("two work on %s at once", r.Address)
	}
	y.busy[r.ID] = true
	y.most = max(y.most, len(y.busy))
	return func() {
		y.mu.Lock()
		defer y.mu.Unlock()
		delete(y.busy, r.ID)
	}
}

func (y *yard) Apply(ctx context.Context, r executor.Resource) (executor.Result, error) {
	defer y.enter(r)()
	y.mu.Lock()
	for _, need := range y.needs[r.Address] {
		if !y.made[need] {
			y.t.Errorf("%s is made before %s", r.Address, need)
		}
	}
	y.made[r.Address] = true
	kill := y.killed
	if len(y.made) < 10 {
		kill = nil
	} else {
		y.killed = nil
	}
	y.mu.Unlock()
	if kill != nil {
		kill()
	}
	return executor.Result{Done: true}, ctx.Err()
}

func (y *yard) Destroy(_ context.Context, r executor.Resource) (executor.Result, error) {
	defer y.enter(r)()
	y.mu.Lock()
	defer y.mu.Unlock()
	for _, user := range y.users[r.Address] {
		if y.made[user] {
			y.t.Errorf("%s is taken away before %s", r.Address, user)
		}
	}
	delete(y.made, r.Address)
	return executor.Result{Done: true}, nil
}

// Three replicas share the work on one environment, and one of them stops in the
// middle: everything is made once, in order, and taken away in reverse.
func TestReplicas(t *testing.T) {
	for name, url := range map[string]func(t *testing.T) string{
		"sqlite":   func(t *testing.T) string { return filepath.Join(t.TempDir(), "l.db") },
		"postgres": func(t *testing.T) string { return postgres.Database(t) },
	} {
		t.Run(name, func(t *testing.T) { replicas(t, url(t)) })
	}
}

func replicas(t *testing.T, url string) {
	y := &yard{t: t, made: map[string]bool{}, needs: map[string][]string{}, users: map[string][]string{}, busy: map[string]bool{}}
	var texts []string
	for i := range 60 {
		address := fmt.Sprint("r", i)
		for _, j := range []int{i/2 - 3, i - 7} {
			if need := fmt.Sprint("r", j); j >= 0 && !slices.Contains(y.needs[address], need) {
				y.needs[address] = append(y.needs[address], need)
				y.users[need] = append(y.users[need], address)
			}
		}
		texts = append(texts, strings.TrimSuffix(address+"<"+strings.Join(y.needs[address], ","), "<"))
	}
	st := &stencil{id: "shop@1", name: "shop", silent: true, spec: template.Spec{AtOnce: 4}, nodes: func(map[string]any) []template.Node { return chain(texts...) }}
	var stores []*sqlledger.Ledger
	var services []*environment.Service
	var stops []context.CancelFunc
	var ended sync.WaitGroup
	for i := range 3 {
		if i == 0 || strings.HasPrefix(url, "postgres") { // SQLite is one process's
			l, err := sqlledger.Open(t.Context(), sqlledger.Config{URL: url, Key: bytes.Repeat([]byte{7}, 32),
				Kinds: slices.Concat(environment.Kinds(), []ledger.Kind{operation.Kind}, template.Kinds())})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
			stores = append(stores, l)
		}
		store := stores[len(stores)-1]
		s := environment.NewService(environment.Config{Store: store, Keeper: store, Finder: store, Templates: stencils{"shop": st, "shop@1": st},
			Executors: map[string]executor.Executor{"forge": y}})
		services = append(services, s)
		loop := reconcile.New(reconcile.Config{Ledger: store, Reconcilers: s.Reconcilers(), Workers: 8, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
		ctx, stop := context.WithCancel(context.Background())
		stops = append(stops, stop)
		ended.Go(func() { _ = loop.Run(ctx) })
	}
	defer ended.Wait()
	defer func() {
		for _, stop := range stops {
			stop()
		}
	}()
	y.killed = stops[1]
	wait := func(op string) {
		t.Helper()
		for hints := stores[0].Hints(t.Context()); ; {
			o, err := stores[0].Get(t.Context(), ledger.Ref{Kind: operation.Kind.Name, ID: op})
			if err != nil {
				t.Fatal(err)
			}
			if o.Phase == operation.Succeeded {
				return
			}
			select {
			case <-hints:
			case <-time.After(time.Minute):
				t.Fatalf("it stays %s", o.Phase)
			}
		}
	}
	_, op, err := services[0].Create(alice, environment.PlanOrder{Environment: "x", Template: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	wait(op)
	if len(y.made) != 60 {
		t.Errorf("%d are made", len(y.made))
	}
	why, err := services[2].Why(alice, "x", "r59")
	if err != nil || len(why.DependsOn) == 0 || len(why.UsedBy) != 0 {
		t.Errorf("%d, %d, %v", len(why.DependsOn), len(why.UsedBy), err)
	}
	_, op, err = services[2].Destroy(alice, "x", "")
	if err != nil {
		t.Fatal(err)
	}
	wait(op)
	if len(y.made) != 0 || y.most > 4*3 {
		t.Errorf("%d are left; %d were worked on at once", len(y.made), y.most)
	}
}
