package reconcile_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/reconcile"
)

// counting counts what was claimed, and calls back after commits.
type counting struct {
	*store
	mu        sync.Mutex
	claimed   []string
	committed func(ledger.Result)
}

func (c *counting) Claim(ctx context.Context, q ledger.ClaimRequest) (ledger.Claimed, error) {
	got, err := c.store.Claim(ctx, q)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range got.Work {
		c.claimed = append(c.claimed, w.ID)
	}
	return got, err
}

func (c *counting) Commit(ctx context.Context, set ledger.Set) (ledger.Result, error) {
	r, err := c.store.Commit(ctx, set)
	if c.committed != nil {
		c.committed(r)
	}
	return r, err
}

// waking ends a run that leaves work for others.
func waking(ids ...string) reconcile.Result {
	var set ledger.Set
	for _, id := range ids {
		set.Wakes = append(set.Wakes, ledger.Wake{Ref: thing(id), Org: "acme"})
	}
	return reconcile.Done(set)
}

// A worker goes on with what its run has woken, up to a bound, without claims.
func TestAWorkerGoesOnWithWhatItHasWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &counting{store: newStore()}
		var ran []string
		var tokens []int64
		stop := start(t, reconcile.Config{Ledger: s, Workers: 1, Resync: -1}, func(_ context.Context, task reconcile.Task) (reconcile.Result, error) {
			ran, tokens = append(ran, task.ID), append(tokens, task.Token)
			n, _ := strconv.Atoi(task.ID)
			if n == 20 {
				return reconcile.Result{}, nil
			}
			return waking(fmt.Sprint(n + 1)), nil
		})
		s.wake("1")
		time.Sleep(time.Second)
		stop()
		if want := []string{"1", "10", "19"}; !cmp.Equal(s.claimed, want) {
			t.Errorf("claimed %v, want %v: the others were handed on", s.claimed, want)
		}
		if len(ran) != 20 || ran[19] != "20" || !slices.IsSorted(tokens) || slices.Compact(tokens)[0] == 0 {
			t.Errorf("ran %v under %v, want each once under a greater token", ran, tokens)
		}
		if len(s.state.Work) != 0 {
			t.Errorf("left %+v", s.state.Work)
		}
	})
}

// However long a chain is, others have their turn before its end.
func TestAChainLeavesOthersTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &counting{store: newStore()}
		var ran []string
		stop := start(t, reconcile.Config{Ledger: s, Workers: 1, Resync: -1}, func(_ context.Context, task reconcile.Task) (reconcile.Result, error) {
			time.Sleep(10 * time.Millisecond)
			ran = append(ran, task.ID)
			if n, err := strconv.Atoi(task.ID); err == nil && n < 100 {
				if n == 2 {
					s.wake("other")
				}
				return waking(fmt.Sprint(n + 1)), nil
			}
			return reconcile.Result{}, nil
		})
		s.wake("1")
		time.Sleep(time.Minute)
		stop()
		if at := slices.Index(ran, "other"); at < 0 || at > 20 || len(ran) != 101 {
			t.Errorf("the other's turn came as number %d of %d, want it after the chain's bound", at, len(ran))
		}
	})
}

// What was taken when the replica is told to stop is anybody's at once.
func TestWhatWasTakenIsHandedBackAtShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &counting{store: newStore()}
		stopped := make(chan struct{})
		s.committed = func(r ledger.Result) {
			if len(r.Taken) > 0 {
				close(stopped)
				time.Sleep(10 * time.Millisecond) // the loop is told meanwhile
			}
		}
		var ran []string
		stop := start(t, reconcile.Config{Ledger: s, Workers: 1, Resync: -1}, func(_ context.Context, task reconcile.Task) (reconcile.Result, error) {
			ran = append(ran, task.ID)
			return waking("b"), nil
		})
		s.wake("a")
		<-stopped
		stop()
		if row, ok := s.row("b"); !ok || row.Token != 0 || row.Due.After(time.Now()) || !cmp.Equal(ran, []string{"a"}) {
			t.Errorf("ran %v and left %+v, want b free and due", ran, row)
		}
	})
}
