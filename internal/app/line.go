package app

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/resilience"
)

// line is the way to the Kubernetes APIs of one sort, with a policy for each API
// server: what one could not do for a moment (its leader changed, a connection
// broke) is asked again before anybody is told. What is answered with a time to
// come back at is left to the client library, which keeps to that.
func line(name string, observer resilience.Observer) func(http.RoundTripper) http.RoundTripper {
	bad, policies := unreliable(), resilience.NewGroup(lineConfig(name, observer))
	return func(next http.RoundTripper) http.RoundTripper {
		if bad != nil {
			next = bad(next)
		}
		return &kubernetesLine{next, policies}
	}
}

// lineConfig is of one API server. Its breaker is for one that is away: ten failures
// in a row do not happen to one that fails every fifth time. Its rest is short, since
// an agent must renew its lease soon after. An API server gives a request a minute
// itself; clients' own deadlines are mostly shorter, and what waits for its turn
// waits within them. Whoever makes thousands of resources has four calls under way
// where others call too: what an API server answers slowly it answers slowly to all.
func lineConfig(name string, observer resilience.Observer) resilience.Config {
	return resilience.Config{
		Name: name, Timeout: time.Minute, Retries: 4, Pause: 25 * time.Millisecond, Failures: 10, Rest: 2 * time.Second,
		AtOnce: 64, Each: 4, Queue: 15 * time.Second, Observer: observer,
	}
}

// kubernetesLine carries requests to Kubernetes APIs.
type kubernetesLine struct {
	next     http.RoundTripper
	policies *resilience.Group // by API server
}

// RoundTrip implements http.RoundTripper.
func (l *kubernetesLine) RoundTrip(q *http.Request) (*http.Response, error) {
	if held(q) {
		return l.next.RoundTrip(q)
	}
	var resp *http.Response
	var lost error
	tried := false
	err := l.policies.Of(apiServer(q)).Do(q.Context(), func(ctx context.Context) error {
		this := q
		if tried {
			if resp != nil {
				_, _ = io.CopyN(io.Discard, resp.Body, 4<<10) // so that the connection can be used again
				resp.Body.Close()
			}
			if this, lost = afresh(q); lost != nil {
				resp = nil
				return lost
			}
		}
		tried = true
		began := time.Now()
		resp, lost = begin(ctx, l.next, this)
		away := missed(q, resp, lost)
		if away != nil && (time.Since(began) > swift || !worthwhile(q, lost)) {
			return resilience.Final(away)
		}
		return away
	})
	switch {
	case !tried:
		discard(q.Body)
		return nil, err
	case lost != nil && fault.Reason(err) == "timeout":
		return nil, err // which says more than that it was given up
	}
	return resp, lost // as it was answered: the client library knows what it means
}

// begin makes a request whose answer must begin within the time of ctx. How long it
// may go on is the caller's to say.
func begin(ctx context.Context, next http.RoundTripper, q *http.Request) (*http.Response, error) {
	mine, end := context.WithCancel(q.Context())
	stop := context.AfterFunc(ctx, end)
	resp, err := next.RoundTrip(q.WithContext(mine))
	stop()
	if err != nil {
		end()
		return nil, err
	}
	resp.Body = &endingBody{resp.Body, end}
	return resp, nil
}

// endingBody ends a request with its answer.
type endingBody struct {
	io.ReadCloser
	end func()
}

// Close implements io.Closer.
func (b *endingBody) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}

func discard(body io.ReadCloser) {
	if body != nil {
		body.Close()
	}
}

// held tells that a request is answered for as long as somebody listens: a watch,
// a log, a connection. It has no deadline and takes nobody's turn.
func held(q *http.Request) bool {
	query := q.URL.Query()
	for _, long := range []string{query.Get("watch"), query.Get("follow")} {
		if long != "" && long != "false" && long != "0" {
			return true
		}
	}
	return q.Header.Get("Upgrade") != ""
}

var served = regexp.MustCompile(`^(.*?)/(?:apis?|openapi|version|healthz|livez|readyz)(?:/|$)`)

// apiServer is whom a request is for: several may have one host, each under a path of
// its own. Leases have a policy of their own: an agent whose cluster has too much to
// do must not lose its turn by waiting for it.
func apiServer(q *http.Request) string {
	at := q.URL.Host
	if m := served.FindStringSubmatch(q.URL.Path); m != nil {
		at += m[1]
	}
	if strings.Contains(q.URL.Path, "/apis/coordination.k8s.io/") {
		at += " leases"
	}
	return at
}

// missed is what an API server that is away fails with; nil: it answered. One that
// says no is there, and so is one that says when to come again. One that could not do
// what cannot be asked of it twice is too.
func missed(q *http.Request, resp *http.Response, err error) error {
	switch {
	case err != nil:
		return fault.New(fault.Unavailable, "it cannot be reached: %w", err)
	case resp.Header.Get("Retry-After") != "":
		return nil
	case resp.StatusCode == http.StatusInternalServerError && !idempotent(q):
		return nil
	}
	switch resp.StatusCode {
	case http.StatusInternalServerError: // it is one object's trouble as often as everybody's
		return resilience.There(fault.New(fault.Unavailable, "it answered %s", resp.Status))
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return fault.New(fault.Unavailable, "it answered %s", resp.Status)
	}
	return nil
}

// idempotent tells that a request does the same once or twice. A second replacement
// or removal that must find a version is refused as if somebody else had been
// faster, which whoever writes so has to expect anyway.
func idempotent(q *http.Request) bool {
	switch q.Method {
	case http.MethodGet, http.MethodHead, http.MethodPut, http.MethodDelete:
		return true
	case http.MethodPatch: // steps of a JSON patch may do something each time
		kind := q.Header.Get("Content-Type")
		return strings.HasPrefix(kind, "application/apply-patch") || strings.HasPrefix(kind, "application/merge-patch")
	}
	return false
}

// worthwhile tells that a request which was missed does no harm if it is made again:
// it does the same then, or it never left.
func worthwhile(q *http.Request, lost error) bool {
	var dial *net.OpError
	stayed := errors.Is(lost, syscall.ECONNREFUSED) || errors.As(lost, &dial) && dial.Op == "dial"
	return (idempotent(q) || stayed) && (q.Body == nil || q.Body == http.NoBody || q.GetBody != nil)
}

// afresh is the same request with its body from the beginning.
func afresh(q *http.Request) (*http.Request, error) {
	next := q.Clone(q.Context())
	if q.GetBody == nil {
		return next, nil
	}
	var err error
	next.Body, err = q.GetBody()
	return next, err
}
