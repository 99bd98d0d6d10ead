package reconcile_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/reconcile"
)

type reconciler func(ctx context.Context, task reconcile.Task) (reconcile.Result, error)

func (f reconciler) Reconcile(ctx context.Context, task reconcile.Task) (reconcile.Result, error) {
	return f(ctx, task)
}

// seen records what an observer is told.
type seen struct {
	mu       sync.Mutex
	outcomes []reconcile.Outcome
}

func (s *seen) Ran(_ string, o reconcile.Outcome, _ time.Duration, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outcomes = append(s.outcomes, o)
}

func (s *seen) all() []reconcile.Outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]reconcile.Outcome(nil), s.outcomes...)
}

// start runs a loop of one kind until the returned function is called.
func start(t *testing.T, c reconcile.Config, f reconciler) (stop func()) {
	t.Helper()
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Reconcilers == nil {
		c.Reconcilers = map[string]reconcile.Reconciler{"thing": f}
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- reconcile.New(c).Run(ctx) }()
	return func() {
		t.Helper()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}

func TestResults(t *testing.T) {
	broken := errors.New("broken")
	cases := map[string]struct {
		reason  string
		results []func(s *store) (reconcile.Result, error) // of one run after the other; then Done
		want    []reconcile.Outcome
		phase   string
		row     *ledger.WorkRow // what stays; only Attempts and Note are compared
	}{
		"Done": {
			reason: "A write and the end of the run share a commit, and nothing stays.",
			results: []func(*store) (reconcile.Result, error){
				func(s *store) (reconcile.Result, error) { return reconcile.Done(put(s.object("a"), "a", "ready")), nil },
			},
			want: []reconcile.Outcome{reconcile.Succeeded}, phase: "ready",
		},
		"DoneWithoutWrite": {
			reason: "The end of a run is written even if there is nothing else to write.",
			results: []func(*store) (reconcile.Result, error){
				func(*store) (reconcile.Result, error) { return reconcile.Result{}, nil },
			},
			want: []reconcile.Outcome{reconcile.Succeeded},
		},
		"Again": {
			reason: "A run goes on under its lease after a write.",
			results: []func(*store) (reconcile.Result, error){
				func(s *store) (reconcile.Result, error) { return reconcile.Again(put(s.object("a"), "a", "one")), nil },
				func(s *store) (reconcile.Result, error) { return reconcile.Done(put(s.object("a"), "a", "two")), nil },
			},
			want: []reconcile.Outcome{reconcile.Succeeded, reconcile.Succeeded}, phase: "two",
		},
		"Wait": {
			reason: "A wait stays in the ledger with what it waits for.",
			results: []func(*store) (reconcile.Result, error){
				func(s *store) (reconcile.Result, error) {
					return reconcile.Wait(put(s.object("a"), "a", "waiting"), time.Hour, "for rain"), nil
				},
			},
			want: []reconcile.Outcome{reconcile.Waiting}, phase: "waiting", row: &ledger.WorkRow{Note: "for rain"},
		},
		"Terminal": {
			reason: "A terminal error ends the work; what was returned beside it is written.",
			results: []func(*store) (reconcile.Result, error){
				func(s *store) (reconcile.Result, error) {
					return reconcile.Done(put(s.object("a"), "a", "failed")), reconcile.Terminal(broken)
				},
			},
			want: []reconcile.Outcome{reconcile.Failed}, phase: "failed",
		},
		"Error": {
			reason: "An error comes back after a while, and a success forgets the attempts.",
			results: []func(*store) (reconcile.Result, error){
				func(*store) (reconcile.Result, error) { return reconcile.Result{}, broken },
				func(*store) (reconcile.Result, error) {
					return reconcile.Wait(ledger.Set{}, time.Hour, "for rain"), nil
				},
			},
			want: []reconcile.Outcome{reconcile.Retried, reconcile.Waiting}, row: &ledger.WorkRow{Note: "for rain"},
		},
		"Conflict": {
			reason: "A write from an old version is dropped, and the object is looked at again under the same lease.",
			results: []func(*store) (reconcile.Result, error){
				func(s *store) (reconcile.Result, error) {
					old := s.object("a")
					set := put(old, "a", "changed")
					set.Actor, set.Cause = "bob", "request:2"
					if _, err := s.Commit(context.Background(), set); err != nil {
						return reconcile.Result{}, err
					}
					set = put(old, "a", "lost")
					set.Puts[0].Expect = 7 // never was
					return reconcile.Done(set), nil
				},
				func(s *store) (reconcile.Result, error) {
					return reconcile.Done(put(s.object("a"), "a", s.object("a").Phase+"+seen")), nil
				},
			},
			want: []reconcile.Outcome{reconcile.Conflict, reconcile.Succeeded}, phase: "changed+seen",
		},
		"Refused": {
			reason: "A write that the ledger does not take is an error of the run: it backs off and can mend itself.",
			results: []func(*store) (reconcile.Result, error){
				func(*store) (reconcile.Result, error) {
					return reconcile.Done(ledger.Set{Wakes: []ledger.Wake{{Ref: ledger.Ref{Kind: "nonsense", ID: "x"}}}}), nil
				},
			},
			want: []reconcile.Outcome{reconcile.Retried, reconcile.Succeeded},
		},
		"Panic": {
			reason: "A panic is an error of the run.",
			results: []func(*store) (reconcile.Result, error){
				func(*store) (reconcile.Result, error) { panic("oh no") },
			},
			want: []reconcile.Outcome{reconcile.Retried, reconcile.Succeeded},
		},
		"WokenMeanwhile": {
			reason: "A wake during a run means another run, whatever the run says.",
			results: []func(*store) (reconcile.Result, error){
				func(s *store) (reconcile.Result, error) { s.wake("a"); return reconcile.Result{}, nil },
			},
			want: []reconcile.Outcome{reconcile.Succeeded, reconcile.Succeeded},
		},
		"WokenDuringTerminal": {
			reason: "A terminal error holds only until the object changes.",
			results: []func(*store) (reconcile.Result, error){
				func(s *store) (reconcile.Result, error) {
					s.wake("a")
					return reconcile.Result{}, reconcile.Terminal(broken)
				},
			},
			want: []reconcile.Outcome{reconcile.Failed, reconcile.Succeeded},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, obs, n := newStore(), &seen{}, 0
				var tokens []int64
				stop := start(t, reconcile.Config{Ledger: s, Observer: obs}, func(_ context.Context, task reconcile.Task) (reconcile.Result, error) {
					tokens = append(tokens, task.Token)
					if n++; n > len(c.results) {
						return reconcile.Result{}, nil
					}
					return c.results[n-1](s)
				})
				s.wake("a")
				time.Sleep(10 * time.Second)
				stop()
				got := obs.all()
				if name == "WokenDuringTerminal" { // the next run begins with the finish, and may be told of first
					slices.Sort(got)
					slices.Sort(c.want)
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("%s outcomes (-want +got):\n%s", c.reason, diff)
				}
				if got := s.object("a").Phase; got != c.phase {
					t.Errorf("%s phase is %q, not %q", c.reason, got, c.phase)
				}
				row, ok := s.row("a")
				if ok != (c.row != nil) || ok && (row.Attempts != c.row.Attempts || row.Note != c.row.Note || row.Token != 0) {
					t.Errorf("%s left %+v, want %+v", c.reason, row, c.row)
				}
				if same := len(tokens) > 1 && tokens[0] == tokens[1]; same != (name == "Again" || name == "Conflict") {
					t.Errorf("%s leases were %v", c.reason, tokens)
				}
			})
		})
	}
}

