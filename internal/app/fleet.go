package app

import (
	"context"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
	"github.com/droverhq/drover/internal/reconcile"
)

// fleetMetrics tells how the fleet is. What there is comes from the ledger's own
// counters when it is asked for: every replica tells the same, from its first
// moment on, however large the fleet is. What happens is counted by the replica
// that did it: the sum over replicas is the whole.
type fleetMetrics struct {
	store   fleetStore
	ready   *prometheus.HistogramVec
	expired *prometheus.CounterVec

	instances, expiring  *prometheus.Desc
	units, used          *prometheus.Desc
	typeUnits, usedTypes *prometheus.Desc
}

// fleetStore is what the gauges are read from.
type fleetStore interface {
	ledger.Tally
	List(ctx context.Context, query ledger.Query) ([]ledger.Object, error)
}

const expiringWithin = 24 * time.Hour

func newFleetMetrics(registry prometheus.Registerer, store fleetStore) *fleetMetrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	m := &fleetMetrics{
		store: store,
		ready: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "drover_instance_time_to_ready_seconds", Help: "Time from the order of an instance until it was ready first.",
			Buckets: prometheus.ExponentialBuckets(0.05, 2.5, 14),
		}, []string{"offering"}),
		expired: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "drover_instances_expired_total", Help: "Instances that were deprovisioned because their lifespan ended.",
		}, []string{"offering"}),
		instances: desc("drover_instances", "Instances that are not gone.", "offering", "status", "type", "provider", "region"),
		expiring:  desc("drover_instances_expiring", "Instances whose lifespan ends within a day, to the hour, or has ended.", "offering"),
		units:     desc("drover_cluster_units", "Units that fit on a cluster in all.", "cluster", "provider", "region"),
		used:      desc("drover_cluster_units_used", "Units that are in use on a cluster.", "cluster", "provider", "region"),
		typeUnits: desc("drover_cluster_type_units", "Units of an instance type that fit on a cluster, where its agent tells them apart.",
			"cluster", "provider", "region", "offering", "type"),
		usedTypes: desc("drover_cluster_type_units_used", "Units that an instance type uses on a cluster.",
			"cluster", "provider", "region", "offering", "type"),
	}
	registry.MustRegister(m.ready, m.expired, m)
	return m
}

// Describe implements prometheus.Collector.
func (m *fleetMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.instances, m.expiring, m.units, m.used, m.typeUnits, m.usedTypes} {
		out <- d
	}
}

// Collect implements prometheus.Collector. While the store is away the gauges
// are left out rather than told wrongly.
func (m *fleetMetrics) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	gauge := func(d *prometheus.Desc, n int64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), labels...)
	}
	m.collectInstances(ctx, gauge)
	m.collectClusters(ctx, gauge)
}

type gauges func(d *prometheus.Desc, n int64, labels ...string)

func (m *fleetMetrics) collectInstances(ctx context.Context, gauge gauges) {
	census, err := m.store.Totals(ctx, instance.Kind.Name, instance.Census)
	if err != nil {
		return
	}
	expiring := map[string]int64{}
	for _, t := range census {
		phase, offering := t.Values[0], t.Values[1]
		gauge(m.instances, t.N, append([]string{offering, phase}, t.Values[2:]...)...)
		expiring[offering] = 0 // none is told too
	}
	ends, err := m.store.Totals(ctx, instance.Kind.Name, instance.Ends)
	if err != nil {
		return
	}
	soon := time.Now().Add(expiringWithin)
	for _, t := range ends {
		if hour, err := time.Parse(time.RFC3339, t.Values[0]); err == nil && hour.Before(soon) {
			expiring[t.Values[1]] += t.N
		}
	}
	for offering, n := range expiring {
		gauge(m.expiring, n, offering)
	}
}

// collectClusters lists the clusters, which are few, and their counters.
func (m *fleetMetrics) collectClusters(ctx context.Context, gauge gauges) {
	clusters, err := m.store.List(ctx, ledger.Query{Kind: cluster.Kind.Name, Limit: ledger.MaxPage})
	if err != nil {
		return
	}
	counters, err := m.store.Counters(ctx, cluster.CapacityCounter(""))
	if err != nil {
		return
	}
	used := map[string]map[string]int64{} // by cluster and "<offering>/<type>"
	for name, n := range counters {
		id, typ, apart := strings.Cut(strings.TrimPrefix(name, cluster.CapacityCounter("")), "/")
		if apart {
			if used[id] == nil {
				used[id] = map[string]int64{}
			}
			used[id][typ] = n
		}
	}
	for _, o := range clusters {
		spec, status, err := cluster.Decode(o)
		if err != nil {
			continue
		}
		gauge(m.units, status.Capacity, o.ID, spec.Provider, spec.Region)
		gauge(m.used, cluster.InUse(counters[cluster.CapacityCounter(o.ID)]), o.ID, spec.Provider, spec.Region)
		for typ, units := range status.Units {
			if offering, name, ok := strings.Cut(typ, "/"); ok {
				gauge(m.typeUnits, units.Max, o.ID, spec.Provider, spec.Region, offering, name)
				gauge(m.usedTypes, used[o.ID][typ], o.ID, spec.Provider, spec.Region, offering, name)
				delete(used[o.ID], typ)
			}
		}
		for typ, n := range used[o.ID] {
			if offering, name, ok := strings.Cut(typ, "/"); ok {
				gauge(m.usedTypes, n, o.ID, spec.Provider, spec.Region, offering, name)
			}
		}
	}
}

// fleetLedger is the loop's ledger, with an eye on what it writes.
type fleetLedger struct {
	reconcile.Ledger
	fleet *fleetMetrics
}

// Commit implements reconcile.Ledger.
func (l fleetLedger) Commit(ctx context.Context, set ledger.Set) (ledger.Result, error) {
	result, err := l.Ledger.Commit(ctx, set)
	if err == nil {
		l.fleet.written(set, result)
	}
	return result, err
}

// written looks for the two moves that are counted: an order that has come to
// its end, and an end that has come.
func (m *fleetMetrics) written(set ledger.Set, result ledger.Result) {
	if len(set.Puts) == 0 || len(result.Objects) == 0 || result.Objects[0].Kind != instance.Kind.Name {
		return
	}
	in := result.Objects[0] // the reconciler writes its instance first
	offering, _ := in.Fields["offering"].(string)
	if set.Puts[0].Op == instance.Deprovision && set.Cause == ledger.BySchedule(instance.LifespanOver) {
		m.expired.WithLabelValues(offering).Inc()
	}
	for _, o := range result.Objects[1:] {
		if o.Kind == operation.Kind.Name && o.Parent == in.ID && o.Fields["verb"] == "create" &&
			o.Phase == operation.Succeeded && in.Phase == instance.Ready {
			m.ready.WithLabelValues(offering).Observe(in.Updated.Sub(in.Created).Seconds())
		}
	}
}
