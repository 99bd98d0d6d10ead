package cli_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// What is dropped does not come back: it wants a yes, and without one nothing is asked for.
func TestDroppingWantsAYes(t *testing.T) {
	var mu sync.Mutex
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, r.Method+" "+r.URL.Path)
		w.WriteHeader(http.StatusNoContent)
	}))
	defer server.Close()
	for _, c := range []struct {
		reason string
		args   []string
		code   int
		asks   []string
	}{
		{"a program that has not said so", []string{"drop", "k1", "k2"}, 2, nil},
		{"one that has", []string{"drop", "k1", "k2", "--yes"}, 0, []string{"DELETE /api/v1/rejected/k1", "DELETE /api/v1/rejected/k2"}},
		{"in short", []string{"drop", "k1", "-y"}, 0, []string{"DELETE /api/v1/rejected/k1"}},
		{"what comes back to its queue is not lost", []string{"retry", "k1"}, 0, []string{"POST /api/v1/rejected/k1/retry"}},
	} {
		asked = nil
		code, out, complaints := audited(t, server, nil, append([]string{"bus", "dlq"}, c.args...)...)
		mu.Lock()
		asked = slices.DeleteFunc(asked, func(line string) bool { return !strings.Contains(line, "/rejected/") })
		if code != c.code || !slices.Equal(asked, c.asks) {
			t.Errorf("%s: code %d, asked %q, said %q %q", c.reason, code, asked, out, complaints)
		}
		if c.code != 0 && !strings.Contains(complaints, "dropping k1, k2 wants --yes") {
			t.Errorf("%s: %q", c.reason, complaints)
		}
		mu.Unlock()
	}
}

// A server is ready without its broker: whoever asks for what is there is sent to the broker.
func TestABrokerThatIsAwayIsNamed(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte(`{"kind": "Error", "code": "DROVER-9", "reason": "the broker cannot be reached; try again"}`))
	}))
	defer server.Close()
	code, _, complaints := audited(t, server, nil, "bus", "dlq", "list")
	if code != 6 || !strings.Contains(complaints, "the broker cannot be reached") || !strings.Contains(complaints, "drover doctor") || strings.Contains(complaints, "readyz") || strings.Contains(complaints, "written") {
		t.Errorf("%d %q", code, complaints)
	}
}

// Whoever has no broker is told so, and whoever sends a message again is promised no more.
func TestWhatIsSaidOfTheBroker(t *testing.T) {
	for _, c := range []struct {
		reason, answer string
		args           []string
		says           string
	}{
		{"there is none", `{"items": [], "count": 0, "no_broker": true}`, []string{"list"}, "the server has no broker"},
		{"there is nothing", `{"items": [], "count": 0}`, []string{"list"}, "nothing was put aside"},
		{"it may be put aside once more", `{}`, []string{"retry", "k1"}, "k1 sent again"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(c.answer))
		}))
		code, out, notes := audited(t, server, nil, append([]string{"bus", "dlq"}, c.args...)...)
		server.Close()
		if code != 0 || !strings.Contains(out+notes, c.says) {
			t.Errorf("%s: %d %q %q", c.reason, code, out, notes)
		}
	}
}
