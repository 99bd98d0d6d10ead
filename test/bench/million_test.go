//go:build bench

package bench

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/app"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/sqlledger"
	"github.com/droverhq/drover/test/drover"
)

// many is how many instances are present in the large runs; DROVER_BENCH_ROWS
// makes them smaller.
func many() int {
	if n, err := strconv.Atoi(os.Getenv("DROVER_BENCH_ROWS")); err == nil {
		return n
	}
	return 1_000_000
}

const largest = 10_000 // instances of the largest organisation; the others share the rest

// seed fills the ledger behind a stopped server with copies of one instance.
func seed(t *testing.T, s *drover.Server, database string, from, to int) {
	t.Helper()
	ctx := context.Background()
	l := direct(t, s, database)
	defer l.Close()
	found, err := l.List(ctx, ledger.Query{Kind: instance.Kind.Name, Limit: 1})
	if err != nil || len(found) == 0 {
		t.Fatalf("no instance to copy: %v", err)
	}
	begin := time.Now()
	seedWith(t, l, from, to, func(set *ledger.Set, i int) {
		set.Puts = append(set.Puts, ledger.Put{Object: variant(found[0], i), Op: "create"})
	})
	t.Logf("seeded %d instances in %s", to-from, time.Since(begin).Round(time.Second))
}

