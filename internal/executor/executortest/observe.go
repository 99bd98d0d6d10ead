package executortest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/fault"
)

func drifted(t *testing.T, b *bench) {
	if b.Edit == nil {
		return
	}
	x := b.thing(Plain)
	x.apply(t)
	b.Edit(t, x.n)
	o := x.observe(t)
	if !o.Exists || len(o.Drift) == 0 {
		t.Fatalf("somebody has changed it: there %v, drift %+v", o.Exists, o.Drift)
	}
	for _, f := range o.Drift {
		if f.Path == "" || f.Before == nil && f.After == nil {
			t.Errorf("drift %+v does not say what it was and is", f)
		}
	}
	if c := x.plan(t); c.Action != executor.Update && c.Action != executor.Replace {
		t.Errorf("the plan is to %s, over %+v", c.Action, o.Drift)
	}
	x.apply(t)
	x.sound(t, "after it was corrected")
	b.Edit(t, x.n)
	before := b.Look(t)
	x.destroy(t)
	if after := b.Look(t); len(after) >= len(before) {
		t.Error("what it has made and somebody has changed is still there after it was destroyed")
	}
}

func gone(t *testing.T, b *bench) {
	if b.Delete == nil {
		return
	}
	x := b.thing(Plain)
	empty := b.Look(t)
	x.apply(t)
	b.Delete(t, x.n)
	if o := x.observe(t); o.Exists {
		t.Error("what somebody has removed is there")
	}
	if c := x.plan(t); c.Action != executor.Create {
		t.Errorf("the plan for what is gone is to %s", c.Action)
	}
	x.apply(t)
	x.sound(t, "after it came back")
	b.Delete(t, x.n)
	x.destroy(t)
	b.look(t, "after what is gone was destroyed", empty)
}

func down(t *testing.T, b *bench) {
	if b.Down == nil {
		return
	}
	x := b.thing(Plain)
	x.apply(t)
	up := b.Down(t)
	if o, err := x.Executor.Observe(t.Context(), x.call(false)); !fault.Is(err, fault.Unavailable) {
		t.Errorf("nobody answers, and it sees %+v, %v", o, err)
	}
	if c, err := x.Executor.Plan(t.Context(), x.call(false)); !fault.Is(err, fault.Unavailable) {
		t.Errorf("nobody answers, and the plan is %+v, %v", c, err)
	}
	if _, err := x.Executor.Apply(t.Context(), x.call(true)); !fault.Is(err, fault.Unavailable) {
		t.Errorf("nobody answers, and it is applied: %v", err)
	}
	if _, err := x.Executor.Destroy(t.Context(), x.call(true)); !fault.Is(err, fault.Unavailable) {
		t.Errorf("nobody answers, and it is destroyed: %v", err)
	}
	up()
	x.apply(t)
	x.sound(t, "after it was up again")
	x.destroy(t)
}

func destroyed(t *testing.T, b *bench) {
	empty := b.Look(t)
	x, y := b.thing(Plain), b.thing(Plain)
	x.apply(t)
	y.apply(t)
	if b.Beside != nil {
		b.Beside(t, x.n)
	}
	x.destroy(t)
	y.sound(t, "after its neighbour was destroyed")
	after := b.Look(t)
	x.destroy(t)
	b.look(t, "after the second time", after)
	if o := x.observe(t); o.Exists {
		t.Error("it is there after it was destroyed")
	}
	y.destroy(t)
	if rest := b.Look(t); b.Beside != nil && len(rest) != len(empty)+1 {
		t.Errorf("what somebody has put beside it is not left alone: %v", rest)
	}
}

func watched(t *testing.T, b *bench) {
	w, ok := b.Executor.(executor.Watcher)
	if !ok || b.Unwatched || b.Edit == nil {
		return
	}
	x := b.thing(Plain)
	x.apply(t)
	ctx, cancel := context.WithCancel(t.Context())
	told, ended := make(chan struct{}, 1), make(chan error, 1)
	go func() {
		ended <- w.Watch(ctx, x.call(false), func() {
			select {
			case told <- struct{}{}:
			default:
			}
		})
	}()
	wait := func(what string) {
		t.Helper()
		select {
		case <-told:
		case err := <-ended:
			t.Fatalf("%s: the watch has ended: %v", what, err)
		case <-time.After(x.Patience):
			t.Fatalf("%s: nothing was told", what)
		}
	}
	wait("once it watches")
	b.Edit(t, x.n)
	wait("after a change")
	for len(x.observe(t).Drift) == 0 {
		wait("until the change is seen")
	}
	b.Delete(t, x.n)
	for x.observe(t).Exists {
		wait("until the removal is seen")
	}
	cancel()
	select {
	case <-ended:
	case <-time.After(x.Patience):
		t.Error("the caller left, and it goes on watching")
	}
	x.destroy(t)
}

func listed(t *testing.T, b *bench) {
	l, ok := b.Executor.(executor.Lister)
	if !ok || b.Beside == nil {
		return
	}
	x, y := b.thing(Plain), b.thing(Plain)
	x.apply(t)
	y.apply(t)
	all := []executor.Resource{x.call(false), y.call(false)}
	before, err := l.List(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	name := b.Beside(t, x.n)
	if slices.ContainsFunc(before, func(s executor.Stray) bool { return s.Name == name }) {
		t.Fatalf("%q was there before", name)
	}
	after, err := l.List(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	if len(after) != len(before)+1 || !slices.ContainsFunc(after, func(s executor.Stray) bool { return s.Name == name }) {
		t.Errorf("%q was put there, and named are %v", name, after)
	}
	if b.Down != nil {
		up := b.Down(t)
		if got, err := l.List(t.Context(), all); err == nil {
			t.Errorf("nobody answers, and it names %v", got)
		}
		up()
	}
	x.destroy(t)
	y.destroy(t)
}
