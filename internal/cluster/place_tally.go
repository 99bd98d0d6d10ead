package cluster

import (
	"context"
	"sync"
	"time"
)

// few clusters are all counted at each look. Beyond that, what is in use is
// known from a look that may be a moment old, and only the best choices are
// counted anew: a choice that was wrong nevertheless costs another try, since
// the commit's bounds decide, and nobody is told that there is no room before
// everything was counted.
const (
	few       = 64
	closely   = 8                // choices that are counted anew at once,
	rounds    = 4                // until the best of all is among them
	tallyAge  = time.Second      // after which the next look has everything counted again, behind its back
	tallyLate = 10 * time.Second // after which a look waits for that
	tallyTime = 5 * time.Second
)

// tallies remember what is in use on all clusters. There is at most one
// goroutine, which ends with its query.
type tallies struct {
	mu      sync.Mutex
	at      time.Time
	known   map[string]int64 // nobody changes it
	running bool
}

// prefixed is a ledger that lists counters.
type prefixed interface {
	Counters(ctx context.Context, prefix string) (map[string]int64, error)
}

// recent returns what was in use a moment ago, and when that was.
func (t *tallies) recent(ctx context.Context, store prefixed) (map[string]int64, time.Time, error) {
	t.mu.Lock()
	at, known := t.at, t.known
	age := time.Since(at)
	begin := age > tallyAge && !t.running
	if begin {
		t.running = true
	}
	t.mu.Unlock()
	if known == nil || age > tallyLate {
		return t.read(ctx, store, begin)
	}
	if begin {
		go func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tallyTime)
			defer cancel()
			_, _, _ = t.read(ctx, store, true) // what could not be read is read at the next look
		}()
	}
	return known, at, nil
}

func (t *tallies) read(ctx context.Context, store prefixed, last bool) (map[string]int64, time.Time, error) {
	began := time.Now()
	all, err := store.Counters(ctx, CapacityCounter(""))
	t.mu.Lock()
	defer t.mu.Unlock()
	if last {
		t.running = false
	}
	if err == nil && began.After(t.at) {
		t.at, t.known = began, all
	}
	return all, began, err
}
