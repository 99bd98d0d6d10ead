package app

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/droverhq/drover/internal/doctor"
)

// callMetrics watches the calls that leave the control plane, and remembers how
// each of the other sides is.
type callMetrics struct {
	calls   *prometheus.HistogramVec
	open    *prometheus.GaugeVec
	half    *prometheus.GaugeVec
	refused *prometheus.CounterVec
	again   *prometheus.CounterVec
	spent   *prometheus.CounterVec
	now     func() time.Time

	mu    sync.Mutex
	sides map[string]*side
}

// side is one name that calls go to.
type side struct {
	states     map[string]int // of breakers, those that are not closed
	full       time.Time      // when a bulkhead refused last
	spent      time.Time      // when there was no budget for a retry last
	failed, ok time.Time
}

func newCallMetrics(registry prometheus.Registerer) *callMetrics {
	to := []string{"to"}
	m := &callMetrics{
		calls: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "drover_call_duration_seconds", Help: "Duration of calls to other services by name and outcome.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 8),
		}, []string{"to", "outcome"}),
		open: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "drover_call_breaker_open", Help: "Breakers that give another service a rest because it failed: 1, or as many as it has hosts.",
		}, to),
		half: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "drover_call_breaker_half_open", Help: "Breakers that wait for one call, to see whether another service is back.",
		}, to),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "drover_call_refused_total", Help: "Calls that were not made: the breaker was open, or the bulkhead was full.",
		}, []string{"to", "by"}),
		again: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "drover_call_retries_total", Help: "Calls that were made again."}, to),
		spent: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "drover_call_budget_spent_total", Help: "Calls that failed and were not made again because too many others were.",
		}, to),
		now: time.Now, sides: map[string]*side{},
	}
	registry.MustRegister(m.calls, m.open, m.half, m.refused, m.again, m.spent)
	return m
}

// of returns what is remembered of a name. The lock is held.
func (m *callMetrics) of(name string) *side {
	s := m.sides[name]
	if s == nil {
		s = &side{states: map[string]int{}}
		m.sides[name] = s
		m.open.WithLabelValues(name).Set(0) // so that it is there before anything fails
		m.half.WithLabelValues(name).Set(0)
	}
	return s
}

// Called implements resilience.Observer.
func (m *callMetrics) Called(name, outcome string, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch s := m.of(name); outcome {
	case "open":
		m.refused.WithLabelValues(name, "breaker").Inc()
		return
	case "full":
		s.full = m.now()
		m.refused.WithLabelValues(name, "bulkhead").Inc()
		return
	case "failed":
		s.failed = m.now()
	case "ok", "refused": // whoever says no is there
		s.ok = m.now()
	}
	m.calls.WithLabelValues(name, outcome).Observe(took.Seconds())
}

// Breaker implements resilience.Observer.
func (m *callMetrics) Breaker(name, from, to string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.of(name)
	s.states[from]--
	s.states[to]++
	m.open.WithLabelValues(name).Set(float64(s.states["open"]))
	m.half.WithLabelValues(name).Set(float64(s.states["half-open"]))
}

// Retried implements resilience.Observer.
func (m *callMetrics) Retried(name string, spent bool) {
	if !spent {
		m.again.WithLabelValues(name).Inc()
		return
	}
	m.spent.WithLabelValues(name).Inc()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.of(name).spent = m.now()
}

// Calls tells how the other sides are, as far as this replica has called them.
func (m *callMetrics) Calls() []doctor.Side {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []doctor.Side
	for _, name := range slices.Sorted(maps.Keys(m.sides)) {
		s := m.sides[name]
		out = append(out, doctor.Side{Name: name, Open: s.states["open"], HalfOpen: s.states["half-open"],
			Full: s.full, Spent: s.spent, Failed: s.failed, Answered: s.ok})
	}
	return out
}
