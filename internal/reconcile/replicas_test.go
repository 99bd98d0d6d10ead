package reconcile_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/reconcile"
)

// durable is what these tests use of a store.
type durable interface {
	reconcile.Ledger
	Get(ctx context.Context, ref ledger.Ref) (ledger.Object, error)
}

// patience bounds what should come at once but runs on a busy machine.
const patience = 2 * time.Minute

// onEngines runs a test on every store; open gives it another replica's handle.
func onEngines(t *testing.T, test func(t *testing.T, open func() durable)) {
	for name, engine := range engines {
		t.Run(name, func(t *testing.T) { test(t, engine(t)) })
	}
}

func wakeThings(t *testing.T, l durable, org string, ids ...string) {
	t.Helper()
	set := ledger.Set{Actor: "alice", Cause: ledger.ByRequest("1")}
	for _, id := range ids {
		set.Wakes = append(set.Wakes, ledger.Wake{Ref: thing(id), Org: org})
	}
	if _, err := l.Commit(t.Context(), set); err != nil {
		t.Fatal(err)
	}
}

func receive[T any](t *testing.T, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("%s did not come", what)
		panic("unreachable")
	}
}

// told passes on what an observer sees.
type told chan reconcile.Outcome

func (c told) Ran(_ string, o reconcile.Outcome, _ time.Duration, _ error) { c <- o }

func TestAnotherReplicaTakesOver(t *testing.T) {
	cases := map[string]struct {
		reason string
		fails  func(stricken bool, op string) bool // what of the first replica's calls fails
	}{
		"Stalled": {
			reason: "A replica that sleeps past its lease, deaf to its context, writes nothing when it wakes.",
			fails:  func(_ bool, op string) bool { return op == "renew" },
		},
		"Killed": {
			reason: "A replica that is gone without a word is replaced when its lease ends.",
			fails:  func(stricken bool, _ string) bool { return stricken },
		},
	}
	onEngines(t, func(t *testing.T, open func() durable) {
		for name, c := range cases {
			t.Run(name, func(t *testing.T) {
				id, other := "thing-"+name, "other-"+name
				first, second := open(), open()
				var stricken atomic.Bool
				fails := func(op string) error {
					if c.fails(stricken.Load(), op) {
						return errAway
					}
					return nil
				}
				began, resume := make(chan reconcile.Task), make(chan struct{})
				firstTold, secondTold := make(told, 1), make(told, 1)
				// One worker: while it hangs the replica claims nothing else.
				stopFirst := start(t, reconcile.Config{
					Ledger: &faulty{Ledger: first, before: fails, after: fails}, Workers: 1,
					Holder: "first", Lease: time.Second, Observer: firstTold,
				}, func(_ context.Context, task reconcile.Task) (reconcile.Result, error) {
					began <- task
					<-resume
					// Of an object that nobody else writes: only the lease can refuse it.
					return reconcile.Done(put(ledger.Object{}, other, "stale")), nil
				})
				wakeThings(t, second, "acme", id)
				old := receive(t, began, "the first run")
				stricken.Store(true)

				tokens := make(chan int64, 1)
				stopSecond := start(t, reconcile.Config{
					Ledger: second, Holder: "second", Lease: time.Second, Observer: secondTold,
				}, func(_ context.Context, task reconcile.Task) (reconcile.Result, error) {
					tokens <- task.Token
					return reconcile.Done(put(ledger.Object{}, id, "second")), nil
				})
				if token := receive(t, tokens, "the second replica's run"); !old.Fence(1).Before(reconcile.Fence{ID: id, Token: token}) {
					t.Errorf("%s the second run's token %d does not fence off the first's %d", c.reason, token, old.Token)
				}
				if o := receive(t, secondTold, "the end of the second run"); o != reconcile.Succeeded {
					t.Errorf("%s the second run %s", c.reason, o)
				}
				close(resume)
				if o := receive(t, firstTold, "the end of the first run"); o != reconcile.LeaseLost {
					t.Errorf("%s the first run %s", c.reason, o)
				}
				_, err := first.Commit(t.Context(), ledger.Set{
					Actor: "system", Cause: "test", Lease: &ledger.Lease{Ref: old.Ref, Token: old.Token},
					Puts: put(ledger.Object{}, other, "stale").Puts,
				})
				if fault.Reason(err) != "lease-lost" {
					t.Errorf("%s the store let the old lease write: %v", c.reason, err)
				}
				stopSecond()
				stopFirst()
				if _, err := second.Get(t.Context(), thing(other)); !fault.Is(err, fault.NotFound) {
					t.Errorf("%s the first run's write is there: %v", c.reason, err)
				}
				if o, err := second.Get(t.Context(), thing(id)); err != nil || o.Phase != "second" || o.Version != 1 {
					t.Errorf("%s the object is %+v, %v", c.reason, o, err)
				}
			})
		}
	})
}

