package app

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/command"
)

// messageMetrics counts what goes over the bus and to subscriptions.
type messageMetrics struct {
	events, failures, commands *prometheus.CounterVec
	age, took                  *prometheus.HistogramVec
}

func newMessageMetrics(r prometheus.Registerer) *messageMetrics {
	buckets := []float64{.005, .01, .025, .05, .1, .25, .5, 1, 5, 30, 300, 3600}
	m := &messageMetrics{
		events: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "drover_events_told_total",
			Help: "Events that were delivered, by where to."}, []string{"to"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "drover_events_failures_total",
			Help: "Deliveries of events that failed and are made again, by where to."}, []string{"to"}),
		age: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "drover_event_age_seconds",
			Help: "Time from a change to its delivery, of the oldest change of each delivery.", Buckets: buckets}, []string{"to"}),
		commands: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "drover_commands_total",
			Help: "Messages that came as commands, by command and outcome."}, []string{"command", "outcome"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "drover_command_seconds",
			Help: "Time until a command was durable or refused.", Buckets: buckets}, []string{"command"}),
	}
	r.MustRegister(m.events, m.failures, m.age, m.commands, m.took)
	return m
}

// Told implements subscription.Observer.
func (m *messageMetrics) Told(to string, events int, age time.Duration, err error) {
	m.events.WithLabelValues(to).Add(float64(events))
	if err != nil {
		m.failures.WithLabelValues(to).Inc()
		return
	}
	m.age.WithLabelValues(to).Observe(age.Seconds())
}

// Taken implements command.Observer.
func (m *messageMetrics) Taken(name, outcome string, took time.Duration) {
	m.commands.WithLabelValues(name, outcome).Inc()
	m.took.WithLabelValues(name).Observe(took.Seconds())
}

// consumerMetrics tells whether commands come to this replica, where a broker brings them.
type consumerMetrics struct {
	desc   *prometheus.Desc
	broker interface{ Taking(queue string) bool } // nil: there is none
}

func newConsumerMetrics(r prometheus.Registerer, b bus.Bus) {
	m := &consumerMetrics{desc: prometheus.NewDesc("drover_command_consumers", "Replicas that take commands from the broker: 1 where this one does.", nil, nil)}
	m.broker, _ = b.(interface{ Taking(queue string) bool })
	r.MustRegister(m)
}

// Describe implements prometheus.Collector.
func (m *consumerMetrics) Describe(out chan<- *prometheus.Desc) { out <- m.desc }

// Collect implements prometheus.Collector.
func (m *consumerMetrics) Collect(out chan<- prometheus.Metric) {
	if m.broker == nil {
		return
	}
	n := 0.0
	if m.broker.Taking(command.Queue) {
		n = 1
	}
	out <- prometheus.MustNewConstMetric(m.desc, prometheus.GaugeValue, n)
}
