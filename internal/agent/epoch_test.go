package agent_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/simulated"
)

// The data plane takes nothing for a while, and meanwhile another epoch begins, which has
// lost some of the orders. Those are not carried out any more; what both want is, and what
// runs goes on.
func TestOrdersThatAnEpochHasLostAreNotBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		s, rt, dir := newServer(), simulated.New(simulated.Config{Refuse: func(runtime.Item) error {
			if away.Load() {
				return fault.New(fault.Unavailable, "away")
			}
			return nil
		}}), t.TempDir()
		stop := start(t, s, rt, dir)
		defer func() { stop() }()
		s.say(1, item("runs", 1), item("stays", 1))
		settle(time.Second)
		away.Store(true)
		s.say(2, item("runs", 2), item("stays", 1), item("lost", 1), item("both", 1))
		settle(time.Second)
		s.do(func() { s.epoch++; clear(s.changed) })
		s.say(1, item("both", 1))
		settle(20 * time.Second)
		away.Store(false)
		settle(10 * time.Minute)
		seen := observed(t, rt)
		if _, ok := seen["lost"]; ok || seen["both"].State != runtime.Ready || seen["runs"].State != runtime.Ready || seen["runs"].Generation != 1 {
			t.Errorf("there are %v", seen)
		}
		stop()
		// What runs is given to the runtime of a new start all the same: it looks after that.
		given := &taker{Runtime: rt}
		stop = start(t, s, given, dir)
		settle(time.Minute)
		if got := given.all(); !slices.Contains(got, "stays") || slices.Contains(got, "lost") || slices.Contains(got, "runs") {
			t.Errorf("the runtime is given %v", got)
		}
		seen = observed(t, rt)
		if _, ok := seen["lost"]; ok || seen["runs"].State != runtime.Ready || seen["runs"].Generation != 1 {
			t.Errorf("after a restart of the agent there are %v", seen)
		}
	})
}

// taker remembers what it was given.
type taker struct {
	runtime.Runtime
	mu    sync.Mutex
	given []string
}

func (r *taker) Apply(ctx context.Context, it runtime.Item) error {
	r.mu.Lock()
	r.given = append(r.given, it.ID)
	r.mu.Unlock()
	return r.Runtime.Apply(ctx, it)
}

func (r *taker) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.given)
}
