package agent

import (
	"context"
	"sync"
	"time"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/runtime"
)

// key is what makes two items of one id the same.
type key struct {
	generation int64
	token      int64
	digest     string
	delete     bool
}

func keyOf(it v1.Item) key {
	return key{generation: it.Generation, token: it.Token, digest: it.Digest, delete: it.Delete}
}

type entry struct {
	key
	item     runtime.Item
	failures int
}

// queue hands items to workers: one worker per id at a time, the newest item
// of an id only.
type queue struct {
	apply func(context.Context, entry)

	mu      sync.Mutex
	cond    *sync.Cond
	pending map[string]entry
	busy    map[string]bool
	ready   []string // ids with a pending item and no worker
}

func newQueue(apply func(context.Context, entry)) *queue {
	q := &queue{apply: apply, pending: map[string]entry{}, busy: map[string]bool{}}
	q.cond = sync.NewCond(&q.mu)
	return q
}

func (q *queue) put(e entry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	id := e.item.ID
	_, waits := q.pending[id]
	q.pending[id] = e
	if !waits && !q.busy[id] {
		q.ready = append(q.ready, id)
		q.cond.Signal()
	}
}

// clear drops what no worker has begun.
func (q *queue) clear() {
	q.mu.Lock()
	defer q.mu.Unlock()
	clear(q.pending)
	q.ready = nil
}

// run is one worker, until ctx ends.
func (q *queue) run(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.cond.Broadcast()
	})
	defer stop()
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		for len(q.ready) == 0 && ctx.Err() == nil {
			q.cond.Wait()
		}
		if ctx.Err() != nil {
			return
		}
		id := q.ready[0]
		q.ready = q.ready[1:]
		e := q.pending[id]
		delete(q.pending, id)
		q.busy[id] = true
		q.mu.Unlock()
		q.apply(ctx, e)
		q.mu.Lock()
		delete(q.busy, id)
		if _, more := q.pending[id]; more {
			q.ready = append(q.ready, id)
			q.cond.Signal()
		}
	}
}

// current reports whether the item is still the one that is wanted.
func (a *Agent) current(e entry) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.frozen == "" && a.listed[e.item.ID] == e.key
}

// applyOne gives an item to the runtime, again after a while if it fails.
func (a *Agent) applyOne(ctx context.Context, e entry) {
	if !a.current(e) {
		return
	}
	err := a.cfg.Runtime.Apply(ctx, e.item)
	if ctx.Err() != nil {
		return
	}
	id := e.item.ID
	if err != nil && fault.Reason(err) == "fenced" {
		// The runtime has been given a newer item than the server lists here.
		a.cfg.Logger.Warn("an item was fenced", "instance", id, "token", e.token)
		err = nil
	}
	if err == nil {
		a.mu.Lock()
		delete(a.failed, id)
		a.mu.Unlock()
		return
	}
	if e.failures++; e.failures == 1 {
		a.cfg.Logger.Warn("cannot apply an item", "instance", id, "error", err)
	}
	a.mu.Lock()
	if a.frozen == "" && a.listed[id] == e.key {
		a.failed[id] = refused(e.item, err)
		a.nudge()
	}
	a.mu.Unlock()
	time.AfterFunc(pause(e.failures), func() {
		if ctx.Err() == nil && a.current(e) {
			a.work.put(e)
		}
	})
}

// refused is what the user reads about an item that the runtime did not take.
func refused(it runtime.Item, err error) v1.ObservedItem {
	o := v1.ObservedItem{ID: it.ID, Generation: it.Generation, State: string(runtime.Error), Message: "the data plane cannot apply it; its operator finds the reason in the agent's log"}
	switch fault.Of(err) {
	case fault.Exhausted:
		o.State, o.Message = string(runtime.Rejected), err.Error()
	case fault.Unavailable:
		o.State, o.Message = string(runtime.Installing), ""
	case fault.Internal:
	default:
		o.Message = err.Error()
	}
	return o
}
