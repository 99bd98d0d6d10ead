package instance_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/offering"
)

// calm lets everybody do what there is to do.
func (w *world) calm() {
	all := func(string) bool { return true }
	for range 20 {
		w.work()
		w.apply(all)
		w.report(all)
		w.clock = w.clock.Add(time.Second)
	}
}

func TestWhatIsSpreadIsCountedAndGivenBack(t *testing.T) {
	for by, counter := range map[string]string{
		offering.ByTenant: cluster.TenantCounter("band", "acme", "local"),
		offering.ByZone:   cluster.ZoneCounter("band", "local", "local", ""),
	} {
		t.Run(by, func(t *testing.T) {
			w, out, off := newStage(t)
			off.Spec.Placement = offering.Placement{Strategy: offering.Spread, By: by}
			w.order("band", instance.Create{Name: "queen"})
			in := w.order("band", instance.Create{Name: "kiss"})
			w.calm()
			if n := w.counter(counter); n != 2 {
				t.Errorf("%s is %d", counter, n)
			}
			for _, in := range w.instances(false) {
				if in.Phase != instance.Ready || !strings.HasPrefix(in.Status.Placed, "it is the only cluster with room") {
					t.Errorf("%s is %s, placed because %q", in.Name, in.Phase, in.Status.Placed)
				}
			}
			off.Spec.Placement = offering.Placement{} // what was taken is given back whatever the file says by then
			_, err := w.service.Delete(alice, "band", in.ID)
			w.must(err)
			w.calm()
			if n := w.counter(counter); n != 1 {
				t.Errorf("%s is %d after one went", counter, n)
			}
			_, err = w.service.Delete(alice, "band", "queen")
			w.must(err)
			w.calm()
			if n := w.counter(counter); n != 0 {
				t.Errorf("%s is %d after all went", counter, n)
			}
			out.nothingLeft(w)
		})
	}
}

// What an order waits for is said so that an operator knows what to do, and in
// words that do not change with each cluster.
func TestAnOrderSaysWhatItWaitsFor(t *testing.T) {
	for _, c := range []struct {
		reason string
		barred map[cluster.Bar]int
		own    string
		want   string
	}{
		{"no cluster stands there", nil, "", "waiting for a ready cluster in region here of local: there is none"},
		{"some are full, whatever else there is", map[cluster.Bar]int{cluster.NoRoom: 3, cluster.NotReady: 1}, "", "waiting for room in region here of local: its clusters are full"},
		{"an operator's limit is reached", map[cluster.Bar]int{cluster.LimitReached: 1}, "", "waiting for room in region here of local: its clusters are full"},
		{"full and set aside", map[cluster.Bar]int{cluster.NoRoom: 1, cluster.Draining: 1}, "", "waiting for room in region here of local: its clusters are full, or take no new orders"},
		{"all are cordoned", map[cluster.Bar]int{cluster.Unschedulable: 2}, "", "waiting for a ready cluster in region here of local: its clusters take no new orders"},
		{"none has an agent", map[cluster.Bar]int{cluster.NotReady: 2}, "", "waiting for a ready cluster in region here of local: its clusters are not ready"},
		{"a step is missing", map[cluster.Bar]int{cluster.Unfit: 1}, "", "waiting for a ready cluster in region here of local: its clusters are not ready"},
		{"they are for others", map[cluster.Bar]int{cluster.OtherOffering: 1, cluster.Tainted: 4}, "", "waiting for a ready cluster in region here of local: its clusters host other services"},
		{"it names one that is not its own", map[cluster.Bar]int{cluster.OtherTenant: 1}, "own", "waiting for its own cluster in region here of local: it is not there, or not its organisation's"},
	} {
		t.Run(c.reason, func(t *testing.T) {
			in := at(instance.Accepted, func(in *instance.Instance) { in.Spec.Cluster = c.own })
			got := instance.Plan(in, instance.Facts{Units: 1, Barred: c.barred}, start)
			if diff := cmp.Diff([]instance.Action{instance.Queue{Why: c.want}}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// full is a fleet without room that could be made larger.
type full struct{ *cluster.Service }

func (full) Shortlist(context.Context, cluster.Order) (cluster.Shortlist, error) {
	return cluster.Shortlist{Barred: map[cluster.Bar]int{cluster.NoRoom: 1}}, nil
}

// Scalers wakes a cluster, which stands for a profile here.
func (full) Scalers(context.Context) ([]ledger.Wake, error) {
	return []ledger.Wake{{Ref: ledger.Ref{Kind: cluster.Kind.Name, ID: "local"}}}, nil
}

type shelf struct{ offerings }

func (s shelf) List() (out []*offering.Offering) {
	for _, off := range s.offerings {
		out = append(out, off)
	}
	return out
}

func TestWhoeverFindsNoRoomAsksForMore(t *testing.T) {
	off, out := band(t), newOutside()
	w := &world{t: t, dir: t.TempDir(), registry: offerings{"band": off}, room: 100, ports: func(c *instance.Config) {
		c.Clusters = full{c.Clusters.(*cluster.Service)}
		c.Offerings = shelf{c.Offerings.(offerings)}
		c.Policy = decisions{out}
		c.Quota = quotas{out}
	}}
	w.begin()
	t.Cleanup(func() { w.ledger.Close() })
	before := due(t, w)
	w.order("band", instance.Create{Name: "queen"})
	w.work()
	if after := due(t, w); after != before+1 {
		t.Errorf("%d pieces of work for those who make clusters, %d before", after, before)
	}
	in := w.one()
	got, err := w.service.Demand(t.Context(), "local", "local")
	var queued []int64
	for _, d := range got {
		if d.Type == in.Spec.Type {
			queued = d.Queued
		}
	}
	_, size, _ := off.Plan(in.Spec.Type + "." + in.Spec.Size)
	if err != nil || cmp.Diff([]int64{size.Capacity}, queued) != "" {
		t.Errorf("asked for: %+v, %v", got, err)
	}
	if got, err := w.service.Demand(t.Context(), "local", "elsewhere"); err != nil || len(got) > 0 {
		t.Errorf("elsewhere: %+v, %v", got, err)
	}
}

// due counts the work on clusters.
func due(t *testing.T, w *world) int64 {
	t.Helper()
	all, err := w.ledger.Backlog(t.Context())
	w.must(err)
	for _, b := range all {
		if b.Kind == cluster.Kind.Name {
			return b.Due + b.Waiting
		}
	}
	return 0
}
