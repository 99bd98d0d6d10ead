// Package bustest holds the contract of the bus as tests: whatever broker is behind
// it, a message that was taken is kept until it is done, comes again when it was
// not, and is put aside with a reason when nobody can take it.
//
// It owns the suite. It must not know any broker.
package bustest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/fault"
)

// World is a bus under test, on a broker where nothing was put aside yet.
type World struct {
	Bus bus.Bus
	// Follow returns the events with topics that match a pattern ("acme.*.created",
	// "acme.#") from now on, as an outsider gets them.
	Follow func(t testing.TB, pattern string) <-chan bus.Message
	// Another opens a second bus on the same broker. Nil where a broker ends with its bus.
	Another func(t testing.TB) bus.Bus
}

// Run tests an implementation. Each test opens a world of its own.
func Run(t *testing.T, open func(t *testing.T) World) {
	for _, tc := range []struct {
		name string
		test func(*testing.T, World)
	}{
		{"a message arrives as it was sent", whole},
		{"events reach whoever follows their topic, in order", events},
		{"what no try would bring through is refused", refused},
		{"where nobody listens, the sender is told", nobody},
		{"a queue stays while nobody consumes", stays},
		{"several are handled at a time", several},
		{"what is done is gone", gone},
		{"what failed comes again", again},
		{"what waits to come again holds up nobody", waits},
		{"a panic fails one message", panics},
		{"what its handler leaves comes again to the next", left},
		{"what is rejected is put aside with its reason", aside},
		{"what was put aside is brought back, or dropped", decided},
		{"duplicates are two messages", duplicates},
		{"two share the work", shared},
		{"many at once", many},
		{"nobody waits beyond the end of a call", ended},
		{"close ends all calls", closed},
	} {
		t.Run(tc.name, func(t *testing.T) { tc.test(t, open(t)) })
	}
}

// patience only bounds what hangs.
const patience = 4 * time.Minute

// Name returns a queue that nobody else uses, one of Drover's own.
func Name() string { return "drover.test." + rand.Text() }

// Receive returns the next value, or ends the test.
func Receive[T any](t testing.TB, from <-chan T) T {
	t.Helper()
	select {
	case v, ok := <-from:
		if !ok {
			t.Fatal("nothing comes any more")
		}
		return v
	case <-time.After(patience):
		t.Fatal("nothing comes")
	}
	panic("unreachable")
}

// soon tells that a queue is not there yet, or not ready to take anything.
func soon(err error) bool {
	return fault.Is(err, fault.NotFound) || fault.Reason(err) == bus.ReasonFull
}

var probes sync.Map // of those that were sent and not handled yet, by ID

// Consume has handle take a queue's messages until stop, which waits for the end;
// the end of the test stops it too. The queue is there when it returns.
func Consume(t testing.TB, b bus.Bus, queue string, handle func(context.Context, bus.Delivery) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	// A message of our own shows that the queue is there, and that it is consumed.
	const probe = "probe"
	id, handled := rand.Text(), make(chan struct{})
	probes.Store(id, handled)
	// One goroutine, which stop ends.
	go func() {
		done <- b.Consume(ctx, queue, func(ctx context.Context, d bus.Delivery) error {
			if d.Type == probe {
				if handled, is := probes.LoadAndDelete(d.ID); is {
					close(handled.(chan struct{}))
				}
				return nil
			}
			return handle(ctx, d)
		})
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := Receive(t, done); err != nil {
			t.Errorf("consuming ended with %v", err)
		}
	})
	t.Cleanup(stop)
	for {
		err := b.Send(ctx, queue, bus.Message{Type: probe, ID: id})
		if err == nil {
			select {
			case <-handled: // by whoever consumes the queue
				return stop
			case <-time.After(patience):
				t.Fatal("nothing is consumed")
			}
		}
		if !soon(err) || len(done) > 0 {
			t.Fatalf("there is no queue: %v", err)
		}
	}
}

