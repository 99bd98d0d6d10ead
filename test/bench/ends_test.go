//go:build bench

package bench

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/executor/executortest"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/reconcile"
	"github.com/droverhq/drover/internal/template"
)

const shortLived = `apiVersion: drover.dev/v1
kind: Template
metadata: {name: brief}
spec:
  version: 1.0.0
  resources:
    - {name: db, executor: noop, with: {value: 1}}
    - {name: web, executor: noop, needs: [db], with: {value: 2}}
`

// TestEnds has many environments reach their end in the same moment, and tells when
// the destruction of the last has begun.
func TestEnds(t *testing.T) {
	many := setting("DROVER_BENCH_ENDS", 1_000)
	each(t, func(t *testing.T, e engine) {
		store := openLedger(t, e)
		noop := executortest.Noop{}
		templates := template.NewService(template.Config{Store: store, Files: store, Executors: map[string]executor.Description{"noop": noop.Describe()}})
		s := environment.NewService(environment.Config{Store: store, Keeper: store, Finder: store, Templates: environment.Drawings{Service: templates},
			Executors: map[string]executor.Executor{"noop": noop}})
		ctx, stop := context.WithCancel(access.With(t.Context(), access.Principal{User: "root", Admin: true}))
		if _, _, err := templates.Add(ctx, template.Addition{Files: map[string][]byte{template.FileName: []byte(shortLived)}}); err != nil {
			t.Fatal(err)
		}
		loop := reconcile.New(reconcile.Config{Ledger: store, Reconcilers: s.Reconcilers(), Workers: 32, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
		var ended sync.WaitGroup
		ended.Go(func() { _ = loop.Run(ctx) })
		defer ended.Wait()
		defer stop()
		total := func(phase string) int {
			n, err := store.Total(ctx, ledger.Query{Kind: environment.Kind.Name, Where: ledger.Compare{Column: "phase", Op: ledger.Eq, Values: []any{phase}}})
			if err != nil {
				t.Fatal(err)
			}
			return int(n)
		}
		work := make(chan int)
		var clients sync.WaitGroup
		for range 16 {
			clients.Go(func() {
				for i := range work {
					if _, _, err := s.Create(ctx, environment.PlanOrder{Environment: fmt.Sprintf("e%d", i), Template: "brief"}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		for i := range many {
			work <- i
		}
		close(work)
		clients.Wait()
		waitFor(t, 5*time.Minute, func() bool { return total(environment.OK) == many })
		end := time.Now().Add(30 * time.Second).Truncate(time.Second)
		for i := range many {
			if _, err := s.Extend(ctx, fmt.Sprintf("e%d", i), end); err != nil {
				t.Fatal(err)
			}
		}
		if time.Now().After(end) {
			t.Fatal("the machine is too slow to set all ends before the first")
		}
		waitFor(t, 10*time.Minute, func() bool { return time.Now().After(end) && total(environment.OK) == 0 })
		begun := time.Since(end)
		waitFor(t, 10*time.Minute, func() bool { return total(environment.Destroying) == 0 })
		report(fmt.Sprintf("%d environments reach their end at once: destruction begun for all", many), e.name,
			fmt.Sprintf("%.1f s (all are gone after %.1f s); load %s", begun.Seconds(), time.Since(end).Seconds(), load1()), "<= 30 s")
	})
}

// waitFor asks until it is so.
func waitFor(t *testing.T, most time.Duration, so func() bool) {
	t.Helper()
	for until := time.Now().Add(most); !so(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("it takes too long")
		}
	}
}
