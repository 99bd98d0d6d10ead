package rabbitmq_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/bus/bustest"
	"github.com/droverhq/drover/internal/bus/rabbitmq"
	"github.com/droverhq/drover/internal/fault"
)

// through is the broker's address by way of another.
func (w world) through(addr string) string { return strings.Replace(w.URL, w.Addr, addr, 1) }

// Connections end in the middle of frames, of what we say and of what we are told:
// nothing is lost, and what comes first comes in order.
func TestCutMidFrame(t *testing.T) {
	w := open(t)
	p := newProxy(t, w.Addr)
	p.cutAfter(150_001)
	const n = 1500
	survives(t, w, p.addr, n)
	if p.counted() < 5 {
		t.Errorf("only %d connections were cut: that shows nothing", p.counted())
	}
}

func survives(t *testing.T, w world, addr string, n int) {
	t.Helper()
	events := w.events(t, "#") // not through the proxy
	b, queue := w.bus(t, "url", w.through(addr)), bustest.Name()
	body := make([]byte, 1000)
	published := make(chan error, 1)
	go func() {
		var batch []bus.Message
		for i := range n {
			if batch = append(batch, bus.Message{ID: fmt.Sprint(i), Body: body}); len(batch) == 50 {
				if err := b.Publish(t.Context(), batch...); err != nil {
					published <- err
					return
				}
				batch = nil
			}
		}
		published <- b.Publish(t.Context(), batch...)
	}()
	seen := map[string]bool{}
	for next := 0; next < n; {
		e := bustest.Receive(t, events)
		if seen[e.ID] {
			continue // again
		}
		if e.ID != fmt.Sprint(next) {
			t.Fatalf("%s came where %d is next", e.ID, next)
		}
		seen[e.ID] = true
		next++
	}
	if err := bustest.Receive(t, published); err != nil {
		t.Fatal(err)
	}
	// And the other way.
	direct := w.bus(t)
	_, stop := bustest.Collect(t, direct, queue)
	stop()
	var senders sync.WaitGroup
	for s := range 10 {
		senders.Go(func() {
			for i := s; i < n; i += 10 {
				if err := direct.Send(t.Context(), queue, bus.Message{ID: fmt.Sprint(i), Body: body}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	senders.Wait()
	var mu sync.Mutex
	count, all := map[string]int{}, make(chan bool, 1)
	bustest.Consume(t, b, queue, func(_ context.Context, d bus.Delivery) error {
		mu.Lock()
		defer mu.Unlock()
		if count[d.ID]++; count[d.ID] > 1 && !d.Again {
			t.Errorf("%s came twice, and does not say so", d.ID)
		}
		if count[d.ID] == 1 && len(count) == n {
			all <- true
		}
		return nil
	})
	bustest.Receive(t, all)
}

// While a broker stands still, nobody waits longer than they said, and Close ends
// everything.
func TestFrozenBroker(t *testing.T) {
	w := open(t)
	b, queue := w.bus(t), bustest.Name()
	bustest.Collect(t, b, queue)
	other := w.bus(t) // not connected yet
	w.Pause(t)
	defer w.Resume(t)
	for i, c := range []*rabbitmq.Bus{b, other} {
		for name, call := range map[string]func(context.Context) error{
			"Send":    func(ctx context.Context) error { return c.Send(ctx, queue, bus.Message{}) },
			"Publish": func(ctx context.Context) error { return c.Publish(ctx, bus.Message{}) },
			"List":    func(ctx context.Context) error { _, err := c.Aside().List(ctx, 1); return err },
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			err := call(ctx)
			cancel()
			if !fault.Is(err, fault.Unavailable) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s of %d: %v", name, i, err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		if err := c.Consume(ctx, bustest.Name(), nil); err != nil {
			t.Errorf("Consume of %d: %v", i, err)
		}
		cancel()
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
}

// Connections that are open and say nothing any more are given up for others: who sends
// and who is told wait for half a minute at most.
func TestSilentBroker(t *testing.T) {
	w := open(t)
	p := newProxy(t, w.Addr)
	b, direct, queue := w.bus(t, "url", w.through(p.addr)), w.bus(t), bustest.Name()
	got, _ := bustest.Collect(t, b, queue)
	bustest.Send(t, b, queue, bus.Message{ID: "before"})
	bustest.Receive(t, got)
	p.hush()
	began, sent := time.Now(), make(chan error, 1)
	go func() { sent <- b.Send(t.Context(), queue, bus.Message{ID: "ours"}) }()
	bustest.Send(t, direct, queue, bus.Message{ID: "theirs"})
	if err := bustest.Receive(t, sent); err != nil {
		t.Fatal(err)
	}
	for seen := map[string]bool{}; !seen["ours"] || !seen["theirs"]; {
		seen[bustest.Receive(t, got).ID] = true
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %s", took)
	} else {
		t.Logf("it took %s", took)
	}
}

// What a bus has started is gone after its Close, whatever has happened to it.
func TestNothingIsLeftRunning(t *testing.T) {
	w := open(t)
	p := newProxy(t, w.Addr)
	before := running()
	for round := range 3 {
		b, err := rabbitmq.New(bus.Options{"url": w.through(p.addr), "prefix": w.prefix})
		if err != nil {
			t.Fatal(err)
		}
		queue := bustest.Name()
		got, stop := bustest.Collect(t, b, queue)
		bustest.Send(t, b, queue, bus.Message{ID: "1"})
		bustest.Receive(t, got)
		bustest.List(t, b, 0)
		if round == 1 {
			p.cut()
			bustest.Send(t, b, queue, bus.Message{ID: "2"})
			bustest.Receive(t, got)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		b.Send(ctx, queue, bus.Message{}) //nolint:errcheck // it has ended
		stop()
		b.Close()
	}
	for end := time.Now().Add(time.Minute); ; runtime.Gosched() { // the library's own end a moment later
		after := running()
		if len(after) <= len(before) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d were running, now %d:\n%s", len(before), len(after), strings.Join(after, "\n\n"))
		}
	}
}

// running are the goroutines of this package and of its library.
func running() (stacks []string) {
	buf := make([]byte, 4<<20)
	for _, s := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(s, "amqp091-go.") || strings.Contains(s, "bus/rabbitmq.") {
			stacks = append(stacks, s)
		}
	}
	return stacks
}
