package cluster_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/breaker"
	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/offering"
	"github.com/droverhq/drover/internal/operation"
	"github.com/droverhq/drover/internal/reconcile"
	"github.com/droverhq/drover/internal/sqlledger"
)

// market sells one type with two sizes, and says who waits.
type market struct {
	off    *offering.Offering
	demand []cluster.Demanded
}

func (m *market) List() []*offering.Offering { return []*offering.Offering{m.off} }
func (m *market) Demand(context.Context, string, string) ([]cluster.Demanded, error) {
	return m.demand, nil
}

// guard lets nothing go until somebody approves.
type guard struct{ approved bool }

func (g *guard) Take(_ context.Context, r breaker.Removal) ([]ledger.Count, error) {
	if !g.approved {
		return nil, fault.New(fault.Exhausted, "too many clusters would go: approve %q: %w", r.Rule, &breaker.Waiting{Approval: "a1"}).Because("breaker")
	}
	return []ledger.Count{{Name: "breaker/" + r.Scope, Delta: 1, Max: -1}}, nil
}

// yard is a ledger with a profile that scales, on a clock of its own.
type yard struct {
	*testing.T
	*sqlledger.Ledger
	service *cluster.Service
	market  *market
	scaler  *cluster.ScaleReconciler
	now     time.Time
	ref     ledger.Ref
}

