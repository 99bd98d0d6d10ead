package app

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"
)

// line is the way to every Kubernetes API that the program talks to: what an API
// could not do for a moment (its leader changed, a connection broke) is asked again
// before anybody is told. What is answered with a time to come back at is left to
// the client, which keeps to that.
func line() func(http.RoundTripper) http.RoundTripper {
	bad := unreliable()
	return func(next http.RoundTripper) http.RoundTripper {
		if bad != nil {
			next = bad(next)
		}
		return &patientLine{next}
	}
}

// patientLine asks again.
type patientLine struct{ next http.RoundTripper }

const (
	lineTries = 5
	// linePause is before the second try, and doubles; each is moved by up to a quarter.
	linePause = 25 * time.Millisecond
)

// RoundTrip implements http.RoundTripper.
func (l *patientLine) RoundTrip(q *http.Request) (*http.Response, error) {
	pause := linePause
	for try := 1; ; try++ {
		began := time.Now()
		resp, err := l.next.RoundTrip(q)
		if try == lineTries || time.Since(began) > swift || !worthwhile(q, resp, err) {
			return resp, err
		}
		next, ok := afresh(q)
		if !ok || !rested(q.Context(), pause+time.Duration((rand.Float64()-0.5)/2*float64(pause))) {
			return resp, err
		}
		if resp != nil {
			_, _ = io.CopyN(io.Discard, resp.Body, 4<<10) // so that the connection can be used again
			resp.Body.Close()
		}
		q, pause = next, 2*pause
	}
}

// worthwhile tells whether the same request may be better answered the next time,
// and does no harm if this one was carried out after all.
func worthwhile(q *http.Request, resp *http.Response, err error) bool {
	var dial *net.OpError
	switch {
	case q.Context().Err() != nil:
		return false
	case errors.Is(err, syscall.ECONNREFUSED), errors.As(err, &dial) && dial.Op == "dial":
		return true // it never left
	case err != nil:
		return idempotent(q) && (errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF))
	case resp.Header.Get("Retry-After") != "":
		return false
	}
	switch resp.StatusCode {
	case http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return idempotent(q)
	}
	return false
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

// afresh is the same request with its body from the beginning.
func afresh(q *http.Request) (*http.Request, bool) {
	next := q.Clone(q.Context())
	if q.Body == nil || q.Body == http.NoBody {
		return next, true
	}
	if q.GetBody == nil {
		return nil, false
	}
	body, err := q.GetBody()
	next.Body = body
	return next, err == nil
}

func rested(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
