package resilience_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/resilience"
)

// A side that nobody calls any more is not counted as away for ever; one that is
// called now and then is, for as long as it does not answer.
func TestSideThatIsNeverCalledAgain(t *testing.T) {
	away := func(context.Context) error { return fault.New(fault.Unavailable, "away") }
	for _, tc := range []struct {
		reason string
		calls  func(fail func()) // after the breaker has opened
		open   int
	}{
		{"just now it failed", func(func()) {}, 1},
		{"it rests, and may be called yet", func(func()) { time.Sleep(5 * time.Minute) }, 1},
		{"nobody calls", func(func()) { time.Sleep(7 * time.Minute) }, 0},
		{"somebody does, every four minutes, for an hour", func(fail func()) {
			for range 15 {
				time.Sleep(4 * time.Minute)
				fail()
			}
		}, 1},
		{"and then nobody", func(fail func()) {
			for range 15 {
				time.Sleep(4 * time.Minute)
				fail()
			}
			time.Sleep(7 * time.Minute)
		}, 0},
		{"it is away the next day as well", func(fail func()) {
			time.Sleep(24 * time.Hour)
			fail()
			fail()
		}, 1},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &witness{}
				p := resilience.New(resilience.Config{Failures: 2, Rest: time.Minute, Observer: w})
				fail := func() { _ = p.Once(t.Context(), away) }
				fail()
				fail()
				tc.calls(fail)
				synctest.Wait()
				if n := w.open(); n != tc.open {
					t.Errorf("%d are open, want %d: %v", n, tc.open, w.states)
				}
			})
		})
	}
}

// A call that takes its time is one: whoever waits for it does not take the side for
// one that nobody calls.
func TestLongCallIsNoSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &witness{}
		p := resilience.New(resilience.Config{Failures: 1, Rest: time.Minute, Timeout: time.Hour, Observer: w})
		away := fault.New(fault.Unavailable, "away")
		_ = p.Once(t.Context(), func(context.Context) error { return away })
		time.Sleep(2 * time.Minute)
		_ = p.Once(t.Context(), func(context.Context) error { time.Sleep(30 * time.Minute); return away })
		if want := []string{"open", "half-open", "open"}; len(w.states) != 3 || w.states[2] != "open" {
			t.Errorf("states %v, want %v", w.states, want)
		}
	})
}

// An answer that was got without the policy closes the breaker, once it has rested.
func TestAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &witness{}
		p := resilience.New(resilience.Config{Failures: 1, Rest: time.Minute, Observer: w})
		p.Answered() // of one that is closed there is nothing to tell
		_ = p.Once(t.Context(), func(context.Context) error { return fault.New(fault.Unavailable, "away") })
		p.Answered()
		if p.State() != "open" {
			t.Errorf("it is %s before its rest has ended", p.State())
		}
		time.Sleep(2 * time.Minute)
		p.Answered()
		if p.State() != "closed" || w.open() != 0 || len(w.states) != 2 {
			t.Errorf("it is %s: %v", p.State(), w.states)
		}
	})
}