// The first replica holds a lease; the second, whose clock is an hour ahead,
// sees it at every claim; a third, an hour behind, leaves the work. The lease
// must hold and the work must be due, as if all clocks were right.
func TestClocksApartBreakNoLease(t *testing.T) {
	onEngines(t, func(t *testing.T, open func() durable) {
		first, ahead, behind := open(), open(), open()
		began, resume := make(chan reconcile.Task), make(chan struct{})
		ended := make(told, 10)
		stopFirst := start(t, reconcile.Config{Ledger: first, Workers: 1, Holder: "first", Observer: ended},
			func(_ context.Context, task reconcile.Task) (reconcile.Result, error) {
				began <- task
				<-resume
				return reconcile.Done(put(ledger.Object{}, task.ID, "first")), nil
			})
		wakeThings(t, behind, "acme", "held")
		receive(t, began, "the first run")
		ran := make(chan string)
		stopSecond := start(t, reconcile.Config{Ledger: ahead, Holder: "ahead"},
			func(_ context.Context, task reconcile.Task) (reconcile.Result, error) {
				ran <- task.ID
				return reconcile.Result{}, nil
			})
		for i := range 10 { // the first has no free worker for these
			id := fmt.Sprint("free-", i)
			wakeThings(t, behind, "acme", id)
			if got := receive(t, ran, "a run on the second replica"); got != id {
				t.Errorf("the second replica ran %s, want %s", got, id)
			}
		}
		stopSecond()
		close(resume)
		if o := receive(t, ended, "the end of the first run"); o != reconcile.Succeeded {
			t.Errorf("the first run %s", o)
		}
		stopFirst()
		if o, err := ahead.Get(t.Context(), thing("held")); err != nil || o.Phase != "first" {
			t.Errorf("the object is %+v, %v", o, err)
		}
	})
}

// One tenant has ten thousand due objects before another has five. On two
// replicas the five must run about where their turns are, not at the end.
func TestLargeTenantDelaysNoOther(t *testing.T) {
	const many, few, workers, step = 10_000, 5, 16, 5 * time.Millisecond
	onEngines(t, func(t *testing.T, open func() durable) {
		replicas := []durable{open(), open()}
		var ids []string
		for i := range many {
			ids = append(ids, fmt.Sprintf("big-%d", i))
		}
		began := time.Now()
		for batch := range slices.Chunk(ids, 500) {
			wakeThings(t, replicas[0], "big", batch...)
		}
		wakeThings(t, replicas[1], "small", "small-0", "small-1", "small-2", "small-3", "small-4")
		// The large tenant's turns from before the small one's first: as many
		// steps as there was time; then they alternate.
		bound := int64(time.Since(began)/step) + few + 2*2*workers
		if bound > many*9/10 {
			t.Fatalf("waking took so long that the order proves nothing (%d)", bound)
		}
		var runs atomic.Int64
		positions := make(chan int64, few)
		for i, l := range replicas {
			defer start(t, reconcile.Config{Ledger: l, Workers: workers, Holder: fmt.Sprint(i)},
				func(_ context.Context, task reconcile.Task) (reconcile.Result, error) {
					n := runs.Add(1)
					if task.Org == "small" {
						positions <- n
					}
					return reconcile.Result{}, nil
				})()
		}
		for range few {
			if p := receive(t, positions, "the small tenant's run"); p > bound {
				t.Errorf("the small tenant's run was number %d, want at most %d", p, bound)
			}
		}
	})
}

// audit sees what the store has confirmed, whatever a replica is told.
type audit struct {
	durable
	mu       *sync.Mutex
	finishes map[int64]int // by token
}

func (a *audit) Commit(ctx context.Context, set ledger.Set) (ledger.Result, error) {
	r, err := a.durable.Commit(ctx, set)
	if err == nil && set.Finish != nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.finishes[set.Lease.Token]++
	}
	return r, err
}

