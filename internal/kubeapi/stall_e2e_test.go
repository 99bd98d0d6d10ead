//go:build e2e

package kubeapi_test

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/kubeapi"
)

// staller has all watches of a moment fall silent, for good and without an end.
type staller struct {
	next  http.RoundTripper
	times *atomic.Int64
}

func (s staller) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := s.next.RoundTrip(r)
	if err == nil && r.URL.Query().Get("watch") == "true" {
		res.Body = &silent{ReadCloser: res.Body, ctx: r.Context(), times: s.times, born: s.times.Load()}
	}
	return res, err
}

type silent struct {
	io.ReadCloser
	ctx   context.Context
	times *atomic.Int64
	born  int64
}

func (s *silent) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if s.times.Load() != s.born {
		<-s.ctx.Done()
		return 0, s.ctx.Err()
	}
	return n, err
}

// Watches stall, and say neither what happens nor that they have ended. What was
// written and deleted meanwhile is found by those that take their place, long before
// anything is compared.
func TestWatchesStall(t *testing.T) {
	w := enter(t)
	ns := w.Namespace(t)
	r := newRecorder()
	var times atomic.Int64
	home, err := kubeapi.Open(kubeapi.Access{Name: "home", Kubeconfig: w.KubeconfigOfAccount(t, "drover", "drover"), Renew: time.Second,
		Wrap: func(next http.RoundTripper) http.RoundTripper { return staller{next, &times} }})
	if err != nil {
		t.Fatal(err)
	}
	w.follow(t, kubeapi.Config{Service: r, Home: home, Sweep: time.Hour})
	before := deployment(ns, "before")
	w.create(t, before)
	r.await(t, "what was made before", of(before))

	times.Add(1)
	during := deployment(ns, "during")
	w.create(t, during)
	w.delete(t, before)
	r.await(t, "what was made meanwhile", of(during))
	r.await(t, "what was deleted meanwhile", goneOf(before))
}
