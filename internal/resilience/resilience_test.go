package resilience_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/resilience"
)

type witness struct {
	mu     sync.Mutex
	calls  []string
	states []string
	counts map[string]int // of breakers, by state
	again  int
	spent  int
}

func (w *witness) Called(_, outcome string, _ time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, outcome)
}

func (w *witness) Breaker(_, from, to string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.states = append(w.states, to)
	if w.counts == nil {
		w.counts = map[string]int{}
	}
	w.counts[from]--
	w.counts[to]++
}

func (w *witness) Retried(_ string, spent bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if spent {
		w.spent++
		return
	}
	w.again++
}

func (w *witness) open() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.counts["open"]
}

// Retries are told, and so is that there were too many of them.
func TestRetriesAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &witness{}
		p := resilience.New(resilience.Config{Name: "the oracle", Failures: 1000, AtOnce: 100, Observer: w})
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				_ = p.Do(t.Context(), func(context.Context) error {
					time.Sleep(time.Second)
					return fault.New(fault.Unavailable, "away")
				})
			})
		}
		wg.Wait()
		if w.again == 0 || w.spent == 0 || w.again+w.spent > 100 {
			t.Errorf("of 50 calls that failed, %d were made again, and %d found no budget", w.again, w.spent)
		}
	})
}

func TestDo(t *testing.T) {
	away := fault.New(fault.Unavailable, "away")
	for _, tc := range []struct {
		reason string
		fails  []error // one per attempt; then it works
		once   bool
		calls  int
		kind   fault.Kind
		ok     bool
	}{
		{reason: "what works is asked once", calls: 1, ok: true},
		{reason: "what is away is asked again", fails: []error{away, away}, calls: 3, ok: true},
		{reason: "but not for ever", fails: []error{away, away, away, away}, calls: 3, kind: fault.Unavailable},
		{reason: "a call that must not be made twice is not", fails: []error{away}, once: true, calls: 1, kind: fault.Unavailable},
		{reason: "nor is one that may have been carried out", fails: []error{away, resilience.Final(away)}, calls: 2, kind: fault.Unavailable},
		{reason: "what is wrong stays wrong", fails: []error{fault.New(fault.Invalid, "no")}, calls: 1, kind: fault.Invalid},
		{reason: "what is not there does not come by asking", fails: []error{fault.New(fault.NotFound, "no")}, calls: 1, kind: fault.NotFound},
		{reason: "a defect is no absence", fails: []error{errors.New("boom")}, calls: 1, kind: fault.Internal},
		{reason: "a wrapped absence is one", fails: []error{fmt.Errorf("cannot ask: %w", away)}, calls: 2, ok: true},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := resilience.New(resilience.Config{Name: "the oracle", Failures: 100})
				calls := 0
				do := p.Do
				if tc.once {
					do = p.Once
				}
				err := do(t.Context(), func(context.Context) error {
					calls++
					if calls <= len(tc.fails) {
						return tc.fails[calls-1]
					}
					return nil
				})
				if (err == nil) != tc.ok || err != nil && fault.Of(err) != tc.kind || calls != tc.calls {
					t.Errorf("%d calls (want %d), %v", calls, tc.calls, err)
				}
			})
		})
	}
}

func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &witness{}
		p := resilience.New(resilience.Config{Name: "the oracle", Failures: 3, Rest: time.Minute, Observer: w})
		away := func(context.Context) error { return fault.New(fault.Unavailable, "away") }
		no := func(context.Context) error { return fault.New(fault.Invalid, "no") }
		for range 10 {
			_ = p.Once(t.Context(), no)
		}
		if p.State() != "closed" {
			t.Fatalf("one who says no is there, yet the breaker is %s", p.State())
		}
		for range 3 {
			_ = p.Once(t.Context(), away)
		}
		called := false
		err := p.Once(t.Context(), func(context.Context) error { called = true; return nil })
		if called || !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "the oracle") {
			t.Fatalf("an open breaker: called %v, %v", called, err)
		}
		var rests interface{ Resumes() time.Duration }
		if !errors.As(fmt.Errorf("cannot ask: %w", err), &rests) || rests.Resumes() < 45*time.Second || rests.Resumes() > 75*time.Second {
			t.Errorf("an open breaker does not tell when it is tried again: %v", err)
		}
		time.Sleep(2 * time.Minute)
		if err := p.Once(t.Context(), func(context.Context) error { return nil }); err != nil {
			t.Fatalf("after its rest the other side is tried: %v", err)
		}
		if want := []string{"open", "half-open", "closed"}; !slices.Equal(w.states, want) {
			t.Errorf("states %v, want %v", w.states, want)
		}
		if !slices.Contains(w.calls, "open") || !slices.Contains(w.calls, "failed") || !slices.Contains(w.calls, "refused") || w.calls[len(w.calls)-1] != "ok" {
			t.Errorf("calls %v", w.calls)
		}
	})
}

func TestTimeoutCountsAsAbsence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := resilience.New(resilience.Config{Name: "the oracle", Timeout: time.Second, Retries: 1, Failures: 4})
		calls := 0
		slow := func(ctx context.Context) error {
			calls++
			<-ctx.Done()
			return fmt.Errorf("cannot read: %w", ctx.Err())
		}
		for range 2 {
			err := p.Do(t.Context(), slow)
			if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "the oracle did not answer within 1s") {
				t.Fatalf("got %v", err)
			}
		}
		if calls != 4 || p.State() != "open" {
			t.Errorf("%d calls, %s", calls, p.State())
		}
	})
}

