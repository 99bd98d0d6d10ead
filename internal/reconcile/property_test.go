package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/reconcile"
)

// storm is a drawn plan of wakes and faults. Everything is drawn before the
// bubble starts, so that a failing plan can be shrunk.
type storm struct {
	Seed     uint64
	Replicas int
	Workers  int
	Things   int
	Wakes    []wakePlan
	Faults   int // of a hundred calls to the store
	Trouble  int // of a hundred runs
	Kill     bool
}

type wakePlan struct {
	Thing int
	After time.Duration
}

func drawStorm(t *rapid.T) storm {
	return storm{
		Seed:     rapid.Uint64().Draw(t, "seed"),
		Replicas: rapid.IntRange(1, 3).Draw(t, "replicas"),
		Workers:  rapid.IntRange(1, 3).Draw(t, "workers"),
		Things:   rapid.IntRange(1, 5).Draw(t, "things"),
		Faults:   rapid.IntRange(0, 40).Draw(t, "faults"),
		Trouble:  rapid.IntRange(0, 90).Draw(t, "trouble"),
		Kill:     rapid.Bool().Draw(t, "kill"),
		Wakes: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) wakePlan {
			return wakePlan{
				Thing: rapid.IntRange(0, 4).Draw(t, "thing"),
				After: time.Duration(rapid.IntRange(0, 3000).Draw(t, "after")) * time.Millisecond,
			}
		}), 1, 25).Draw(t, "wakes"),
	}
}

// world runs a storm and notes what must never be.
type world struct {
	*store
	storm
	calm atomic.Bool

	rmu    sync.Mutex
	random *rand.Rand
	active map[string]map[int64]context.Context // by thing and token
	woken  map[string]time.Time
	wrong  []string
}

func (w *world) chance(percent int) bool {
	w.rmu.Lock()
	defer w.rmu.Unlock()
	return !w.calm.Load() && w.random.IntN(100) < percent
}

func (w *world) upTo(d time.Duration) time.Duration {
	w.rmu.Lock()
	defer w.rmu.Unlock()
	return time.Duration(w.random.Int64N(int64(d)))
}

func (w *world) wrongf(format string, args ...any) {
	w.rmu.Lock()
	defer w.rmu.Unlock()
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
}

// replica is one replica's faulty way to the store.
func (w *world) replica(dead *atomic.Bool) *faulty {
	return &faulty{Ledger: w.store,
		before: func(string) error {
			if w.chance(w.Faults) {
				time.Sleep(w.upTo(2 * lease)) // a stall; longer than a lease now and then
			}
			if dead.Load() || w.chance(w.Faults) {
				return errAway
			}
			return nil
		},
		after: func(string) error {
			if w.chance(w.Faults / 2) {
				time.Sleep(w.upTo(lease))
			}
			if dead.Load() || w.chance(w.Faults) {
				return fault.New(fault.Unavailable, "the connection broke").Because("outcome-unknown")
			}
			return nil
		},
	}
}

func (w *world) Reconcile(ctx context.Context, task reconcile.Task) (reconcile.Result, error) {
	w.rmu.Lock()
	for token, other := range w.active[task.ID] {
		if token != task.Token && other.Err() == nil {
			w.wrong = append(w.wrong, fmt.Sprintf("%s runs under leases %d and %d at once", task.ID, token, task.Token))
		}
	}
	if w.active[task.ID] == nil {
		w.active[task.ID] = map[int64]context.Context{}
	}
	w.active[task.ID][task.Token] = ctx
	w.rmu.Unlock()
	defer func() {
		w.rmu.Lock()
		defer w.rmu.Unlock()
		delete(w.active[task.ID], task.Token)
	}()
	if ctx.Err() != nil {
		w.wrongf("%s was started after its time", task.ID)
	}
	before := w.object(task.ID)
	write := put(before, task.ID, fmt.Sprint(before.Version+1))
	write.Puts[0].Object.Name = time.Now().Format(time.RFC3339Nano) // only a look that was written counts
	if w.chance(50) {                                               // it leaves work for another, which its worker may take
		write.Wakes = []ledger.Wake{{Ref: thing(fmt.Sprint(int(w.upTo(time.Duration(w.Things)))))}}
	}
	switch {
	case w.chance(w.Trouble / 4):
		time.Sleep(w.upTo(2 * lease)) // heeds nothing
	case w.chance(w.Trouble / 4):
		select {
		case <-ctx.Done():
			return reconcile.Result{}, ctx.Err()
		case <-time.After(w.upTo(3 * lease)):
		}
	}
	switch {
	case w.chance(w.Trouble / 4):
		return reconcile.Result{}, errors.New("trouble")
	case w.chance(w.Trouble / 8):
		panic("trouble")
	case w.chance(w.Trouble / 4): // somebody else writes first
		set := put(before, task.ID, "other")
		set.Actor, set.Cause = "bob", "request:2"
		_, _ = w.Commit(context.Background(), set)
		return reconcile.Done(write), nil
	case w.chance(w.Trouble / 2):
		return reconcile.Again(write), nil
	case w.chance(w.Trouble / 2):
		return reconcile.Wait(write, w.upTo(lease), "for rain"), nil
	}
	return reconcile.Done(write), nil
}

func (w *world) run(t *testing.T) {
	var stops []func()
	var deaths []*atomic.Bool
	for i := range w.Replicas {
		dead := &atomic.Bool{}
		deaths = append(deaths, dead)
		stops = append(stops, start(t, reconcile.Config{
			Ledger: w.replica(dead), Workers: w.Workers, Holder: fmt.Sprint(i),
			Reconcilers: map[string]reconcile.Reconciler{"thing": w}, Resync: -1,
		}, nil))
	}
	for i, plan := range w.Wakes {
		time.Sleep(plan.After)
		id := fmt.Sprint(plan.Thing % w.Things)
		w.rmu.Lock()
		w.woken[id] = time.Now()
		w.rmu.Unlock()
		w.wake(id)
		if w.Kill && w.Replicas > 1 && i == len(w.Wakes)/2 {
			deaths[0].Store(true)
		}
	}
	w.calm.Store(true)
	time.Sleep(3 * time.Minute) // more than the longest back-off and lease
	for id, woken := range w.woken {
		if looked, err := time.Parse(time.RFC3339Nano, w.object(id).Name); err != nil || looked.Before(woken) {
			w.wrongf("%s was woken at %v and last looked at at %v", id, woken, looked)
		}
		if row, left := w.row(id); left {
			w.wrongf("work was left: %+v", row)
		}
	}
	for _, stop := range stops {
		stop()
	}
}

// However the store and the reconcilers fail: once they stop failing, every
// object is looked at after its last wake, and at no time do two runs of one
// object believe that they hold its lease.
func TestEveryWakeIsAnsweredByOneRunAtATime(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		plan := drawStorm(rt)
		w := &world{
			store: newStore(), storm: plan, random: rand.New(rand.NewPCG(plan.Seed, 1)),
			active: map[string]map[int64]context.Context{},
			woken:  map[string]time.Time{},
		}
		synctest.Test(t, w.run)
		for _, wrong := range w.wrong {
			rt.Error(wrong)
		}
	})
}
