package ledger

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/droverhq/drover/internal/fault"
)

// Feed reads the log once for everybody in this process who follows it, so
// that the cost of a change does not grow with the number of its readers.
type Feed struct {
	log  Log
	poll time.Duration

	mu    sync.Mutex
	ring  []Change // the newest changes, oldest first
	bytes int      // of their documents
	head  int64    // newest sequence read
	moved chan struct{}
}

const (
	feedRing = 4096
	// Objects may have a quarter of a megabyte: the count alone bounds nothing.
	feedBytes = 32 << 20
	feedRead  = 1000
	feedPoll  = 2 * time.Second
)

// NewFeed makes a feed that starts behind the present head once Run begins.
func NewFeed(log Log) *Feed {
	return &Feed{log: log, poll: feedPoll, head: -1, moved: make(chan struct{})}
}

// Run reads until ctx ends. It is one goroutine, the caller's. While the store
// is away it keeps trying: followers wait and lose nothing.
func (f *Feed) Run(ctx context.Context) error {
	hints := f.log.Hints(ctx)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		for f.read(ctx) {
		}
		timer.Reset(f.poll)
		select {
		case <-ctx.Done():
			return nil
		case _, more := <-hints:
			if !more { // the store is closed: who runs the feed will end it
				hints = nil
			}
		case <-timer.C:
		}
	}
}

// read takes one piece of the log and reports whether there may be more.
func (f *Feed) read(ctx context.Context) bool {
	f.mu.Lock()
	after := f.head
	f.mu.Unlock()
	if after < 0 {
		head, err := f.log.Head(ctx)
		if err != nil {
			return false
		}
		f.advance(nil, head.Seq)
		return true
	}
	changes, err := f.log.Changes(ctx, ChangeQuery{After: after, Limit: feedRead})
	if fault.Reason(err) == "truncated" {
		// The store was away for days. Whoever follows is told so by the log, too.
		f.mu.Lock()
		f.ring, f.bytes, f.head = nil, 0, -1
		f.mu.Unlock()
		return true
	}
	if err != nil || len(changes) == 0 {
		return false
	}
	f.advance(changes, changes[len(changes)-1].Seq)
	return len(changes) == feedRead
}

func (f *Feed) advance(changes []Change, head int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ring = append(f.ring, changes...)
	for i := range changes {
		f.bytes += size(&changes[i])
	}
	if len(f.ring) > 2*feedRing || f.bytes > 2*feedBytes { // seldom, and into new memory: readers have parts of the old
		old := 0
		for ; len(f.ring)-old > feedRing || f.bytes > feedBytes; old++ {
			f.bytes -= size(&f.ring[old])
		}
		f.ring = append(f.ring[:0:0], f.ring[old:]...)
	}
	f.head = head
	close(f.moved)
	f.moved = make(chan struct{})
}

// size is what a change keeps in memory, but for what all have alike.
func size(c *Change) int {
	return len(c.Object.Spec) + len(c.Object.Status) + len(c.Object.View)
}

// Next returns the changes after a sequence, waiting until there is one. What
// has left the feed's memory comes from the log, which may tell that it is gone
// (NotFound, reason "truncated"): then begin anew. The result must not be changed.
func (f *Feed) Next(ctx context.Context, after int64) ([]Change, error) {
	for {
		f.mu.Lock()
		moved := f.moved
		behind := f.head > after
		var found []Change
		if behind && len(f.ring) > 0 && f.ring[0].Seq <= after+1 {
			// Sequences have gaps where somebody else has written the head.
			at, _ := slices.BinarySearchFunc(f.ring, after+1, func(c Change, seq int64) int { return cmp.Compare(c.Seq, seq) })
			found = f.ring[at:]
		}
		f.mu.Unlock()
		if len(found) > 0 {
			return found, nil
		}
		if behind {
			changes, err := f.log.Changes(ctx, ChangeQuery{After: after, Limit: feedRead})
			if err != nil || len(changes) > 0 {
				return changes, err
			}
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-moved:
		}
	}
}
