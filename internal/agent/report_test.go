package agent_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/agent"
	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/simulated"
)

func TestManyItemsComeInPieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rt := newServer(), simulated.New(simulated.Config{})
		stop := start(t, s, rt, t.TempDir())
		defer stop()
		var items []v1.Item
		for i := range 2000 {
			items = append(items, item(fmt.Sprintf("i%04d", i), 1))
		}
		s.say(1, items...)
		settle(time.Minute)
		if got := len(s.known()); got != 2000 {
			t.Errorf("the server knows %d items", got)
		}
		for _, r := range s.messages {
			if len(r.Items) > 500 {
				t.Errorf("a report of %d items", len(r.Items))
			}
		}
	})
}

func TestOneBodyForTwoItems(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rt := newServer(), simulated.New(simulated.Config{})
		stop := start(t, s, rt, t.TempDir())
		defer stop()
		a, b := item("a", 1), item("a", 1)
		b.ID, b.Delete, b.Body = "b", true, nil
		s.say(1, a, b)
		settle(time.Second)
		if got := observed(t, rt); got["a"].State != runtime.Ready || got["b"].State != runtime.Deleted {
			t.Errorf("got %v", got)
		}
	})
}

// BenchmarkChange is the agent's part of one change among many items.
func BenchmarkChange(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s, rt := newServer(), simulated.New(simulated.Config{})
			ctx, cancel := context.WithCancel(context.Background())
			a, err := agent.New(agent.Config{Client: s, Cluster: "c", Runtime: rt, Dir: b.TempDir(), Coalesce: 1})
			if err != nil {
				b.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- a.Run(ctx) }()
			defer func() { cancel(); <-ended }()
			var items []v1.Item
			for i := range n {
				items = append(items, item(fmt.Sprintf("i%06d", i), 1))
			}
			until := func(ready func(map[string]v1.ObservedItem) bool) {
				seen, done := map[string]v1.ObservedItem{}, 0
				for !ready(seen) {
					s.mu.Lock()
					for _, r := range s.messages[done:] {
						for _, it := range r.Items {
							seen[it.ID] = it
						}
					}
					done = len(s.messages)
					s.mu.Unlock()
					time.Sleep(20 * time.Microsecond)
				}
			}
			s.say(1, items...)
			until(func(m map[string]v1.ObservedItem) bool { return len(m) == n })
			for g := int64(2); b.Loop(); g++ {
				next := append([]v1.Item(nil), items...)
				next[n/2] = item(next[n/2].ID, g)
				s.mu.Lock()
				s.messages = nil
				s.mu.Unlock()
				s.say(g, next...)
				until(func(m map[string]v1.ObservedItem) bool {
					o := m[next[n/2].ID]
					return o.Generation == g && o.State == "ready"
				})
			}
		})
	}
}

// A change that could not be told is told as soon as somebody hears it.
func TestNewsAreOwed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rt := newServer(), simulated.New(simulated.Config{})
		stop := start(t, s, rt, t.TempDir())
		defer stop()
		s.say(1, item("a", 1))
		settle(5 * time.Second)
		s.goDown(true)
		rt.Set("a", runtime.Error, "it fell over")
		settle(2 * time.Second)
		s.goDown(false)
		settle(3 * time.Second)
		if got := s.known()["a"]; got.State != "error" || got.Message != "it fell over" {
			t.Errorf("soon after the server hears again it knows %+v", got)
		}
		before := s.count()
		rt.Set("a", runtime.Error, "it fell over") // a signal without a difference
		settle(time.Second)
		if n := s.count(); n != before {
			t.Error("it reports what the server knows")
		}
		rt.Set("a", runtime.Ready, "")
		settle(5 * time.Millisecond)
		if got := s.known()["a"]; got.State != "ready" {
			t.Errorf("a few ms after a change the server knows %+v", got)
		}
	})
}
