package inprocess

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/droverhq/drover/internal/bus"
)

// item is a message in a queue, and what was tried with it before.
type item struct {
	message     bus.Message
	again       bool
	try, failed int
}

// queue is bounded by number and size, what waits to come again included. What comes back
// to it is never refused.
type queue struct {
	limit, room int

	mu     sync.Mutex
	items  []item
	bytes  int
	parked int           // how many wait, and ...
	kept   int           // ... their bytes
	more   chan struct{} // closed and replaced when something came
	space  chan struct{} // closed and replaced when something went
}

func newQueue(limit, room int) *queue {
	return &queue{limit: limit, room: room, more: make(chan struct{}), space: make(chan struct{})}
}

// push appends, or returns what to wait for.
func (q *queue) push(x item) (space <-chan struct{}, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if n := size(x.message); len(q.items)+q.parked >= q.limit || q.bytes+q.kept+n > q.room && len(q.items)+q.parked > 0 {
		return q.space, false
	}
	q.items = append(q.items, x)
	q.came(x)
	return nil, true
}

// back puts what was taken in front again.
func (q *queue) back(x item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.items = append([]item{x}, q.items...)
	q.came(x)
}

// park keeps what was taken out of everybody's way for a while; then it comes again, after
// all that is there.
func (q *queue) park(x item, wait time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := size(x.message)
	q.parked, q.kept = q.parked+1, q.kept+n
	time.AfterFunc(wait, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.parked, q.kept = q.parked-1, q.kept-n
		q.items = append(q.items, x)
		q.came(x)
	})
}

func (q *queue) came(x item) {
	q.bytes += size(x.message)
	close(q.more)
	q.more = make(chan struct{})
}

// pop takes the first, or returns what to wait for.
func (q *queue) pop() (x item, more <-chan struct{}, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.items) == 0 {
		return x, q.more, false
	}
	x = q.items[0]
	q.items[0] = item{} // for the collector
	q.items = q.items[1:]
	q.bytes -= size(x.message)
	close(q.space)
	q.space = make(chan struct{})
	return x, nil, true
}

// enter makes a queue and counts its consumer.
func (b *Bus) enter(name string) (*queue, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.shut {
		return nil, errClosed
	}
	q := b.queues[name]
	if q == nil {
		q = newQueue(b.config.Limit, b.config.Room)
		b.queues[name] = q
	}
	b.running.Add(1)
	return q, nil
}

// Consume hands messages over until ctx ends.
func (b *Bus) Consume(ctx context.Context, name string, handle func(context.Context, bus.Delivery) error) error {
	q, err := b.enter(name)
	if err != nil {
		return err
	}
	defer b.running.Done()
	work, cancel := context.WithCancel(ctx)
	defer cancel()
	// As many goroutines as hands, which end with this call.
	var busy sync.WaitGroup
	defer busy.Wait()
	free := make(chan struct{}, b.config.Hands)
	for {
		select {
		case free <- struct{}{}:
		case <-b.closed:
			cancel()
			return errClosed
		case <-ctx.Done():
			return nil
		}
		x, err := b.next(ctx, q)
		if err != nil {
			cancel()
			return err
		}
		if ctx.Err() != nil {
			if x != nil {
				q.back(*x)
			}
			return nil
		}
		busy.Go(func() {
			defer func() { <-free }()
			b.work(work, name, q, *x, handle)
		})
	}
}

// next waits for a message; none, and no error, when ctx has ended.
func (b *Bus) next(ctx context.Context, q *queue) (*item, error) {
	for {
		x, more, ok := q.pop()
		if ok {
			return &x, nil
		}
		select {
		case <-more:
		case <-b.closed:
			return nil, errClosed
		case <-ctx.Done():
			return nil, nil
		}
	}
}

// work handles a message until something is decided about it.
func (b *Bus) work(ctx context.Context, name string, q *queue, x item, handle func(context.Context, bus.Delivery) error) {
	d := bus.Delivery{Again: x.again, Try: x.try + 1, Failed: x.failed}
	for {
		d.Message = clone(x.message)
		err := run(ctx, handle, d)
		if err == nil {
			return
		}
		if ctx.Err() != nil && !bus.IsRejected(err) { // nothing was tried in earnest
			x.again = true
			q.back(x)
			return
		}
		verdict, wait := bus.Later(err, d)
		if verdict == bus.PutAway {
			b.putAway(name, x.message, err)
			return
		}
		d = d.Retried(err)
		if verdict == bus.Park {
			x.again, x.try, x.failed = true, d.Try-1, d.Failed
			q.park(x, bus.Spread(wait))
			return
		}
		if !bus.Rest(ctx, wait) {
			x.again = true
			q.back(x)
			return
		}
	}
}

// run takes a panic for a failure: it must not end those who had nothing to do with
// the message.
func run(ctx context.Context, handle func(context.Context, bus.Delivery) error, d bus.Delivery) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	return handle(ctx, d)
}
