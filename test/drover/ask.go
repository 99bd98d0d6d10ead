package drover

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"testing"
	"time"

	v1 "github.com/droverhq/drover/api/v1"
)

// Patience is how long a test waits for what must come: a bound for failures,
// never a measure.
const Patience = 4 * time.Minute

// Until asks until it is so.
func Until(t testing.TB, what string, so func() bool) {
	t.Helper()
	deadline := time.Now().Add(Patience)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
		<-tick.C
	}
}

// Request is a raw HTTP request: what no client of ours would send.
type Request struct {
	Method, URL string
	Token       string // empty: none
	Host        string
	Header      http.Header
	Body        []byte
	Timeout     time.Duration // default 2 min
}

// Answer is what came back.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Error reads the error object of the answer.
func (a Answer) Error() (e v1.Error) {
	_ = json.Unmarshal(a.Body, &e)
	return e
}

var web = &http.Client{
	// Servers close what is idle after two minutes: never a moment before it is used again.
	Transport: &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true, IdleConnTimeout: time.Minute},
	CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	},
}

// Ask sends a raw request.
func Ask(r Request) (Answer, error) {
	if r.Timeout == 0 {
		r.Timeout = 2 * time.Minute
	}
	ctx, cancel := context.WithTimeout(context.Background(), r.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, r.Method, r.URL, bytes.NewReader(r.Body))
	if err != nil {
		return Answer{}, err
	}
	for k, v := range r.Header {
		req.Header[k] = v
	}
	if r.Token != "" {
		req.Header.Set("Authorization", "Bearer "+r.Token)
	}
	if r.Host != "" {
		req.Host = r.Host
	}
	resp, err := web.Do(req)
	if err != nil {
		return Answer{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return Answer{Status: resp.StatusCode, Header: resp.Header, Body: body}, err
}

// Must sends a raw request that gets an answer, whatever it is.
func Must(t testing.TB, r Request) Answer {
	t.Helper()
	a, err := Ask(r)
	if err != nil {
		t.Fatalf("no answer: %v", err)
	}
	return a
}

// Reach asks an instance through its route; 0 where nobody answers.
func Reach(routes, host string) (status int, body string) {
	a, err := Ask(Request{Method: http.MethodGet, URL: "http://" + routes + "/", Host: host, Timeout: time.Minute})
	if err != nil {
		return 0, err.Error()
	}
	return a.Status, string(a.Body)
}