func newYard(t *testing.T, profile cluster.Profile) *yard {
	t.Helper()
	l, err := sqlledger.Open(t.Context(), sqlledger.Config{
		URL: filepath.Join(t.TempDir(), "l.db"), Kinds: []ledger.Kind{cluster.Kind, cluster.KindProfile, operation.Kind},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	off := &offering.Offering{Document: offering.Document{Metadata: offering.Metadata{Name: "kafka"}, Spec: offering.Spec{
		Types:     []offering.Type{{Name: "standard", Sizes: []offering.Size{{Name: "x1", Capacity: 1}, {Name: "x4", Capacity: 4}}}},
		Providers: []offering.Provider{{Name: "aws", Regions: []offering.Region{{Name: "east", Limits: map[string]int64{"standard": 100}}}}},
	}}}
	y := &yard{T: t, Ledger: l, service: cluster.NewService(l), market: &market{off: off}, now: time.Now().UTC(),
		ref: ledger.Ref{Kind: cluster.KindProfile.Name, ID: "small"}}
	y.scaler = &cluster.ScaleReconciler{
		Clusters: y.service, Sold: y.market, Demand: y.market, Fleet: cluster.Scaled{Service: y.service}, Now: func() time.Time { return y.now },
	}
	spec, err := json.Marshal(profile)
	if err != nil {
		t.Fatal(err)
	}
	y.commit(ledger.Set{Puts: []ledger.Put{{Object: ledger.Object{Ref: y.ref, Spec: spec, Status: json.RawMessage(`{"other":1}`)}, Op: "create"}}})
	return y
}

func (y *yard) commit(set ledger.Set) {
	y.Helper()
	set.Actor, set.Cause = "test", ledger.BySchedule("test")
	if _, err := y.Commit(y.Context(), set); err != nil {
		y.Fatal(err)
	}
}

// run reconciles until nothing is to be done at once, and returns what is written then.
func (y *yard) run() cluster.ScaleState {
	y.Helper()
	for range 5 {
		r, err := y.scaler.Reconcile(y.Context(), reconcile.Task{Ref: y.ref})
		if err != nil {
			y.Fatal(err)
		}
		if len(r.Write.Puts) > 0 {
			if _, err := y.Commit(y.Context(), r.Write); err != nil {
				y.Fatal(err)
			}
		}
		if r.Again {
			continue
		}
		if !r.Next || r.After != time.Minute {
			y.Fatalf("it does not come back: %+v", r)
		}
		o, err := y.Get(y.Context(), y.ref)
		if err != nil || !strings.Contains(string(o.Status), `"other":1`) {
			y.Fatalf("%s, %v", o.Status, err)
		}
		return cluster.Scalings(o)[0]
	}
	y.Fatal("it never rests")
	return cluster.ScaleState{}
}

func (y *yard) clusters() []ledger.Object {
	y.Helper()
	found, err := y.Ledger.List(y.Context(), ledger.Query{Kind: cluster.Kind.Name})
	if err != nil {
		y.Fatal(err)
	}
	return found
}

// comes lets a cluster become ready with ten units.
func (y *yard) comes(o ledger.Object) {
	y.Helper()
	o.Phase = cluster.Ready
	o.Status, _ = json.Marshal(cluster.Status{Capacity: 10})
	y.commit(ledger.Set{Puts: []ledger.Put{{Object: o, Expect: o.Version, Op: "ready"}}})
}

var scaled = cluster.Profile{
	Maker: "template", Units: 10, Serves: []cluster.Serves{{Provider: "aws", Regions: []string{"east"}}},
	Labels: map[string]string{"tier": "small"}, Scaling: cluster.Scaling{Mode: cluster.ScalingOn},
}

func TestTheFleetGrowsAndShrinks(t *testing.T) {
	y := newYard(t, scaled)
	state := y.run()
	made := y.clusters()
	if len(made) != 1 || state.Do != cluster.Up || state.Pending || state.Cluster != made[0].ID || state.At.IsZero() {
		t.Fatalf("%d clusters: %+v", len(made), state)
	}
	spec, _, err := cluster.Decode(made[0])
	if err != nil || !spec.Fleet || spec.Profile != "small" || spec.Labels["tier"] != "small" || made[0].Phase != cluster.Accepted {
		t.Errorf("%s: %+v, %v", made[0].Phase, spec, err)
	}
	if state = y.run(); len(y.clusters()) != 1 || state.Do != cluster.Stay {
		t.Fatalf("one that comes is enough: %+v", state)
	}
	y.comes(made[0])
	y.market.demand = []cluster.Demanded{{Offering: "kafka", Type: "standard", Taken: 8, Queued: []int64{4, 4}}}
	y.now = y.now.Add(11 * time.Minute)
	state = y.run()
	before := head(t, y)
	if y.run(); head(t, y) != before {
		t.Errorf("%d changes say what was said", head(t, y)-before)
	}
	if state.Do != cluster.Stay || state.Code != "enough" {
		t.Fatalf("eight of ten units are queued, the largest fits: %+v", state)
	}
	y.market.demand[0].Queued = []int64{4, 4, 4}
	if state = y.run(); state.Do != cluster.Up || len(y.clusters()) != 2 {
		t.Fatalf("twelve units wait for ten: %+v", state)
	}
	y.market.demand = nil
	for _, o := range y.clusters() {
		if o.Phase != cluster.Ready {
			y.comes(o)
		}
	}
	if state = y.run(); len(state.Spare) != 2 || state.Code != "idle" {
		t.Fatalf("either of the two is spare: %+v", state)
	}
	g := &guard{}
	y.scaler.Guard = g
	y.now = y.now.Add(time.Hour)
	if state = y.run(); state.Code != "held" || !strings.Contains(state.Reason, "approve") {
		t.Fatalf("the breaker holds it: %+v", state)
	}
	for approval, want := range map[string]int{"a1": 1, "another": 0} {
		wakes, _, err := y.scaler.Awaiting(t.Context(), approval, "", 10)
		n, failed := y.scaler.CountAwaiting(t.Context(), approval)
		if err != nil || failed != nil || len(wakes) != want || n != int64(want) || want > 0 && wakes[0].Ref != y.ref {
			t.Errorf("%s is awaited by %v, %d: %v, %v", approval, wakes, n, err, failed)
		}
	}
	g.approved = true
	if state = y.run(); state.Do != cluster.Down || state.Pending {
		t.Fatalf("approved, and not gone: %+v", state)
	}
	if n, err := y.scaler.CountAwaiting(t.Context(), "a1"); err != nil || n != 0 {
		t.Errorf("%d wait for what was approved, %v", n, err)
	}
	gone := 0
	for _, o := range y.clusters() {
		if spec, _, _ := cluster.Decode(o); spec.Deleted {
			gone++
		}
	}
	if n, err := y.Counter(t.Context(), "breaker/clusters"); gone != 1 || n != 1 || err != nil {
		t.Errorf("%d clusters go, %d are counted, %v", gone, n, err)
	}
}

func TestARegionsLimitIsNoReasonToGrow(t *testing.T) {
	y := newYard(t, scaled)
	y.market.demand = []cluster.Demanded{{Offering: "kafka", Type: "standard", Taken: 100}}
	if state := y.run(); state.Do != cluster.Stay || len(y.clusters()) != 0 {
		t.Errorf("nothing more can be sold: %+v", state)
	}
}

func TestDryRunOnlySays(t *testing.T) {
	profile := scaled
	profile.Scaling.Mode = cluster.ScalingDryRun
	y := newYard(t, profile)
	if state := y.run(); state.Do != cluster.Up || !state.DryRun || len(y.clusters()) != 0 {
		t.Errorf("%+v, %d clusters", state, len(y.clusters()))
	}
	before := head(t, y)
	if y.run(); head(t, y) != before {
		t.Error("it is said again and again")
	}
}

// A decision that was written down and not carried out is carried out once.
func TestACrashBetweenWordAndDeed(t *testing.T) {
	y := newYard(t, scaled)
	r, err := y.scaler.Reconcile(t.Context(), reconcile.Task{Ref: y.ref})
	if err != nil || !r.Again {
		t.Fatal(r, err)
	}
	y.commit(r.Write)
	for range 2 { // the one before died after the deed, before it was written down
		if _, err := y.scaler.Reconcile(t.Context(), reconcile.Task{Ref: y.ref}); err != nil {
			t.Fatal(err)
		}
	}
	if state := y.run(); len(y.clusters()) != 1 || state.Pending {
		t.Errorf("%d clusters, %+v", len(y.clusters()), state)
	}
}