// Three replicas fail in every way while objects are changed again and again;
// one of them is killed for good. Every object ends as it was last wanted.
func TestReplicasConvergeUnderFaults(t *testing.T) {
	const things, changes = 20, 5
	onEngines(t, func(t *testing.T, open func() durable) {
		var mu sync.Mutex
		book := audit{mu: &mu, finishes: map[int64]int{}}
		var calm, dead atomic.Bool
		chance := func(percent int) bool { return !calm.Load() && rand.IntN(100) < percent }
		port := map[string]reconcile.Fence{} // an outside effect, which checks fences
		effects := map[string]string{}
		var runs atomic.Int64
		moved := make(chan struct{}, 1)
		again := map[string]chan struct{}{} // closed by the next run of a thing
		replica := func(name string, l durable, doomed bool) (stop func()) {
			a := book
			a.durable = l
			var stalls, stalled atomic.Int64
			fails := func(op string) error {
				if doomed && dead.Load() || op == "renew" && stalled.Load() > 0 || chance(10) {
					return fault.New(fault.Unavailable, "trouble").Because("outcome-unknown")
				}
				return nil
			}
			return start(t, reconcile.Config{
				Ledger: &faulty{Ledger: &a, before: fails, after: fails}, Holder: name, Workers: 8,
				Lease: 500 * time.Millisecond, Poll: 200 * time.Millisecond, MaxBackoff: 100 * time.Millisecond,
			}, func(ctx context.Context, task reconcile.Task) (reconcile.Result, error) {
				runs.Add(1)
				mu.Lock()
				if next := again[task.ID]; next != nil {
					close(next)
				}
				next := make(chan struct{})
				again[task.ID] = next
				mu.Unlock()
				defer func() {
					select {
					case moved <- struct{}{}:
					default:
					}
				}()
				o, err := l.Get(ctx, task.Ref)
				if err != nil {
					return reconcile.Result{}, err
				}
				switch {
				case chance(10) && stalls.Add(1) <= 4: // half of its workers at most
					stalled.Add(1)
					<-next // deaf to ctx: the lease must run out
					stalled.Add(-1)
				case chance(10):
					return reconcile.Result{}, errors.New("trouble")
				case chance(5):
					panic("trouble")
				}
				fence := task.Fence(o.Generation)
				mu.Lock()
				if fence.Before(port[task.ID]) {
					mu.Unlock()
					return reconcile.Result{}, errors.New("fenced off")
				}
				port[task.ID], effects[task.ID] = fence, string(o.Spec)
				mu.Unlock()
				set := put(o, task.ID, "ready")
				set.Puts[0].Object.Status = o.Spec
				return reconcile.Done(set), nil
			})
		}
		writer := open()
		stops := []func(){replica("a", open(), true), replica("b", open(), false), replica("c", open(), false)}
		for n := range changes {
			before := runs.Load()
			for i := range things {
				id := fmt.Sprint("thing-", i)
				for { // somebody else may write between the read and the write
					o, err := writer.Get(t.Context(), thing(id))
					if err != nil && !fault.Is(err, fault.NotFound) {
						t.Fatal(err)
					}
					set := put(o, id, "changed")
					set.Actor, set.Cause = "alice", ledger.ByRequest(fmt.Sprint(n))
					set.Puts[0].Object.Spec = json.RawMessage(fmt.Sprint(n + 1))
					set.Wakes = []ledger.Wake{{Ref: thing(id), Org: "acme"}}
					_, err = writer.Commit(t.Context(), set)
					if err == nil {
						break
					}
					if fault.Reason(err) != "version" {
						t.Fatal(err)
					}
				}
			}
			if n == changes/2 {
				dead.Store(true)
			}
			for runs.Load() < before+things { // trouble needs runs to fall upon
				receive(t, moved, "another run")
			}
		}
		calm.Store(true)
		want := fmt.Sprint(changes)
		get := func(i int) ledger.Object {
			o, err := writer.Get(t.Context(), thing(fmt.Sprint("thing-", i)))
			if err != nil {
				t.Fatal(err)
			}
			return o
		}
		late := time.After(patience)
		for i := 0; i < things; { // what is settled stays so
			if string(get(i).Status) == want {
				i++
				continue
			}
			select {
			case <-moved:
			case <-time.After(100 * time.Millisecond): // a commit comes after its run has moved
			case <-late:
				t.Fatalf("thing-%d did not settle: %+v", i, get(i))
			}
		}
		for _, stop := range stops {
			stop()
		}
		for i := range things {
			if o := get(i); string(o.Spec) != want || string(o.Status) != want || effects[o.ID] != want {
				t.Errorf("%+v has the effect %q; want %s everywhere", o, effects[o.ID], want)
			}
		}
		for token, n := range book.finishes {
			if n != 1 {
				t.Errorf("lease %d finished %d times", token, n)
			}
		}
	})
}
