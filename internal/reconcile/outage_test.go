package reconcile_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/reconcile"
	"github.com/droverhq/drover/test/postgres"
)

// noting passes calls on and tells of claims that fail.
type noting struct {
	durable
	failed chan error
}

func (n *noting) Claim(ctx context.Context, q ledger.ClaimRequest) (ledger.Claimed, error) {
	c, err := n.durable.Claim(ctx, q)
	if err != nil {
		select {
		case n.failed <- err:
		default:
		}
	}
	return c, err
}

// The database crashes while runs are in flight and work is due. When it is
// back, everything that was acknowledged is done, with nobody's help.
func TestLoopOutlivesTheDatabase(t *testing.T) {
	const things, workers = 40, 8
	server := postgres.Start(t)
	l := openSQL(t, postgres.Fresh(t, server.URL("postgres")), 0)
	n := &noting{durable: l, failed: make(chan error, 1)}
	var mu sync.Mutex
	begun := make(chan struct{}, 10*things)
	ready := map[string]bool{}
	all := make(chan struct{})
	gate := make(chan struct{})
	stop := start(t, reconcile.Config{Ledger: n, Workers: workers, Lease: time.Second, MaxBackoff: time.Second},
		func(ctx context.Context, task reconcile.Task) (reconcile.Result, error) {
			begun <- struct{}{}
			<-gate
			o, err := l.Get(ctx, task.Ref)
			if err != nil {
				return reconcile.Result{}, err
			}
			if o.Phase == "ready" { // only what was written counts
				mu.Lock()
				defer mu.Unlock()
				if !ready[task.ID] && len(ready) == things-1 {
					close(all)
				}
				ready[task.ID] = true
				return reconcile.Result{}, nil
			}
			return reconcile.Again(put(o, task.ID, "ready")), nil
		})
	var ids []string
	set := ledger.Set{Actor: "alice", Cause: ledger.ByRequest("1")}
	for i := range things {
		ids = append(ids, fmt.Sprint("thing-", i))
		o := ledger.Object{Ref: thing(ids[i]), Org: "acme", Phase: "accepted"}
		set.Puts = append(set.Puts, ledger.Put{Object: o, Op: "create"})
		set.Wakes = append(set.Wakes, ledger.Wake{Ref: o.Ref})
	}
	if _, err := l.Commit(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	for range workers {
		receive(t, begun, "a run")
	}
	server.Kill()
	close(gate) // runs in flight meet a dead database, and so do claims
	receive(t, n.failed, "a failed claim")
	server.Start(t)
	receive(t, all, "the last object")
	stop()
	for _, id := range ids {
		if o, err := l.Get(t.Context(), thing(id)); err != nil || o.Phase != "ready" || o.Version != 2 {
			t.Errorf("%s is %+v, %v; want it written once", id, o, err)
		}
	}
}
