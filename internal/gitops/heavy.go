package gitops

import (
	"sync"
	"time"

	"github.com/droverhq/drover/internal/fault"
)

// heavy are commits that were too large to be read, in this process: to find that
// out again costs as much as a commit that is not. Losing it costs that once.
type heavy struct {
	mu sync.Mutex
	by map[string]burden
}

type burden struct {
	key string
	at  time.Time
	err error
}

const heavyAgain = 10 * time.Minute

// known is why what the key stands for was not read lately; nil: it was not tried.
func (h *heavy) known(id, key string, now time.Time) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if b, ok := h.by[id]; ok && b.key == key && now.Sub(b.at) < heavyAgain {
		return b.err
	}
	return nil
}

// found keeps an error if it is one of that sort, and returns it.
func (h *heavy) found(id, key string, now time.Time, err error) error {
	if fault.Reason(err) != "too-large" {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.by == nil || len(h.by) >= maxLooks {
		h.by = map[string]burden{}
	}
	h.by[id] = burden{key, now, err}
	return err
}
