//go:build chaos

package app

import (
	"cmp"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/droverhq/drover/internal/fault"
)

// This is the build for bad days: DROVER_CHAOS=ledger=0.2,kubernetes=0.2,seed=1 has
// that share of the calls to the ledger, and of the requests to Kubernetes APIs,
// fail. Nothing of it is in the ordinary build.

// chaos is what is to fail.
type chaos struct {
	ledger, kubernetes float64

	mu     sync.Mutex
	random *rand.Rand
}

// disorder is that of the process: all its clients draw from one seed.
var disorder = sync.OnceValues(func() (*chaos, error) { return parseChaos(os.Getenv("DROVER_CHAOS")) })

func parseChaos(text string) (*chaos, error) {
	c, seed := &chaos{}, uint64(0)
	for pair := range strings.SplitSeq(text, ",") {
		if pair == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		var err error
		switch name {
		case "ledger":
			c.ledger, err = share(value)
		case "kubernetes":
			c.kubernetes, err = share(value)
		case "seed":
			seed, err = strconv.ParseUint(value, 10, 64)
		default:
			err = strconv.ErrSyntax
		}
		if err != nil {
			return nil, fault.New(fault.Invalid, "DROVER_CHAOS is such as ledger=0.2,kubernetes=0.2,seed=1, and %q is not", pair)
		}
	}
	c.random = rand.New(rand.NewPCG(seed, 0))
	return c, nil
}

func share(text string) (float64, error) {
	p, err := strconv.ParseFloat(text, 64)
	if err == nil && !(p >= 0 && p < 1) {
		err = strconv.ErrRange
	}
	return p, err
}

// draw decides whether a call is to fail, and gives another number to choose how.
func (c *chaos) draw(share float64) (fails bool, how float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.random.Float64() < share, c.random.Float64()
}

// unreliable is what sees every request to a Kubernetes API.
func unreliable() func(http.RoundTripper) http.RoundTripper {
	c, err := disorder()
	if err != nil || c.kubernetes == 0 { // the server, which always has a ledger, says what is wrong
		return nil
	}
	return func(next http.RoundTripper) http.RoundTripper { return &badLine{next, c} }
}

// badLine is the way to a Kubernetes API on a bad day.
type badLine struct {
	next  http.RoundTripper
	chaos *chaos
}

// longest is how long a watch may last that is to be cut.
const longest = 5 * time.Second

// RoundTrip implements http.RoundTripper. A request is refused, answered by a server
// that is unwell or has too much to do, or carried out without an answer; a watch
// is begun and cut after a moment besides.
func (b *badLine) RoundTrip(q *http.Request) (*http.Response, error) {
	fails, how := b.chaos.draw(b.chaos.kubernetes)
	if !fails {
		return b.next.RoundTrip(q)
	}
	watches := cmp.Or(q.URL.Query().Get("watch"), "false") != "false"
	switch {
	case how < 0.25:
		discard(q.Body)
		return nil, syscall.ECONNREFUSED
	case how < 0.5:
		return answer(q, http.StatusInternalServerError, "InternalError"), nil
	case how < 0.75:
		return answer(q, http.StatusTooManyRequests, "TooManyRequests"), nil
	}
	resp, err := b.next.RoundTrip(q)
	if err != nil {
		return nil, err
	}
	if !watches {
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		return nil, syscall.ECONNRESET
	}
	_, how = b.chaos.draw(1)
	body := resp.Body
	cut := time.AfterFunc(time.Duration(how*float64(longest)), func() { body.Close() })
	resp.Body = &cutBody{body, cut}
	return resp, nil
}

// cutBody is a watch that ends by itself; the timer ends with it.
type cutBody struct {
	io.ReadCloser
	cut *time.Timer
}

// Close implements io.Closer.
func (b *cutBody) Close() error {
	b.cut.Stop()
	return b.ReadCloser.Close()
}

// answer is what the API says instead of doing what it was asked.
func answer(q *http.Request, code int, reason string) *http.Response {
	discard(q.Body)
	header := http.Header{"Content-Type": {"application/json"}}
	if code == http.StatusTooManyRequests {
		header.Set("Retry-After", "1")
	}
	text := `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"a bad day","reason":"` + reason + `","code":` + strconv.Itoa(code) + `}`
	return &http.Response{
		Status: strconv.Itoa(code) + " " + http.StatusText(code), StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: io.NopCloser(strings.NewReader(text)), ContentLength: int64(len(text)), Request: q,
	}
}
