//go:build bench

package bench

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/audit"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/sqlledger"
)

// TestSealing writes as fast as it goes, by turns without and with somebody who
// seals all the while and far more often than the loop does, and compares.
func TestSealing(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		url := filepath.Join(t.TempDir(), "l.db")
		if args := e.args(t); len(args) > 0 {
			url = args[1]
		}
		l, err := sqlledger.Open(t.Context(), sqlledger.Config{URL: url, Kinds: []ledger.Kind{{Name: "thing"}, audit.Kind}, Key: make([]byte, ledger.KeySize), Timeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		room, err := audit.NewService(audit.Config{Store: l, Kinds: []string{"thing", audit.Kind.Name}})
		if err != nil {
			t.Fatal(err)
		}
		round := 0
		measured := byTurns(rounds(30), func(with bool) float64 {
			round++
			began := time.Now()
			ctx, stop := context.WithTimeout(t.Context(), 500*time.Millisecond)
			var n atomic.Int64
			var wg sync.WaitGroup
			for w := range 16 {
				wg.Go(func() {
					for i := 0; ctx.Err() == nil; i++ {
						o := ledger.Object{Ref: ledger.Ref{Kind: "thing", ID: fmt.Sprintf("%d-%d-%d", round, w, i)}, Org: "acme", Spec: []byte(`{"size":"small","region":"eu-1","version":"3.7"}`)}
						if _, err := l.Commit(context.WithoutCancel(ctx), ledger.Set{Actor: "bench", Cause: "request:1", Puts: []ledger.Put{{Object: o, Op: "create"}}}); err != nil {
							t.Error(err)
							return
						}
						n.Add(1)
					}
				})
			}
			if with {
				wg.Go(func() {
					for ctx.Err() == nil {
						if _, err := room.Seal(context.WithoutCancel(ctx)); err != nil {
							t.Error(err)
							return
						}
						select {
						case <-ctx.Done():
						case <-time.After(250 * time.Millisecond): // the loop: each minute, or after 2,048 changes
						}
					}
				})
			}
			wg.Wait()
			stop()
			return float64(n.Load()) / time.Since(began).Seconds()
		})
		report("commits without / with sealing beside", e.name, fmt.Sprint(measured), "")
		for more := true; more; {
			if more, err = room.Seal(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		r, err := room.Verify(t.Context(), ledger.Heads{}, nil)
		if err != nil || r.Flaw != nil {
			t.Fatalf("what was written is not what was sealed: %v, %v", r.Flaw, err)
		}
		took := time.Since(began)
		report("verification, changes per second", e.name, fmt.Sprintf("%.0f (%d changes, %d objects)", float64(r.Changes)/took.Seconds(), r.Changes, r.Objects), "")
		t.Logf("load %s", load1())
	})
}