func TestBackoffDoublesUpToItsCap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		var at []time.Time
		var attempts []int
		stop := start(t, reconcile.Config{Ledger: s, MaxBackoff: 2 * time.Second, Random: func() float64 { return 1 }},
			func(_ context.Context, task reconcile.Task) (reconcile.Result, error) {
				at, attempts = append(at, time.Now()), append(attempts, task.Attempts)
				return reconcile.Result{}, errors.New("broken")
			})
		s.wake("a")
		time.Sleep(8 * time.Second)
		stop()
		var gaps []string
		for i := range at[1:] {
			gaps = append(gaps, at[i+1].Sub(at[i]).String())
		}
		if diff := cmp.Diff([]string{"200ms", "400ms", "800ms", "1.6s", "2s", "2s"}, gaps); diff != "" {
			t.Errorf("times between runs with the most jitter (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]int{0, 1, 2, 3, 4, 5, 6}, attempts); diff != "" {
			t.Errorf("attempts (-want +got):\n%s", diff)
		}
	})
}

type resting struct{ error }

func (resting) Resumes() time.Duration { return 10 * time.Second }

// Who was not asked because he rests has not failed again: the pause is his rest,
// and does not grow.
func TestARefusalThatTriedNothingIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		var at []time.Time
		var attempts []int
		stop := start(t, reconcile.Config{Ledger: s, Random: func() float64 { return 0 }},
			func(_ context.Context, task reconcile.Task) (reconcile.Result, error) {
				at, attempts = append(at, time.Now()), append(attempts, task.Attempts)
				switch len(at) {
				case 1:
					return reconcile.Result{}, errors.New("broken")
				case 5:
					return reconcile.Result{}, nil
				}
				return reconcile.Result{}, fmt.Errorf("the name servers: %w", resting{errors.New("away")})
			})
		s.wake("a")
		time.Sleep(time.Hour)
		stop()
		if diff := cmp.Diff([]int{0, 1, 1, 1, 1}, attempts); diff != "" {
			t.Errorf("attempts (-want +got):\n%s", diff)
		}
		for i := 2; i < len(at); i++ {
			if gap := at[i].Sub(at[i-1]); gap != 10*time.Second {
				t.Errorf("run %d came %s after the one before", i, gap)
			}
		}
	})
}

func TestWaitHoldsNoWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		ran := map[string][]time.Duration{}
		began := time.Now()
		stop := start(t, reconcile.Config{Ledger: s, Workers: 1}, func(_ context.Context, task reconcile.Task) (reconcile.Result, error) {
			ran[task.ID] = append(ran[task.ID], time.Since(began))
			if len(ran[task.ID]) == 1 && task.ID == "a" {
				return reconcile.Wait(ledger.Set{}, 700*time.Millisecond, "for rain"), nil
			}
			return reconcile.Result{}, nil
		})
		s.wake("a")
		synctest.Wait()
		s.wake("b")
		time.Sleep(10 * time.Second)
		stop()
		if len(ran["b"]) != 1 || ran["b"][0] > 10*time.Millisecond {
			t.Errorf("b ran at %v although the only worker had nothing to do", ran["b"])
		}
		if len(ran["a"]) != 2 || ran["a"][1]-ran["a"][0] != 700*time.Millisecond {
			t.Errorf("a ran at %v, want twice, 700ms apart and not at the next poll", ran["a"])
		}
	})
}

func TestAgainDoesNotHoldTheWorkerForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		greedy, before := 0, -1
		ctx, cancel := context.WithCancel(context.Background())
		stop := start(t, reconcile.Config{Ledger: s, Workers: 1}, func(_ context.Context, task reconcile.Task) (reconcile.Result, error) {
			if task.ID == "b" {
				before = greedy
				cancel()
				return reconcile.Result{}, nil
			}
			if greedy++; greedy == 1 {
				s.wake("b")
			}
			if ctx.Err() != nil {
				return reconcile.Result{}, nil
			}
			return reconcile.Again(ledger.Set{}), nil
		})
		s.wake("a")
		<-ctx.Done()
		synctest.Wait()
		stop()
		if before != 64 {
			t.Errorf("b ran after %d rounds of a, want 64", before)
		}
		if _, left := s.row("a"); left || greedy != 65 {
			t.Errorf("a ran %d rounds, left=%v; want one more after its bound and then the end", greedy, left)
		}
	})
}

func TestEndlessConflictsGiveTheWorkerBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, obs := newStore(), &seen{}
		tokens := map[int64]int{}
		stop := start(t, reconcile.Config{Ledger: s, Observer: obs}, func(_ context.Context, task reconcile.Task) (reconcile.Result, error) {
			if tokens[task.Token]++; len(tokens) > 1 {
				return reconcile.Result{}, nil
			}
			set := put(ledger.Object{}, "a", "lost")
			set.Puts[0].Expect = 1000
			_, err := s.Commit(context.Background(), ledger.Set{Actor: "bob", Cause: "request:2",
				Puts: []ledger.Put{{Object: ledger.Object{Ref: thing("a"), Phase: fmt.Sprint(tokens[task.Token])}, Expect: s.object("a").Version, Op: "update"}}})
			return reconcile.Done(set), err
		})
		s.wake("a")
		time.Sleep(10 * time.Second)
		stop()
		if diff := cmp.Diff(map[int64]int{1: 16, 2: 1}, tokens); diff != "" {
			t.Errorf("rounds by lease (-want +got):\n%s", diff)
		}
		if all := obs.all(); all[15] != reconcile.Conflict || all[16] != reconcile.Succeeded {
			t.Errorf("outcomes %v", all)
		}
	})
}

func TestLogsOneLinePerFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		var out bytes.Buffer
		n := 0
		stop := start(t, reconcile.Config{Ledger: s, Logger: slog.New(slog.NewTextHandler(&out, nil))},
			func(context.Context, reconcile.Task) (reconcile.Result, error) {
				switch n++; n {
				case 1:
					return reconcile.Result{}, errors.New("broken")
				case 2:
					panic("oh no")
				case 3:
					return reconcile.Result{}, reconcile.Terminal(fault.New(fault.Invalid, "hopeless"))
				}
				return reconcile.Result{}, nil
			})
		s.wake("a")
		time.Sleep(10 * time.Second)
		stop()
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != 3 {
			t.Fatalf("want one line per failed run:\n%s", out.String())
		}
		for i, want := range []string{"err=broken", "loop_test.go", "hopeless"} {
			for _, part := range []string{want, "kind=thing", "id=a", fmt.Sprintf("attempts=%d", i+1)} {
				if !strings.Contains(lines[i], part) {
					t.Errorf("line %d has no %q: %s", i+1, part, lines[i])
				}
			}
		}
	})
}

func TestNeedsALedgerAndReconcilers(t *testing.T) {
	if err := reconcile.New(reconcile.Config{}).Run(t.Context()); !fault.Is(err, fault.Invalid) {
		t.Errorf("Run: %v, want Invalid", err)
	}
}
