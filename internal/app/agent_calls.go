package app

import (
	"log/slog"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// agentCalls watches the calls of an agent, as a server's are watched. What rests is in its
// log besides, and in what it says to the control plane: nobody may scrape an agent.
type agentCalls struct {
	*callMetrics
	log      *slog.Logger
	registry *prometheus.Registry
}

func newAgentCalls(log *slog.Logger) agentCalls {
	r := prometheus.NewRegistry()
	return agentCalls{newCallMetrics(r), log, r}
}

// Breaker implements resilience.Observer.
func (a agentCalls) Breaker(name, from, to string) {
	a.callMetrics.Breaker(name, from, to)
	switch {
	case to == "open" && from == "closed":
		a.log.Warn("it does not answer, and is given a rest", "to", name)
	case to == "closed":
		a.log.Info("it answers again", "to", name)
	}
}

// maxResting bounds what a report says of that.
const maxResting = 256

// Resting names those that are given a rest because they failed.
func (a agentCalls) Resting() string {
	out := ""
	for _, s := range a.Calls() {
		if s.Open+s.HalfOpen == 0 {
			continue
		}
		if len(out)+len(s.Name) > maxResting-10 {
			return strings.TrimPrefix(out+", more", ", ")
		}
		out = strings.TrimPrefix(out+", "+s.Name, ", ")
	}
	return out
}

// metrics serves them.
func (a agentCalls) metrics() http.Handler {
	return promhttp.HandlerFor(a.registry, promhttp.HandlerOpts{})
}
