package resilience_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/resilience"
)

// Each of a group has its own breaker, and of those that are forgotten none stays
// open for whoever counts them.
func TestGroup(t *testing.T) {
	w := &witness{}
	g := resilience.NewGroup(resilience.Config{Name: "receivers", Failures: 1, Retries: -1, Observer: w})
	away := func(context.Context) error { return fault.New(fault.Unavailable, "away") }
	fine := func(context.Context) error { return nil }
	_ = g.Of("a").Do(t.Context(), away)
	if err := g.Of("a").Do(t.Context(), fine); fault.Reason(err) != "breaker-open" {
		t.Errorf("one that is away is asked again: %v", err)
	}
	if err := g.Of("b").Do(t.Context(), fine); err != nil {
		t.Errorf("another pays for it: %v", err)
	}
	if n := w.open(); n != 1 {
		t.Errorf("%d are open, want 1", n)
	}
	for i := range 1000 {
		g.Of(fmt.Sprint("many ", i))
	}
	if n := w.open(); n != 0 {
		t.Errorf("%d are open that nobody knows any more", n)
	}
	if err := g.Of("a").Do(t.Context(), fine); err != nil {
		t.Errorf("it begins anew: %v", err)
	}
}

// A policy without a breaker tries whatever came before.
func TestNoBreaker(t *testing.T) {
	p := resilience.New(resilience.Config{Failures: -1, Retries: -1})
	calls := 0
	for range 20 {
		_ = p.Do(t.Context(), func(context.Context) error { calls++; return fault.New(fault.Unavailable, "away") })
	}
	if calls != 20 || p.State() != "closed" {
		t.Errorf("%d calls, %s", calls, p.State())
	}
}
