package cluster_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/offering"
)

var day = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// known is a ready cluster of the fleet with ten units, older than those of a higher number.
func known(n int, edit ...func(*cluster.Known)) *cluster.Known {
	k := &cluster.Known{
		ID: fmt.Sprintf("c%d", n), Phase: cluster.Ready, Created: day.Add(time.Duration(n) * time.Hour),
		Spec: cluster.Spec{Provider: "aws", Region: "east"}, Status: cluster.Status{Capacity: 10},
	}
	for _, e := range edit {
		e(k)
	}
	return k
}

func order(units int64, edit ...func(*cluster.Order)) cluster.Order {
	o := cluster.Order{Wanted: cluster.Wanted{Provider: "aws", Region: "east", Offering: "kafka", Type: "standard", Org: "acme", Units: units}}
	for _, e := range edit {
		e(&o)
	}
	return o
}

func weigh(o cluster.Order, counters map[string]int64, clusters ...*cluster.Known) (out []cluster.Candidate) {
	for _, k := range clusters {
		out = append(out, cluster.Weigh(o.Wanted, k, counters))
	}
	return out
}

// Steps of others, of Drover's own agent, and such as are taken back are in
// nobody's way.
func TestOnlyAnOfferingsOwnStepsAreInItsWay(t *testing.T) {
	k := known(1, func(k *cluster.Known) {
		k.Status.Steps = []cluster.Step{
			{Name: "dinosaur/crd", State: cluster.StepError}, {Name: "drover.agent/agent", State: cluster.StepApplying},
			{Name: "kafka/old", State: cluster.StepRemoving}, {Name: "kafka/operator", State: cluster.StepReady},
		}
	})
	if v := cluster.Choose(order(1), weigh(order(1), nil, k)); v.Cluster != "c1" {
		t.Errorf("refused: %+v", v.Others)
	}
	if bare := known(1); !bare.Status.Fit("kafka") {
		t.Error("a cluster without steps is not fit")
	}
}

func TestEveryReasonHasItsWords(t *testing.T) {
	spec := func(e func(*cluster.Spec)) *cluster.Known { return known(1, func(k *cluster.Known) { e(&k.Spec) }) }
	limit, yes := int64(3), true
	for _, c := range []struct {
		bar     cluster.Bar
		cluster *cluster.Known
		order   cluster.Order
		words   string
	}{
		{cluster.OtherPlace, spec(func(s *cluster.Spec) { s.Region = "west" }), order(1), "region west of aws"},
		{cluster.OtherTenant, spec(func(s *cluster.Spec) { s.Org = "umbrella" }), order(1), "tenant's own"},
		{cluster.OtherTenant, known(1), order(1, func(o *cluster.Order) { o.Cluster = "c1" }), "own organisation"},
		{cluster.OtherTenant, known(1), order(1, func(o *cluster.Order) { o.Cluster = "c9" }), "names another"},
		{cluster.Leaving, spec(func(s *cluster.Spec) { s.Deleted = true }), order(1), "taken away"},
		{cluster.NotReady, known(1, func(k *cluster.Known) { k.Phase = cluster.Waiting }), order(1), cluster.Waiting},
		{cluster.Unschedulable, spec(func(s *cluster.Spec) { s.Unschedulable = true }), order(1), "no new orders"},
		{cluster.Draining, spec(func(s *cluster.Spec) { s.Draining, s.Unschedulable = true, true }), order(1), "emptied"},
		{cluster.OtherOffering, spec(func(s *cluster.Spec) { s.Offering = "dinosaur" }), order(1), "dinosaur only"},
		{cluster.OtherType, spec(func(s *cluster.Spec) { s.Types = []string{"developer"} }), order(1), "developer only"},
		{cluster.OtherZones, spec(func(s *cluster.Spec) { s.MultiAZ = &yes }), order(1), "multi_az"},
		{cluster.Unlabelled, known(1), order(1, func(o *cluster.Order) {
			o.Rules.Labels = map[string]string{"disk": "ssd", "arch": "arm"}
		}), "arch=arm"},
		{cluster.Tainted, spec(func(s *cluster.Spec) { s.Taints = []string{"gpu"} }), order(1), "gpu"},
		{cluster.Unfit, known(1, func(k *cluster.Known) {
			k.Status.Steps = []cluster.Step{{Name: "dinosaur/crd", State: cluster.StepError}, {Name: "kafka/operator", State: cluster.StepApplying}}
		}), order(1), "kafka/operator is applying"},
		{cluster.Unfit, known(1, func(k *cluster.Known) {
			k.Status.Steps = []cluster.Step{{Name: "profile.small/storage", State: cluster.StepWaiting}}
		}), order(1), "profile.small/storage"},
		{cluster.WasRejected, known(1), order(1, func(o *cluster.Order) { o.Rejected = []string{"c1"} }), "no room when it was asked"},
		{cluster.LimitReached, spec(func(s *cluster.Spec) { s.Limit = &limit }), order(4), "3 units free, 4 needed"},
		{cluster.NoRoom, known(1), order(11), "10 units free, 11 needed"},
		{cluster.NoVersion, known(1), order(1, func(o *cluster.Order) { o.Lacking = []string{"c1"} }), "version"},
	} {
		t.Run(string(c.bar), func(t *testing.T) {
			v := cluster.Choose(c.order, weigh(c.order, nil, c.cluster))
			if v.Cluster != "" || len(v.Others) != 1 || v.Others[0].Bar != c.bar {
				t.Fatalf("got %+v", v)
			}
			if !strings.Contains(v.Others[0].String(), c.words) {
				t.Errorf("operators read %q, which does not have %q", v.Others[0], c.words)
			}
			if plain := v.Others[0].Plain(); plain == "" || strings.Contains(plain, "west") || strings.Contains(plain, "gpu") || strings.Contains(plain, "dinosaur") {
				t.Errorf("tenants read %q", plain)
			}
		})
	}
}

