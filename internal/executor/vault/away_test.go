package vault_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/executor/vault"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/resilience"
)

// That nobody answers does not tell what was asked for.
func TestAwayTellsNoPath(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	x := vault.New(vault.Config{Resilience: resilience.Config{Retries: -1}})
	_, err = x.Plan(t.Context(), executor.Resource{ID: "r", Connection: executor.Connection{"address": "http://" + l.Addr().String(), "token": "t"}, Inputs: map[string]any{"path": "hush/db", "data": map[string]any{"a": "b"}}})
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "refused") || strings.Contains(err.Error(), "hush") || strings.Contains(err.Error(), "/v1/") {
		t.Errorf("got %v", err)
	}
}

// One that takes a call and says nothing is given up when the policy says so, which is
// after 10 s where nobody says otherwise.
func TestHangingServer(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only who has read it hears that the client left
		<-r.Context().Done()
	}))
	defer s.Close()
	x := vault.New(vault.Config{Resilience: resilience.Config{Retries: -1, Timeout: 50 * time.Millisecond}})
	_, err := x.Plan(t.Context(), executor.Resource{ID: "r", Connection: executor.Connection{"address": s.URL, "token": "t"}, Inputs: map[string]any{"path": "secret/db", "data": map[string]any{"a": "b"}}})
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "within 50ms") {
		t.Errorf("got %v", err)
	}
}
