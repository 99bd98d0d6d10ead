package kubernetes

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"

	"github.com/droverhq/drover/internal/manifest"
)

// queue hands ids to workers: one worker per id at a time, failures later and
// later.
type queue struct {
	workqueue.TypedRateLimitingInterface[string]
}

func newQueue() queue {
	return queue{workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](100*time.Millisecond, 30*time.Second))}
}

func (q queue) add(id string) { q.Add(id) }
func (q queue) close()        { q.ShutDown() }

// start runs the shift's goroutines until its context ends: the workers, one
// that compares everything now and then, and one per kind that is watched.
func (s *shift) start(ctx context.Context) (err error) {
	s.queue = newQueue()
	if s.watch, err = newWatcher(ctx, s); err != nil {
		return err
	}
	for range s.r.cfg.Workers {
		s.done.Go(func() {
			for s.work(ctx) {
			}
		})
	}
	s.done.Go(func() { s.sweep(ctx) })
	return nil
}

// work takes one id; false: there will be no more.
func (s *shift) work(ctx context.Context) bool {
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

// sweep compares every item with the cluster at the start and then once per
// resync: what no watch told is found here.
func (s *shift) sweep(ctx context.Context) {
	tick := time.NewTicker(s.r.cfg.Resync)
	defer tick.Stop()
	for {
		var ids []string
		used := map[schema.GroupKind]bool{}
		s.mu.Lock()
		for id, e := range s.items {
			ids = append(ids, id)
			for _, line := range e.listed {
				if o, err := manifest.Parse(line); err == nil {
					used[schema.GroupKind{Group: o.Group, Kind: o.Kind}] = true
				}
			}
		}
		s.mu.Unlock()
		s.watch.drop(used)
		for _, id := range ids {
			s.touch(id)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// touch has an item compared again, whatever was known of it.
func (s *shift) touch(id string) {
	s.mu.Lock()
	if e := s.items[id]; e != nil {
		e.touched = true
	}
	s.mu.Unlock()
	s.queue.add(id)
}