// seedWith commits what add puts into sets for from to to.
func seedWith(t *testing.T, l ledger.Committer, from, to int, add func(set *ledger.Set, i int)) {
	t.Helper()
	const chunk = 500
	var next atomic.Int64
	next.Store(int64(from))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				first := int(next.Add(chunk)) - chunk
				if first >= to || t.Failed() {
					return
				}
				set := ledger.Set{Actor: "bench", Cause: ledger.BySchedule("seed")}
				for i := first; i < min(first+chunk, to); i++ {
					add(&set, i)
				}
				if _, err := l.Commit(context.Background(), set); err != nil {
					t.Errorf("cannot seed: %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// direct opens the ledger behind a stopped server.
func direct(t *testing.T, s *drover.Server, database string) *sqlledger.Ledger {
	t.Helper()
	key, err := ledger.LoadKey(filepath.Join(s.DataDir, "master.key"))
	if err != nil {
		t.Fatal(err)
	}
	if database == "" {
		database = filepath.Join(s.DataDir, "drover.db")
	}
	l, err := sqlledger.Open(context.Background(), sqlledger.Config{URL: database, Kinds: app.Kinds(), Key: key, MaxBatch: 4096, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

var (
	phasesOf = []string{"ready", "ready", "ready", "ready", "failed", "provisioning", "suspended"}
	regions  = []string{"us-east-1", "eu-west-1", "ap-south-1", "local"}
)

func variant(o ledger.Object, i int) ledger.Object {
	old := o.Name
	o.ID = ledger.NewID()
	o.Org = "big"
	if i >= largest {
		o.Org = fmt.Sprintf("org-%03d", i%999)
	}
	o.Name = fmt.Sprintf("dino-%07d", (i*7919)%10_000_019)
	o.Owner = fmt.Sprintf("user-%d", i%97)
	o.Phase = phasesOf[i%len(phasesOf)]
	o.Parent = ""
	fields := ledger.Fields{}
	for k, v := range o.Fields {
		fields[k] = v
	}
	fields["cluster"] = fmt.Sprintf("cluster-%d", i%40)
	fields["region"] = regions[i%len(regions)]
	fields["host"] = o.Name + ".example.org"
	fields["version"] = fmt.Sprintf("1.%d.0", i%9)
	fields["multi_az"] = i%2 == 0
	o.Fields = fields
	o.View = bytes.ReplaceAll(o.View, []byte(old), []byte(o.Name))
	return o
}

func TestMillion(t *testing.T) {
	n := many()
	each(t, func(t *testing.T, e engine) {
		args := e.args(t)
		database := ""
		if len(args) > 0 {
			database = args[1]
		}
		s := drover.Serve(t, args...)
		simulate(t, s, 10_000_000) // at work in both runs alike, and back after the restarts
		u := user(t, s, "alice", "acme")
		load(t, s.PID(), 8, time.Minute, 1000, func(i int64) (int, error) { return create(u, fmt.Sprintf("seed-%d", i)) })
		few := creates(t, s, u, "few")
		s.Stop()
		seed(t, s, database, 0, min(n, 100_000))
		restart(t, e, s, min(n, 100_000))
		s.Stop()
		seed(t, s, database, min(n, 100_000), n)

		s.Start(t)
		u = user(t, s, "alice", "acme")
		big := user(t, s, "user-5", "big")
		pages(t, e, s, big, n)

		lots := creates(t, s, u, "lots")
		t.Logf("few: %.2f ms of server CPU, p50 %s p99 %s; lots: %.2f, %s %s", few.serverMS, quantile(few.latency, .5), quantile(few.latency, .99),
			lots.serverMS, quantile(lots.latency, .5), quantile(lots.latency, .99))
		report(fmt.Sprintf("cost of a create with %d rows against 1,000", n), e.name,
			fmt.Sprintf("%.2f x (%.0f/s against %.0f/s)", few.perSecond()/lots.perSecond(), lots.perSecond(), few.perSecond()), "<= 1.3 x")

		s.Kill()
		queries(t, e, direct(t, s, database), n)
	})
}

// creates measures orders, after some to warm up.
func creates(t *testing.T, s *drover.Server, c *caller, name string) rate {
	t.Helper()
	load(t, s.PID(), 8, 20*time.Second, 0, func(i int64) (int, error) { return create(c, fmt.Sprintf("%s-warm-%d", name, i)) })
	return load(t, s.PID(), 8, 10*time.Second, 0, func(i int64) (int, error) { return create(c, fmt.Sprintf("%s-%d", name, i)) })
}

// restart kills the server, if it runs, and measures until the new one reacts.
func restart(t *testing.T, e engine, s *drover.Server, n int) {
	t.Helper()
	began := time.Now()
	if err := s.Launch(); err != nil {
		t.Fatal(err)
	}
	if err := s.Await(time.Minute); err != nil {
		t.Fatal(err)
	}
	u := user(t, s, "alice", "acme")
	p := watch(t, s)
	if status, err := create(u, "again"); err != nil || status != 202 {
		t.Fatalf("create after restart: %d %v", status, err)
	}
	p.await(t, "preparing", 1, time.Minute)
	p.stop() // a watcher costs, and there was none in the other run
	report(fmt.Sprintf("start with %d instances until it reacts to a new create", n), e.name,
		time.Since(began).Round(time.Millisecond).String(), "< 1 s")
}

// queries asks the ledger itself, so that pages and totals can be told apart.
func queries(t *testing.T, e engine, l *sqlledger.Ledger, n int) {
	t.Helper()
	defer l.Close()
	compare := func(column string, op ledger.Op, values ...any) ledger.Expr {
		return ledger.Compare{Column: column, Op: op, Values: values}
	}
	conditions := []ledger.Expr{nil, compare("name", ledger.Like, "%77%"), compare("phase", ledger.ILike, "FAIL%"),
		compare("region", ledger.Like, "%west%"), compare("provider", ledger.Eq, "nowhere"),
		compare("phase", ledger.In, "failed", "suspended"), compare("owner", ledger.Ne, "user-5"),
		ledger.And{compare("region", ledger.Eq, "us-east-1"), ledger.Or{compare("phase", ledger.Eq, "ready"), compare("name", ledger.Like, "dino-00%")}}}
	orders := []string{"host", "provider", "cluster", "created", "id", "instance_type", "multi_az", "name", "org", "owner", "region", "phase", "updated", "version"}
	var pages, totals []time.Duration
	for range 3 {
		for _, where := range conditions {
			for i, order := range orders {
				q := ledger.Query{Kind: instance.Kind.Name, Scope: map[string]any{"offering": "dinosaur", "org": "big"},
					Where: where, Order: []ledger.Order{{Column: order, Desc: i%2 == 0}}, Limit: 100, Brief: true}
				began := time.Now()
				if _, err := l.List(t.Context(), q); err != nil {
					t.Fatal(err)
				}
				pages = append(pages, time.Since(began))
				began = time.Now()
				if _, err := l.Total(t.Context(), q); err != nil {
					t.Fatal(err)
				}
				if where != nil {
					totals = append(totals, time.Since(began))
				}
			}
		}
	}
	slices.Sort(pages)
	slices.Sort(totals)
	report(fmt.Sprintf("first page of 100, any search and order, %d instances, the organisation has 10,000: p50 / p99", n), e.name,
		ms(quantile(pages, .5))+" / "+ms(quantile(pages, .99)), "p99 < 50 ms")
	report("its filtered total: p50 / p99", e.name, ms(quantile(totals, .5))+" / "+ms(quantile(totals, .99)), "< 250 ms")
}

// pages asks for first pages with every search and order that the API allows.
func pages(t *testing.T, e engine, s *drover.Server, c *caller, n int) {
	searches := []string{"", "name = dino-0000001", "name LIKE %77%", "name ILIKE DINO-00%", "region = us-east-1 AND status = ready",
		"owner = user-5 OR status = failed", "status <> ready", "cloud_provider = nowhere"}
	orders := []string{"host", "cloud_provider", "cluster_id", "created_at", "href", "id", "instance_type", "multi_az", "name",
		"organisation_id", "owner", "region", "status", "updated_at", "version"}
	var took []time.Duration
	worst := map[string]time.Duration{}
	for range 3 {
		for _, search := range searches {
			for _, order := range orders {
				q := url.Values{"size": {"100"}, "orderBy": {order + " desc"}}
				if search != "" {
					q.Set("search", search)
				}
				began := time.Now()
				status, err := c.do("GET", api+"?"+q.Encode(), "")
				d := time.Since(began)
				if err != nil || status != 200 {
					t.Fatalf("search %q order %q: %d %v", search, order, status, err)
				}
				took = append(took, d)
				key := search + " by " + order
				worst[key] = max(worst[key], d)
			}
		}
	}
	slices.Sort(took)
	slowest := ""
	for k, d := range worst {
		if d == took[len(took)-1] {
			slowest = k
		}
	}
	report(fmt.Sprintf("the same by GET, page and total together, %d instances: p50 / p99 / max", n), e.name,
		fmt.Sprintf("%s / %s / %s (%s)", ms(quantile(took, .5)), ms(quantile(took, .99)), ms(took[len(took)-1]), slowest), "-")
}
