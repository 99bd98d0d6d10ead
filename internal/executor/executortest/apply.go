package executortest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/fault"
)

func twice(t *testing.T, b *bench) {
	x := b.thing(Plain)
	x.apply(t)
	before, mark := b.Look(t), x.observe(t).Mark
	if mark == "" {
		t.Error("what is observed has no mark")
	}
	x.apply(t)
	b.look(t, "after the second time", before)
	if again := x.observe(t).Mark; again != mark {
		t.Errorf("to apply what is right has moved it: %q, then %q", mark, again)
	}
	x.destroy(t)
}

// crashed drops what Apply returned, once with the mark of the plan that was
// being carried out: it has moved, by our own hand.
func crashed(t *testing.T, b *bench) {
	for _, s := range []Shape{Plain, Changed, Moved} {
		x := b.thing(Plain)
		if b.Inputs(x.n, s) == nil {
			continue
		}
		empty := b.Look(t)
		if s != Plain {
			x.apply(t)
			x.shape(s)
		}
		x.r.Mark = x.plan(t).Mark
		if _, err := x.try(t.Context()); err != nil {
			t.Fatalf("shape %d: cannot apply: %v", s, err)
		}
		after := b.Look(t)
		x.apply(t)
		b.look(t, fmt.Sprintf("shape %d: after the crash", s), after)
		x.sound(t, fmt.Sprintf("shape %d: after the crash", s))
		x.destroy(t)
		b.look(t, fmt.Sprintf("shape %d: after it was destroyed", s), empty)
	}
}

// cut loses the answer to the first request of Apply, then to the second, and so
// on until all of them come through.
func cut(t *testing.T, b *bench) {
	if b.Cut == nil {
		return
	}
	for _, s := range []Shape{Plain, Changed, Moved} {
		whole := false
		for n := 1; !whole; n++ {
			if n > 20 {
				t.Fatalf("shape %d: it needs more than %d requests", s, n)
			}
			x := b.thing(Plain)
			if b.Inputs(x.n, s) == nil {
				break
			}
			empty := b.Look(t)
			if s != Plain {
				x.apply(t)
				x.shape(s)
			}
			when := fmt.Sprintf("shape %d: cut at request %d", s, n)
			x.r.Mark = x.plan(t).Mark
			mend := b.Cut(t, n)
			_, err := x.try(t.Context())
			mend()
			whole = err == nil
			if fault.Is(err, fault.Invalid) || fault.Is(err, fault.Denied) {
				t.Errorf("%s: %v is said to be hopeless", when, err)
			}
			x.apply(t)
			x.sound(t, when)
			mend = b.Cut(t, n)
			_, _ = x.until(t.Context(), x.Executor.Destroy)
			mend()
			x.destroy(t)
			b.look(t, when+": after it was destroyed", empty)
		}
	}
}

// unsaved lets the caller's memory fail, and then the caller die as soon as it
// has remembered.
func unsaved(t *testing.T, b *bench) {
	x := b.thing(Plain)
	before := b.Look(t)
	asked := false
	x.unsaved = fault.New(fault.Unavailable, "the ledger is away")
	_, err := x.try(t.Context())
	if asked = err != nil; asked {
		if !errors.Is(err, x.unsaved) {
			t.Errorf("it fails with %v", err)
		}
		b.look(t, "after nothing could be remembered", before)
	}
	x.unsaved = nil
	if asked {
		ctx, cancel := context.WithCancel(t.Context())
		x.saved = cancel
		_, _ = x.try(ctx)
		cancel()
		x.saved = nil
	}
	x.apply(t)
	x.sound(t, "after its caller came back")
	x.destroy(t)
	b.look(t, "after it was destroyed", before)
}

func foreign(t *testing.T, b *bench) {
	if b.Take == nil {
		return
	}
	x := b.thing(Plain)
	empty := b.Look(t)
	b.Take(t, x.n)
	before := b.Look(t)
	_, err := x.try(t.Context())
	expect(t, "what is somebody else's", err, fault.Conflict, "not-ours")
	// A plan may say so already.
	if _, err := x.Executor.Plan(t.Context(), x.call(false)); err != nil {
		expect(t, "a plan over what is somebody else's", err, fault.Conflict, "not-ours")
	}
	b.look(t, "after it was refused", before)
	x.destroy(t)
	b.look(t, "after what was never made was destroyed", before)
	b.Delete(t, x.n)

	// One Drover's is not the other's.
	x.apply(t)
	before = b.Look(t)
	y := b.numbered(x.n, Changed)
	if y.r.Inputs == nil {
		y.shape(Plain)
	}
	_, err = y.try(t.Context())
	expect(t, "what is another resource's", err, fault.Conflict, "not-ours")
	// Whoever plans for both tells that they take the same.
	c, planned := x.Executor.Plan(t.Context(), x.call(false))
	if planned != nil || !b.Nameless && !slices.ContainsFunc(c.Takes, func(what string) bool {
		return strings.HasPrefix(err.Error(), what+" is there already") || strings.HasPrefix(err.Error(), what+" belongs to ")
	}) {
		t.Errorf("a plan takes %q, %v; who is refused reads %q", c.Takes, planned, err)
	}
	y.destroy(t)
	b.look(t, "after another resource has tried", before)
	x.sound(t, "after another resource has tried")
	x.destroy(t)
	b.look(t, "after it was destroyed", empty)
}

