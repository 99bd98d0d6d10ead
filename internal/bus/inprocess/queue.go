package inprocess

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/droverhq/drover/internal/bus"
)

// item is a message in a queue.
type item struct {
	message bus.Message
	again   bool
}

// queue is bounded by number and size. What comes back to it is never refused.
type queue struct {
	limit, room int

	mu    sync.Mutex
	items []item
	bytes int
	more  chan struct{} // closed and replaced when something came
	space chan struct{} // closed and replaced when something went
}

func newQueue(limit, room int) *queue {
	return &queue{limit: limit, room: room, more: make(chan struct{}), space: make(chan struct{})}
}

// push appends, or returns what to wait for.
func (q *queue) push(x item) (space <-chan struct{}, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if n := size(x.message); len(q.items) >= q.limit || q.bytes+n > q.room && len(q.items) > 0 {
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
	for tries := 1; ; tries++ {
		err := run(ctx, handle, bus.Delivery{Message: clone(x.message), Again: x.again, Try: tries})
		if err == nil {
			return
		}
		x.again = true
		verdict, wait := bus.Later(err, tries)
		switch {
		case verdict == bus.PutAway:
			b.putAway(name, x.message, err)
			return
		case verdict == bus.Return || !rest(ctx, wait):
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

// rest tells whether the wait was over before ctx was.
func rest(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
