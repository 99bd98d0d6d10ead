package app

import (
	"context"
	"log/slog"
	"net/http"
	"regexp"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/resilience"
)

// Chosen picks the engine of a namespace.
var Chosen = chosen

// Listen is listen.
var Listen = listen

// InTurn works whenever it is a replica's turn.
var InTurn = inTurn

var described = regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: \{([^}]*)\}`)

// Described lists every metric that the server can export, with its labels:
// scrapes show only those that have a value yet.
func (s *Server) Described() map[string][]string {
	descs := make(chan *prometheus.Desc, 1000)
	s.metrics.Describe(descs)
	ofSites := prometheus.NewRegistry() // of a server of two sites alone
	(&keeper{}).register(ofSites)
	ofSites.Describe(descs)
	close(descs)
	out := map[string][]string{}
	for d := range descs {
		m := described.FindStringSubmatch(d.String())
		out[m[1]] = nil
		if m[2] != "" {
			out[m[1]] = strings.Split(m[2], ",")
		}
	}
	return out
}

// HealthHandler answers for an agent; nil: for one that waits for its turn.
func HealthHandler(ready func() (bool, string)) http.Handler {
	h := &health{ready: ready}
	return h.Handler()
}

// ProviderSettings sorts options by their providers.
var ProviderSettings = providerSettings

// OpenFiles opens the server's own connection of files.
func OpenFiles(ctx context.Context, s *Server, whose environment.Whose) (executor.Connection, error) {
	return connections{s.connections, s.files}.Open(ctx, "file", "default", whose)
}

// Insist has a ledger asked again.
func Insist(l ledger.Ledger) ledger.Ledger { return insist(unclosed{l}, nil) }

// InsistSeen has a ledger asked again while somebody looks.
func InsistSeen(l ledger.Ledger, o resilience.Observer) ledger.Ledger { return insist(unclosed{l}, o) }

type unclosed struct{ ledger.Ledger }

func (unclosed) Close() error { return nil }

// Line is the way to a Kubernetes API.
func Line(next http.RoundTripper, o resilience.Observer) http.RoundTripper {
	return line(toResources, o)(next)
}

// Relay tells whichever server runs.
func Relay() (o resilience.Observer, to func(Watcher)) {
	r := &relay{}
	return r, func(w Watcher) { r.hand(w.(*callMetrics)) }
}

// AgentCalls is how agents tell of those they call: by their log, at the address of
// --health, and to the control plane.
func AgentCalls(log *slog.Logger) (o resilience.Observer, asked http.Handler, resting func() string) {
	calls := newAgentCalls(log)
	web := &health{metrics: calls.metrics()}
	return calls, web.Handler(), calls.Resting
}
