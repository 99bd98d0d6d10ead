package keep

import (
	"context"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/droverhq/drover/internal/queue"
	"github.com/droverhq/drover/internal/resilience"
)

// line hands ids to workers: one worker per id at a time, failures later and
// later, and tenants take turns.
type line struct {
	workqueue.TypedRateLimitingInterface[string]
}

func newLine(patience time.Duration, tenant func(id string) string) line {
	return line{workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](100*time.Millisecond, patience),
		workqueue.TypedRateLimitingQueueConfig[string]{DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[string]{
			Queue: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Queue: queue.NewFair(tenant, nil)}),
		})})}
}

// tenant is whose an item is. Nobody who wakes items may hold mu.
func (s *Shift) tenant(id string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.items[id]; e != nil {
		return e.tenant
	}
	return ""
}

// start runs the shift's goroutines until its context ends: the workers, one that
// compares everything now and then, and one that looks after what is kept. The
// runtime's own come along by Go.
func (s *Shift) start(ctx context.Context) (err error) {
	s.queue = newLine(s.d.cfg.Patience, s.tenant)
	if s.worker, err = s.d.begin(ctx, s); err != nil {
		return err
	}
	for range s.d.cfg.Workers {
		s.Go(func() {
			for s.work(ctx) {
			}
		})
	}
	s.Go(func() { s.sweep(ctx) })
	s.Go(func() { s.vigil(ctx) })
	return nil
}

// Go runs a goroutine of the shift; it must end with the shift's context.
func (s *Shift) Go(f func()) { s.done.Go(f) }

// work takes one id; false: there will be no more.
func (s *Shift) work(ctx context.Context) bool {
	id, closed := s.queue.Get()
	if closed {
		return false
	}
	defer s.queue.Done(id)
	again, err := s.reconcile(ctx, id)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		s.queue.AddRateLimited(id)
	default:
		s.queue.Forget(id)
		if again > 0 {
			s.queue.AddAfter(id, again)
		}
	}
	return true
}

// reconcile has the runtime look at one item. It never waits for the cluster to
// get on with something: it comes back later, or when a watch tells.
func (s *Shift) reconcile(ctx context.Context, id string) (again time.Duration, err error) {
	s.mu.Lock()
	e := s.items[id]
	touched := e != nil && e.touched
	if e != nil {
		e.touched = false
	}
	s.mu.Unlock()
	if e == nil {
		return 0, nil
	}
	e.busy.Lock()
	defer e.busy.Unlock()
	if !s.holds(id, e) || e.Record.ID == "" {
		return 0, nil
	}
	if !e.told { // the agent says it again when it has verified it, and what runs is left alone until then
		return 0, nil
	}
	if touched {
		e.Applied = false
	}
	return s.worker.Reconcile(resilience.For(ctx, e.tenant), e)
}

// sweep compares every item with the cluster at the start and then once per
// resync: what no watch told is found here.
func (s *Shift) sweep(ctx context.Context) {
	tick := time.NewTicker(s.d.cfg.Resync)
	defer tick.Stop()
	for {
		s.worker.Sweep(ctx)
		var ids []string
		s.mu.Lock()
		for id := range s.items {
			ids = append(ids, id)
		}
		s.mu.Unlock()
		for _, id := range ids {
			s.Touch(id)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Wake has an item looked at.
func (s *Shift) Wake(id string) { s.queue.Add(id) }

// WakeAfter has an item looked at later.
func (s *Shift) WakeAfter(id string, d time.Duration) { s.queue.AddAfter(id, d) }

// Touch has an item compared again, whatever was known of it.
func (s *Shift) Touch(id string) {
	s.mu.Lock()
	if e := s.items[id]; e != nil {
		e.touched = true
	}
	s.mu.Unlock()
	s.queue.Add(id)
}
