package consul_test

import (
	"net"
	"strings"
	"testing"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/executor/consul"
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
	x := consul.New(consul.Config{Resilience: resilience.Config{Retries: -1}})
	_, err = x.Plan(t.Context(), executor.Resource{ID: "r", Connection: executor.Connection{"address": "http://" + l.Addr().String()}, Inputs: map[string]any{"service": "web", "address": "10.0.0.1", "port": int64(80), "node": "hush-node"}})
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "refused") || strings.Contains(err.Error(), "hush") || strings.Contains(err.Error(), "/v1/") {
		t.Errorf("got %v", err)
	}
}
