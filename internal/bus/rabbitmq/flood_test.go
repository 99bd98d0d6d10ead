//go:build e2e

package rabbitmq_test

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/bus/bustest"
	broker "github.com/droverhq/drover/test/rabbitmq"
)

// A hundred thousand messages are there at once: each is handled, some at a time, and
// the rest waits where it is, not in our memory.
func TestHundredThousandAtOnce(t *testing.T) {
	const n, size = 100_000, 1000
	w := open(t)
	b, queue := w.bus(t), bustest.Name()
	_, stop := bustest.Collect(t, b, queue)
	stop()
	ch := broker.Channel(t, w.URL)
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute) // which only bounds what hangs
	defer cancel()
	var last []*amqp.DeferredConfirmation
	kept := func(sure *amqp.DeferredConfirmation) {
		t.Helper()
		if ok, err := sure.WaitContext(ctx); err != nil || !ok {
			t.Fatalf("the broker does not keep a message: %v", err)
		}
	}
	for i := range n {
		sure, err := ch.PublishWithDeferredConfirm("", w.prefix+queue, false, false, amqp.Publishing{MessageId: fmt.Sprint(i), Body: make([]byte, size), DeliveryMode: amqp.Persistent})
		if err != nil {
			t.Fatal(err)
		}
		if last = append(last, sure); len(last) == 2000 {
			kept(last[0])
			last = last[1:]
		}
	}
	for _, sure := range last {
		kept(sure)
	}
	var busy, most, done atomic.Int32
	var peak atomic.Uint64
	seen := make([]atomic.Bool, n)
	all := make(chan bool, 1)
	bustest.Consume(t, b, queue, func(_ context.Context, d bus.Delivery) error {
		if now := busy.Add(1); now > most.Load() {
			most.Store(now)
		}
		defer busy.Add(-1)
		var i int
		fmt.Sscan(d.ID, &i)
		if seen[i].Swap(true) {
			t.Errorf("%d came twice", i)
			return nil
		}
		if i%5000 == 0 {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			peak.Store(max(peak.Load(), m.HeapAlloc))
		}
		if done.Add(1) == n {
			all <- true
		}
		return nil
	})
	bustest.Receive(t, all)
	if most.Load() > 32 {
		t.Errorf("%d were handled at a time", most.Load())
	}
	if peak.Load() > 50<<20 {
		t.Errorf("%d bytes were held, half of all messages", peak.Load())
	}
}