func TestStrategies(t *testing.T) {
	zone := func(z string) func(*cluster.Known) {
		return func(k *cluster.Known) { k.Spec.Labels = map[string]string{"zone": z} }
	}
	fleet := []*cluster.Known{known(1, zone("a")), known(2, zone("b")), known(3, zone("a")), known(4, zone("b"))}
	used := map[string]int64{
		cluster.CapacityCounter("c1"): 2, cluster.CapacityCounter("c2"): 7, cluster.CapacityCounter("c3"): 5, cluster.CapacityCounter("c4"): 9,
		cluster.ZoneCounter("kafka", "aws", "east", "a"): 5, cluster.ZoneCounter("kafka", "aws", "east", "b"): 4,
		cluster.TenantCounter("kafka", "acme", "c1"): 2, cluster.TenantCounter("kafka", "acme", "c2"): 1, cluster.TenantCounter("kafka", "other", "c3"): 7,
	}
	for _, c := range []struct {
		reason string
		rules  offering.Placement
		units  int64
		want   string
		why    string
	}{
		{"the oldest by default", offering.Placement{}, 1, "c1", "oldest of 4"},
		{"first-fit is the default's name", offering.Placement{Strategy: offering.FirstFit}, 9, "", ""},
		{"the oldest with room", offering.Placement{Strategy: offering.FirstFit}, 8, "c1", "only cluster"},
		{"the fullest with room", offering.Placement{Strategy: offering.BestFit}, 1, "c4", "fullest of 4"},
		{"a full one is not the fullest with room", offering.Placement{Strategy: offering.BestFit}, 2, "c2", "fullest of 3"},
		{"the zone with the fewest, its oldest cluster", offering.Placement{Strategy: offering.Spread}, 1, "c2", "zone with the fewest"},
		{"the zone that has room at all", offering.Placement{Strategy: offering.Spread, By: offering.ByZone}, 4, "c1", "zone"},
		{"the cluster with the fewest of the tenant's", offering.Placement{Strategy: offering.Spread, By: offering.ByTenant}, 1, "c3", "tenant's instances (0)"},
	} {
		t.Run(c.reason, func(t *testing.T) {
			o := order(c.units, func(o *cluster.Order) { o.Rules = c.rules })
			v := cluster.Choose(o, weigh(o, used, fleet...))
			if v.Cluster != c.want || !strings.Contains(v.Why, c.why) {
				t.Errorf("got %q because %q", v.Cluster, v.Why)
			}
		})
	}
}

