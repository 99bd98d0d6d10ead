package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/reconcile"
)

func TestShutdown(t *testing.T) {
	cases := map[string]struct {
		reason string
		run    func(ctx context.Context, s *store) (reconcile.Result, error)
		took   time.Duration
		phase  string
		row    *ledger.WorkRow // what stays, free and due; only Attempts is compared
		want   []reconcile.Outcome
	}{
		"WithinGrace": {
			reason: "A run in flight may finish.",
			run: func(ctx context.Context, s *store) (reconcile.Result, error) {
				time.Sleep(900 * time.Millisecond)
				return reconcile.Done(put(s.object("a"), "a", "ready")), ctx.Err()
			},
			took: 900 * time.Millisecond, phase: "ready", want: []reconcile.Outcome{reconcile.Succeeded},
		},
		"Canceled": {
			reason: "A run that does not finish in time is canceled, and its work is anybody's at once.",
			run: func(ctx context.Context, s *store) (reconcile.Result, error) {
				<-ctx.Done()
				return reconcile.Done(put(s.object("a"), "a", "half")), errors.New("interrupted")
			},
			took: time.Second, row: &ledger.WorkRow{}, want: []reconcile.Outcome{reconcile.Retried},
		},
		"StoppedInOrder": {
			reason: "A run that is canceled but comes to an end still writes it.",
			run: func(ctx context.Context, s *store) (reconcile.Result, error) {
				<-ctx.Done()
				return reconcile.Wait(put(s.object("a"), "a", "paused"), 0, ""), nil
			},
			took: time.Second, phase: "paused", row: &ledger.WorkRow{}, want: []reconcile.Outcome{reconcile.Waiting},
		},
		"Again": {
			reason: "No further round starts; another replica goes on.",
			run: func(_ context.Context, s *store) (reconcile.Result, error) {
				time.Sleep(500 * time.Millisecond)
				return reconcile.Again(put(s.object("a"), "a", "one")), nil
			},
			took: 500 * time.Millisecond, phase: "one", row: &ledger.WorkRow{}, want: []reconcile.Outcome{reconcile.Succeeded},
		},
		"Slow": {
			reason: "Run returns only when all has ended, and the lease is kept until then.",
			run: func(_ context.Context, s *store) (reconcile.Result, error) {
				time.Sleep(10 * time.Second)
				if row, _ := s.row("a"); !row.Until.After(s.now()) {
					return reconcile.Result{}, errors.New("another could have started meanwhile")
				}
				return reconcile.Done(put(s.object("a"), "a", "ready")), nil
			},
			took: 10 * time.Second, phase: "ready", want: []reconcile.Outcome{reconcile.Succeeded},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, obs := newStore(), &seen{}
				stop := start(t, reconcile.Config{Ledger: s, Observer: obs}, func(ctx context.Context, _ reconcile.Task) (reconcile.Result, error) {
					return c.run(ctx, s)
				})
				s.wake("a")
				synctest.Wait()
				began := time.Now()
				stop()
				if took := time.Since(began); took != c.took {
					t.Errorf("%s took %v, want %v", c.reason, took, c.took)
				}
				if diff := cmp.Diff(c.want, obs.all()); diff != "" {
					t.Errorf("%s outcomes (-want +got):\n%s", c.reason, diff)
				}
				if got := s.object("a").Phase; got != c.phase {
					t.Errorf("%s phase %q, want %q", c.reason, got, c.phase)
				}
				row, ok := s.row("a")
				if ok != (c.row != nil) || ok && (row.Token != 0 || row.Due.After(s.now()) || row.Attempts != c.row.Attempts) {
					t.Errorf("%s left %+v, want %+v", c.reason, row, c.row)
				}
			})
		})
	}
}

// Where somebody else may act soon there is no grace.
func TestShutdownAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		ctx, cancel := context.WithCancelCause(context.Background())
		ended := make(chan error)
		loop := reconcile.New(reconcile.Config{Ledger: s, Reconcilers: map[string]reconcile.Reconciler{"thing": reconciler(func(ctx context.Context, _ reconcile.Task) (reconcile.Result, error) {
			<-ctx.Done()
			return reconcile.Result{}, ctx.Err()
		})}, Logger: slog.New(slog.DiscardHandler)})
		go func() { ended <- loop.Run(ctx) }()
		s.wake("a")
		synctest.Wait()
		began := time.Now()
		cancel(fmt.Errorf("the lease has ended: %w", reconcile.ErrAtOnce))
		if err := <-ended; err != nil || time.Since(began) != 0 {
			t.Errorf("it took %s: %v", time.Since(began), err)
		}
	})
}

func TestShutdownReleasesWhatAClaimJustTook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.wake("a")
		f := &faulty{Ledger: s, after: func(op string) error {
			if op == "claim" {
				time.Sleep(time.Second) // the answer is on its way when the loop is told to stop
			}
			return nil
		}}
		stop := start(t, reconcile.Config{Ledger: f}, func(context.Context, reconcile.Task) (reconcile.Result, error) {
			t.Error("a run started after the end")
			return reconcile.Result{}, nil
		})
		synctest.Wait()
		if row, _ := s.row("a"); row.Token == 0 {
			t.Error("not claimed yet: the test tests nothing")
		}
		stop()
		if row, _ := s.row("a"); row.Token != 0 {
			t.Errorf("still leased: %+v", row)
		}
	})
}
