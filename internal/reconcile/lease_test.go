package reconcile_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/reconcile"
)

const lease = 3 * time.Second

func TestLeaseIsKeptWhileARunLasts(t *testing.T) {
	for name, skew := range map[string]time.Duration{"SameClock": 0, "StoreAhead": time.Hour, "StoreBehind": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, obs := newStore(), &seen{}
				s.skew = skew
				renewed := 0
				f := &faulty{Ledger: s, after: func(op string) error {
					if op == "renew" {
						renewed++
					}
					return nil
				}}
				stop := start(t, reconcile.Config{Ledger: f, Observer: obs}, func(ctx context.Context, task reconcile.Task) (reconcile.Result, error) {
					for range 300 {
						time.Sleep(100 * time.Millisecond)
						if row, _ := s.row(task.ID); ctx.Err() != nil || !row.Until.After(s.now()) {
							t.Errorf("context %v, leased until %v at %v", ctx.Err(), row.Until, s.now())
						}
					}
					return reconcile.Done(put(s.object(task.ID), task.ID, "ready")), nil
				})
				s.wake("a", "b") // two runs, renewed together
				time.Sleep(time.Minute)
				stop()
				if diff := cmp.Diff([]reconcile.Outcome{reconcile.Succeeded, reconcile.Succeeded}, obs.all()); diff != "" {
					t.Errorf("outcomes (-want +got):\n%s", diff)
				}
				if s.object("a").Phase != "ready" || s.object("b").Phase != "ready" {
					t.Error("a long run's write is missing")
				}
				if renewed < 25 || renewed > 40 {
					t.Errorf("%d renewals, want about one a second while something runs", renewed)
				}
			})
		})
	}
}

func TestRunStopsBeforeItsLeaseEnds(t *testing.T) {
	cases := map[string]struct {
		reason string
		heeds  bool
		want   time.Duration // from the claim to the end of the context
		fails  string
	}{
		"Heeds":    {reason: "A run that cannot renew is stopped while the lease still lasts.", heeds: true, want: 2500 * time.Millisecond, fails: "renew"},
		"Stalled":  {reason: "A run that sleeps past its lease writes nothing.", want: 2500 * time.Millisecond, fails: "renew"},
		"LateOnce": {reason: "A renewal counts from when it was sent, not from when its answer came.", heeds: true, want: 3500 * time.Millisecond, fails: "slow"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, obs := newStore(), &seen{}
				renewals := 0
				f := &faulty{Ledger: s, before: func(op string) error {
					if op != "renew" {
						return nil
					}
					if renewals++; c.fails == "slow" && renewals == 1 {
						return nil
					}
					return errAway
				}, after: func(op string) error {
					if op == "renew" {
						time.Sleep(900 * time.Millisecond)
					}
					return nil
				}}
				var ended time.Duration
				n := 0
				stop := start(t, reconcile.Config{Ledger: f, Observer: obs}, func(ctx context.Context, _ reconcile.Task) (reconcile.Result, error) {
					if n++; n > 1 {
						return reconcile.Result{}, nil
					}
					claimed := time.Now()
					if row, _ := s.row("a"); !row.Until.Equal(claimed.Add(lease)) {
						t.Errorf("leased until %v, want %v", row.Until, claimed.Add(lease))
					}
					<-ctx.Done()
					ended = time.Since(claimed)
					if row, _ := s.row("a"); !row.Until.After(s.now()) {
						t.Error("the context ended after the lease")
					}
					if !c.heeds {
						time.Sleep(10 * time.Second)
					}
					return reconcile.Done(put(s.object("a"), "a", "too late")), nil
				})
				s.wake("a")
				time.Sleep(time.Minute)
				stop()
				if ended != c.want {
					t.Errorf("%s ended after %v, want %v", c.reason, ended, c.want)
				}
				if s.object("a").Phase != "" || n != 2 {
					t.Errorf("%s phase %q, %d runs; want nothing written and another run", c.reason, s.object("a").Phase, n)
				}
				var lost int
				for _, o := range obs.all() {
					if o == reconcile.LeaseLost {
						lost++
					}
				}
				if lost != 1 {
					t.Errorf("%s outcomes %v", c.reason, obs.all())
				}
			})
		})
	}
}

func TestLostLeaseCancelsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, obs := newStore(), &seen{}
		stop := start(t, reconcile.Config{Ledger: s, Observer: obs}, func(ctx context.Context, task reconcile.Task) (reconcile.Result, error) {
			began := time.Now()
			s.steal("a")
			<-ctx.Done()
			if took := time.Since(began); took > lease/3 {
				t.Errorf("canceled after %v", took)
			}
			return reconcile.Done(put(s.object("a"), "a", "stale")), ctx.Err()
		})
		s.wake("a")
		time.Sleep(10 * time.Second)
		stop()
		if diff := cmp.Diff([]reconcile.Outcome{reconcile.LeaseLost}, obs.all()); diff != "" {
			t.Errorf("outcomes (-want +got):\n%s", diff)
		}
		if row, ok := s.row("a"); !ok || row.Token != 2 || s.object("a").Phase != "" {
			t.Errorf("the other's lease was touched: %+v, phase %q", row, s.object("a").Phase)
		}
	})
}

func TestLostLeaseCommitsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, obs := newStore(), &seen{}
		stop := start(t, reconcile.Config{Ledger: s, Observer: obs}, func(context.Context, reconcile.Task) (reconcile.Result, error) {
			s.steal("a")
			return reconcile.Done(put(s.object("a"), "a", "stale")), nil
		})
		s.wake("a")
		time.Sleep(10 * time.Second)
		stop()
		if diff := cmp.Diff([]reconcile.Outcome{reconcile.LeaseLost}, obs.all()); diff != "" || s.object("a").Phase != "" {
			t.Errorf("phase %q, outcomes (-want +got):\n%s", s.object("a").Phase, diff)
		}
	})
}

func TestFinishIsRetriedWhileTheLeaseLasts(t *testing.T) {
	unknown := fault.New(fault.Unavailable, "connection lost").Because("outcome-unknown")
	cases := map[string]struct {
		reason        string
		before, after error
		lasts         time.Duration
		want          []reconcile.Outcome
		runs          int
	}{
		"ShortOutage":   {reason: "The store is back before the lease ends.", before: errAway, lasts: time.Second, want: []reconcile.Outcome{reconcile.Succeeded}, runs: 1},
		"LongOutage":    {reason: "The lease ends first: the run is done once more.", before: errAway, lasts: 5 * time.Second, want: []reconcile.Outcome{reconcile.LeaseLost, reconcile.Succeeded}, runs: 2},
		"UnknownFinish": {reason: "The finish was written, but nobody said so: it is not written twice.", after: unknown, lasts: 10 * time.Millisecond, want: []reconcile.Outcome{reconcile.LeaseLost}, runs: 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, obs := newStore(), &seen{}
				s.wake("a")
				began := time.Now()
				during := func(err error) func(string) error {
					return func(op string) error {
						if op == "commit" && time.Since(began) < c.lasts {
							return err
						}
						return nil
					}
				}
				runs := 0
				stop := start(t, reconcile.Config{Ledger: &faulty{Ledger: s, before: during(c.before), after: during(c.after)}, Observer: obs},
					func(context.Context, reconcile.Task) (reconcile.Result, error) {
						runs++
						return reconcile.Done(put(s.object("a"), "a", "ready")), nil
					})
				time.Sleep(20 * time.Second)
				stop()
				if diff := cmp.Diff(c.want, obs.all()); diff != "" || runs != c.runs {
					t.Errorf("%s %d runs, outcomes (-want +got):\n%s", c.reason, runs, diff)
				}
				if o := s.object("a"); o.Phase != "ready" || o.Version != 1 {
					t.Errorf("%s object is %+v", c.reason, o)
				}
				if _, left := s.row("a"); left {
					t.Errorf("%s work was left", c.reason)
				}
			})
		})
	}
}

func TestKilledReplicaIsReplacedWhenItsLeaseEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		var dead atomic.Bool
		f := &faulty{Ledger: s, before: func(string) error {
			if dead.Load() {
				return errAway
			}
			return nil
		}}
		hang := make(chan struct{})
		stopFirst := start(t, reconcile.Config{Ledger: f, Holder: "first"}, func(context.Context, reconcile.Task) (reconcile.Result, error) {
			<-hang
			return reconcile.Result{}, nil
		})
		s.wake("a")
		time.Sleep(5500 * time.Millisecond) // several renewals
		dead.Store(true)
		killed := time.Now()
		ran := make(chan time.Time, 1)
		stopSecond := start(t, reconcile.Config{Ledger: s, Holder: "second"}, func(context.Context, reconcile.Task) (reconcile.Result, error) {
			ran <- time.Now()
			return reconcile.Done(put(ledger.Object{}, "a", "second")), nil
		})
		if took := (<-ran).Sub(killed); took > lease || took < lease/2 {
			t.Errorf("failed over after %v, want the rest of a lease of %v", took, lease)
		}
		close(hang)
		stopSecond()
		stopFirst()
		if s.object("a").Phase != "second" {
			t.Errorf("phase %q", s.object("a").Phase)
		}
	})
}
