package agent

import (
	"context"
	"sync"
	"time"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/queue"
	"github.com/droverhq/drover/internal/resilience"
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
	tenant   string
	trace    string // empty: nobody follows it
	failures int
	said     string // to the log, of the last failure
}

// line hands items to workers: one worker per id at a time, the newest item
// of an id only, and tenants take turns. Workers come with the work and go with
// it, so that an agent at rest has none.
type line struct {
	apply func(entry)
	spawn func(func()) // starts a goroutine that the agent waits for
	most  int          // workers at a time

	mu      sync.Mutex
	closed  bool
	workers int
	pending map[string]entry
	busy    map[string]bool
	ready   *queue.Fair[string] // ids with a pending item and no worker
}

func newLine(most int, spawn func(func()), apply func(entry)) *line {
	q := &line{apply: apply, spawn: spawn, most: most, pending: map[string]entry{}, busy: map[string]bool{}}
	q.ready = q.empty()
	return q
}

func (q *line) empty() *queue.Fair[string] {
	return queue.NewFair(func(id string) string { return q.pending[id].tenant }, nil)
}

func (q *line) put(e entry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	id := e.item.ID
	_, waits := q.pending[id]
	q.pending[id] = e
	if waits || q.busy[id] {
		return
	}
	q.ready.Push(id)
	if q.workers < q.most {
		q.workers++
		q.spawn(q.run)
	}
}

// clear drops what no worker has begun.
func (q *line) clear() {
	q.mu.Lock()
	defer q.mu.Unlock()
	clear(q.pending)
	q.ready = q.empty()
}

// close drops it for good: nothing starts any more.
func (q *line) close() {
	q.clear()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
}

// run is one worker, until there is nothing to do.
func (q *line) run() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.ready.Len() > 0 {
		id := q.ready.Pop()
		e := q.pending[id]
		delete(q.pending, id)
		q.busy[id] = true
		q.mu.Unlock()
		q.apply(e)
		q.mu.Lock()
		delete(q.busy, id)
		if _, more := q.pending[id]; more {
			q.ready.Push(id)
		}
	}
	q.workers--
}

// current reports whether the item is still the one that is wanted, and has it be of
// the epoch that told it last.
func (a *Agent) current(e *entry) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.wants(*e) {
		return false
	}
	k := a.book.items[e.item.ID]
	e.item.Epoch, e.item.Proof = k.epoch, k.item.Proof
	return true
}

// wants is current under the lock. What is no longer listed is left alone: a
// removal among it is not begun, nor anything that only an epoch before wanted. What
// runs of that goes on: a runtime looks after what it was given.
func (a *Agent) wants(e entry) bool {
	k := a.book.items[e.item.ID]
	return a.frozen == "" && k != nil && keyOf(k.item) == e.key && (k.listed || !e.delete && (k.runs || k.epoch == a.mark.Epoch))
}

// entry is the work that an item of the book makes. A removal, which says nothing of
// it, is of the same tenant as what is removed.
func (k *known) entry() entry {
	it := k.item
	if !it.Delete {
		k.tenant = runtime.Tenant(it.Kind, it.Body)
	}
	trace := k.trace
	k.trace = "" // what is done again later is nobody's request any more
	return entry{key: keyOf(it), tenant: k.tenant, trace: trace, item: runtime.Item{ID: it.ID, Kind: it.Kind, Epoch: k.epoch, Generation: it.Generation,
		Token: it.Token, Delete: it.Delete, Body: it.Body, Proof: it.Proof, Cause: it.Cause, Org: it.Org}}
}

// applyOne gives an item to the runtime, again after a while if it fails.
func (a *Agent) applyOne(ctx context.Context, e entry) {
	if ctx.Err() != nil || !a.current(&e) {
		return
	}
	applying, span := a.follow(resilience.For(e.item.About(ctx), e.tenant), &e)
	err := a.cfg.Runtime.Apply(applying, e.item)
	span.Done(err)
	if ctx.Err() != nil {
		return
	}
	id := e.item.ID
	if err != nil && fault.Reason(err) == "fenced" {
		// The runtime has been given a newer item than the server lists here.
		a.cfg.Logger.WarnContext(applying, "an item was fenced", "cluster", a.cfg.Cluster, "instance", id, "token", e.token)
		err = nil
	}
	if err == nil {
		a.mu.Lock()
		delete(a.failed, id)
		a.mu.Unlock()
		a.nudge()
		return
	}
	if e.failures++; e.said != err.Error() {
		e.said = err.Error() // once, until it is something else
		a.cfg.Logger.WarnContext(applying, "cannot apply an item", "cluster", a.cfg.Cluster, "instance", id, "error", err)
	}
	a.mu.Lock()
	if a.wants(e) {
		a.failed[id] = refused(e.item, err)
		a.nudge()
	}
	a.mu.Unlock()
	time.AfterFunc(pause(e.failures), func() {
		a.mu.Lock() // until it is put: it must not take the place of what came meanwhile
		defer a.mu.Unlock()
		if ctx.Err() == nil && a.wants(e) {
			a.work.put(e)
		}
	})
}

// refused is what the user reads about an item that the runtime did not take.
func refused(it runtime.Item, err error) v1.ObservedItem {
	o := v1.ObservedItem{ID: it.ID, Kind: it.Kind, Generation: it.Generation, State: string(runtime.Error), Message: "the data plane cannot apply it; its operator finds the reason in the agent's log"}
	switch fault.Of(err) {
	case fault.Exhausted:
		o.State, o.Message = string(runtime.Rejected), err.Error()
	case fault.Unavailable:
		o.State, o.Message = string(runtime.Installing), err.Error()
	case fault.Internal:
	default:
		o.Message = err.Error()
	}
	return o
}
