package app_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/droverhq/drover/internal/app"
)

// reply is an answer of an API, or none.
type reply struct {
	code  int
	after string // Retry-After
	err   error
	slow  time.Duration
}

// replies are given one after the other, and then it works.
type replies struct {
	list   []reply
	bodies []string
}

func (r *replies) RoundTrip(q *http.Request) (*http.Response, error) {
	body := ""
	if q.Body != nil {
		data, _ := io.ReadAll(q.Body)
		body = string(data)
	}
	r.bodies = append(r.bodies, body)
	now := reply{code: http.StatusOK}
	if n := len(r.bodies); n <= len(r.list) {
		now = r.list[n-1]
	}
	select {
	case <-q.Context().Done():
		return nil, q.Context().Err()
	case <-time.After(now.slow):
	}
	if now.err != nil {
		return nil, now.err
	}
	header := http.Header{}
	if now.after != "" {
		header.Set("Retry-After", now.after)
	}
	return &http.Response{StatusCode: now.code, Header: header, Body: io.NopCloser(strings.NewReader("{}")), Request: q}, nil
}

func TestKubernetesIsAskedAgain(t *testing.T) {
	refused, lost := reply{err: syscall.ECONNREFUSED}, reply{err: syscall.ECONNRESET}
	unwell, busy := reply{code: http.StatusInternalServerError}, reply{code: http.StatusTooManyRequests, after: "1"}
	const apply, merge, steps = "application/apply-patch+yaml", "application/merge-patch+json", "application/json-patch+json"
	for _, c := range []struct {
		reason, method, kind string
		replies              []reply
		tries, code          int // code 0: none
	}{
		{"what works is asked once", "GET", "", nil, 1, 200},
		{"a read is made again whatever it failed with", "GET", "", []reply{refused, lost, unwell, {err: io.EOF}}, 5, 200},
		{"but not for ever", "GET", "", []reply{unwell, unwell, unwell, unwell, unwell, unwell}, 5, 500},
		{"an answer is an answer", "GET", "", []reply{{code: 404}}, 1, 404},
		{"the client waits by itself as it is asked to", "GET", "", []reply{busy}, 1, 429},
		{"also by one who is unwell", "GET", "", []reply{{code: 503, after: "2"}}, 1, 503},
		{"a replacement is the same once or twice", "PUT", "application/json", []reply{lost, unwell}, 3, 200},
		{"so is a removal", "DELETE", "", []reply{lost, unwell}, 3, 200},
		{"an application", "PATCH", apply, []reply{lost, {code: 504}}, 3, 200},
		{"a merge", "PATCH", merge, []reply{lost}, 2, 200},
		{"a step is not, which may do something each time", "PATCH", steps, []reply{lost}, 1, 0},
		{"nor is a creation", "POST", "application/json", []reply{lost}, 1, 0},
		{"nor one that an unwell server may have made", "POST", "application/json", []reply{unwell}, 1, 500},
		{"nor what took its time", "PUT", "application/json", []reply{{slow: 2 * time.Minute}}, 1, 0},
		{"one that never left is", "POST", "application/json", []reply{refused, {err: &net.OpError{Op: "dial", Err: errors.New("no route")}}}, 3, 200},
		{"a removal that never left is", "DELETE", "", []reply{refused}, 2, 200},
		{"what takes long to fail takes as long again", "GET", "", []reply{{err: io.EOF, slow: 2 * time.Second}}, 1, 0},
		{"what does not begin to answer is given up", "GET", "", []reply{{slow: 2 * time.Minute}}, 1, 0},
	} {
		t.Run(c.reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var body io.Reader
				if c.kind != "" {
					body = strings.NewReader("all of it")
				}
				q, err := http.NewRequestWithContext(t.Context(), c.method, "http://kubernetes.example/api", body)
				if err != nil {
					t.Fatal(err)
				}
				q.Header.Set("Content-Type", c.kind)
				r := &replies{list: c.replies}
				resp, err := app.Line(r, nil).RoundTrip(q)
				if len(r.bodies) != c.tries {
					t.Errorf("it was asked %d times, want %d", len(r.bodies), c.tries)
				}
				for n, body := range r.bodies {
					if c.kind != "" && body != "all of it" {
						t.Errorf("try %d says %q", n+1, body)
					}
				}
				if (err != nil) != (c.code == 0) || err == nil && resp.StatusCode != c.code {
					t.Errorf("it ends with %v, %v, want %d", resp, err, c.code)
				}
			})
		})
	}
}
