package reconcile_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/reconcile"
)

func runLoop(b *testing.B, l reconcile.Ledger, f reconciler) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() {
		ended <- reconcile.New(reconcile.Config{
			Ledger: l, Logger: slog.New(slog.DiscardHandler),
			Reconcilers: map[string]reconcile.Reconciler{"thing": f},
		}).Run(ctx)
	}()
	b.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	})
}

func wakeAll(b *testing.B, l reconcile.Ledger, ids ...string) {
	set := ledger.Set{Actor: "alice", Cause: "request:1"}
	for i, id := range ids {
		set.Wakes = append(set.Wakes, ledger.Wake{Ref: thing(id), Org: fmt.Sprint("org", i%16)})
	}
	if _, err := l.Commit(context.Background(), set); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkRuns measures claim, run and finish of reconcilers that do nothing,
// over 256 objects that are always due again.
func BenchmarkRuns(b *testing.B) {
	for name, engine := range engines {
		b.Run(name, func(b *testing.B) {
			l := engine(b)()
			var ids []string
			for i := range 256 {
				ids = append(ids, fmt.Sprint(i))
			}
			wakeAll(b, l, ids...)
			var n atomic.Int64
			done := make(chan struct{})
			b.ResetTimer()
			runLoop(b, l, func(context.Context, reconcile.Task) (reconcile.Result, error) {
				switch c := n.Add(1); {
				case c == int64(b.N):
					close(done)
				case c > int64(b.N):
					return reconcile.Result{}, nil
				}
				return reconcile.Wait(ledger.Set{}, 0, ""), nil
			})
			<-done
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "runs/s")
		})
	}
}

// BenchmarkWakeToRun measures how long after its commit began a wake is answered.
func BenchmarkWakeToRun(b *testing.B) {
	for name, engine := range engines {
		b.Run(name, func(b *testing.B) {
			l := engine(b)()
			ran := make(chan time.Time)
			runLoop(b, l, func(context.Context, reconcile.Task) (reconcile.Result, error) {
				ran <- time.Now()
				return reconcile.Result{}, nil
			})
			var took []time.Duration
			b.ResetTimer()
			for i := range b.N {
				began := time.Now()
				wakeAll(b, l, fmt.Sprint(i))
				took = append(took, (<-ran).Sub(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
		})
	}
}
