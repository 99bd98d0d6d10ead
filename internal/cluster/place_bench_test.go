package cluster_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/offering"
	"github.com/droverhq/drover/internal/sqlledger"
	"github.com/droverhq/drover/test/postgres"
)

// crowd writes clusters of one region, each with a share of its units in use.
func crowd(b *testing.B, l *sqlledger.Ledger, n int) {
	b.Helper()
	for i := range n {
		id := fmt.Sprintf("c%04d", i)
		spec, _ := json.Marshal(cluster.Spec{Provider: "aws", Region: "east", Labels: map[string]string{"zone": fmt.Sprint("z", i%3)}})
		status, _ := json.Marshal(cluster.Status{Capacity: 100, Units: map[string]cluster.Units{"kafka/standard": {Max: 80}, "kafka/developer": {Max: 20}}})
		_, err := l.Commit(b.Context(), ledger.Set{
			Actor: "test", Cause: ledger.BySchedule("test"),
			Puts: []ledger.Put{{Op: "create", Object: ledger.Object{
				Ref: ledger.Ref{Kind: cluster.Kind.Name, ID: id}, Name: id, Phase: cluster.Ready, Spec: spec, Status: status,
				Fields: ledger.Fields{"provider": "aws", "region": "east"},
			}}},
			Counts: []ledger.Count{
				{Name: cluster.CapacityCounter(id), Delta: int64(1 + i%90), Max: -1},
				{Name: cluster.TypeCounter(id, "kafka", "standard"), Delta: int64(1 + i%70), Max: -1},
				{Name: cluster.TypeCounter(id, "kafka", "developer"), Delta: 1, Max: -1},
			},
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPlacementDecision measures a look and a choice among a thousand
// clusters of one region, with a change to one of them before each.
func BenchmarkPlacementDecision(b *testing.B) {
	const n = 1000
	for _, engine := range []string{"sqlite", "postgres"} {
		url := filepath.Join(b.TempDir(), "l.db")
		if engine == "postgres" {
			url = postgres.Database(b)
		}
		l, err := sqlledger.Open(b.Context(), sqlledger.Config{URL: url, Kinds: []ledger.Kind{cluster.Kind}})
		if err != nil {
			b.Fatal(err)
		}
		crowd(b, l, n)
		s := cluster.NewService(l)
		for _, strategy := range []string{offering.FirstFit, offering.BestFit, offering.Spread} {
			b.Run(engine+"/"+strategy, func(b *testing.B) {
				w := cluster.Wanted{Provider: "aws", Region: "east", Offering: "kafka", Type: "standard", Org: "acme", Units: 2, Rules: offering.Placement{Strategy: strategy}}
				took := make([]time.Duration, 0, b.N)
				for i := range b.N {
					b.StopTimer()
					touch(b, l, fmt.Sprintf("c%04d", i%n))
					b.StartTimer()
					began := time.Now()
					found, err := s.Candidates(b.Context(), w)
					v := cluster.Choose(cluster.Order{Wanted: w}, found)
					took = append(took, time.Since(began))
					if err != nil || v.Cluster == "" || len(v.Others) != n-1 {
						b.Fatalf("%q and %d others: %v", v.Cluster, len(v.Others), err)
					}
				}
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
				b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
			})
		}
		if err := l.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// touch changes a cluster, as its agent's news do.
func touch(b *testing.B, l *sqlledger.Ledger, id string) {
	b.Helper()
	o, err := l.Get(b.Context(), ledger.Ref{Kind: cluster.Kind.Name, ID: id})
	if err != nil {
		b.Fatal(err)
	}
	_, status, err := cluster.Decode(o)
	if err != nil {
		b.Fatal(err)
	}
	status.Capacity++
	if o.Status, err = json.Marshal(status); err != nil {
		b.Fatal(err)
	}
	if _, err := l.Commit(b.Context(), ledger.Set{Actor: "test", Cause: ledger.BySchedule("test"), Puts: []ledger.Put{{Object: o, Expect: o.Version, Op: "report"}}}); err != nil {
		b.Fatal(err)
	}
}
