package kubeapi

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
)

// meters count what is handed over. What the ledger has comes from its own
// counters when it is asked for, under the names that dashboards of the earlier
// service have.
type meters struct {
	intents                              *prometheus.CounterVec
	synced, active, operations, failures *prometheus.Desc
	shown, reconciled                    *prometheus.Desc // of the fleet's Argo CDs
	states                               []state
	lately                               []*window
}

// state is a gauge of operations by their phases.
type state struct {
	desc   *prometheus.Desc
	phases []string
}

// states are those that dashboards know. Nothing waits to be begun here: what is
// written down is under way.
func states() (out []state) {
	ended := []string{operation.Succeeded, operation.Failed, operation.Superseded}
	for _, s := range []struct {
		name, help string
		phases     []string
	}{
		{"operationDB_rows_in_waiting_state", "Operations that nobody has begun: none, they begin with their commit.", nil},
		{"operationDB_rows_in_in_progress_state", "Operations that are under way.", []string{operation.Running}},
		{"operationDB_rows_in_completed_state", "Operations that succeeded, or that a later one took the place of.", []string{operation.Succeeded, operation.Superseded}},
		{"operationDB_rows_in_error_state", "Operations that failed.", []string{operation.Failed}},
		{"total_operationDB_rows_in_complete_state", "Operations that have ended.", ended},
		{"operationDB_rows_in_non_complete_state", "Operations that have not ended.", []string{operation.Running}},
	} {
		out = append(out, state{prometheus.NewDesc(s.name, s.help, nil, nil), s.phases})
	}
	return out
}

// of is how many operations are in the state.
func (s state) of(totals []ledger.Total) (n int64) {
	for _, t := range totals {
		if slices.Contains(s.phases, t.Values[0]) {
			n += t.N
		}
	}
	return n
}

// windowLasts is how long operations that end are counted before it begins anew, as
// dashboards know it.
const windowLasts = 10 * time.Minute

// window counts operations that have ended since it began, as far as this replica was
// asked.
type window struct {
	state
	mu    sync.Mutex
	began time.Time
	base  int64
}

func windows() []*window {
	return []*window{
		{state: state{prometheus.NewDesc("operationDB_completedState", "Operations that succeeded within the last ten minutes at most; begins anew every ten minutes.", nil, nil), []string{operation.Succeeded, operation.Superseded}}},
		{state: state{prometheus.NewDesc("operationDB_failedState", "Operations that failed within the last ten minutes at most; begins anew every ten minutes.", nil, nil), []string{operation.Failed}}},
	}
}

// since is how much there is more than when the window began. Old operations are
// removed, so that it may be less: then nothing is known to have ended.
func (w *window) since(n int64, now time.Time) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.began.IsZero() || now.Sub(w.began) >= windowLasts {
		w.began, w.base = now, n
	}
	w.base = min(w.base, n)
	return n - w.base
}

func newMeters(home string) *meters {
	labels := prometheus.Labels{"home": home}
	return &meters{
		intents: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "drover_kubernetes_intents_total", ConstLabels: labels,
			Help: "Custom resources that were handed to the ledger by this replica: taken, or failed and to be tried again.",
		}, []string{"kind", "outcome"}),
		synced:     prometheus.NewDesc("drover_kubernetes_synced", "1 while this replica follows the custom resources, 0 while it cannot.", nil, labels),
		active:     prometheus.NewDesc("active_gitopsDeployments", "Deployments that are not gone, of all tenants.", nil, nil),
		operations: prometheus.NewDesc("total_number_of_operationDB_rows", "Operations that the ledger has.", nil, nil),
		failures:   prometheus.NewDesc("gitopsDeployments_failures", "Deployments that have failed: what was asked for, or what became of it, is in trouble, as each tells.", nil, nil),
		shown: prometheus.NewDesc("number_of_operationsCR",
			"Operations that agents beside Argo CD show as custom resources, as they were counted within the last three minutes.", nil, nil),
		reconciled: prometheus.NewDesc("gitops_argocd_apps_reconciled_percent",
			"Share of the Applications that Argo CD has compared within three minutes, as it was counted within the last three; missing where there are none.", nil, nil),
		states: states(),
		lately: windows(),
	}
}

// count notes how handing over ended.
func (m *meters) count(k key, err error) {
	outcome := "taken"
	if err != nil {
		outcome = "failed"
	}
	if !k.mend {
		m.intents.WithLabelValues(k.kind, outcome).Inc()
	}
}

// Describe implements prometheus.Collector.
func (c *Controllers) Describe(out chan<- *prometheus.Desc) {
	c.meters.intents.Describe(out)
	out <- c.meters.synced
	if c.Tally != nil {
		out <- c.meters.active
		out <- c.meters.operations
		out <- c.meters.failures
		for _, s := range c.meters.states {
			out <- s.desc
		}
		for _, w := range c.meters.lately {
			out <- w.desc
		}
	}
	if c.Argo != nil {
		out <- c.meters.shown
		out <- c.meters.reconciled
	}
}

// Collect implements prometheus.Collector. While the ledger is away what it has is
// left out rather than told wrongly.
func (c *Controllers) Collect(out chan<- prometheus.Metric) {
	c.meters.intents.Collect(out)
	synced := 0.0
	if c.Synced() {
		synced = 1
	}
	out <- prometheus.MustNewConstMetric(c.meters.synced, prometheus.GaugeValue, synced)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	c.collectArgo(ctx, out)
	if c.Tally == nil {
		return
	}
	for _, m := range []struct {
		desc *prometheus.Desc
		kind ledger.Kind
	}{{c.meters.active, gitops.KindDeployment}, {c.meters.operations, operation.Kind}} {
		totals, err := c.Tally.Totals(ctx, m.kind.Name, []string{})
		if err != nil {
			continue
		}
		var n int64 // none is told too
		for _, t := range totals {
			n += t.N
		}
		out <- prometheus.MustNewConstMetric(m.desc, prometheus.GaugeValue, float64(n))
	}
	if totals, err := c.Tally.Totals(ctx, gitops.KindDeployment.Name, []string{"phase"}); err == nil {
		failed := state{phases: []string{gitops.Failed}}
		out <- prometheus.MustNewConstMetric(c.meters.failures, prometheus.GaugeValue, float64(failed.of(totals)))
	}
	totals, err := c.Tally.Totals(ctx, operation.Kind.Name, []string{"phase"})
	if err != nil {
		return
	}
	for _, s := range c.meters.states {
		out <- prometheus.MustNewConstMetric(s.desc, prometheus.GaugeValue, float64(s.of(totals)))
	}
	for _, w := range c.meters.lately {
		out <- prometheus.MustNewConstMetric(w.desc, prometheus.GaugeValue, float64(w.since(w.of(totals), c.Home.Now())))
	}
}

// collectArgo tells what the fleet's Argo CDs have. A share of nothing is not told.
func (c *Controllers) collectArgo(ctx context.Context, out chan<- prometheus.Metric) {
	if c.Argo == nil {
		return
	}
	a, err := c.Argo(ctx)
	if err != nil {
		return
	}
	out <- prometheus.MustNewConstMetric(c.meters.shown, prometheus.GaugeValue, float64(a.Operations))
	if a.Applications > 0 {
		out <- prometheus.MustNewConstMetric(c.meters.reconciled, prometheus.GaugeValue, 100*float64(a.Reconciled)/float64(a.Applications))
	}
}
