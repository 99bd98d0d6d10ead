package cluster_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

func ids(candidates []cluster.Candidate) (out []string) {
	for _, c := range candidates {
		out = append(out, c.ID)
	}
	return out
}

// ready registers a cluster whose agent says that it is ready.
func ready(t *testing.T, s *cluster.Service, id string, spec cluster.Spec) {
	t.Helper()
	if _, err := s.Register(t.Context(), id, spec); err != nil {
		t.Fatal(err)
	}
	if err := s.Report(t.Context(), id, cluster.Report{Agent: id, Ready: true, Capacity: 5}); err != nil {
		t.Fatal(err)
	}
}

func TestCandidatesFitTheOrder(t *testing.T) {
	s, _ := open(t)
	yes, no := true, false
	at := func(spec cluster.Spec) cluster.Spec {
		spec.Provider, spec.Region = "aws", "east"
		return spec
	}
	ready(t, s, "any", at(cluster.Spec{}))
	ready(t, s, "multi", at(cluster.Spec{MultiAZ: &yes, Types: []string{"standard"}}))
	ready(t, s, "single", at(cluster.Spec{MultiAZ: &no, Types: []string{"developer"}}))
	ready(t, s, "dinosaurs", at(cluster.Spec{Offering: "dinosaur"}))
	ready(t, s, "acmes", at(cluster.Spec{Org: "acme"}))
	if _, err := s.Register(t.Context(), "waiting", at(cluster.Spec{})); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		reason string
		wanted cluster.Wanted
		want   []string
	}{
		"multi":     {"zones and type fit", cluster.Wanted{Offering: "kafka", Type: "standard", MultiAZ: true, Org: "acme"}, []string{"any", "multi"}},
		"single":    {"zones and type fit", cluster.Wanted{Offering: "kafka", Type: "developer", Org: "acme"}, []string{"any", "single"}},
		"dinosaur":  {"a cluster for one offering hosts no other", cluster.Wanted{Offering: "dinosaur", Type: "standard", MultiAZ: true}, []string{"any", "multi", "dinosaurs"}},
		"look":      {"whoever only looks sees all of the fleet", cluster.Wanted{AnyZones: true}, []string{"any", "multi", "single", "dinosaurs"}},
		"own":       {"a tenant's own cluster hosts what names it", cluster.Wanted{Cluster: "acmes", Org: "acme", MultiAZ: true}, []string{"acmes"}},
		"not yours": {"and only its tenant's", cluster.Wanted{Cluster: "acmes", Org: "umbrella"}, nil},
		"nobody's":  {"nor that of somebody without an organisation", cluster.Wanted{Cluster: "any"}, nil},
		"fleet":     {"the fleet's clusters are not to be named", cluster.Wanted{Cluster: "any", Org: "acme"}, nil},
		"gone":      {"a cluster that is not there", cluster.Wanted{Cluster: "nowhere", Org: "acme"}, nil},
		"waiting":   {"a cluster that is not ready", cluster.Wanted{Cluster: "waiting", Org: ""}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			c.wanted.Provider, c.wanted.Region = "aws", "east"
			got, err := s.Candidates(t.Context(), c.wanted)
			if d := cmp.Diff(c.want, ids(got)); d != "" || err != nil {
				t.Errorf("%s: %v\n%s", c.reason, err, d)
			}
		})
	}
}

func TestTypesShareAClusterAndHaveTheirOwnBounds(t *testing.T) {
	s, l := open(t)
	report := cluster.Report{Agent: "a", Unnumbered: true, Ready: true, Offering: "kafka",
		Units: map[string]cluster.Units{"standard": {Max: 3, Remaining: 3}, "developer": {Max: 2, Remaining: 2}}}
	if err := s.Report(t.Context(), "edge", report); err != nil {
		t.Fatal(err)
	}
	look := func(offering, typ string) cluster.Candidate {
		t.Helper()
		got, err := s.Candidates(t.Context(), cluster.Wanted{Provider: "local", Region: "here", Offering: offering, Type: typ})
		if err != nil || len(got) != 1 {
			t.Fatal(got, err)
		}
		return got[0]
	}
	take := func(c cluster.Candidate, units int64) error {
		_, err := l.Commit(t.Context(), ledger.Set{Actor: "test", Cause: ledger.BySchedule("test"), Counts: c.Take(units)})
		return err
	}
	standard := look("kafka", "standard")
	if standard.Free() != 3 || look("kafka", "developer").Free() != 2 || look("dinosaur", "standard").Free() != 5 {
		t.Errorf("free: %d, %d, %d", standard.Free(), look("kafka", "developer").Free(), look("dinosaur", "standard").Free())
	}
	if err := take(standard, 2); err != nil {
		t.Fatal(err)
	}
	if err := take(standard, 2); !fault.Is(err, fault.Exhausted) {
		t.Errorf("more than the type has: %v", err)
	}
	if err := take(look("dinosaur", "standard"), 3); err != nil {
		t.Errorf("another offering's type of that name: %v", err)
	}
	if err := take(look("kafka", "developer"), 1); !fault.Is(err, fault.Exhausted) {
		t.Errorf("more than the cluster has: %v", err)
	}
	if free := look("kafka", "standard").Free(); free != 0 {
		t.Errorf("%d are free on a full cluster", free)
	}
	before := head(t, l)
	if err := s.Report(t.Context(), "edge", report); err != nil || head(t, l) != before {
		t.Errorf("a report without news: %v, %d changes", err, head(t, l)-before)
	}
	report.Units["standard"] = cluster.Units{Max: -1}
	if err := s.Report(t.Context(), "edge", report); !fault.Is(err, fault.Invalid) {
		t.Errorf("less than nothing: %v", err)
	}
}

func TestOffersBelongTogether(t *testing.T) {
	s, _ := open(t)
	report := cluster.Report{Agent: "a", Unnumbered: true, Ready: true, Offering: "kafka", Operators: []cluster.Operator{
		{Name: "op", Version: "op.v0.10", Ready: true, Components: map[string][]string{"kafka": {"3.0", "3.1"}, "op": {"op.v0.10"}}},
		{Name: "op", Version: "op.v0.9", Ready: true, Components: map[string][]string{"kafka": {"2.8", "3.2", "3.0"}, "op": {"op.v0.9"}}},
		{Name: "op", Version: "op.v1.0", Components: map[string][]string{"kafka": {"4.0"}, "op": {"op.v1.0"}}},
	}}
	if err := s.Report(t.Context(), "edge", report); err != nil {
		t.Fatal(err)
	}
	got, err := s.Offers(t.Context(), "edge", "kafka")
	want := map[string][]string{"kafka": {"2.8", "3.2", "3.0", "3.1"}, "op": {"op.v0.9", "op.v0.10"}}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("the last ones are those of the newest ready operator: %v\n%s", err, d)
	}
	if got, err := s.Offers(t.Context(), "edge", "dinosaur"); err != nil || len(got) > 0 {
		t.Errorf("another offering: %v, %v", got, err)
	}
	facts, err := s.Facts(t.Context(), "edge")
	if err != nil || facts.ID != "edge" {
		t.Errorf("%+v, %v", facts, err)
	}
}

func as(who access.Principal) context.Context {
	return ledger.WithCause(access.With(context.Background(), who), ledger.ByRequest("test"))
}
