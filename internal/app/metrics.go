package app

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/reconcile"
	"github.com/droverhq/drover/internal/sqlledger"
)

// loopMetrics watches the loop: runs as they end, the backlog when it is asked for.
type loopMetrics struct {
	queue    ledger.Queue
	duration *prometheus.HistogramVec
	due      *prometheus.Desc
	running  *prometheus.Desc
	waiting  *prometheus.Desc
	oldest   *prometheus.Desc
	causes   sync.Map // kind to what a run of it failed with last
}

// cause is what a run of the kind failed with last, in this process.
func (m *loopMetrics) cause(kind string) string {
	text, _ := m.causes.Load(kind)
	said, _ := text.(string)
	return said
}

func newLoopMetrics(registry prometheus.Registerer, queue ledger.Queue) *loopMetrics {
	kind := []string{"kind"}
	m := &loopMetrics{
		queue: queue,
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "drover_work_duration_seconds", Help: "Duration of reconcile runs by kind and outcome.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 4, 10),
		}, []string{"kind", "outcome"}),
		due:     prometheus.NewDesc("drover_work_due", "Objects whose work is due and not taken.", kind, nil),
		running: prometheus.NewDesc("drover_work_running", "Objects that a replica works on.", kind, nil),
		waiting: prometheus.NewDesc("drover_work_waiting", "Objects whose work is due later.", kind, nil),
		oldest:  prometheus.NewDesc("drover_work_oldest_seconds", "How long the oldest due work has waited.", kind, nil),
	}
	registry.MustRegister(m.duration, m)
	return m
}

// Ran implements reconcile.Observer.
func (m *loopMetrics) Ran(kind string, outcome reconcile.Outcome, d time.Duration, err error) {
	if err != nil {
		m.causes.Store(kind, err.Error())
	}
	m.duration.WithLabelValues(kind, string(outcome)).Observe(d.Seconds())
}

// Describe implements prometheus.Collector.
func (m *loopMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.due, m.running, m.waiting, m.oldest} {
		out <- d
	}
}

// Collect implements prometheus.Collector. While the store is away the backlog
// is left out rather than told wrongly.
func (m *loopMetrics) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	backlog, err := m.queue.Backlog(ctx)
	if err != nil {
		return
	}
	for _, b := range backlog {
		out <- prometheus.MustNewConstMetric(m.due, prometheus.GaugeValue, float64(b.Due), b.Kind)
		out <- prometheus.MustNewConstMetric(m.running, prometheus.GaugeValue, float64(b.Running), b.Kind)
		out <- prometheus.MustNewConstMetric(m.waiting, prometheus.GaugeValue, float64(b.Waiting), b.Kind)
		out <- prometheus.MustNewConstMetric(m.oldest, prometheus.GaugeValue, b.Oldest.Seconds(), b.Kind)
	}
}

// ledgerMetrics watches the ledger's commits.
type ledgerMetrics struct {
	log      *slog.Logger
	next     sqlledger.Observer // may be nil
	commits  prometheus.Counter
	failures prometheus.Counter
	changes  prometheus.Counter
	duration prometheus.Histogram
	failed   atomic.Pointer[error] // of the last batch, nil if it was written
}

// writable says why the last batch was not written, if it was not.
func (m *ledgerMetrics) writable() error {
	if err := m.failed.Load(); err != nil {
		return *err
	}
	return nil
}

func newLedgerMetrics(registry prometheus.Registerer, log *slog.Logger, next sqlledger.Observer) *ledgerMetrics {
	m := &ledgerMetrics{
		log: log, next: next,
		commits:  prometheus.NewCounter(prometheus.CounterOpts{Name: "drover_ledger_commits_total", Help: "Batches that were written."}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{Name: "drover_ledger_commit_failures_total", Help: "Batches that the database did not take."}),
		changes:  prometheus.NewCounter(prometheus.CounterOpts{Name: "drover_ledger_changes_total", Help: "Entries of the log."}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "drover_ledger_commit_duration_seconds", Help: "Duration of one batch.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 12),
		}),
	}
	registry.MustRegister(m.commits, m.failures, m.changes, m.duration)
	return m
}

// Committed implements sqlledger.Observer.
func (m *ledgerMetrics) Committed(requests, changes int, d time.Duration, err error) {
	if err != nil {
		m.failures.Inc()
		if fault.Is(err, fault.Unavailable) {
			m.failed.Store(&err)
		}
	} else {
		m.failed.Store(nil)
		m.commits.Inc()
		m.changes.Add(float64(changes))
		m.duration.Observe(d.Seconds())
	}
	if m.next != nil {
		m.next.Committed(requests, changes, d, err)
	}
}

// Warned implements sqlledger.Observer.
func (m *ledgerMetrics) Warned(text string) {
	m.log.Warn(text)
	if m.next != nil {
		m.next.Warned(text)
	}
}
