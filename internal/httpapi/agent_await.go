package httpapi

import (
	"context"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// ready says that the index is whole, and who the ledger is.
func (h *hub) ready() (ledger.Head, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	head := h.head
	head.Seq = h.pos
	return head, h.need >= 0 && h.pos >= h.need
}

// await waits for the index to be whole, for a while, and reports whether it is.
// held is called before it waits.
func (h *hub) await(ctx context.Context, held func()) bool {
	select {
	case <-h.whole:
		return true
	default:
	}
	held()
	timer := time.NewTimer(loadHold)
	defer timer.Stop()
	select {
	case <-h.whole:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// reach waits until the index has reached a sequence that the ledger has.
func (h *hub) reach(ctx context.Context, seq int64) error {
	timer := time.NewTimer(5 * time.Second)
	defer timer.Stop()
	for {
		h.mu.Lock()
		if h.pos >= seq {
			h.mu.Unlock()
			return nil
		}
		if h.moved == nil {
			h.moved = make(chan struct{})
		}
		moved := h.moved
		h.mu.Unlock()
		select {
		case <-moved:
		case <-timer.C:
			return fault.New(fault.Unavailable, "this replica has not caught up with sequence %d yet", seq)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
