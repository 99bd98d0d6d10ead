//go:build chaos

package app_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/droverhq/drover/internal/app"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

func TestChaosSettings(t *testing.T) {
	for _, c := range []struct {
		reason, text       string
		ledger, kubernetes float64
		bad                bool
	}{
		{"nothing is to fail where nothing is said", "", 0, 0, false},
		{"as the documentation has it", "ledger=0.2,kubernetes=0.3,seed=1", 0.2, 0.3, false},
		{"what always fails never gets anywhere", "ledger=1", 0, 0, true},
		{"there is no less than nothing", "ledger=-0.1", 0, 0, true},
		{"a word that nobody knows would be believed to work", "kubernets=0.2", 0, 0, true},
		{"a share is a number", "ledger=some", 0, 0, true},
	} {
		l, k, err := app.ParseChaos(c.text)
		if (err != nil) != c.bad || l != c.ledger || k != c.kubernetes {
			t.Errorf("%s: %q gives %v, %v, %v", c.reason, c.text, l, k, err)
		}
	}
}

// counting is a ledger that counts what reaches it.
type counting struct {
	ledger.Ledger
	commits, claims, reads int
}

func (c *counting) Commit(context.Context, ledger.Set) (ledger.Result, error) {
	c.commits++
	return ledger.Result{}, nil
}

func (c *counting) Claim(context.Context, ledger.ClaimRequest) (ledger.Claimed, error) {
	c.claims++
	return ledger.Claimed{}, nil
}

func (c *counting) Get(context.Context, ledger.Ref) (ledger.Object, error) {
	c.reads++
	return ledger.Object{}, nil
}

// about tells whether n of all is a share, by a wide margin.
func about(n, all int, share float64) bool {
	return float64(n) > 0.7*share*float64(all) && float64(n) < 1.3*share*float64(all)
}

func TestChaosLedger(t *testing.T) {
	const n = 4000
	below, from := &counting{}, make(chan struct{})
	l := app.BadLedger("ledger=0.2,seed=7", below, from)
	for range 100 {
		if _, err := l.Get(t.Context(), ledger.Ref{}); err != nil {
			t.Fatalf("a call fails before it is time: %v", err)
		}
	}
	close(from)
	below.reads = 0
	failed, unknown := 0, 0
	for range n {
		_, err := l.Commit(t.Context(), ledger.Set{})
		switch {
		case err == nil:
		case !fault.Is(err, fault.Unavailable):
			t.Fatalf("a commit fails with %v", err)
		case fault.Reason(err) == "outcome-unknown":
			unknown++
		default:
			failed++
		}
	}
	if !about(failed, n, 0.1) || !about(unknown, n, 0.1) {
		t.Errorf("%d of %d commits failed and of %d the outcome is unknown; a tenth each is wanted", failed, n, unknown)
	}
	if below.commits != n-failed {
		t.Errorf("%d commits were made, %d of %d were refused", below.commits, failed, n)
	}
	failed, unknown = 0, 0
	for range n {
		if _, err := l.Get(t.Context(), ledger.Ref{}); fault.Is(err, fault.Unavailable) {
			failed++
		}
		if _, err := l.Claim(t.Context(), ledger.ClaimRequest{}); fault.Is(err, fault.Unavailable) {
			unknown++
		}
	}
	if !about(failed, n, 0.2) || below.reads != n-failed {
		t.Errorf("%d of %d reads failed, %d were made", failed, n, below.reads)
	}
	if !about(unknown, n, 0.2) || !about(n-below.claims, n, 0.1) {
		t.Errorf("%d of %d claims failed, %d were made", unknown, n, below.claims)
	}
}

func TestChaosRequests(t *testing.T) {
	var reached atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		reached.Add(1)
		_, _ = io.Copy(io.Discard, q.Body)
	}))
	defer s.Close()
	c := &http.Client{Transport: app.BadLine("kubernetes=0.4,seed=7", s.Client().Transport)}
	const n = 1500
	seen := map[string]int{}
	for range n {
		resp, err := c.Post(s.URL, "application/json", strings.NewReader("{}"))
		switch {
		case errors.Is(err, syscall.ECONNREFUSED):
			seen["refused"]++
		case errors.Is(err, syscall.ECONNRESET):
			seen["lost"]++
		case err != nil:
			t.Fatal(err)
		default:
			body, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			seen[resp.Status]++
			if resp.StatusCode != http.StatusOK && !strings.Contains(string(body), `"kind":"Status"`) {
				t.Fatalf("the API answers %s", body)
			}
		}
	}
	for _, how := range []string{"refused", "lost", "500 Internal Server Error", "429 Too Many Requests"} {
		if !about(seen[how], n, 0.1) {
			t.Errorf("%d of %d requests end as %s; a tenth is wanted", seen[how], n, how)
		}
	}
	if got, want := int(reached.Load()), seen["200 OK"]+seen["lost"]; got != want {
		t.Errorf("%d requests were carried out, %d should have been", got, want)
	}
}

// A watch that nobody ends is cut.
func TestChaosWatches(t *testing.T) {
	end := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		select {
		case <-q.Context().Done():
		case <-end:
		}
	}))
	defer s.Close()
	defer close(end)
	c := &http.Client{Transport: app.BadLine("kubernetes=0.999,seed=7", s.Client().Transport)}
	for {
		resp, err := c.Get(s.URL + "?watch=true")
		if err != nil {
			continue
		}
		begun := resp.StatusCode == http.StatusOK
		_, err = io.ReadAll(resp.Body) // of one that was begun: until it is cut
		resp.Body.Close()
		if !begun {
			continue
		}
		if err == nil {
			t.Error("a watch that was cut ends as if all had been said")
		}
		return
	}
}
