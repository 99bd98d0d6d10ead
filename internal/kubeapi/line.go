package kubeapi

import (
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/droverhq/drover/internal/queue"
)

// Ranks of keys of one namespace: what somebody has just done goes before what
// failed, and that before the thousands that a start brings.
const (
	atOnce   = 2
	again    = 1
	sometime = 0
)

// line is what waits to be handed over. Namespaces take turns, so that none waits
// for the thousands of another.
type line struct {
	workqueue.TypedRateLimitingInterface[key]

	mu    sync.Mutex
	ranks map[key]int // of what was added and does not wait yet
}

func newLine() *line {
	l := &line{ranks: map[key]int{}}
	order := queue.NewFair(func(k key) string { return k.namespace }, l.rank)
	l.TypedRateLimitingInterface = workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[key](100*time.Millisecond, time.Minute),
		workqueue.TypedRateLimitingQueueConfig[key]{DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[key]{
			Queue: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[key]{Queue: order}),
		})})
	return l
}

// put adds keys of a rank.
func (l *line) put(rank int, keys ...key) {
	for _, k := range keys {
		l.mu.Lock()
		if was, known := l.ranks[k]; !known || rank > was {
			l.ranks[k] = rank
		}
		l.mu.Unlock()
		l.Add(k)
	}
}

// rank is asked for once when a key begins to wait, or rises. What comes back by
// itself has failed, or was put off.
func (l *line) rank(k key) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	rank, known := l.ranks[k]
	if !known {
		return again
	}
	delete(l.ranks, k)
	return rank
}