func moved(t *testing.T, b *bench) {
	if b.Take != nil {
		x := b.thing(Plain)
		x.r.Mark = x.plan(t).Mark
		b.Take(t, x.n)
		before := b.Look(t)
		_, err := x.try(t.Context())
		expect(t, "what has come since the plan", err, fault.Conflict, "")
		b.look(t, "after it was refused", before)
		b.Delete(t, x.n)
	}
	x := b.thing(Plain)
	if b.Edit == nil || b.Inputs(x.n, Changed) == nil {
		return
	}
	x.apply(t)
	c := x.shape(Changed).plan(t)
	x.shape(Plain)
	if now := x.observe(t).Mark; now != c.Mark {
		t.Errorf("the plan has seen %q, the observation %q", c.Mark, now)
	}
	b.Edit(t, x.n)
	if now := x.observe(t).Mark; now == c.Mark {
		t.Error("somebody has changed it, and the mark has not moved")
	}
	before := b.Look(t)
	x.shape(Changed).r.Mark = c.Mark
	_, err := x.try(t.Context())
	expect(t, "what has moved since the plan", err, fault.Conflict, "moved")
	b.look(t, "after it was refused", before)
	c = x.plan(t)
	x.r.Mark = c.Mark
	b.Delete(t, x.n)
	_, err = x.try(t.Context())
	expect(t, "what is gone since the plan", err, fault.Conflict, "moved")
	x.r.Mark = x.plan(t).Mark
	x.apply(t)
	x.sound(t, "after a new plan")
	x.destroy(t)
}

// left checks calls of one who has left, and of one who leaves in the middle.
func left(t *testing.T, b *bench) {
	x := b.thing(Plain)
	before := b.Look(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := x.Executor.Apply(ctx, x.call(true)); err == nil {
		t.Error("it works for one who has left")
	}
	b.look(t, "after the caller had left", before)
	x.apply(t)
	if b.Hang != nil {
		back := b.Hang(t)
		for name, call := range map[string]func(context.Context) error{
			"plan":    func(ctx context.Context) error { _, err := x.Executor.Plan(ctx, x.call(false)); return err },
			"apply":   func(ctx context.Context) error { _, err := x.Executor.Apply(ctx, x.call(true)); return err },
			"observe": func(ctx context.Context) error { _, err := x.Executor.Observe(ctx, x.call(false)); return err },
			"destroy": func(ctx context.Context) error { _, err := x.Executor.Destroy(ctx, x.call(true)); return err },
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			ended := make(chan error, 1)
			go func() { ended <- call(ctx) }()
			select {
			case err := <-ended:
				if err == nil {
					t.Errorf("%s: there was no answer, and it takes that for one", name)
				}
			case <-time.After(x.Patience):
				t.Errorf("%s: the caller left, and it goes on", name)
			}
			cancel()
		}
		back()
	}
	x.apply(t)
	x.sound(t, "after callers have left")
	x.destroy(t)
	b.look(t, "after it was destroyed", before)
}

func crowd(t *testing.T, b *bench) {
	before := b.Look(t)
	errs := make([]error, b.Crowd)
	things := make([]*thing, b.Crowd)
	all := func(what string, do func(x *thing) error) {
		var wait sync.WaitGroup
		for i, x := range things {
			wait.Go(func() { errs[i] = do(x) })
		}
		wait.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatalf("cannot %s all: %v", what, err)
		}
	}
	for i := range things {
		things[i] = b.thing(Plain)
	}
	all("make", func(x *thing) error {
		res, err := x.try(t.Context())
		x.r.Outputs = res.Outputs
		return err
	})
	all("observe", func(x *thing) error {
		o, err := x.Executor.Observe(t.Context(), x.call(false))
		if err == nil && (!o.Exists || len(o.Drift) > 0) {
			return fmt.Errorf("%s: there %v, drift %v", x.r.Address, o.Exists, o.Drift)
		}
		return err
	})
	all("destroy", func(x *thing) error {
		_, err := x.until(t.Context(), x.Executor.Destroy)
		return err
	})
	b.look(t, "after the crowd", before)
}

var _ executor.Executor = Noop{}
