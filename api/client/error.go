package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	v1 "github.com/droverhq/drover/api/v1"
)

// Error is an answer that is not a success.
type Error struct {
	Status int      // of HTTP
	Detail v1.Error // zero where the answer came from something other than Drover
	Server string
	// RetryAfter is how long the server asks to wait; 0 if it does not say.
	RetryAfter time.Duration
}

func (e *Error) Error() string {
	var b strings.Builder
	if e.Status == http.StatusServiceUnavailable {
		fmt.Fprintf(&b, "the server at %s is up but cannot answer now: ", e.Server)
	}
	if e.Detail.Reason != "" {
		b.WriteString(e.Detail.Reason)
	} else {
		fmt.Fprintf(&b, "%s answered %d %s", e.Server, e.Status, http.StatusText(e.Status))
		if e.Status == http.StatusNotFound && e.Detail.Code == "" { // every answer of Drover's says why
			b.WriteString(", which does not look like a Drover server: is the address right?")
		}
	}
	switch {
	case e.Detail.Code != "" && e.Status >= 500 && e.Detail.OperationID != "":
		fmt.Fprintf(&b, " (%s, request %s)", e.Detail.Code, e.Detail.OperationID)
	case e.Detail.Code != "":
		fmt.Fprintf(&b, " (%s)", e.Detail.Code)
	}
	if e.RetryAfter > 0 {
		fmt.Fprintf(&b, "; try again in %v", e.RetryAfter)
	}
	return b.String()
}

// Temporary reports whether the same request may succeed later.
func (e *Error) Temporary() bool {
	switch e.Status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests:
		return true
	}
	return e.Status >= 500 && e.Status != http.StatusNotImplemented
}

// Unreachable says that there was no answer at all.
type Unreachable struct {
	Server  string // host and port
	Refused bool   // the machine is there, but nothing listens on the port
	Err     error
}

func (e *Unreachable) Error() string {
	if e.Refused {
		return "no server at " + e.Server + ": connection refused"
	}
	return fmt.Sprintf("cannot reach the server at %s: %v", e.Server, e.Err)
}

func (e *Unreachable) Unwrap() error { return e.Err }

var errSlow = errors.New("no answer in time")

// refusedOnWindows is WSAECONNREFUSED, which package syscall names on Windows alone.
const refusedOnWindows = syscall.Errno(10061)

func unreachable(req *http.Request, err error) error {
	ctx := req.Context()
	if ctx.Err() != nil && !errors.Is(context.Cause(ctx), errSlow) {
		return context.Cause(ctx)
	}
	if errors.Is(context.Cause(ctx), errSlow) {
		err = errSlow
	}
	// net/http repeats method and URL, which the caller knows.
	if inner := errors.Unwrap(err); inner != nil && strings.HasPrefix(err.Error(), httpVerb(req.Method)) {
		err = inner
	}
	refused := errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, refusedOnWindows)
	return &Unreachable{Server: req.URL.Host, Refused: refused, Err: err}
}

// httpVerb is how url.Error spells a method: "Get".
func httpVerb(method string) string { return method[:1] + strings.ToLower(method[1:]) }

func readError(req *http.Request, resp *http.Response) error {
	e := &Error{Status: resp.StatusCode, Server: req.URL.Host}
	// What cannot be read or decoded is not Drover's error object; the status speaks then.
	if data, err := io.ReadAll(io.LimitReader(resp.Body, maxError)); err == nil {
		if json.Unmarshal(data, &e.Detail) != nil {
			e.Detail = v1.Error{}
		}
	}
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && seconds > 0 && seconds < 1<<20 {
		e.RetryAfter = time.Duration(seconds) * time.Second
	}
	return e
}

// Status returns the HTTP status of the Error in err's chain, 0 if there is none.
func Status(err error) int {
	var e *Error
	if errors.As(err, &e) {
		return e.Status
	}
	return 0
}

// Away reports whether there is no server, or none that can answer now.
func Away(err error) bool {
	var u *Unreachable
	var e *Error
	return errors.As(err, &u) || errors.As(err, &e) && e.Temporary()
}