// The figures that most sides have: 10 s for a call, 2 retries, 5 failures in a row, and
// a rest of 10 s, moved by up to a quarter.
func TestDefaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := resilience.New(resilience.Config{})
		calls := 0
		hangs := func(ctx context.Context) error { calls++; <-ctx.Done(); return ctx.Err() }
		began := time.Now()
		if err := p.Once(t.Context(), hangs); fault.Reason(err) != "timeout" || time.Since(began) != 10*time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		if _ = p.Do(t.Context(), hangs); calls != 1+3 || p.State() != "closed" {
			t.Errorf("%d calls, %s", calls, p.State())
		}
		if _ = p.Once(t.Context(), hangs); p.State() != "open" {
			t.Errorf("after %d calls it is %s", calls, p.State())
		}
		fine := func(context.Context) error { return nil }
		if time.Sleep(7 * time.Second); fault.Reason(p.Once(t.Context(), fine)) != "breaker-open" {
			t.Error("it is called before it has rested")
		}
		if time.Sleep(6 * time.Second); p.Once(t.Context(), fine) != nil {
			t.Error("it is not called after it has rested")
		}
	})
}

func TestCallerWhoLeavesOpensNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := resilience.New(resilience.Config{Name: "the oracle", Failures: 1})
		ctx, cancel := context.WithCancel(t.Context())
		calls := 0
		err := p.Do(ctx, func(ctx context.Context) error { calls++; cancel(); <-ctx.Done(); return ctx.Err() })
		if !errors.Is(err, context.Canceled) || calls != 1 || p.State() != "closed" {
			t.Errorf("%v, %d calls, %s", err, calls, p.State())
		}
		if err := p.Do(ctx, func(context.Context) error { t.Error("called for nobody"); return nil }); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}

// Callers who leave between failures do not hide them, and one who leaves while
// the breaker waits for his call does not leave it waiting.
func TestCallersWhoLeaveHideNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := resilience.New(resilience.Config{Name: "the oracle", Failures: 3, Rest: time.Minute})
		leave := func() {
			ctx, cancel := context.WithCancel(t.Context())
			_ = p.Once(ctx, func(ctx context.Context) error { cancel(); <-ctx.Done(); return ctx.Err() })
		}
		away := func(context.Context) error { return fault.New(fault.Unavailable, "away") }
		for range 3 {
			_ = p.Once(t.Context(), away)
			leave()
		}
		if p.State() != "open" {
			t.Fatalf("three failures, and the breaker is %s", p.State())
		}
		time.Sleep(2 * time.Minute)
		leave()
		if p.State() != "open" {
			t.Fatalf("nobody has seen the other side, and the breaker is %s", p.State())
		}
		time.Sleep(2 * time.Minute)
		func() {
			defer func() { _ = recover() }()
			_ = p.Once(t.Context(), func(context.Context) error { panic("a defect") })
		}()
		time.Sleep(2 * time.Minute)
		if err := p.Once(t.Context(), func(context.Context) error { return nil }); err != nil || p.State() != "closed" {
			t.Errorf("it is back: %v, %s", err, p.State())
		}
	})
}

func TestBulkhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := resilience.New(resilience.Config{Name: "the oracle", AtOnce: 2, Queue: time.Second, Timeout: time.Hour})
		release := make(chan struct{})
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { _ = p.Do(t.Context(), func(context.Context) error { <-release; return nil }) })
		}
		synctest.Wait()
		err := p.Do(t.Context(), func(context.Context) error { t.Error("a third was let in"); return nil })
		if !fault.Is(err, fault.Unavailable) || fault.Reason(err) != "bulkhead-full" {
			t.Errorf("got %v", err)
		}
		close(release)
		wg.Wait()
		if err := p.Do(t.Context(), func(context.Context) error { return nil }); err != nil {
			t.Errorf("there is room again: %v", err)
		}
	})
}

// Why a breaker opened is told where all callers may know it, and only there.
func TestLastWords(t *testing.T) {
	for _, tell := range []bool{true, false} {
		p := resilience.New(resilience.Config{Name: "the oracle", Failures: 1, Retries: -1, Tell: tell})
		_ = p.Do(t.Context(), func(context.Context) error { return fault.New(fault.Unavailable, "the door is locked") })
		err := p.Do(t.Context(), func(context.Context) error { return nil })
		if fault.Reason(err) != "breaker-open" || strings.Contains(err.Error(), "the door is locked") != tell {
			t.Errorf("told %v: %v", tell, err)
		}
	}
}

// A call that is not made again counts as a failure, also where it took too long.
func TestFinal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &witness{}
		p := resilience.New(resilience.Config{Failures: 2, Timeout: time.Second, Observer: w})
		slow := func(ctx context.Context) error { <-ctx.Done(); return resilience.Final(ctx.Err()) }
		if err := p.Do(t.Context(), slow); fault.Reason(err) != "timeout" || len(w.calls) != 1 {
			t.Errorf("after %v it ends with %v", w.calls, err)
		}
		_ = p.Do(t.Context(), func(context.Context) error { return resilience.Final(fault.New(fault.Unavailable, "away")) })
		if w.open() != 1 {
			t.Errorf("its breaker is %s after %v", p.State(), w.calls)
		}
	})
}
