package app

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
	"github.com/droverhq/drover/internal/subscription"
)

// stateMetrics tells how many things there are in which state, and how far what
// follows the log is behind it. All of it is read when it is asked for, but for what
// the broker has to be asked: every replica tells the same.
type stateMetrics struct {
	store stateStore
	aside bus.Aside
	now   func() time.Time

	mu      sync.Mutex
	counted time.Time // when what was put aside was counted last, or could not be
	found   int       // how many there were; negative: nobody knows

	environments, deployments, operations, clusters *prometheus.Desc
	subscriptions, behind, failing                  *prometheus.Desc
	unsealed, unsealedAge, dead                     *prometheus.Desc
}

// stateStore is what it is read from.
type stateStore interface {
	ledger.Tally
	ledger.Past
	List(ctx context.Context, query ledger.Query) ([]ledger.Object, error)
}

func newStateMetrics(registry prometheus.Registerer, store stateStore, aside bus.Aside) *stateMetrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	m := &stateMetrics{
		store: store, aside: aside, now: time.Now,
		environments:  desc("drover_environments", "Environments that are not gone.", "status"),
		deployments:   desc("drover_deployments", "Deployments that are not gone.", "sync", "health"),
		operations:    desc("drover_operations", "Operations that are listed.", "status"),
		clusters:      desc("drover_clusters", "Clusters that are not gone.", "status"),
		subscriptions: desc("drover_subscriptions", "Subscriptions by where they tell.", "to", "status"),
		behind:        desc("drover_events_behind", "Changes of the log that the subscription furthest behind has not come to.", "to"),
		failing:       desc("drover_subscription_failing_seconds", "How long the subscription that fails longest has failed.", "to"),
		unsealed:      desc("drover_ledger_unsealed_changes", "Changes that are in no sealed block yet."),
		unsealedAge:   desc("drover_ledger_unsealed_seconds", "Age of the oldest change that is in no sealed block yet."),
		dead:          desc("drover_messages_aside", "Messages that nobody could take and that were put aside."),
	}
	registry.MustRegister(m)
	return m
}

// Describe implements prometheus.Collector.
func (m *stateMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.environments, m.deployments, m.operations, m.clusters, m.subscriptions, m.behind, m.failing, m.unsealed, m.unsealedAge, m.dead} {
		out <- d
	}
}

// Collect implements prometheus.Collector. What cannot be asked is left out rather
// than told wrongly.
func (m *stateMetrics) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	gauge := func(d *prometheus.Desc, n float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, n, labels...)
	}
	m.collectStates(ctx, gauge)
	m.collectReaders(ctx, gauge)
	if n := m.putAside(ctx); n >= 0 {
		gauge(m.dead, float64(n))
	}
}

// countEvery is how often what was put aside is counted at most: each time costs the
// broker a connection, and everybody who likes may scrape as often as they like.
const countEvery = 30 * time.Second

// putAside is how much was, as it was counted last; negative if nobody knows.
func (m *stateMetrics) putAside(ctx context.Context) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	if !m.counted.IsZero() && now.Sub(m.counted) < countEvery {
		return m.found
	}
	soon, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	n, err := m.aside.Count(soon)
	if err != nil {
		n = -1
	}
	m.counted, m.found = now, n
	return n
}

type measures func(d *prometheus.Desc, n float64, labels ...string)

// known are the words that agents may use for a deployment; others are "other", so
// that no agent can make up series.
var known = map[string][]string{
	"sync":   {"", "Synced", "OutOfSync", "Unknown"},
	"health": {"", "Healthy", "Progressing", "Degraded", "Suspended", "Missing", "Unknown"},
}

func (m *stateMetrics) collectStates(ctx context.Context, gauge measures) {
	for _, k := range []struct {
		desc  *prometheus.Desc
		kind  string
		scope []string
	}{
		{m.environments, environment.Kind.Name, environment.Census}, {m.operations, operation.Kind.Name, operation.Census},
		{m.deployments, gitops.KindDeployment.Name, gitops.Census},
	} {
		totals, err := m.store.Totals(ctx, k.kind, k.scope)
		if err != nil {
			continue
		}
		sums := map[[2]string]int64{}
		for _, t := range totals {
			var at [2]string
			for i, v := range t.Values {
				if words, ok := known[k.scope[i]]; ok && !slices.Contains(words, v) {
					v = "other"
				}
				at[i] = v
			}
			sums[at] += t.N
		}
		for at, n := range sums {
			gauge(k.desc, float64(n), at[:len(k.scope)]...)
		}
	}
	clusters, err := m.store.List(ctx, ledger.Query{Kind: cluster.Kind.Name, Limit: ledger.MaxPage})
	if err != nil {
		return
	}
	phases := map[string]int{}
	for _, o := range clusters {
		phases[o.Phase]++
	}
	for phase, n := range phases {
		gauge(m.clusters, float64(n), phase)
	}
}

// mostSubscriptions are looked at: a scrape costs the same however many there are.
const mostSubscriptions = 1000

// collectReaders tells how far the readers of the log have come: subscriptions, and
// what seals it.
func (m *stateMetrics) collectReaders(ctx context.Context, gauge measures) {
	head, err := m.store.Head(ctx)
	if err != nil {
		return
	}
	if blocks, err := m.store.Blocks(ctx, 0, -1); err == nil {
		last := int64(0)
		if len(blocks) > 0 {
			last = blocks[0].Last
		}
		age := 0.0
		if first, err := m.store.Entries(ctx, last, 1); err == nil && len(first) > 0 {
			age = max(0, m.now().Sub(time.UnixMicro(first[0].At)).Seconds())
		}
		gauge(m.unsealed, float64(max(0, head.Seq-last)))
		gauge(m.unsealedAge, age)
	}
	all, err := m.store.List(ctx, ledger.Query{Kind: subscription.Kind.Name, Limit: mostSubscriptions})
	if err != nil {
		return
	}
	counts, behind, failing := map[[2]string]int{}, map[string]int64{}, map[string]float64{}
	for _, o := range all {
		s, err := subscription.Decode(o)
		if err != nil {
			continue
		}
		to := s.Spec.To
		counts[[2]string{to, s.Phase}]++
		if s.Phase == subscription.Disabled || s.Spec.Off {
			continue // it is not sent anything, and catches up when it is again
		}
		behind[to] = max(behind[to], head.Seq-s.Status.Cursor)
		failing[to] = max(failing[to], 0)
		if s.Phase == subscription.Failing && !s.Status.Since.IsZero() {
			failing[to] = max(failing[to], m.now().Sub(s.Status.Since).Seconds())
		}
	}
	for at, n := range counts {
		gauge(m.subscriptions, float64(n), at[0], at[1])
	}
	for to, n := range behind {
		gauge(m.behind, float64(n), to)
		gauge(m.failing, failing[to], to)
	}
}
