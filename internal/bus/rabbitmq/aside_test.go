package rabbitmq_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/bus/bustest"
)

// Where messages are put aside somebody has set a bound. What does not fit waits in its
// queue and is told of; with room it is put aside, and nothing is lost.
func TestPutAsideWithoutRoom(t *testing.T) {
	w := open(t)
	b, queue := w.bus(t), bustest.Name()
	bustest.Consume(t, b, queue, func(context.Context, bus.Delivery) error { return bus.Reject(errors.New("nobody takes it")) })
	bustest.Send(t, b, queue, bus.Message{ID: "0"})
	bustest.List(t, b, 1)
	w.Bound(t, w.prefix+"drover.dead", 1)
	t.Cleanup(func() { w.Bound(t, w.prefix+"drover.dead", 0) })
	const n = 5
	for i := 1; i < n; i++ {
		bustest.Send(t, b, queue, bus.Message{ID: fmt.Sprint(i)})
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	await := func(full bool) {
		t.Helper()
		for b.AsideFull() != full {
			select {
			case <-ctx.Done():
				t.Fatalf("it does not say that there is no room: %v", full)
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	await(true)
	seen := map[string]bool{}
	for len(seen) < n {
		list, err := b.Aside().List(ctx, n)
		if err != nil {
			t.Fatalf("%d of %d were put aside: %v", len(seen), n, err)
		}
		for _, r := range list {
			seen[r.ID] = true
			if err := b.Aside().Drop(ctx, r.Key); err != nil {
				t.Fatal(err)
			}
		}
	}
	await(false)
}
