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

// full is a fleet without room that could be made larger.
type full struct{ *cluster.Service }

func (full) Candidates(context.Context, cluster.Wanted) ([]cluster.Candidate, error) { return nil, nil }

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
