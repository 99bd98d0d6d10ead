package app

import (
	"sync"
	"time"

	"github.com/droverhq/drover/internal/fault"
)

// owned is what the server itself needs of others: that of its site, whose lives share
// it. What opened doors and guarded secrets a moment ago is not asked for again, because
// whoever knows it may be gone with the other site.
func (s *Server) owned() (*own, error) {
	if k := s.cfg.site; k != nil {
		k.calls.hand(s.calls)
		return k.needs, nil
	}
	return openOwn(&s.cfg, s.calls)
}

// alone refuses what only one of two sites has: a line of settings that was lost must not
// make a primary that nothing holds back.
func (c *Config) alone() error {
	if c.Site == "" && c.Witness == "" && c.SecondaryURL == "" && len(c.SiteOptions)+len(c.SiteBusOptions)+len(c.WitnessOptions) == 0 {
		return nil
	}
	return fault.New(fault.Invalid, "--site, --site-options, --site-bus-options, --witness, --witness-options and --secondary-url are for one of two sites: say which with --primary, or with --primary-url or --primary-cluster-name")
}

// relay tells the metrics of the present life what happens to calls that outlive it.
type relay struct {
	mu     sync.Mutex
	to     *callMetrics              // nil: there is no life yet
	states map[string]map[string]int // of breakers, by name: how many are not closed
}

// hand has another life told from now on.
func (r *relay) hand(to *callMetrics) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.to = to
	for name, states := range r.states {
		for state, n := range states {
			for range n {
				to.Breaker(name, "closed", state)
			}
		}
	}
}

// Called implements resilience.Observer.
func (r *relay) Called(name, outcome string, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.to != nil {
		r.to.Called(name, outcome, took)
	}
}

// Breaker implements resilience.Observer.
func (r *relay) Breaker(name, from, to string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.states == nil {
		r.states = map[string]map[string]int{}
	}
	if r.states[name] == nil {
		r.states[name] = map[string]int{}
	}
	if from != "closed" {
		r.states[name][from]--
	}
	if to != "closed" {
		r.states[name][to]++
	}
	if r.to != nil {
		r.to.Breaker(name, from, to)
	}
}

// Retried implements resilience.Observer.
func (r *relay) Retried(name string, spent bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.to != nil {
		r.to.Retried(name, spent)
	}
}
