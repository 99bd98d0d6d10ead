//go:build bench

package bench

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
)

// TestPlacement measures the decision where an order goes among clusters of one
// region, each partly filled, with news of one of them before each decision.
func TestPlacement(t *testing.T) {
	n, rounds := setting("DROVER_BENCH_CLUSTERS", 1000), setting("DROVER_BENCH_DECISIONS", 1000)
	each(t, func(t *testing.T, e engine) {
		url := filepath.Join(t.TempDir(), "l.db")
		if args := e.args(t); len(args) > 0 {
			url = args[1]
		}
		l, err := sqlledger.Open(t.Context(), sqlledger.Config{URL: url, Kinds: []ledger.Kind{cluster.Kind}})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		name := func(i int) string { return fmt.Sprintf("c%05d", i) }
		seedWith(t, l, 0, n, func(set *ledger.Set, i int) {
			spec, _ := json.Marshal(cluster.Spec{Provider: "aws", Region: "east", Labels: map[string]string{"zone": fmt.Sprint("z", i%3)}})
			status, _ := json.Marshal(cluster.Status{Capacity: 100, Units: map[string]cluster.Units{"kafka/standard": {Max: 80}, "kafka/developer": {Max: 20}}})
			set.Puts = append(set.Puts, ledger.Put{Op: "create", Object: ledger.Object{
				Ref: ledger.Ref{Kind: cluster.Kind.Name, ID: name(i)}, Name: name(i), Phase: cluster.Ready, Spec: spec, Status: status,
				Fields: ledger.Fields{"provider": "aws", "region": "east"},
			}})
			set.Counts = append(set.Counts,
				ledger.Count{Name: cluster.CapacityCounter(name(i)), Delta: int64(1 + i%90), Max: -1},
				ledger.Count{Name: cluster.TypeCounter(name(i), "kafka", "standard"), Delta: int64(1 + i%70), Max: -1},
				ledger.Count{Name: cluster.TypeCounter(name(i), "kafka", "developer"), Delta: 1, Max: -1})
		})
		s := cluster.NewService(l)
		for _, strategy := range []string{offering.FirstFit, offering.BestFit, offering.Spread} {
			w := cluster.Wanted{Provider: "aws", Region: "east", Offering: "kafka", Type: "standard", Org: "acme", Units: 2,
				Rules: offering.Placement{Strategy: strategy}}
			took := make([]time.Duration, 0, rounds)
			for i := range rounds {
				grow(t, l, name(i%n))
				began := time.Now()
				found, err := s.Shortlist(t.Context(), cluster.Order{Wanted: w})
				v := cluster.Choose(cluster.Order{Wanted: w, Unlisted: found.Room - len(found.Best)}, found.Best)
				took = append(took, time.Since(began))
				if err != nil || v.Cluster == "" || found.Room < n/2 {
					t.Fatalf("%q among %d: %v", v.Cluster, found.Room, err)
				}
			}
			slices.Sort(took)
			report(fmt.Sprintf("placement decision among %d clusters, %s: p50 / p99", n, strategy), e.name,
				ms(quantile(took, .5))+" / "+ms(quantile(took, .99)), "p99 < 5 ms")
		}
	})
}

// grow changes a cluster, as its agent's news do.
func grow(t *testing.T, l *sqlledger.Ledger, id string) {
	t.Helper()
	o, err := l.Get(t.Context(), ledger.Ref{Kind: cluster.Kind.Name, ID: id})
	if err != nil {
		t.Fatal(err)
	}
	_, status, err := cluster.Decode(o)
	if err != nil {
		t.Fatal(err)
	}
	status.Capacity++
	if o.Status, err = json.Marshal(status); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Commit(t.Context(), ledger.Set{Actor: "bench", Cause: ledger.BySchedule("news"), Puts: []ledger.Put{{Object: o, Expect: o.Version, Op: "report"}}}); err != nil {
		t.Fatal(err)
	}
}
