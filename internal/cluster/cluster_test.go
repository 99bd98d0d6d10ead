package cluster_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/sqlledger"
)

var edge = cluster.Spec{Provider: "local", Region: "here"}

func open(t *testing.T) (*cluster.Service, *sqlledger.Ledger) {
	t.Helper()
	l, err := sqlledger.Open(t.Context(), sqlledger.Config{URL: filepath.Join(t.TempDir(), "l.db"), Kinds: []ledger.Kind{cluster.Kind}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	s := cluster.NewService(l)
	if _, err := s.Register(t.Context(), "edge", edge); err != nil {
		t.Fatal(err)
	}
	return s, l
}

func head(t *testing.T, l ledger.Log) int64 {
	t.Helper()
	h, err := l.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return h.Seq
}

func TestRegisterTwiceChangesNothing(t *testing.T) {
	s, l := open(t)
	before := head(t, l)
	o, err := s.Register(t.Context(), "edge", cluster.Spec{Provider: "other", Region: "there"})
	if err != nil || o.Fields["region"] != "here" {
		t.Errorf("got %v, %v; want the cluster as it was", o.Fields, err)
	}
	if after := head(t, l); after != before {
		t.Errorf("%d changes were written", after-before)
	}
}

func TestReport(t *testing.T) {
	first := cluster.Report{Agent: "a", Number: 1, Ready: true, Capacity: 5}
	cases := []struct {
		reason  string
		report  cluster.Report
		kind    fault.Kind
		refused bool
		written bool
	}{
		{"news are written", cluster.Report{Agent: "a", Number: 2, Ready: true, Capacity: 6}, 0, false, true},
		{"a heartbeat without news is not", cluster.Report{Agent: "a", Number: 2, Ready: true, Capacity: 5}, 0, false, false},
		{"lost readiness is news", cluster.Report{Agent: "a", Number: 2, Capacity: 5}, 0, false, true},
		{"what rests is news", cluster.Report{Agent: "a", Number: 2, Ready: true, Capacity: 5, Told: &cluster.Told{Platform: cluster.Platform{Resting: "its API server"}}}, 0, false, true},
		{"it is said in plain text", cluster.Report{Agent: "a", Number: 2, Ready: true, Capacity: 5, Told: &cluster.Told{Platform: cluster.Platform{Resting: "a\nb"}}}, fault.Invalid, true, false},
		{"and what is left", cluster.Report{Agent: "a", Number: 2, Ready: true, Capacity: 5, Told: &cluster.Told{Platform: cluster.Platform{Left: "a\x1b[1m"}}}, fault.Invalid, true, false},
		{"a late report is refused", cluster.Report{Agent: "a", Number: 1, Ready: true, Capacity: 9}, fault.Conflict, true, false},
		{"a second agent is refused while the first lives", cluster.Report{Agent: "b", Number: 1, Ready: true, Capacity: 9}, fault.Conflict, true, false},
		{"an agent without a name is nobody", cluster.Report{Number: 2, Ready: true, Capacity: 9}, fault.Invalid, true, false},
		{"capacity is not negative", cluster.Report{Agent: "a", Number: 2, Ready: true, Capacity: -1}, fault.Invalid, true, false},
	}
	for _, c := range cases {
		t.Run(c.reason, func(t *testing.T) {
			s, l := open(t)
			if err := s.Report(t.Context(), "edge", first); err != nil {
				t.Fatal(err)
			}
			before := head(t, l)
			err := s.Report(t.Context(), "edge", c.report)
			if c.refused != (err != nil) || c.refused && !fault.Is(err, c.kind) {
				t.Errorf("got %v", err)
			}
			if written := head(t, l) > before; written != c.written {
				t.Errorf("written: %v", written)
			}
		})
	}
}

func TestASuccessorMaySpeakOnceTheFirstHasLeft(t *testing.T) {
	s, _ := open(t)
	if err := s.Report(t.Context(), "edge", cluster.Report{Agent: "a", Number: 7, Ready: true}); err != nil {
		t.Fatal(err)
	}
	s.Leave("edge", "a")
	if err := s.Report(t.Context(), "edge", cluster.Report{Agent: "b", Number: 1, Ready: true}); err != nil {
		t.Errorf("the successor is refused: %v", err)
	}
}

func TestCandidatesAreReadyAndTellWhatIsFree(t *testing.T) {
	s, l := open(t)
	if got, err := s.Candidates(t.Context(), cluster.Wanted{Provider: "local", Region: "here", Type: "standard"}); err != nil || len(got) > 0 {
		t.Fatalf("got %v, %v before any report", got, err)
	}
	if err := s.Report(t.Context(), "edge", cluster.Report{Agent: "a", Number: 1, Ready: true, Capacity: 5}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Commit(t.Context(), ledger.Set{Actor: "test", Cause: ledger.BySchedule("test"),
		Counts: []ledger.Count{{Name: cluster.CapacityCounter("edge"), Delta: 2, Max: 5}}}); err != nil {
		t.Fatal(err)
	}
	got, err := s.Candidates(t.Context(), cluster.Wanted{Provider: "local", Region: "here", Type: "standard"})
	if diff := cmp.Diff([]cluster.Candidate{{ID: "edge", Capacity: 5, Used: 2}}, got, cmpopts.IgnoreUnexported(cluster.Candidate{})); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	if got, _ := s.Candidates(t.Context(), cluster.Wanted{Provider: "local", Region: "there", Type: "standard"}); len(got) > 0 {
		t.Errorf("found %v in another region", got)
	}
}

type queueing struct{ asked []string }

func (q *queueing) Waiting(_ context.Context, provider, region string, _ int) ([]ledger.Wake, error) {
	q.asked = append(q.asked, provider+"/"+region)
	return []ledger.Wake{{Ref: ledger.Ref{Kind: "cluster", ID: "someone"}}}, nil
}

func TestRoomWakesThoseWhoWait(t *testing.T) {
	s, l := open(t)
	q := &queueing{}
	s.Tenants = q
	for n := range int64(2) {
		if err := s.Report(t.Context(), "edge", cluster.Report{Agent: "a", Number: n + 1, Ready: true, Capacity: 5}); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"local/here"}, q.asked); diff != "" {
		t.Errorf("asked not once, when there was news:\n%s", diff)
	}
	claimed, err := l.Claim(t.Context(), ledger.ClaimRequest{Holder: "test", Kinds: []string{"cluster"}, Limit: 1, Lease: 1e9})
	if err != nil || len(claimed.Work) != 1 {
		t.Errorf("nobody was woken: %v, %v", claimed, err)
	}
}

// Two agents that start at once must not both be told what to run: the first
// one has the cluster before it has reported anything.
func TestTheFirstAgentThatListensHasTheCluster(t *testing.T) {
	s, _ := open(t)
	for _, c := range []struct {
		reason, agent string
		refused       bool
	}{
		{"the first one", "a", false},
		{"another one, while the first has not reported yet", "b", true},
		{"the first one again, over a new connection", "a", false},
	} {
		if err := s.Admit(t.Context(), "edge", cluster.Caller{Agent: c.agent, Installation: ""}); fault.Is(err, fault.Conflict) != c.refused {
			t.Errorf("%s: %v", c.reason, err)
		}
	}
	if err := s.Report(t.Context(), "edge", cluster.Report{Agent: "a", Number: 0, Ready: true, Capacity: 1}); err != nil {
		t.Errorf("its first report: %v", err)
	}
	s.Leave("edge", "a")
	if err := s.Admit(t.Context(), "edge", cluster.Caller{Agent: "b", Installation: ""}); err != nil {
		t.Errorf("after the first has left: %v", err)
	}
}

// What an agent says ends up in instances: it must be text that they can hold.
func TestOddOperatorsAreRefused(t *testing.T) {
	s, l := open(t)
	before := head(t, l)
	for reason, op := range map[string]cluster.Operator{
		"a long version":             {Version: strings.Repeat("1", 2000)},
		"a long version of its part": {Version: "1", Components: map[string][]string{"a": {strings.Repeat("1", 2000)}}},
		"a version with a zero byte": {Version: "1", Components: map[string][]string{"a": {"1\x00"}}},
		"an empty version":           {Version: "1", Components: map[string][]string{"a": {""}}},
		"too many versions":          {Version: "1", Components: map[string][]string{"a": slices.Repeat([]string{"1"}, 5000)}},
	} {
		err := s.Report(t.Context(), "edge", cluster.Report{Agent: "a", Number: 1, Ready: true, Offering: "kafka", Operators: []cluster.Operator{op}})
		if !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", reason, err)
		}
	}
	if head(t, l) != before {
		t.Error("something was written")
	}
}
