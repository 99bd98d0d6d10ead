// Package hook calls the seller's own service when an instance enters a phase.
//
// It owns the call: one POST with a deadline, a fence and an idempotency key.
// It must not know instances, nor decide when to call again: the loop does.
package hook

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/reconcile"
)

// Call is one call of a hook.
type Call struct {
	URL     string
	Timeout time.Duration // must be set; offerings have a default
	Phase   string
	Fence   reconcile.Fence
	Body    any
}

// perHost bounds the calls to one seller's service at a time to half of the
// loop's workers, so that one that hangs leaves the others theirs.
const perHost = 16

// Caller calls hooks over HTTP.
type Caller struct {
	client *http.Client

	mu   sync.Mutex
	busy map[string]int // calls under way by host
}

// New makes a caller. It follows no redirects: a hook is where the offering says.
func New() *Caller {
	return &Caller{busy: map[string]int{}, client: &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

func (c *Caller) enter(host string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.busy[host] >= perHost {
		return false
	}
	c.busy[host]++
	return true
}

func (c *Caller) leave(host string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.busy[host]--; c.busy[host] == 0 {
		delete(c.busy, host)
	}
}

// Call posts and returns nil when the answer is 2xx. 4xx is Invalid: the seller
// refuses for good. Everything else is Unavailable. The body of an answer is
// never shown: it may hold anything.
func (c *Caller) Call(ctx context.Context, call Call) error {
	body, err := json.Marshal(call.Body)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, call.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, call.URL, bytes.NewReader(body))
	if err != nil {
		return fault.New(fault.Invalid, "hook of phase %s has no valid URL", call.Phase)
	}
	if !c.enter(req.URL.Host) {
		return fault.New(fault.Unavailable, "the service behind the hook of phase %s is slow; %d calls wait for it", call.Phase, perHost).Because("busy")
	}
	defer c.leave(req.URL.Host)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", fmt.Sprintf("%s/%s/%d", call.Fence.ID, call.Phase, call.Fence.Generation))
	req.Header.Set("Drover-Fence", fmt.Sprint(call.Fence.Token))
	resp, err := c.client.Do(req)
	if err != nil {
		return fault.New(fault.Unavailable, "the hook of phase %s cannot be reached", call.Phase)
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10)
	switch {
	case resp.StatusCode/100 == 2:
		return nil
	case resp.StatusCode/100 == 4 && resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusRequestTimeout:
		return fault.New(fault.Invalid, "the hook of phase %s refused with status %d", call.Phase, resp.StatusCode)
	}
	return fault.New(fault.Unavailable, "the hook of phase %s answered with status %d", call.Phase, resp.StatusCode)
}
