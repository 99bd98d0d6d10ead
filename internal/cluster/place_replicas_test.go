package cluster_test

import (
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/offering"
	"github.com/droverhq/drover/internal/sqlledger"
	"github.com/droverhq/drover/test/postgres"
)

// replicas opens three services on one ledger: on PostgreSQL each with a
// connection of its own, on SQLite in the one process that has the file.
func replicas(t *testing.T, url string, each bool) (services []*cluster.Service, ledgers []*sqlledger.Ledger) {
	t.Helper()
	for range 3 {
		if each || len(ledgers) == 0 {
			l, err := sqlledger.Open(t.Context(), sqlledger.Config{URL: url, Kinds: []ledger.Kind{cluster.Kind}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
			ledgers = append(ledgers, l)
		} else {
			ledgers = append(ledgers, ledgers[0])
		}
		services = append(services, cluster.NewService(ledgers[len(ledgers)-1]))
	}
	return services, ledgers
}

// placer places orders of one unit as an instance's run does: a look, a choice,
// a commit whose bounds decide, and another look where they were reached.
type placer struct {
	*cluster.Service
	*sqlledger.Ledger
	rules   offering.Placement
	retries *atomic.Int64
}

func (p placer) place(t *testing.T, org string) []ledger.Count {
	w := cluster.Wanted{Provider: "aws", Region: "east", Offering: "kafka", Type: "standard", Org: org, Units: 1, Rules: p.rules}
	for {
		found, err := p.Shortlist(t.Context(), cluster.Order{Wanted: w})
		if err != nil {
			t.Error(err)
			return nil
		}
		v := cluster.Choose(cluster.Order{Wanted: w}, found.Best)
		if v.Cluster == "" {
			return nil
		}
		counts := v.Ranked[0].Take(1)
		_, err = p.Commit(t.Context(), ledger.Set{Actor: "test", Cause: ledger.BySchedule("test"), Counts: counts})
		if err == nil {
			return counts
		}
		if !fault.Is(err, fault.Exhausted) {
			t.Error(err)
			return nil
		}
		p.retries.Add(1)
	}
}

const (
	planes  = 6
	perZone = 2
	holds   = 12 // units of each; two of the clusters are limited to fewer
)

// Three replicas that place at the same time never overfill a cluster, fill all
// of them, spread as they should while there is room, and give back what they took.
func TestReplicasNeverOverfill(t *testing.T) {
	for engine, open := range map[string]func(t *testing.T) ([]*cluster.Service, []*sqlledger.Ledger){
		"sqlite": func(t *testing.T) ([]*cluster.Service, []*sqlledger.Ledger) {
			return replicas(t, filepath.Join(t.TempDir(), "l.db"), false)
		},
		"postgres": func(t *testing.T) ([]*cluster.Service, []*sqlledger.Ledger) {
			return replicas(t, postgres.Database(t), true)
		},
	} {
		for _, rules := range allRules {
			t.Run(engine+"/"+rules.Strategy+rules.By, func(t *testing.T) {
				services, ledgers := open(t)
				overfill(t, services, ledgers, rules)
			})
		}
	}
}

func overfill(t *testing.T, services []*cluster.Service, ledgers []*sqlledger.Ledger, rules offering.Placement) {
	limit := int64(7)
	var room int64
	for i := range planes {
		spec := cluster.Spec{Provider: "aws", Region: "east", Labels: map[string]string{"zone": fmt.Sprint("z", i/perZone)}}
		if room += holds; i%3 == 2 {
			spec.Limit = &limit
			room -= holds - limit
		}
		id := fmt.Sprintf("c%d", i)
		s := services[i%len(services)]
		if _, err := s.Register(t.Context(), id, spec); err != nil {
			t.Fatal(err)
		}
		if err := s.Report(t.Context(), id, cluster.Report{Agent: id, Ready: true, Capacity: holds}); err != nil {
			t.Fatal(err)
		}
	}
	var mu sync.Mutex
	var taken [][]ledger.Count
	var retries atomic.Int64
	run := func(orders int64) {
		var wg sync.WaitGroup
		var left atomic.Int64
		left.Store(orders)
		for worker := range 12 {
			p := placer{services[worker%3], ledgers[worker%3], rules, &retries}
			wg.Go(func() {
				for left.Add(-1) >= 0 {
					if counts := p.place(t, "acme"); counts != nil {
						mu.Lock()
						taken = append(taken, counts)
						mu.Unlock()
					}
				}
			})
		}
		wg.Wait()
	}
	counter := func(name string) int64 {
		n, err := ledgers[0].Counter(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	run(18) // no zone and no cluster is full yet
	if rules.Strategy == offering.Spread {
		var counts []int64
		for i := range planes {
			name := cluster.TenantCounter("kafka", "acme", fmt.Sprintf("c%d", i))
			if rules.By != offering.ByTenant {
				name = cluster.ZoneCounter("kafka", "aws", "east", fmt.Sprint("z", i/perZone))
			}
			counts = append(counts, counter(name))
		}
		low, high := counts[0], counts[0]
		for _, n := range counts {
			low, high = min(low, n), max(high, n)
		}
		if high-low > 9 || high == 0 {
			t.Errorf("spread as %v", counts)
		}
	}
	run(room) // more than there is room for
	if int64(len(taken)) != room {
		t.Errorf("%d orders were placed on %d units", len(taken), room)
	}
	for i := range planes {
		want := int64(holds)
		if i%3 == 2 {
			want = limit
		}
		if n := counter(cluster.CapacityCounter(fmt.Sprintf("c%d", i))); n != want {
			t.Errorf("c%d has %d units in use of %d", i, n, want)
		}
	}
	for _, counts := range taken {
		for i := range counts {
			counts[i].Delta = -counts[i].Delta
		}
		if _, err := ledgers[0].Commit(t.Context(), ledger.Set{Actor: "test", Cause: ledger.BySchedule("test"), Counts: counts}); err != nil {
			t.Fatal(err)
		}
	}
	for _, prefix := range []string{"capacity/", "spread/"} {
		if left, err := ledgers[0].Counters(t.Context(), prefix); err != nil || len(left) > 0 {
			t.Errorf("left over: %v, %v", left, err)
		}
	}
	t.Logf("%d looks were made again", retries.Load())
}

// In a large fleet not everything is counted at each look, and nevertheless
// nothing is overfilled, all of it is filled, and room that is given back is found.
func TestReplicasFillALargeFleet(t *testing.T) {
	const many, each = 90, 2
	services, ledgers := replicas(t, filepath.Join(t.TempDir(), "l.db"), false)
	for i := range many {
		ready(t, services[0], fmt.Sprintf("c%02d", i), cluster.Spec{Provider: "aws", Region: "east"})
		if err := services[0].Report(t.Context(), fmt.Sprintf("c%02d", i), cluster.Report{Agent: fmt.Sprintf("c%02d", i), Unnumbered: true, Ready: true, Capacity: each}); err != nil {
			t.Fatal(err)
		}
	}
	for _, rules := range allRules {
		var retries, placed atomic.Int64
		var mu sync.Mutex
		var last []ledger.Count
		var wg sync.WaitGroup
		for worker := range 9 {
			p := placer{services[worker%3], ledgers[worker%3], rules, &retries}
			wg.Go(func() {
				for counts := p.place(t, "acme"); counts != nil; counts = p.place(t, "acme") {
					placed.Add(1)
					mu.Lock()
					last = append(last, counts...)
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if n := placed.Load(); n != many*each {
			t.Errorf("%+v: %d of %d units were placed", rules, n, many*each)
		}
		for i := range last {
			last[i].Delta = -last[i].Delta
		}
		if _, err := ledgers[0].Commit(t.Context(), ledger.Set{Actor: "test", Cause: ledger.BySchedule("test"), Counts: last}); err != nil {
			t.Fatal(err)
		}
	}
}

// What one replica writes, another sees at its next look; what begins anew sees
// everything; and what is gone is seen no more.
func TestLooksAreNeverStale(t *testing.T) {
	services, ledgers := replicas(t, filepath.Join(t.TempDir(), "l.db"), false)
	w := cluster.Wanted{Provider: "aws", Region: "east"}
	see := func(want ...string) {
		t.Helper()
		fresh := cluster.NewService(ledgers[0])
		for i, s := range append(services, fresh) {
			got, err := s.Candidates(t.Context(), w)
			if err != nil || fmt.Sprint(ids(got)) != fmt.Sprint(want) {
				t.Fatalf("replica %d sees %v, not %v (%v)", i, ids(got), want, err)
			}
		}
	}
	see()
	ready(t, services[0], "one", cluster.Spec{Provider: "aws", Region: "east"})
	see("one")
	ready(t, services[1], "two", cluster.Spec{Provider: "aws", Region: "east"})
	ready(t, services[1], "elsewhere", cluster.Spec{Provider: "aws", Region: "west"})
	see("one", "two")
	o, err := services[0].Get(t.Context(), "one")
	if err != nil {
		t.Fatal(err)
	}
	o.Phase = cluster.Waiting
	r, err := ledgers[0].Commit(t.Context(), ledger.Set{Actor: "test", Cause: ledger.BySchedule("test"), Puts: []ledger.Put{{Object: o, Expect: o.Version, Op: "silence"}}})
	if err != nil {
		t.Fatal(err)
	}
	see("two")
	o = r.Objects[0]
	o.Phase, o.Deleted = cluster.Ready, o.Updated
	if _, err := ledgers[0].Commit(t.Context(), ledger.Set{Actor: "test", Cause: ledger.BySchedule("test"), Puts: []ledger.Put{{Object: o, Expect: o.Version, Op: "delete"}}}); err != nil {
		t.Fatal(err)
	}
	see("two")
}