// Collect consumes a queue into a channel.
func Collect(t testing.TB, b bus.Bus, queue string) (<-chan bus.Delivery, func()) {
	t.Helper()
	out := make(chan bus.Delivery, 1000)
	stop := Consume(t, b, queue, func(ctx context.Context, d bus.Delivery) error {
		select {
		case out <- d:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	return out, stop
}

// Send sends, or ends the test.
func Send(t testing.TB, b bus.Bus, queue string, m bus.Message) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := b.Send(ctx, queue, m); err != nil {
		t.Fatalf("cannot send: %v", err)
	}
}

// List returns what was put aside once there are n, or ends the test.
func List(t testing.TB, b bus.Bus, n int) []bus.Rejected {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		list, err := b.Aside().List(ctx, 100)
		if err != nil {
			t.Fatalf("cannot list: %v", err)
		}
		if len(list) == n {
			return list
		}
		if len(list) > n {
			t.Fatalf("%d were put aside, not %d", len(list), n)
		}
	}
}

func full() bus.Message {
	return bus.Message{
		ID: "id-1", Topic: "acme.thing.1.made", Type: "made", ContentType: "application/json",
		Time: time.Date(2026, 11, 15, 12, 0, 1, 0, time.UTC), ReplyTo: "somewhere", Correlation: "id-0",
		Headers: map[string]string{"traceparent": "00-1", "odd": "\xff\xfe\x00 ü", "empty": ""},
		Body:    []byte("{\"odd\":\"\xff\x00\"}"),
	}
}

func whole(t *testing.T, w World) {
	queue := Name()
	got, _ := Collect(t, w.Bus, queue)
	for _, m := range []bus.Message{full(), {Body: []byte{0}}, {}, {ID: "large", Body: make([]byte, bus.MaxBody)}} {
		want := m
		want.Topic = queue // "a command's is the name of its queue"
		Send(t, w.Bus, queue, m)
		if d := cmp.Diff(bus.Delivery{Message: want, Try: 1}, Receive(t, got), empty); d != "" {
			t.Errorf("sent and received differ (-want +got):\n%s", d)
		}
	}
	events := w.Follow(t, "#")
	if err := w.Bus.Publish(t.Context(), full()); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(full(), Receive(t, events), empty); d != "" {
		t.Errorf("published and received differ (-want +got):\n%s", d)
	}
}

// empty takes nil and nothing for the same.
var empty = cmp.Options{
	cmp.Transformer("body", func(b []byte) string { return string(b) }),
	cmp.Comparer(func(a, b map[string]string) bool {
		return len(a) == len(b) && fmt.Sprint(a) == fmt.Sprint(b)
	}),
}

func events(t *testing.T, w World) {
	all, one, deep := w.Follow(t, "#"), w.Follow(t, "acme.*.made"), w.Follow(t, "acme.#")
	const n = 1000
	var batch []bus.Message
	for i := range n {
		topic := []string{"acme.thing.made", "acme.thing.1.made", "other.thing.made", "acme"}[i%4]
		batch = append(batch, bus.Message{ID: fmt.Sprint(i), Topic: topic})
	}
	if err := w.Bus.Publish(t.Context(), batch...); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		want := fmt.Sprint(i)
		for _, f := range []struct {
			name   string
			events <-chan bus.Message
			gets   bool
		}{{"#", all, true}, {"acme.*.made", one, i%4 == 0}, {"acme.#", deep, i%4 != 2}} {
			if !f.gets {
				continue
			}
			if got := Receive(t, f.events).ID; got != want {
				t.Fatalf("who follows %s got %s, not %s", f.name, got, want)
			}
		}
	}
	if err := w.Bus.Publish(t.Context()); err != nil {
		t.Errorf("nothing to publish: %v", err)
	}
}

func refused(t *testing.T, w World) {
	queue := Name()
	got, _ := Collect(t, w.Bus, queue)
	events := w.Follow(t, "#")
	large := bus.Message{Body: make([]byte, bus.MaxBody+1)}
	if err := w.Bus.Send(t.Context(), queue, large); !fault.Is(err, fault.Invalid) {
		t.Errorf("sending it: %v", err)
	}
	if err := w.Bus.Publish(t.Context(), bus.Message{ID: "first"}, large); !fault.Is(err, fault.Invalid) {
		t.Errorf("publishing it: %v", err)
	}
	// What is right goes on.
	Send(t, w.Bus, queue, bus.Message{ID: "next"})
	if d := Receive(t, got); d.ID != "next" {
		t.Errorf("got %s", d.ID)
	}
	if err := w.Bus.Publish(t.Context(), bus.Message{ID: "next"}); err != nil {
		t.Fatal(err)
	}
	if e := Receive(t, events); e.ID != "next" {
		t.Errorf("a batch that was refused sent %s", e.ID)
	}
}

func nobody(t *testing.T, w World) {
	for _, queue := range []string{Name(), rand.Text()} {
		if err := w.Bus.Send(t.Context(), queue, bus.Message{ID: "1"}); !fault.Is(err, fault.NotFound) {
			t.Errorf("got %v, want not found", err)
		}
	}
	if err := w.Bus.Publish(t.Context(), bus.Message{Topic: rand.Text()}); err != nil {
		t.Errorf("an event needs nobody: %v", err)
	}
}

func stays(t *testing.T, w World) {
	queue := Name()
	_, stop := Collect(t, w.Bus, queue)
	stop()
	for i := range 10 {
		Send(t, w.Bus, queue, bus.Message{ID: fmt.Sprint(i)})
	}
	got, _ := Collect(t, w.Bus, queue)
	var ids []string
	for range 10 {
		ids = append(ids, Receive(t, got).ID)
	}
	slices.Sort(ids) // several are handled at a time
	if want := []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}; !slices.Equal(ids, want) {
		t.Errorf("got %v", ids)
	}
}

func several(t *testing.T, w World) {
	queue := Name()
	both := make(chan struct{})
	met := make(chan struct{}, 2)
	Consume(t, w.Bus, queue, func(ctx context.Context, d bus.Delivery) error {
		select {
		case both <- struct{}{}: // the other takes it
		case <-both:
		case <-ctx.Done():
			return ctx.Err()
		}
		met <- struct{}{}
		return nil
	})
	Send(t, w.Bus, queue, bus.Message{ID: "1"})
	Send(t, w.Bus, queue, bus.Message{ID: "2"})
	Receive(t, met)
	Receive(t, met)
}

func gone(t *testing.T, w World) {
	queue := Name()
	got, stop := Collect(t, w.Bus, queue)
	Send(t, w.Bus, queue, bus.Message{ID: "1"})
	Receive(t, got)
	stop()
	got, _ = Collect(t, w.Bus, queue)
	Send(t, w.Bus, queue, bus.Message{ID: "2"})
	if d := Receive(t, got); d.ID != "2" || d.Again {
		t.Errorf("got %s, again: %v", d.ID, d.Again)
	}
}

var errBroken = errors.New("broken")
