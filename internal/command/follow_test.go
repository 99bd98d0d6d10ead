package command_test

import (
	"context"
	"sync"
	"testing"

	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/command"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// listing is a ledger in which something happens whenever commands are listed.
type listing struct {
	*noting
	then func()
}

func (l *listing) List(ctx context.Context, q ledger.Query) ([]ledger.Object, error) {
	found, err := l.noting.List(ctx, q)
	l.then()
	return found, err
}

func (n *noting) wakes(id string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.woken[id]
}

func follow(t *testing.T, w *world) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	if feed, ok := w.s.Feed.(*ledger.Feed); ok {
		all.Go(func() { _ = feed.Run(ctx) })
	}
	all.Go(func() { _ = w.s.Follow(ctx, w.store) })
	t.Cleanup(func() { cancel(); all.Wait() })
}

func order(t *testing.T, d *desk, id string) string {
	t.Helper()
	if err := d.handle(t.Context(), bus.Delivery{Message: message("alice", id, "instance.create", "things", `{"name":"`+id+`"}`), Try: 1}); err != nil {
		t.Fatal(err)
	}
	return command.ID("acme", "alice", "/test", id)
}

// touch changes whatever there is of a kind.
func (w *world) touch(t *testing.T, kind, phase string) {
	t.Helper()
	for _, o := range w.list(t, kind) {
		o.Phase = phase
		if _, err := w.store.Commit(t.Context(), ledger.Set{Actor: "system", Cause: ledger.BySchedule("test"), Puts: []ledger.Put{{Object: o, Expect: o.Version, Op: phase}}}); err != nil {
			t.Error(err)
		}
	}
}

// What happens while the open commands are listed is not passed over: a command is woken
// after its work has changed, and so is one that came after the list.
func TestNothingIsPassedOverWhileCommandsAreListed(t *testing.T) {
	w, d := atDesk(t)
	first, second := order(t, d, "m1"), ""
	n, once := &noting{Store: w.store, woken: map[string]int{}}, sync.Once{}
	before := -1
	w.s.Store = &listing{n, func() {
		once.Do(func() {
			before = n.wakes(first)
			w.touch(t, "thing", "changed")
			second = order(t, d, "m2")
		})
	}}
	follow(t, w)
	until(t, "the first is woken after the change", func() bool { return n.wakes(first) > 0 })
	if before != 0 {
		t.Errorf("it was woken %d times before", before)
	}
	until(t, "the second is woken by its own changes", func() bool {
		w.touch(t, "thing", "more")
		return n.wakes(second) > 0
	})
}

// broken is a log whose beginning is gone once.
type broken struct {
	*ledger.Feed
	asked, cut chan struct{}
	once       sync.Once
}

func (b *broken) Next(ctx context.Context, after int64) (changes []ledger.Change, err error) {
	b.once.Do(func() {
		close(b.asked)
		<-b.cut
		err = fault.New(fault.NotFound, "gone").Because("truncated")
	})
	if err != nil {
		return nil, err
	}
	return b.Feed.Next(ctx, after)
}

// Commands that have ended where the log is gone are forgotten: nobody wakes them with
// every change of what they were about.
func TestCommandsThatEndedUnheardAreForgotten(t *testing.T) {
	w, d := atDesk(t)
	ended := order(t, d, "m1")
	n := &noting{Store: w.store, woken: map[string]int{}}
	log := &broken{Feed: w.s.Feed.(*ledger.Feed), asked: make(chan struct{}), cut: make(chan struct{})}
	w.s.Store, w.s.Feed = n, log
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { _ = log.Run(ctx) })
	t.Cleanup(func() { cancel(); all.Wait() })
	follow(t, w)
	<-log.asked
	before := n.wakes(ended)
	w.touch(t, "command", command.Done)
	open := order(t, d, "m2")
	close(log.cut)
	until(t, "the open one is looked at", func() bool { return n.wakes(open) > 0 })
	known := n.wakes(open)
	until(t, "and woken by changes", func() bool {
		w.touch(t, "thing", "more")
		return n.wakes(open) > known
	})
	if now := n.wakes(ended); before != 1 || now != before {
		t.Errorf("the one that has ended was woken %d times, and is %d times", before, now)
	}
}
