package resilience

import (
	"sync"
	"time"
)

// unasked is how long nobody must have called a side, after the rest of its breaker,
// before the breaker says nothing about it any more.
const unasked = 5 * time.Minute

// idle tells for how long nobody has called.
type idle struct {
	mu    sync.Mutex
	under int       // calls under way
	last  time.Time // when one began or ended
	watch *time.Timer
}

// busy notes that a call begins, and what it returns that it has ended.
func (i *idle) busy() (ended func()) {
	note := func(n int) {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.under += n
		i.last = time.Now()
	}
	note(1)
	return func() { note(-1) }
}

// wait is what is left until nobody has called for so long.
func (i *idle) wait(long time.Duration) time.Duration {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.under > 0 {
		return long
	}
	return long - time.Since(i.last)
}

// after has something done later, once: of two the later one counts.
func (i *idle) after(d time.Duration, do func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.watch != nil {
		i.watch.Stop()
	}
	i.watch = time.AfterFunc(d, do)
}

// watch has a breaker that opened closed when nobody calls any more. It leaves its
// state only with a call, and some sides are never called again (an address that was
// changed, a cluster that is gone): whoever counts open breakers would count theirs
// for ever.
func (p *Policy) watch() {
	long := p.cfg.Rest*5/4 + unasked
	p.idle.after(long, func() {
		switch left := p.idle.wait(long); {
		case p.breaker.IsClosed():
		case left > 0:
			p.watch()
		default:
			p.breaker.Close()
		}
	})
}

// Made tells the observer of a call that was made without the policy.
func (p *Policy) Made(err error, took time.Duration) { p.observe(outcome(err), took) }

// Answered tells that the other side answered a call that was made without the policy:
// an open breaker whose rest has ended is closed by it.
func (p *Policy) Answered() {
	if !p.breaker.IsClosed() && p.breaker.RemainingDelay() <= 0 {
		p.breaker.Close()
	}
}
