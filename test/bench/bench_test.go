//go:build bench

package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/droverhq/drover/api/client"
	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/agent"
	"github.com/droverhq/drover/internal/runtime/simulated"
	"github.com/droverhq/drover/test/drover"
	"github.com/droverhq/drover/test/postgres"
)

const api = "/api/dinosaurs_mgmt/v1/dinosaurs"

// engine is a database to measure on.
type engine struct {
	name string
	args func(t *testing.T) []string // flags of the server
}

func engines() []engine {
	return []engine{
		{"SQLite", func(*testing.T) []string { return nil }},
		{"PostgreSQL", func(t *testing.T) []string { return []string{"--database", postgres.Database(t)} }},
	}
}

// row is one line of the table.
type row struct{ what, engine, ours, aim string }

var table struct {
	sync.Mutex
	rows []row
}

func report(what, engine, ours, aim string) {
	table.Lock()
	defer table.Unlock()
	table.rows = append(table.rows, row{what, engine, ours, aim})
	fmt.Printf("| %s | %s | %s | %s |\n", what, engine, ours, aim)
}

func TestMain(m *testing.M) {
	code := m.Run()
	fmt.Printf("\n%s, %s/%s, %d cores, %s\n\n| what | database | measured | aim |\n|---|---|---|---|\n",
		time.Now().UTC().Format("2006-01-02"), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version())
	for _, r := range table.rows {
		fmt.Printf("| %s | %s | %s | %s |\n", r.what, r.engine, r.ours, r.aim)
	}
	os.Exit(code)
}

func each(t *testing.T, run func(t *testing.T, e engine)) {
	for _, e := range engines() {
		t.Run(e.name, func(t *testing.T) { run(t, e) })
	}
}

// simulate runs an agent whose data plane installs at once, until the test ends.
func simulate(t *testing.T, s *drover.Server, units int64) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := simulateUntil(ctx, t, s, units)
	t.Cleanup(func() { cancel(); <-done })
}

func simulateUntil(ctx context.Context, t *testing.T, s *drover.Server, units int64) (done chan struct{}) {
	t.Helper()
	return simulateIn(ctx, t, s, v1.CreateCluster{Name: "local", Provider: "local", Region: "local"}, units)
}

// simulateIn registers a cluster and runs its agent until ctx ends.
func simulateIn(ctx context.Context, t *testing.T, s *drover.Server, in v1.CreateCluster, units int64) (done chan struct{}) {
	t.Helper()
	admin := s.Client(t)
	if _, err := admin.Create(t.Context(), "clusters", in); err != nil {
		t.Fatal(err)
	}
	token, err := admin.Token(t.Context(), v1.TokenRequest{Cluster: in.Name})
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(client.Config{Server: s.URL(), Token: token.Token})
	if err != nil {
		t.Fatal(err)
	}
	a, err := agent.New(agent.Config{
		Client: c, Cluster: in.Name, Dir: t.TempDir(),
		Runtime: simulated.New(simulated.Config{Capacity: units}),
	})
	if err != nil {
		t.Fatal(err)
	}
	done = make(chan struct{})
	go func() { defer close(done); _ = a.Run(ctx) }()
	return done
}

// user is a caller of one organisation.
func user(t *testing.T, s *drover.Server, name, org string) *caller {
	t.Helper()
	token, err := s.Client(t).Token(t.Context(), v1.TokenRequest{User: name, Org: org})
	if err != nil {
		t.Fatal(err)
	}
	return newCaller(s.URL(), token.Token)
}

func create(c *caller, name string) (int, error) {
	return c.do("POST", api+"?async=true", fmt.Sprintf(`{"name":%q}`, name))
}

// phases records when each instance was first seen in a phase, from the log.
type phases struct {
	mu   sync.Mutex
	seen map[string]map[string]time.Time // name, phase
	more chan struct{}
	stop context.CancelFunc
}

func watch(t *testing.T, s *drover.Server) *phases {
	t.Helper()
	return watchOf(t, s, "instances")
}

func watchOf(t *testing.T, s *drover.Server, resource string) *phases {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	p := &phases{seen: map[string]map[string]time.Time{}, more: make(chan struct{}, 1), stop: cancel}
	c := s.Client(t)
	t.Cleanup(cancel)
	head, err := c.Ledger(ctx)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for change, err := range c.Watch(ctx, client.WatchOptions{After: head.Seq, Resource: resource}) {
			if err != nil {
				return
			}
			now := time.Now()
			p.mu.Lock()
			m := p.seen[change.Object.Name]
			if m == nil {
				m = map[string]time.Time{}
				p.seen[change.Object.Name] = m
			}
			if _, ok := m[change.Object.Phase]; !ok {
				m[change.Object.Phase] = now
			}
			p.mu.Unlock()
			select {
			case p.more <- struct{}{}:
			default:
			}
		}
	}()
	return p
}

// await waits until n instances were seen in a phase and returns when each was.
func (p *phases) await(t *testing.T, phase string, n int, d time.Duration) map[string]time.Time {
	t.Helper()
	deadline := time.After(d)
	for {
		p.mu.Lock()
		got := map[string]time.Time{}
		for name, m := range p.seen {
			if at, ok := m[phase]; ok {
				got[name] = at
			}
		}
		p.mu.Unlock()
		if len(got) >= n {
			return got
		}
		select {
		case <-p.more:
		case <-deadline:
			t.Fatalf("%d of %d are %s after %s", len(got), n, phase, d)
		}
	}
}

