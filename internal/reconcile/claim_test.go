package reconcile_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/reconcile"
)

func TestClaimsOnlyWhatCanStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		for i := range 20 {
			s.wake(fmt.Sprint(i))
		}
		running, most := 0, 0
		gate := make(chan struct{})
		stop := start(t, reconcile.Config{Ledger: s, Workers: 6}, func(context.Context, reconcile.Task) (reconcile.Result, error) {
			s.mu.Lock()
			running++
			most = max(most, running)
			s.mu.Unlock()
			<-gate
			s.mu.Lock()
			running--
			s.mu.Unlock()
			return reconcile.Result{}, nil
		})
		leased := func() (n int) {
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, w := range s.state.Work {
				if w.Token != 0 {
					n++
				}
			}
			return n
		}
		for done := range 20 {
			time.Sleep(2 * time.Millisecond)
			if want := min(6, 20-done); leased() != want || running != want {
				t.Errorf("after %d: %d leased and %d running, want %d of each", done, leased(), running, want)
			}
			gate <- struct{}{}
		}
		time.Sleep(2 * time.Millisecond)
		if _, left := s.row("19"); left || most != 6 {
			t.Errorf("left=%v, most at once %d", left, most)
		}
		var limits []int
		for _, q := range s.claims {
			limits = append(limits, q.Limit)
		}
		if diff := cmp.Diff([]int{6, 1, 1, 1, 1, 1, 1, 1}, limits[:8]); diff != "" {
			t.Errorf("limits of the claims (-want +got):\n%s", diff)
		}
		stop()
	})
}

func TestIdleFleetWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		unsettled := 0
		stop := start(t, reconcile.Config{Ledger: s, Reconcilers: map[string]reconcile.Reconciler{"thing": &resyncing{
			reconciler: func(context.Context, reconcile.Task) (reconcile.Result, error) {
				t.Error("something ran")
				return reconcile.Result{}, nil
			},
			unsettled: func(string, int) ([]ledger.Wake, string, error) { unsettled++; return nil, "", nil },
		}}}, nil)
		time.Sleep(time.Hour)
		stop()
		commits, claims := s.count()
		if commits != 0 || claims > 2500 || claims < 1000 {
			t.Errorf("%d commits and %d claims in an hour, want none and one about every 2 s", commits, claims)
		}
		if unsettled < 4 || unsettled > 9 {
			t.Errorf("%d resyncs in an hour, want one about every 10 min", unsettled)
		}
	})
}

func TestHintsDoNotStorm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		stop := start(t, reconcile.Config{Ledger: s}, nil)
		_, before := s.count()
		for range 10_000 { // a second of another replica's commits that leave nothing to do
			s.mu.Lock()
			s.hint()
			s.mu.Unlock()
			time.Sleep(100 * time.Microsecond)
		}
		if _, after := s.count(); after-before > 510 {
			t.Errorf("%d claims in a second", after-before)
		}
		stop()
	})
}

func TestResumesWhenTheStoreIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		away, asked := true, 0
		f := &faulty{Ledger: s, before: func(string) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			if away {
				asked++
				return errAway
			}
			return nil
		}}
		ran := make(chan time.Time, 1)
		stop := start(t, reconcile.Config{Ledger: f}, func(context.Context, reconcile.Task) (reconcile.Result, error) {
			ran <- time.Now()
			return reconcile.Result{}, nil
		})
		time.Sleep(time.Minute)
		back := time.Now()
		s.mu.Lock()
		if asked < 30 || asked > 75 {
			t.Errorf("asked %d times in a minute, want about every 1 to 2 s", asked)
		}
		away = false
		s.state.Work[thing("a")] = ledger.WorkRow{Ref: thing("a"), Due: back, Dirty: 1} // with no hint
		s.mu.Unlock()
		if took := (<-ran).Sub(back); took > 2*time.Second {
			t.Errorf("resumed after %v", took)
		}
		stop()
	})
}

func TestContendedClaimsDoNotSpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		stop := start(t, reconcile.Config{Ledger: contended{newStore(), &n}}, nil)
		time.Sleep(time.Second)
		stop()
		if n < 50 || n > 210 {
			t.Errorf("%d claims in a second", n)
		}
	})
}

// contended is a store whose due work is always just being taken by others.
type contended struct {
	*store
	n *int
}

func (c contended) Claim(context.Context, ledger.ClaimRequest) (ledger.Claimed, error) {
	*c.n++
	return ledger.Claimed{}, nil
}

type resyncing struct {
	reconciler
	unsettled func(after string, limit int) ([]ledger.Wake, string, error)
}

func (r *resyncing) Unsettled(_ context.Context, after string, limit int) ([]ledger.Wake, string, error) {
	return r.unsettled(after, limit)
}

func TestResyncSurvivesItsConsumers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		asked, ran := 0, 0
		r := &resyncing{
			reconciler: func(context.Context, reconcile.Task) (reconcile.Result, error) {
				ran++
				return reconcile.Result{}, nil
			},
			unsettled: func(string, int) ([]ledger.Wake, string, error) {
				switch asked++; asked {
				case 1:
					panic("oh no")
				case 2:
					return nil, "", errAway
				}
				return []ledger.Wake{{Ref: thing("a")}}, "", nil
			},
		}
		stop := start(t, reconcile.Config{Ledger: s, Resync: time.Minute, Reconcilers: map[string]reconcile.Reconciler{"thing": r}}, nil)
		time.Sleep(10 * time.Minute)
		stop()
		if asked < 7 || ran != asked-2 {
			t.Errorf("asked %d times, ran %d times; want the resync to go on after a panic and an error", asked, ran)
		}
	})
}

func TestResyncWakesWhatIsIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		ran := map[string]int{}
		r := &resyncing{
			reconciler: func(_ context.Context, task reconcile.Task) (reconcile.Result, error) {
				ran[task.ID]++
				if task.ID == "waiting" {
					return reconcile.Wait(ledger.Set{}, 24*time.Hour, "for rain"), nil
				}
				return reconcile.Result{}, nil
			},
			unsettled: func(after string, _ int) ([]ledger.Wake, string, error) {
				if after == "" {
					return []ledger.Wake{{Ref: thing("waiting"), Org: "acme"}}, "p2", nil
				}
				return []ledger.Wake{{Ref: thing("forgotten"), Org: "acme"}}, "", nil
			},
		}
		stop := start(t, reconcile.Config{Ledger: s, Workers: 1, Reconcilers: map[string]reconcile.Reconciler{"thing": r}}, nil)
		s.wake("waiting")
		time.Sleep(time.Hour)
		stop()
		if ran["waiting"] != 1 || ran["forgotten"] < 4 {
			t.Errorf("ran %v, want the waiting one left alone and the forgotten one at every resync", ran)
		}
	})
}
