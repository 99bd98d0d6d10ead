package agent_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/simulated"
)

func TestRefusedItemIsReportedAndTriedAgain(t *testing.T) {
	cases := map[string]struct {
		reason string
		err    error
		state  string
		text   string
	}{
		"invalid":   {"The user can mend it.", fault.New(fault.Invalid, "no legs"), "error", "no legs"},
		"internal":  {"Nobody outside is told what broke inside.", fmt.Errorf("secret path"), "error", "the data plane cannot apply it; its operator finds the reason in the agent's log"},
		"exhausted": {"The control plane may place it elsewhere.", fault.New(fault.Exhausted, "full"), "rejected", "full"},
		"away":      {"It is a matter of time, and of what.", fault.New(fault.Unavailable, "busy"), "installing", "busy"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				broken := true
				rt := simulated.New(simulated.Config{Refuse: func(it runtime.Item) error {
					mu.Lock()
					defer mu.Unlock()
					if broken && it.ID == "a" {
						return c.err
					}
					return nil
				}})
				s := newServer()
				stop := start(t, s, rt, t.TempDir())
				defer stop()
				s.say(1, item("a", 1), item("b", 1))
				settle(time.Second)
				known := s.known()
				if known["a"].State != c.state || known["a"].Message != c.text || known["a"].Generation != 1 {
					t.Errorf("%s The server knows %+v", c.reason, known["a"])
				}
				if known["b"].State != "ready" {
					t.Errorf("one item held up another: %+v", known["b"])
				}
				mu.Lock()
				broken = false
				mu.Unlock()
				settle(10 * time.Second)
				if got := s.known()["a"]; got.State != "ready" {
					t.Errorf("once it works: %+v", got)
				}
			})
		})
	}
}

// slow is a runtime whose Apply takes a while, to see order and concurrency.
type slow struct {
	*simulated.Runtime
	mu      sync.Mutex
	running map[string]int
	most    int
	order   []int64
}

func (r *slow) Apply(ctx context.Context, it runtime.Item) error {
	r.mu.Lock()
	r.running[it.ID]++
	if r.running[it.ID] > 1 {
		panic("two workers on one item")
	}
	r.most = max(r.most, len(r.running))
	if it.ID == "i00" {
		r.order = append(r.order, it.Generation)
	}
	r.mu.Unlock()
	time.Sleep(time.Second)
	r.mu.Lock()
	delete(r.running, it.ID)
	r.mu.Unlock()
	return r.Runtime.Apply(ctx, it)
}

func TestItemsInParallelEachInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := &slow{Runtime: simulated.New(simulated.Config{}), running: map[string]int{}}
		s := newServer()
		stop := start(t, s, rt, t.TempDir())
		defer stop()
		say := func(seq, generation int64) {
			var items []v1.Item
			for i := range 20 {
				items = append(items, item(fmt.Sprintf("i%02d", i), 1))
			}
			items[0] = item("i00", generation)
			s.say(seq, items...)
		}
		say(1, 1)
		settle(100 * time.Millisecond)
		say(2, 2)
		settle(100 * time.Millisecond)
		say(3, 3)
		settle(20 * time.Second)
		rt.mu.Lock()
		defer rt.mu.Unlock()
		if rt.most != 8 {
			t.Errorf("%d items at a time, want 8", rt.most)
		}
		if diff := cmp.Diff([]int64{1, 3}, rt.order); diff != "" {
			t.Errorf("generations of one item, the newest last and none in vain: %s", diff)
		}
		if got := len(s.known()); got != 20 {
			t.Errorf("the server knows %d items", got)
		}
	})
}
