package bustest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/fault"
)

// Many more messages than are handled at a time fail, some because of an outage and some for
// a reason of their own: the next one is handled all the same, long before the first would
// be given up. When they do not fail any more, each is done once, and none was put aside.
func waits(t *testing.T, w World) {
	queue := Name()
	const n = 100
	var mu sync.Mutex
	tries, done, healthy := map[string]int{}, map[string]int{}, false
	good, all := make(chan struct{}), make(chan struct{})
	Consume(t, w.Bus, queue, func(_ context.Context, d bus.Delivery) error {
		mu.Lock()
		defer mu.Unlock()
		tries[d.ID]++
		switch {
		case d.Try != tries[d.ID] || d.Again != (d.Try > 1):
			t.Errorf("%s comes for the %d. time, and says %d, again: %v", d.ID, tries[d.ID], d.Try, d.Again)
		case d.ID != "good" && !healthy && d.Type == "broken":
			return errBroken
		case d.ID != "good" && !healthy:
			return fault.New(fault.Unavailable, "away")
		}
		if done[d.ID]++; d.ID == "good" {
			close(good)
		}
		if len(done) == n+1 {
			close(all)
		}
		return nil
	})
	for i := range n {
		Send(t, w.Bus, queue, bus.Message{ID: fmt.Sprint(i), Type: []string{"away", "broken"}[i%2], Headers: map[string]string{"a": "b"}})
	}
	Send(t, w.Bus, queue, bus.Message{ID: "good"})
	select {
	case <-good:
	case <-time.After(30 * time.Second): // a minute is how long the first are tried at least
		t.Fatal("it waits behind those that fail")
	}
	mu.Lock()
	healthy = true
	mu.Unlock()
	select {
	case <-all:
	case <-time.After(patience):
		t.Fatal("not all of them come again")
	}
	List(t, w.Bus, 0)
	mu.Lock()
	defer mu.Unlock()
	for id, times := range done {
		if times != 1 {
			t.Errorf("%s was done %d times", id, times)
		}
	}
}