func TestPostToReady(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		s := drover.Serve(t, e.args(t)...)
		simulate(t, s, 1_000_000)
		u := user(t, s, "alice", "acme")
		p := watch(t, s)
		const n, pace = 1000, 20 * time.Millisecond
		posted := make(map[string]time.Time, n)
		var mu sync.Mutex
		var wg sync.WaitGroup
		tick := time.NewTicker(pace)
		defer tick.Stop()
		for i := range n {
			<-tick.C
			name := fmt.Sprintf("rex-%d", i)
			wg.Go(func() {
				at := time.Now()
				if status, err := create(u, name); err != nil || status != 202 {
					t.Errorf("create %s: %d %v", name, status, err)
				}
				mu.Lock()
				posted[name] = at
				mu.Unlock()
			})
		}
		wg.Wait()
		ready := p.await(t, "ready", n, time.Minute)
		var took []time.Duration
		for name, at := range posted {
			took = append(took, ready[name].Sub(at))
		}
		slices.Sort(took)
		report("POST → ready at 50 creates/s, p50 / p99 / max", e.name,
			fmt.Sprintf("%s / %s / %s", ms(quantile(took, .5)), ms(quantile(took, .99)), ms(took[len(took)-1])), "< 50 ms / < 250 ms")
	})
}

func TestReadsAndCreates(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		s := drover.Serve(t, e.args(t)...)
		u := user(t, s, "alice", "acme")
		load(t, s.PID(), 8, time.Minute, 1000, func(i int64) (int, error) { return create(u, fmt.Sprintf("seed-%d", i)) })
		r := load(t, s.PID(), 8, 10*time.Second, 0, func(i int64) (int, error) { return create(u, fmt.Sprintf("new-%d", i)) })
		report("creates/s, 1,000 rows present, c=8", e.name, fmt.Sprintf("%.0f/s (p99 %s)", r.perSecond(), ms(r.quantile(.99))), ">= 500/s")

		_, body, err := u.read("GET", api+"?size=1", "")
		var list struct{ Items []struct{ ID string } }
		if err != nil || json.Unmarshal(body, &list) != nil || len(list.Items) == 0 {
			t.Fatalf("no list: %v %s", err, body)
		}
		one := api + "/" + list.Items[0].ID
		r = load(t, s.PID(), 8, 8*time.Second, 0, func(int64) (int, error) { return u.do("GET", one, "") })
		report("GET one, c=8", e.name, fmt.Sprintf("%.0f/s, server CPU %.3f ms", r.perSecond(), r.serverMS), ">= 5,260/s; <= 0.15 ms")
		r = load(t, s.PID(), 8, 8*time.Second, 0, func(int64) (int, error) { return u.do("GET", api, "") })
		report("list 100, c=8", e.name, fmt.Sprintf("%.0f/s, server CPU %.3f ms", r.perSecond(), r.serverMS), ">= 1,060/s; <= 1.5 ms")
	})
}

func TestFailOver(t *testing.T) {
	dsn := postgres.Database(t)
	a := drover.Serve(t, "--database", dsn)
	key := filepath.Join(a.DataDir, "master.key")
	b := drover.Serve(t, "--database", dsn, "--master-key-file", key)
	simulate(t, b, 1_000_000)
	p := watch(t, b)
	ua, ub := user(t, a, "alice", "acme"), user(t, b, "alice", "acme")
	accepted := 0
	var killed time.Time
	for i := range 400 {
		c := ub
		if killed.IsZero() && i%2 == 0 {
			c = ua
		}
		if status, err := create(c, fmt.Sprintf("rex-%d", i)); err == nil && status == 202 {
			accepted++
		}
		if i == 200 {
			a.Kill()
			killed = time.Now()
		}
	}
	ready := p.await(t, "ready", accepted, time.Minute)
	last := slices.MaxFunc(slices.Collect(maps.Values(ready)), time.Time.Compare)
	report("fail-over: kill -9 of a replica until everything accepted is ready", "PostgreSQL", last.Sub(killed).Round(time.Millisecond).String(), "< 5 s")
}

func TestIdleFleet(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		s := drover.Serve(t, e.args(t)...)
		simulate(t, s, 1_000_000)
		p := watch(t, s)
		u := user(t, s, "alice", "acme")
		load(t, s.PID(), 8, time.Minute, 1000, func(i int64) (int, error) { return create(u, fmt.Sprintf("rex-%d", i)) })
		p.await(t, "ready", 1000, time.Minute)
		before := atRest(t, s)
		time.Sleep(35 * time.Second) // what is measured is that nothing happens
		report("writes of an idle fleet of 1,000 in 35 s", e.name, fmt.Sprint(commits(t, s)-before), "0")
	})
}

// atRest waits until what was done is told and sealed too: three seconds without a
// commit. It returns their number.
func atRest(t *testing.T, s *drover.Server) int64 {
	t.Helper()
	n, since := commits(t, s), time.Now()
	for start := time.Now(); time.Since(since) < 3*time.Second; time.Sleep(100 * time.Millisecond) {
		if now := commits(t, s); now != n {
			n, since = now, time.Now()
		}
		if time.Since(start) > time.Minute {
			t.Fatal("it never comes to rest")
		}
	}
	return n
}

// commits counts the batches that the server has written.
func commits(t *testing.T, s *drover.Server) int64 {
	t.Helper()
	c := newCaller(s.URL(), "")
	_, body, err := c.read("GET", "/metrics", "")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(body)) {
		var n float64
		if _, err := fmt.Sscanf(line, "drover_ledger_commits_total %g", &n); err == nil {
			return int64(n)
		}
	}
	t.Fatal("the server counts no commits")
	return 0
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond)) }
