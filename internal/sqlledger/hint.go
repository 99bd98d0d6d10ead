package sqlledger

import (
	"context"
	"sync"
)

// hub wakes whoever waits for changes.
type hub struct {
	mu     sync.Mutex
	subs   map[chan struct{}]func() // how to stop watching its context
	closed bool
}

// Hints implements ledger.Log.
func (l *Ledger) Hints(ctx context.Context) <-chan struct{} { return l.hints.subscribe(ctx) }

func (h *hub) subscribe(ctx context.Context) <-chan struct{} {
	c := make(chan struct{}, 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || ctx.Err() != nil {
		close(c)
		return c
	}
	if h.subs == nil {
		h.subs = map[chan struct{}]func(){}
	}
	stop := context.AfterFunc(ctx, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if _, ok := h.subs[c]; ok {
			delete(h.subs, c)
			close(c)
		}
	})
	h.subs[c] = func() { stop() }
	return c
}

// signal leaves a hint with every subscriber that has none.
func (h *hub) signal() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for c := range h.subs {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for c, stop := range h.subs {
		stop()
		close(c)
	}
	h.subs = nil
}