// anyCluster is a cluster with everything that placement looks at, often so
// that it fits.
func anyCluster(n int) *rapid.Generator[*cluster.Known] {
	return rapid.Custom(func(t *rapid.T) *cluster.Known {
		seldom := func(what string) bool { return rapid.IntRange(0, 9).Draw(t, what) == 0 }
		k := known(n)
		k.Created = day.Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "born")) * time.Hour)
		k.Status.Capacity = rapid.Int64Range(0, 6).Draw(t, "capacity")
		k.Spec.Labels = map[string]string{"zone": rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "zone")}
		if seldom("typed") {
			k.Status.Units = map[string]cluster.Units{"kafka/standard": {Max: rapid.Int64Range(0, 6).Draw(t, "units")}}
		}
		if seldom("limited") {
			limit := rapid.Int64Range(0, 6).Draw(t, "limit")
			k.Spec.Limit = &limit
		}
		if seldom("not ready") {
			k.Phase = rapid.SampledFrom([]string{cluster.Waiting, cluster.Failed, cluster.Provisioning}).Draw(t, "phase")
		}
		if seldom("elsewhere") {
			k.Spec.Region = "west"
		}
		if seldom("tainted") {
			k.Spec.Taints = []string{rapid.SampledFrom([]string{"gpu", "old"}).Draw(t, "taint")}
		}
		k.Spec.Deleted, k.Spec.Draining, k.Spec.Unschedulable = seldom("deleted"), seldom("draining"), seldom("cordoned")
		if seldom("own") {
			k.Spec.Org = "acme"
		}
		return k
	})
}

var allRules = []offering.Placement{
	{}, {Strategy: offering.BestFit, Tolerates: []string{"gpu"}}, {Strategy: offering.Spread}, {Strategy: offering.Spread, By: offering.ByTenant},
}

// Whatever the fleet looks like: nothing goes beyond what a cluster holds, the
// same fleet in another order gives the same answer, and every cluster is
// spoken of exactly once.
func TestChooseHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 8).Draw(t, "clusters")
		var fleet []*cluster.Known
		for i := range n {
			fleet = append(fleet, anyCluster(i).Draw(t, "cluster"))
		}
		counters := map[string]int64{}
		rules := rapid.SampledFrom(allRules).Draw(t, "rules")
		for range rapid.IntRange(1, 12).Draw(t, "orders") {
			o := order(rapid.Int64Range(1, 4).Draw(t, "units"), func(o *cluster.Order) { o.Rules = rules })
			if n > 0 && rapid.IntRange(0, 5).Draw(t, "own") == 0 {
				o.Cluster = fleet[rapid.IntRange(0, n-1).Draw(t, "named")].ID
			}
			v := cluster.Choose(o, weigh(o, counters, fleet...))
			shuffled := rapid.Permutation(fleet).Draw(t, "shuffled")
			if again := cluster.Choose(o, weigh(o, counters, shuffled...)); again.Cluster != v.Cluster || again.Why != v.Why || cmp.Diff(v.Others, again.Others) != "" {
				t.Fatalf("in another order: %+v, not %+v", again, v)
			}
			if best := cluster.Rank(o, weigh(o, counters, shuffled...)); len(best) > 0 != (v.Cluster != "") || len(best) > 0 && best[0].ID != v.Cluster {
				t.Fatalf("ranked %v, chosen %q", ids(best), v.Cluster)
			}
			var spoken []string
			for _, j := range v.Others {
				if j.Bar == "" || j.String() == "" || j.Plain() == "" {
					t.Fatalf("%s is passed over for no reason: %+v", j.Cluster, j)
				}
				spoken = append(spoken, j.Cluster)
			}
			if v.Cluster != "" {
				spoken = append(spoken, v.Cluster)
			}
			slices.Sort(spoken)
			var all []string
			for _, k := range fleet {
				all = append(all, k.ID)
			}
			slices.Sort(all)
			if cmp.Diff(all, spoken) != "" {
				t.Fatalf("spoken of: %v of %v", spoken, all)
			}
			if v.Cluster == "" {
				continue
			}
			i := slices.IndexFunc(fleet, func(k *cluster.Known) bool { return k.ID == v.Cluster })
			k := fleet[i]
			if k.Phase != cluster.Ready || k.Spec.Deleted || k.Spec.Draining || k.Spec.Unschedulable || k.Spec.Region != "east" ||
				(k.Spec.Org != "") != (o.Cluster != "") || len(k.Spec.Taints) > 0 && !slices.Contains(rules.Tolerates, k.Spec.Taints[0]) {
				t.Fatalf("%+v takes no such order", k)
			}
			for _, c := range cluster.Weigh(o.Wanted, k, counters).Take(o.Units) {
				if counters[c.Name] += c.Delta; c.Max >= 0 && counters[c.Name] > c.Max {
					t.Fatalf("%s is %d of %d", c.Name, counters[c.Name], c.Max)
				}
			}
			used := counters[cluster.CapacityCounter(k.ID)]
			if used > k.Status.Capacity || k.Spec.Limit != nil && used > *k.Spec.Limit {
				t.Fatalf("%d units on %+v", used, k)
			}
			if u, told := k.Status.Units["kafka/standard"]; told && counters[cluster.TypeCounter(k.ID, "kafka", "standard")] > u.Max {
				t.Fatalf("more of the type than %d", u.Max)
			}
		}
	})
}
