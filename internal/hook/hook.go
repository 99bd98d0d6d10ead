// Package hook calls the seller's own service when an instance enters a phase.
//
// It owns the call: one POST with a deadline, a fence and an idempotency key, and
// how many there are to one host at a time.
// It must not know instances, nor decide when to call again: the loop does.
package hook

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/reconcile"
	"github.com/droverhq/drover/internal/resilience"
)

// Call is one call of a hook.
type Call struct {
	URL     string
	Timeout time.Duration // must be set; offerings have a default
	Phase   string
	Fence   reconcile.Fence
	Body    any
}

const (
	// perHost bounds the calls to one seller's service at a time to half of the
	// loop's workers, so that one that hangs leaves the others theirs.
	perHost = 16
	// forever is the timeout of the policy of hooks: each call brings its own.
	forever = 24 * time.Hour
	// nobody waits for a place: the loop comes again.
	atOnce = time.Millisecond
)

// Caller calls hooks over HTTP.
type Caller struct {
	client   *http.Client
	stranger *http.Client // of URLs that tenants name
	// Nothing is called twice by the policies: the loop, or the subscription,
	// decides that. Receivers have no breaker, because tenants share hosts: what
	// one of them names must not keep another's from being told. A subscription
	// that fails rests by itself.
	hooks, receivers *resilience.Group // by host
}

// New makes a caller. It follows no redirects: a hook is where the offering says.
// The observer hears of calls; nil: nobody does.
func New(observer resilience.Observer) *Caller {
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	dialer := &net.Dialer{Control: resilience.Control}
	c := resilience.Config{Name: Hooks, Timeout: forever, Retries: -1, AtOnce: perHost, Queue: atOnce, Observer: observer}
	posts := c
	posts.Name, posts.Timeout, posts.Failures = Receivers, postTimeout, -1
	return &Caller{hooks: resilience.NewGroup(c), receivers: resilience.NewGroup(posts), client: &http.Client{CheckRedirect: stay}, stranger: &http.Client{CheckRedirect: stay, Transport: &http.Transport{
		DialContext: dialer.DialContext, MaxResponseHeaderBytes: 64 << 10, MaxIdleConnsPerHost: 2, IdleConnTimeout: time.Minute,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12},
	}}}
}

// Names of those who are called, as the observer hears them.
const (
	Hooks     = "the service behind a hook"
	Receivers = "the webhook's receiver"
)

// Call posts and returns nil when the answer is 2xx. 4xx is Invalid: the seller
// refuses for good. Everything else is Unavailable. The body of an answer is
// never shown: it may hold anything.
func (c *Caller) Call(ctx context.Context, call Call) error {
	body, err := json.Marshal(call.Body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, call.URL, bytes.NewReader(body))
	if err != nil {
		return fault.New(fault.Invalid, "hook of phase %s has no valid URL", call.Phase)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", fmt.Sprintf("%s/%s/%d", call.Fence.ID, call.Phase, call.Fence.Generation))
	req.Header.Set("Drover-Fence", fmt.Sprint(call.Fence.Token))
	err = c.hooks.Of(req.URL.Host).Once(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, call.Timeout)
		defer cancel()
		return c.send(req.WithContext(ctx), call)
	})
	if errors.Is(err, context.DeadlineExceeded) { // the caller's own, before the call was made
		return fault.New(fault.Unavailable, "the hook of phase %s was not called in time", call.Phase)
	}
	return err
}

func (c *Caller) send(req *http.Request, call Call) error {
	resp, err := c.client.Do(req)
	switch {
	case errors.Is(err, context.Canceled):
		return context.Canceled // whoever asked left, which says nothing about the service
	case err != nil:
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

// Post is one request to a URL that a tenant has named.
type Post struct {
	URL    string
	Header map[string]string
	Body   []byte
}

// postTimeout is how long a receiver may take for one.
const postTimeout = 10 * time.Second

// Post makes it, and returns nil when the answer is 2xx. Reason "gone" is that of
// 410: the receiver wants nothing any more. Bodies of answers are never shown.
func (c *Caller) Post(ctx context.Context, p Post) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.URL, bytes.NewReader(p.Body))
	if err != nil {
		return fault.New(fault.Invalid, "the webhook has no valid URL")
	}
	for name, value := range p.Header {
		req.Header.Set(name, value)
	}
	err = c.receivers.Of(req.URL.Host).Once(ctx, func(ctx context.Context) error { return c.post(req.WithContext(ctx)) })
	if errors.Is(err, context.DeadlineExceeded) { // the caller's own, before the request was made
		return fault.New(fault.Unavailable, "the webhook's receiver was not reached in time")
	}
	return err
}

func (c *Caller) post(req *http.Request) error {
	resp, err := c.stranger.Do(req)
	switch {
	case errors.Is(err, context.Canceled):
		return context.Canceled
	case errors.Is(err, resilience.ErrLinkLocal):
		return fault.New(fault.Invalid, "the webhook's receiver has a link-local address, which is not reached")
	case err != nil:
		return fault.New(fault.Unavailable, "the webhook's receiver cannot be reached")
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10)
	switch {
	case resp.StatusCode/100 == 2:
		return nil
	case resp.StatusCode == http.StatusGone:
		return fault.New(fault.NotFound, "the webhook's receiver answered with status 410: it wants nothing any more").Because("gone")
	}
	return fault.New(fault.Unavailable, "the webhook's receiver answered with status %d", resp.StatusCode)
}
