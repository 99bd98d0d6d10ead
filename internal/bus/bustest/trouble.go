package bustest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/fault"
)

// failing hands each delivery over, and fails as often as it is told.
func failing(t *testing.T, b bus.Bus, queue string, fail func(d bus.Delivery, try int) error) <-chan bus.Delivery {
	t.Helper()
	out := make(chan bus.Delivery, 1000)
	var mu sync.Mutex
	tries := map[string]int{}
	Consume(t, b, queue, func(_ context.Context, d bus.Delivery) error {
		mu.Lock()
		tries[d.ID]++
		try := tries[d.ID]
		mu.Unlock()
		out <- d
		return fail(d, try)
	})
	return out
}

func again(t *testing.T, w World) {
	queue := Name()
	got := failing(t, w.Bus, queue, func(_ bus.Delivery, try int) error {
		switch try {
		case 1:
			return errBroken
		case 2:
			return fault.New(fault.Unavailable, "away")
		}
		return nil
	})
	Send(t, w.Bus, queue, full())
	for try := 1; try <= 3; try++ {
		want := bus.Delivery{Message: full(), Again: try > 1, Try: try}
		if try > 1 {
			want.Failed = 1 // the outage is not its own failure
		}
		want.Topic = queue
		if d := cmp.Diff(want, Receive(t, got), empty); d != "" {
			t.Errorf("time %d (-want +got):\n%s", try, d)
		}
	}
	Send(t, w.Bus, queue, bus.Message{ID: "next"})
	Receive(t, got)
	List(t, w.Bus, 0)
}

func panics(t *testing.T, w World) {
	queue := Name()
	got := failing(t, w.Bus, queue, func(_ bus.Delivery, try int) error {
		if try == 1 {
			panic("boom")
		}
		return nil
	})
	Send(t, w.Bus, queue, bus.Message{ID: "1"})
	if d := Receive(t, got); d.Again {
		t.Error("the first time is not the second")
	}
	if d := Receive(t, got); !d.Again {
		t.Error("the second time is not the first")
	}
}

func left(t *testing.T, w World) {
	queue := Name()
	began := make(chan bus.Delivery, 1)
	stop := Consume(t, w.Bus, queue, func(ctx context.Context, d bus.Delivery) error {
		began <- d
		<-ctx.Done()
		return ctx.Err()
	})
	Send(t, w.Bus, queue, bus.Message{ID: "1"})
	Receive(t, began)
	stop()
	got, _ := Collect(t, w.Bus, queue)
	if d := Receive(t, got); d.ID != "1" || !d.Again {
		t.Errorf("got %s, again: %v", d.ID, d.Again)
	}
}

