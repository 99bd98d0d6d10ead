package httpapi

import (
	"math/rand/v2"
	"sync"
	"time"
)

// turns admits agents that this replica does not know yet, so many per second,
// in the order in which they came: after a restart all of them come at once.
// Who has to wait is told when to come again, and has that place until then.
type turns struct {
	every time.Duration // between two admissions
	burst time.Duration // of places that need not wait

	mu    sync.Mutex
	last  time.Time            // the last place that was given
	slots map[string]time.Time // places of those who wait, by cluster
}

// turnKept is how long a place is kept for who does not come.
const turnKept = time.Minute

// maxTurns bounds the places that are remembered.
const maxTurns = 100_000

func newTurns(perSecond int) *turns {
	return &turns{every: time.Second / time.Duration(max(1, perSecond)), burst: time.Second, slots: map[string]time.Time{}}
}

// take returns how long the cluster's agent has to wait; 0: it is its turn.
func (t *turns) take(id string, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if slot, ok := t.slots[id]; ok {
		if wait := slot.Sub(now); wait > 0 {
			return wait
		}
		delete(t.slots, id)
		if now.Sub(slot) < turnKept {
			return 0
		}
	}
	if t.last.Before(now) {
		t.last = now
	}
	t.last = t.last.Add(t.every)
	wait := t.last.Sub(now) - t.burst
	if wait <= 0 {
		return 0
	}
	if len(t.slots) >= maxTurns {
		for old, slot := range t.slots {
			if now.Sub(slot) >= turnKept {
				delete(t.slots, old)
			}
		}
	}
	if len(t.slots) < maxTurns {
		t.slots[id] = now.Add(wait)
	}
	return wait
}

// retryAfter is a wait in whole seconds, spread a little: those who are told the
// same second must not come in the same moment.
func retryAfter(wait time.Duration) int {
	seconds := int((wait + time.Second - 1) / time.Second)
	return max(1, seconds+rand.IntN(2))
}

// pace keeps the answers to one agent apart, so that what changes within a
// breath is told at once, and an agent that does not take what it is told is not
// told it all the time.
type pace struct {
	next   time.Time // the earliest time of the next answer with news
	again  time.Time // likewise, if it is the last one once more
	said   uint64    // question and answer of the last time
	streak int       // how often that was said since
}

const (
	// breath is the least time between two answers with news to one agent. It
	// grows with the answer.
	breath = 50 * time.Millisecond
	// breathBytes is how many bytes of an answer lengthen the breath by a second.
	breathBytes = 32 << 20
)

// answered notes an answer with news.
func (p *pace) answered(now time.Time, said uint64, size int, most time.Duration) {
	if said == p.said {
		p.streak = min(p.streak+1, 12)
	} else {
		p.said, p.streak = said, 0
	}
	long := time.Duration(size) * time.Second / breathBytes
	p.next, p.again = now.Add(min(breath+long, most)), now.Add(min(breath<<p.streak+long, most))
}

// wait is how long an answer has to wait for more of it; again says that it is
// held back only because it was given before, which anything new ends.
func (p *pace) wait(now time.Time, said uint64) (d time.Duration, again bool) {
	if d = p.next.Sub(now); d <= 0 && said == p.said {
		d = p.again.Sub(now)
		return d, d > 0
	}
	return d, false
}
