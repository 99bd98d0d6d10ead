package gitops_test

import (
	"context"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/ledger"
)

// words is a feed that hands changes over, and tells when more are wanted.
type words struct {
	asked chan int64
	says  chan []ledger.Change
}

func (w *words) Next(ctx context.Context, after int64) ([]ledger.Change, error) {
	select {
	case w.asked <- after:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case c := <-w.says:
		return c, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// TestWhatIsSoAtTheStartIsNoNews has clusters report as they were, and change.
func TestWhatIsSoAtTheStartIsNoNews(t *testing.T) {
	y := newYard(t)
	y.apply(y.intent("uid-1", 1))
	y.work(time.Second)
	w := &words{asked: make(chan int64), says: make(chan []ledger.Change)}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- y.s.Follow(ctx, w, y.store.Ledger) }()
	head := <-w.asked
	say := func(seq int64) {
		w.says <- []ledger.Change{{Seq: seq, Object: ledger.Object{Ref: ledger.Ref{Kind: "cluster", ID: "hub"}}}}
		<-w.asked
	}
	before := y.store.calls
	say(head + 1)
	if n := y.store.calls - before; n != 0 {
		t.Errorf("a cluster that is as it was has cost %d commits", n)
	}
	y.engines.mu.Lock()
	y.engines.by["hub"] = gitops.Engine{ID: "hub", Runtime: "argocd", Ready: true, Labels: map[string]string{"tier": "prod"}}
	y.engines.mu.Unlock()
	say(head + 2)
	if n := y.store.calls - before; n != 1 {
		t.Errorf("one that has changed has woken with %d commits", n)
	}
	stop()
	<-done
}
