package reconcile_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/reconcile"
)

// heard keeps what the context of each line knows, and the request that it names.
type heard struct {
	slog.Handler
	mu    sync.Mutex
	lines []string
}

func (h *heard) Enabled(context.Context, slog.Level) bool { return true }

func (h *heard) Handle(ctx context.Context, r slog.Record) error {
	cause, _ := ledger.KnownCause(ctx)
	line := r.Message + ", " + string(cause) + ", " + ledger.OrgOf(ctx)
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "request" {
			line += ", " + a.Value.String()
		}
		return true
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, line)
	return nil
}

// What is logged of a run, by the loop or by what it calls, says why it ran, for
// whom, and for which request.
func TestLinesOfARunSayWhyItRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := newStore(), &heard{Handler: slog.DiscardHandler}
		log, n := slog.New(h), 0
		stop := start(t, reconcile.Config{Ledger: s, Logger: log, Resync: -1, Request: func(_ context.Context, c ledger.Cause) string { return "the request of " + string(c) }},
			func(ctx context.Context, _ reconcile.Task) (reconcile.Result, error) {
				if n++; n > 1 {
					return reconcile.Result{}, nil
				}
				log.InfoContext(ctx, "under way")
				return reconcile.Result{}, errors.New("broken")
			})
		if _, err := s.Commit(t.Context(), ledger.Set{Actor: "alice", Cause: ledger.ByChange(thing("b"), 7), Wakes: []ledger.Wake{{Ref: thing("a"), Org: "acme"}}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		stop()
		want := []string{
			"under way, change:thing/b@7, acme",
			"reconcile failed; trying again, change:thing/b@7, acme, the request of change:thing/b@7",
		}
		if diff := cmp.Diff(want, h.lines); diff != "" {
			t.Errorf("lines (-want +got):\n%s", diff)
		}
	})
}
