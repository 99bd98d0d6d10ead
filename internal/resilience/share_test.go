package resilience_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/resilience"
)

// crowd makes calls that last until they are let go, and counts those under way.
type crowd struct {
	p     *resilience.Policy
	under map[string]*atomic.Int64
	free  map[string]chan struct{}
}

func newCrowd(each int, tenants ...string) *crowd {
	c := &crowd{p: resilience.New(resilience.Config{AtOnce: 64, Each: each, Queue: 5 * time.Second}), under: map[string]*atomic.Int64{}, free: map[string]chan struct{}{}}
	for _, tenant := range tenants {
		c.under[tenant], c.free[tenant] = &atomic.Int64{}, make(chan struct{})
	}
	return c
}

func (c *crowd) call(ctx context.Context, tenant string) error {
	return c.p.Do(resilience.For(ctx, tenant), func(context.Context) error {
		c.under[tenant].Add(1)
		defer c.under[tenant].Add(-1)
		<-c.free[tenant]
		return nil
	})
}

func TestATenantHasItsShareWhileOthersCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(4, "flood", "other", "")
		expect := func(reason, tenant string, want int64) {
			t.Helper()
			synctest.Wait()
			if got := c.under[tenant].Load(); got != want {
				t.Errorf("%s: %d calls of %q are under way, want %d", reason, got, tenant, want)
			}
		}
		var wg sync.WaitGroup
		call := func(tenant string, n int) {
			for range n {
				wg.Go(func() {
					if err := c.call(t.Context(), tenant); err != nil {
						t.Errorf("%s: %v", tenant, err)
					}
				})
			}
		}
		call("flood", 10)
		expect("alone it has all of it", "flood", 10)
		call("other", 1)
		expect("there is room", "other", 1)
		call("flood", 10)
		expect("it has more than its share already", "flood", 10)
		call("other", 5)
		expect("so has another, beyond its share", "other", 4)
		call("", 9)
		expect("what is nobody's is not counted", "", 9)
		for range 7 {
			c.free["flood"] <- struct{}{}
			synctest.Wait()
		}
		expect("one begins when another ends, within its share", "flood", 4)
		time.Sleep(2 * time.Second)
		c.free["other"] <- struct{}{}
		expect("it is alone again: all that waited begin", "other", 5)
		for _, free := range c.free {
			close(free)
		}
		wg.Wait()
	})
}

// One whose turn does not come in time is told, or goes with its caller; nobody behind
// it waits for it.
func TestWhoLeavesTheLineHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(1, "flood", "other")
		var wg sync.WaitGroup
		begin := func(ctx context.Context, tenant string) (err *error) {
			err = new(error)
			wg.Go(func() { *err = c.call(ctx, tenant) })
			synctest.Wait()
			return err
		}
		_ = begin(t.Context(), "other")
		first := begin(t.Context(), "flood")
		leaving, leave := context.WithCancel(t.Context())
		left := begin(leaving, "flood")
		late := begin(t.Context(), "flood")
		leave()
		time.Sleep(6 * time.Second)
		if !errors.Is(*left, context.Canceled) {
			t.Errorf("one that left: %v", *left)
		}
		if fault.Reason(*late) != "bulkhead-full" {
			t.Errorf("one that waited for long: %v", *late)
		}
		_ = begin(t.Context(), "other")
		next := begin(t.Context(), "flood")
		if c.under["flood"].Load() != 1 {
			t.Errorf("%d are under way", c.under["flood"].Load())
		}
		close(c.free["flood"])
		close(c.free["other"])
		wg.Wait()
		if *first != nil || *next != nil {
			t.Errorf("the first: %v, the next: %v", *first, *next)
		}
	})
}

// Whatever comes, goes and gives up: each call is made once or refused, nobody waits
// for ever, and beside others no tenant has more than its share of what it began then.
func TestSharesOfAnyCrowd(t *testing.T) {
	for seed := range uint64(50) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			p := resilience.New(resilience.Config{AtOnce: 64, Each: 2, Queue: 300 * time.Millisecond})
			var made, refused atomic.Int64
			var wg sync.WaitGroup
			const calls = 200
			for range calls {
				tenant, lasts := fmt.Sprint(random.IntN(3)), time.Duration(random.IntN(50))*time.Millisecond
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.IntN(500)+1)*time.Millisecond)
				wg.Go(func() {
					defer cancel()
					if err := p.Do(resilience.For(ctx, tenant), func(context.Context) error { time.Sleep(lasts); return nil }); err != nil {
						refused.Add(1)
					} else {
						made.Add(1)
					}
				})
				time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond)
			}
			wg.Wait()
			if made.Load()+refused.Load() != calls || made.Load() == 0 {
				t.Errorf("seed %d: %d made, %d refused", seed, made.Load(), refused.Load())
			}
			began := time.Now()
			if err := p.Do(resilience.For(t.Context(), "0"), func(context.Context) error { return nil }); err != nil || time.Since(began) > 0 {
				t.Errorf("seed %d: afterwards one call takes %s: %v", seed, time.Since(began), err)
			}
		})
	}
}