func aside(t *testing.T, w World) {
	queue := Name()
	got := failing(t, w.Bus, queue, func(d bus.Delivery, _ int) error {
		if d.ID == "good" {
			return nil
		}
		return fmt.Errorf("cannot take it: %w", bus.Reject(fault.New(fault.Invalid, "no type: name one")))
	})
	bad := full()
	Send(t, w.Bus, queue, bad)
	Receive(t, got)
	first := List(t, w.Bus, 1)[0]
	Send(t, w.Bus, queue, bad) // the same ID
	Receive(t, got)
	list := List(t, w.Bus, 2)
	want := bad
	want.Topic = queue
	for _, short := range list {
		if short.Headers != nil || short.ID != bad.ID || short.Size != len(bad.Body) || !bytes.Equal(short.Body, bad.Body) {
			t.Errorf("it is listed as %+v", short)
		}
		r, err := w.Bus.Aside().Show(t.Context(), short.Key)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, r.Message, empty); d != "" {
			t.Errorf("what was put aside is not what was sent (-want +got):\n%s", d)
		}
		if r.Queue != queue || r.Reason != "cannot take it: no type: name one" || r.At.IsZero() || r.Key == "" {
			t.Errorf("got %q, %q, %v, key %q", r.Queue, r.Reason, r.At, r.Key)
		}
	}
	if list[0].Key != first.Key || list[0].Key == list[1].Key {
		t.Errorf("keys are %s, then %s and %s", first.Key, list[0].Key, list[1].Key)
	}
	if some, err := w.Bus.Aside().List(t.Context(), 1); err != nil || len(some) != 1 || some[0].Key != first.Key {
		t.Errorf("one of them: %v, %v", some, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for n, err := w.Bus.Aside().Count(ctx); n != 2; n, err = w.Bus.Aside().Count(ctx) { // a broker's own count may be a moment behind
		if err != nil {
			t.Fatalf("%d were counted: %v", n, err)
		}
	}
	Send(t, w.Bus, queue, bus.Message{ID: "good"})
	if d := Receive(t, got); d.ID != "good" {
		t.Errorf("got %s after it", d.ID)
	}
	if w.Another != nil {
		if others := List(t, w.Another(t), 2); others[1].Key != list[1].Key {
			t.Error("another sees something else")
		}
	}
	bad.Body = bytes.Repeat([]byte("x"), bus.MaxBody)
	Send(t, w.Bus, queue, bad)
	Receive(t, got)
	large := List(t, w.Bus, 3)[2]
	if len(large.Body) != bus.Excerpt || cap(large.Body) > 2*bus.Excerpt || large.Size != bus.MaxBody {
		t.Errorf("of %d bytes, %d are listed, in %d", large.Size, len(large.Body), cap(large.Body))
	}
	if whole, err := w.Bus.Aside().Show(t.Context(), large.Key); err != nil || !bytes.Equal(whole.Body, bad.Body) || whole.Size != bus.MaxBody {
		t.Errorf("%d of %d bytes are shown: %v", len(whole.Body), whole.Size, err)
	}
}

func decided(t *testing.T, w World) {
	queue := Name()
	var mu sync.Mutex
	healthy := false
	got := failing(t, w.Bus, queue, func(bus.Delivery, int) error {
		mu.Lock()
		defer mu.Unlock()
		if healthy {
			return nil
		}
		return bus.Reject(errBroken)
	})
	for i := range 4 {
		Send(t, w.Bus, queue, bus.Message{ID: fmt.Sprint(i), Headers: map[string]string{"a": "b"}})
		Receive(t, got)
		List(t, w.Bus, i+1)
	}
	list := List(t, w.Bus, 4)
	if ids := []string{list[0].ID, list[1].ID, list[2].ID, list[3].ID}; !slices.Equal(ids, []string{"0", "1", "2", "3"}) {
		t.Errorf("the oldest does not come first: %v", ids)
	}
	mu.Lock()
	healthy = true
	mu.Unlock()
	if err := w.Bus.Aside().Retry(t.Context(), list[2].Key); err != nil {
		t.Fatal(err)
	}
	want := bus.Message{ID: "2", Topic: queue, Headers: map[string]string{"a": "b"}}
	if d := cmp.Diff(want, Receive(t, got).Message, empty); d != "" {
		t.Errorf("it comes back changed (-want +got):\n%s", d)
	}
	if three := List(t, w.Bus, 3); three[0].ID != "0" || three[1].ID != "1" || three[2].ID != "3" {
		t.Errorf("the oldest does not come first any more: %s, %s, %s", three[0].ID, three[1].ID, three[2].ID)
	}
	if err := w.Bus.Aside().Drop(t.Context(), list[0].Key); err != nil {
		t.Fatal(err)
	}
	rest := List(t, w.Bus, 2)
	if rest[0].Key != list[1].Key || rest[1].Key != list[3].Key {
		t.Error("others are left than those that were not decided")
	}
	for _, key := range []string{list[2].Key, list[0].Key, "", "nonsense"} {
		if err := w.Bus.Aside().Retry(t.Context(), key); !fault.Is(err, fault.NotFound) {
			t.Errorf("retry of %q: %v", key, err)
		}
		if err := w.Bus.Aside().Drop(t.Context(), key); !fault.Is(err, fault.NotFound) {
			t.Errorf("drop of %q: %v", key, err)
		}
		if _, err := w.Bus.Aside().Show(t.Context(), key); !fault.Is(err, fault.NotFound) {
			t.Errorf("show of %q: %v", key, err)
		}
	}
	List(t, w.Bus, 2)
}

func duplicates(t *testing.T, w World) {
	queue := Name()
	got, _ := Collect(t, w.Bus, queue)
	for range 3 {
		Send(t, w.Bus, queue, bus.Message{ID: "same"})
	}
	for range 3 {
		if d := Receive(t, got); d.ID != "same" {
			t.Errorf("got %s", d.ID)
		}
	}
}

func shared(t *testing.T, w World) {
	queue := Name()
	other := w.Bus
	if w.Another != nil {
		other = w.Another(t)
	}
	took := make(chan [2]string, 1000)
	for i, b := range []bus.Bus{w.Bus, other} {
		Consume(t, b, queue, func(_ context.Context, d bus.Delivery) error {
			took <- [2]string{fmt.Sprint(i), d.ID}
			return nil
		})
	}
	const n = 200
	for i := range n {
		Send(t, w.Bus, queue, bus.Message{ID: fmt.Sprint(i)})
	}
	seen := map[string]string{}
	for range n {
		one := Receive(t, took)
		if by, is := seen[one[1]]; is {
			t.Errorf("%s was taken by %s and by %s", one[1], by, one[0])
		}
		seen[one[1]] = one[0]
	}
}

func many(t *testing.T, w World) {
	queue := Name()
	const senders, each = 8, 250
	var mu sync.Mutex
	left := map[string]bool{}
	for i := range senders * each {
		left[fmt.Sprint(i)] = true
	}
	none := make(chan struct{})
	Consume(t, w.Bus, queue, func(_ context.Context, d bus.Delivery) error {
		mu.Lock()
		defer mu.Unlock()
		if !left[d.ID] {
			t.Errorf("%q came twice", d.ID)
			return nil
		}
		if delete(left, d.ID); len(left) == 0 {
			close(none)
		}
		return nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var group sync.WaitGroup
	for s := range senders {
		group.Go(func() {
			for i := range each {
				if err := w.Bus.Send(ctx, queue, bus.Message{ID: fmt.Sprint(s*each + i)}); err != nil {
					t.Errorf("cannot send: %v", err)
				}
			}
		})
	}
	group.Wait()
	select {
	case <-none:
	case <-ctx.Done():
		mu.Lock()
		open := slices.Collect(maps.Keys(left))
		mu.Unlock() // who handles more waits for it, and the end for them
		t.Fatalf("%d are not handled: %v", len(open), open)
	}
}

func ended(t *testing.T, w World) {
	queue := Name()
	Collect(t, w.Bus, queue)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, err := range map[string]error{
		"Publish": w.Bus.Publish(ctx, bus.Message{ID: "1"}),
		"Send":    w.Bus.Send(ctx, queue, bus.Message{ID: "1"}),
		"List":    second(w.Bus.Aside().List(ctx, 1)),
		"Retry":   w.Bus.Aside().Retry(ctx, "x"),
		"Drop":    w.Bus.Aside().Drop(ctx, "x"),
	} {
		if !fault.Is(err, fault.Unavailable) || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if err := w.Bus.Consume(ctx, Name(), nil); err != nil {
		t.Errorf("Consume: got %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

func closed(t *testing.T, w World) {
	ends := make(chan error, 1)
	began := make(chan struct{}, 1)
	queue := Name()
	// One goroutine, which the close ends.
	go func() {
		ends <- w.Bus.Consume(context.Background(), queue, func(ctx context.Context, _ bus.Delivery) error {
			began <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		})
	}()
	for {
		err := w.Bus.Send(t.Context(), queue, bus.Message{})
		if err == nil {
			break
		}
		if !soon(err) {
			t.Fatal(err)
		}
	}
	Receive(t, began)
	for range 2 {
		if err := w.Bus.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := Receive(t, ends); !fault.Is(err, fault.Unavailable) {
		t.Errorf("Consume ended with %v", err)
	}
	for name, err := range map[string]error{
		"Publish": w.Bus.Publish(t.Context(), bus.Message{}),
		"Send":    w.Bus.Send(t.Context(), queue, bus.Message{}),
		"Consume": w.Bus.Consume(t.Context(), queue, nil),
		"List":    second(w.Bus.Aside().List(t.Context(), 1)),
	} {
		if !fault.Is(err, fault.Unavailable) {
			t.Errorf("%s after the close: %v", name, err)
		}
	}
}
