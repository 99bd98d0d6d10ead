package cluster_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/offering"
)

// Whatever has become of the clusters, the index that is kept up names the same
// ones as a look at all of them, in the same order and with the same figures.
func TestTheIndexSaysWhatALookAtEverythingSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := order(rapid.Int64Range(1, 4).Draw(t, "units"), func(o *cluster.Order) {
			o.Rules = rapid.SampledFrom(allRules).Draw(t, "rules")
		})
		fleet := map[string]*cluster.Known{}
		n := rapid.IntRange(0, 20).Draw(t, "clusters")
		for i := range n {
			k := anyCluster(i).Draw(t, "cluster")
			fleet[k.ID] = k
		}
		index := cluster.NewIndex(o.Wanted, slices.Collect(maps.Values(fleet)))
		for range rapid.IntRange(0, 12).Draw(t, "changes") {
			i := rapid.IntRange(0, n+2).Draw(t, "which")
			k := anyCluster(i).Draw(t, "changed")
			gone := fleet[k.ID] != nil && rapid.IntRange(0, 3).Draw(t, "gone") == 0
			if fleet[k.ID] = k; gone {
				delete(fleet, k.ID)
			}
			index.Change(k, gone)
		}
		counters := map[string]int64{}
		here := 0
		for id, k := range fleet {
			if k.Spec.Region == "east" {
				here++
			}
			counters[cluster.CapacityCounter(id)] = rapid.Int64Range(0, 8).Draw(t, "used")
			counters[cluster.TypeCounter(id, "kafka", "standard")] = rapid.Int64Range(0, 4).Draw(t, "used by the type")
			counters[cluster.TenantCounter("kafka", "acme", id)] = rapid.Int64Range(0, 3).Draw(t, "of the tenant")
			counters[cluster.ZoneCounter("kafka", "aws", "east", k.Spec.Zone())] = rapid.Int64Range(0, 9).Draw(t, "in the zone")
			if rapid.IntRange(0, 9).Draw(t, "rejected") == 0 {
				o.Rejected = append(o.Rejected, id)
			}
		}
		got := index.Best(o, counters)
		want := cluster.Rank(o, weigh(o, counters, slices.Collect(maps.Values(fleet))...))
		if got.Room != len(want) || index.Total() != here {
			t.Fatalf("%d have room of %d, not %d of %d", got.Room, index.Total(), len(want), here)
		}
		if len(got.Best) == 0 && len(want) > 0 {
			t.Fatal("none is named")
		}
		for i, c := range got.Best {
			w := want[i]
			if c.ID != w.ID || c.Free() != w.Free() || c.Used != w.Used || c.Peers != w.Peers || fmt.Sprint(c.Take(o.Units)) != fmt.Sprint(w.Take(o.Units)) {
				t.Fatalf("number %d is %+v, not %+v", i, c, w)
			}
		}
	})
}

// In a large region an order is given the best few, the others are counted, and
// of one that is full of people are told what is in the way.
func TestALargeRegionIsListedInPart(t *testing.T) {
	s, _ := open(t)
	const many = 70
	for i := range many {
		id := fmt.Sprintf("c%02d", i)
		ready(t, s, id, cluster.Spec{Provider: "aws", Region: "east", Unschedulable: i == 0})
	}
	o := order(1)
	for _, rules := range allRules {
		o.Rules = rules
		got, err := s.Shortlist(t.Context(), o)
		if err != nil || len(got.Best) == 0 || len(got.Best) >= many || got.Room != many-1 || got.Best[0].ID != "c01" {
			t.Fatalf("%+v: %d of %d, the first %v: %v", rules, len(got.Best), got.Room, ids(got.Best), err)
		}
		o.All = true
		if got, err = s.Shortlist(t.Context(), o); err != nil || len(got.Best) != many-1 {
			t.Fatalf("%+v: %d of all, %v", rules, len(got.Best), err)
		}
		o.All = false
	}
	o.Rules, o.Units = offering.Placement{}, 1_000_000
	got, err := s.Shortlist(t.Context(), o)
	if err != nil || len(got.Best) > 0 || got.Barred[cluster.NoRoom] != many-1 || got.Barred[cluster.Unschedulable] != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
}
