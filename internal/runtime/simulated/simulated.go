// Package simulated is a runtime of nothing: items become ready at once or
// after a while, fail where they are told to, and are held in memory by the
// thousand, for benches, simulations and tests of what uses a runtime.
//
// It must not know the control plane, and it reads nothing of a body but
// spec.suspended, spec.endpoint.host and spec.versions.
package simulated

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/runtime"
)

// step is the kind of what makes a cluster fit: here, nothing.
const step = "step"

// Config of a Runtime. The zero value installs at once and never fails.
type Config struct {
	Capacity int64                            // default 1,000,000
	Delay    func(runtime.Item) time.Duration // until an item is so; nil: at once
	Fail     func(runtime.Item) string        // what is wrong with an item once installed; "" or nil: nothing
	Refuse   func(runtime.Item) error         // what Apply returns; nil: accept
}

// Runtime holds items in memory. It implements runtime.Runtime.
type Runtime struct {
	cfg     Config
	changed chan struct{}

	mu    sync.Mutex
	live  int64 // items that take up capacity
	items map[string]*held
}

type held struct {
	item  runtime.Item
	seen  runtime.Observed
	takes bool // capacity
	timer *time.Timer
	rev   int64 // a timer of an older one does nothing
}

var _ runtime.Runtime = (*Runtime)(nil)

// New makes an empty runtime.
func New(cfg Config) *Runtime {
	if cfg.Capacity <= 0 {
		cfg.Capacity = 1_000_000
	}
	return &Runtime{cfg: cfg, changed: make(chan struct{}, 1), items: map[string]*held{}}
}

// Apply implements runtime.Runtime.
func (r *Runtime) Apply(ctx context.Context, it runtime.Item) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if it.ID == "" {
		return fault.New(fault.Invalid, "an item needs an id")
	}
	if !it.Delete && !json.Valid(it.Body) {
		return fault.New(fault.Invalid, "the desired document of %s is not JSON", it.ID)
	}
	if r.cfg.Refuse != nil {
		if err := r.cfg.Refuse(it); err != nil {
			return err
		}
	}
	var delay time.Duration
	if r.cfg.Delay != nil && it.Kind != step {
		delay = r.cfg.Delay(it)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	h, known := r.items[it.ID]
	if known {
		old := h.item
		switch {
		case it.Epoch < old.Epoch || it.Epoch == old.Epoch && it.Token < old.Token:
			return fault.New(fault.Conflict, "an item with a newer token than %d of epoch %d is applied already", it.Token, it.Epoch).Because("fenced")
		case it.Token == old.Token && it.Generation == old.Generation && it.Delete == old.Delete && it.Kind == old.Kind &&
			(it.Delete || bytes.Equal(it.Body, old.Body)) && h.seen.State != runtime.Rejected:
			h.item.Epoch, h.item.Proof = it.Epoch, it.Proof
			return nil
		}
	} else {
		h = &held{}
		r.items[it.ID] = h
	}
	it.Body = slices.Clone(it.Body)
	h.item = it
	h.rev++
	if h.timer != nil {
		h.timer.Stop()
		h.timer = nil
	}
	h.seen = runtime.Observed{ID: it.ID, Kind: it.Kind, Generation: it.Generation, State: runtime.Installing}
	switch {
	case delay <= 0 || it.Delete && !known:
		r.settle(h)
	default:
		rev := h.rev
		h.timer = time.AfterFunc(delay, func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			if h.rev == rev {
				r.settle(h)
			}
		})
	}
	r.notify()
	return nil
}

// settle makes the item so.
func (r *Runtime) settle(h *held) {
	defer r.notify()
	if h.item.Delete {
		h.seen.State = runtime.Deleted
		r.occupy(h, false)
		return
	}
	if h.item.Kind == step {
		h.seen.State = runtime.Ready
		return
	}
	if !h.takes && r.live >= r.cfg.Capacity {
		h.seen.State, h.seen.Message = runtime.Rejected, "no room: the runtime holds as many instances as it may"
		return
	}
	r.occupy(h, true)
	var doc struct {
		Spec struct {
			Suspended bool              `json:"suspended"`
			Versions  map[string]string `json:"versions"`
			Endpoint  struct {
				Host string `json:"host"`
			} `json:"endpoint"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(h.item.Body, &doc); err != nil {
		h.seen.State, h.seen.Message = runtime.Error, "the desired document is not one that the runtime can read"
		return
	}
	if r.cfg.Fail != nil {
		if why := r.cfg.Fail(h.item); why != "" {
			h.seen.State, h.seen.Message = runtime.Error, why
			return
		}
	}
	if doc.Spec.Suspended {
		h.seen.State = runtime.Suspended
		return
	}
	h.seen.State = runtime.Ready
	h.seen.Versions = doc.Spec.Versions
	if host := doc.Spec.Endpoint.Host; host != "" {
		h.seen.Routes = map[string]string{host: "simulated"}
	}
}

func (r *Runtime) occupy(h *held, takes bool) {
	switch {
	case takes && !h.takes:
		r.live++
	case !takes && h.takes:
		r.live--
	}
	h.takes = takes
}

// Observe implements runtime.Runtime; in no order.
func (r *Runtime) Observe(ctx context.Context) ([]runtime.Observed, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r.mu.Lock()
	seen := make([]runtime.Observed, 0, len(r.items))
	for _, h := range r.items {
		seen = append(seen, h.seen)
	}
	r.mu.Unlock()
	return seen, nil
}

// Forget implements runtime.Runtime.
func (r *Runtime) Forget(ctx context.Context, id string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if h, ok := r.items[id]; ok && h.seen.State == runtime.Deleted {
		delete(r.items, id)
		r.notify()
	}
	return nil
}

// Set shows an item in another state, as if something had happened to it.
func (r *Runtime) Set(id string, state runtime.State, message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h, ok := r.items[id]; ok {
		h.seen.State, h.seen.Message = state, message
		r.notify()
	}
}

// Changed implements runtime.Runtime.
func (r *Runtime) Changed() <-chan struct{} { return r.changed }

// Facts implements runtime.Runtime.
func (r *Runtime) Facts(context.Context) (runtime.Facts, error) {
	return runtime.Facts{Capacity: r.cfg.Capacity, Kind: "simulated"}, nil
}

func (r *Runtime) notify() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}
