package app_test

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/droverhq/drover/internal/app"
	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/bus/inprocess"
	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/sqlledger"
	"github.com/droverhq/drover/internal/subscription"
)

// gauges are what a registry tells now, by name and labels.
func gauges(t *testing.T, r *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			out[f.GetName()+"{"+strings.Join(labels, ",")+"}"] = m.GetGauge().GetValue()
		}
	}
	return out
}

func TestStatesAreCounted(t *testing.T) {
	l, err := sqlledger.Open(t.Context(), sqlledger.Config{URL: filepath.Join(t.TempDir(), "ledger.db"), Kinds: app.Kinds()})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	now := time.Now()
	registry := prometheus.NewRegistry()
	app.StateMetrics(registry, l, func() time.Time { return now.Add(time.Hour) })
	put := func(o ledger.Object) {
		t.Helper()
		if o.Spec == nil {
			o.Spec = []byte(`{}`)
		}
		if _, err := l.Commit(t.Context(), ledger.Set{Actor: "alice", Cause: "request:r1", Puts: []ledger.Put{{Op: "create", Object: o}}}); err != nil {
			t.Fatal(err)
		}
	}
	put(ledger.Object{Ref: ledger.Ref{Kind: environment.Kind.Name, ID: "e1"}, Phase: environment.OK})
	put(ledger.Object{Ref: ledger.Ref{Kind: environment.Kind.Name, ID: "e2"}, Phase: environment.OK})
	for id, words := range map[string][2]string{"d1": {"Synced", "Healthy"}, "d2": {"made up", "by an agent"}, "d3": {"made up", "by another"}} {
		put(ledger.Object{Ref: ledger.Ref{Kind: gitops.KindDeployment.Name, ID: id}, Fields: ledger.Fields{"sync": words[0], "health": words[1]}})
	}
	sub := func(id, to, phase string, s subscription.Status) {
		spec, _ := json.Marshal(subscription.Spec{To: to})
		status, _ := json.Marshal(s)
		put(ledger.Object{Ref: ledger.Ref{Kind: subscription.Kind.Name, ID: id}, Phase: phase, Spec: spec, Status: status})
	}
	sub("bus", subscription.ToBus, subscription.Active, subscription.Status{Cursor: 3})
	sub("w1", subscription.ToWebhook, subscription.Failing, subscription.Status{Cursor: 1, Since: now})
	sub("w2", subscription.ToWebhook, subscription.Disabled, subscription.Status{Since: now.Add(-time.Hour)})
	got := gauges(t, registry)
	age := got["drover_ledger_unsealed_seconds{}"]
	if age < 600 || age > 7200 {
		t.Errorf("the oldest change is %v s old", age)
	}
	delete(got, "drover_ledger_unsealed_seconds{}")
	failing := got["drover_subscription_failing_seconds{to=webhook}"]
	if failing < 3590 || failing > 3610 {
		t.Errorf("the webhook has failed for %v s", failing)
	}
	delete(got, "drover_subscription_failing_seconds{to=webhook}")
	want := map[string]float64{
		"drover_environments{status=" + environment.OK + "}": 2,
		"drover_deployments{health=Healthy,sync=Synced}":     1,
		"drover_deployments{health=other,sync=other}":        2, // no agent can make up series
		"drover_subscriptions{status=active,to=bus}":         1,
		"drover_subscriptions{status=failing,to=webhook}":    1,
		"drover_subscriptions{status=disabled,to=webhook}":   1,
		"drover_events_behind{to=bus}":                       5,
		"drover_events_behind{to=webhook}":                   7,
		"drover_subscription_failing_seconds{to=bus}":        0,
		"drover_ledger_unsealed_changes{}":                   8,
		"drover_messages_aside{}":                            0,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the gauges (-want +got):\n%s", diff)
	}
}

// asides counts how often it is asked.
type asides struct {
	bus.Aside
	n, asked int
	err      error
}

func (a *asides) Count(context.Context) (int, error) {
	a.asked++
	return a.n, a.err
}

// A broker is not asked at every scrape, and what it did not say is left out.
func TestTheBrokerIsNotAskedAtEveryScrape(t *testing.T) {
	l, err := sqlledger.Open(t.Context(), sqlledger.Config{URL: filepath.Join(t.TempDir(), "ledger.db"), Kinds: app.Kinds()})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	now, a, registry := time.Now(), &asides{n: 3}, prometheus.NewRegistry()
	app.MessageAsideMetrics(registry, l, a, func() time.Time { return now })
	for _, c := range []struct {
		reason  string
		later   time.Duration
		n       int
		err     error
		asked   int
		want    float64
		unknown bool
	}{
		{reason: "the first time", n: 3, asked: 1, want: 3},
		{reason: "a moment later it is the same", later: 29 * time.Second, n: 4, asked: 1, want: 3},
		{reason: "and then it is counted", later: time.Second, n: 4, asked: 2, want: 4},
		{reason: "a broker that is away says nothing", later: 30 * time.Second, err: errors.New("away"), asked: 3, unknown: true},
		{reason: "and is left alone", later: 10 * time.Second, n: 5, asked: 3, unknown: true},
		{reason: "until it is asked again", later: 20 * time.Second, n: 5, asked: 4, want: 5},
	} {
		now, a.n, a.err = now.Add(c.later), c.n, c.err
		got, known := gauges(t, registry)["drover_messages_aside{}"]
		if a.asked != c.asked || known == c.unknown || got != c.want {
			t.Errorf("%s: asked %d times, %v (%t)", c.reason, a.asked, got, known)
		}
	}
}

// consumed is a broker whose commands come here, or do not.
type consumed struct {
	bus.Bus
	queues map[string]bool
}

func (c consumed) Taking(queue string) bool { return c.queues[queue] }

// Whether commands come to a replica is told, where a broker brings them.
func TestWhoTakesCommandsIsTold(t *testing.T) {
	for _, c := range []struct {
		reason string
		bus    bus.Bus
		want   map[string]float64
	}{
		{"they come", consumed{queues: map[string]bool{"drover.commands": true}}, map[string]float64{"drover_command_consumers{}": 1}},
		{"the queue is another's", consumed{queues: map[string]bool{"drover.other": true}}, map[string]float64{"drover_command_consumers{}": 0}},
		{"there is no broker", inprocess.New(inprocess.Config{}), map[string]float64{}},
	} {
		registry := prometheus.NewRegistry()
		app.ConsumerMetrics(registry, c.bus)
		if diff := cmp.Diff(c.want, gauges(t, registry)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.reason, diff)
		}
	}
}

// Alerts choose buckets by their bounds: those are there.
func TestBucketsOfObjectivesAreThere(t *testing.T) {
	registry := prometheus.NewRegistry()
	app.ObserveForObjectives(registry)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	bounds := map[string]map[float64]bool{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, b := range m.GetHistogram().GetBucket() {
				if bounds[f.GetName()] == nil {
					bounds[f.GetName()] = map[float64]bool{}
				}
				bounds[f.GetName()][b.GetUpperBound()] = true
			}
		}
	}
	for name, bound := range map[string]float64{"drover_instance_time_to_ready_seconds": 30.517578125, "drover_event_age_seconds": 1} {
		if !bounds[name][bound] {
			t.Errorf("%s has no bucket up to %v: the rules of deploy/observability ask for it", name, bound)
		}
	}
}
