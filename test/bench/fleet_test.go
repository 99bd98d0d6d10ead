//go:build bench

package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/api/client"
	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/test/drover"
)

const kafkaAPI = "/api/kafkas_mgmt/v1/kafkas"

// sell applies the shipped kafka offering, with terms to accept, versions that
// need no operator to tell them, and as many trials as anybody likes.
func sell(t *testing.T, s *drover.Server) {
	t.Helper()
	data, err := os.ReadFile("../../offerings/kafka.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for _, edit := range [][2]string{
		{`terms: ""`, `terms: use`},
		{"perOwner: 1\n", "perOwner: 1000000\n"},
		{"- {name: kafka}", `- {name: kafka, versions: ["3.3.1"]}`},
		{"- {name: kafkaIbp, ", `- {name: kafkaIbp, versions: ["3.3"], `},
		{"- {name: strimzi, ", `- {name: strimzi, versions: ["1.0.0"], `},
	} {
		if !strings.Contains(text, edit[0]) {
			t.Fatalf("the shipped offering has changed: no %q", edit[0])
		}
		text = strings.Replace(text, edit[0], edit[1], 1)
	}
	apply(t, s, text)
	var denied []string
	for i := range 1000 {
		denied = append(denied, fmt.Sprintf("mallory-%d", i))
	}
	apply(t, s, "apiVersion: drover.dev/v1\nkind: Terms\nmetadata: {name: use}\nspec: {version: \"1\", url: \"https://example.org/terms\"}\n---\n"+
		"apiVersion: drover.dev/v1\nkind: DenyList\nmetadata: {name: main}\nspec: {users: ["+strings.Join(denied, ", ")+"]}\n")
}

func apply(t *testing.T, s *drover.Server, text string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if stdout, stderr, code := s.Run("apply", "-f", file); code != 0 {
		t.Fatalf("apply: %s%s", stdout, stderr)
	}
}

// grant gives organisations all that they could want of standard kafkas.
func grant(t *testing.T, s *drover.Server, orgs ...string) {
	t.Helper()
	var docs []string
	for _, org := range orgs {
		docs = append(docs, fmt.Sprintf("apiVersion: drover.dev/v1\nkind: Quota\nmetadata: {name: %s}\nspec:\n  organisation: %s\n  anyUser: true\n"+
			"  grants:\n  - {offering: kafka, type: standard, billing: [{model: standard, units: 100000000}]}\n", org, org))
	}
	apply(t, s, strings.Join(docs, "---\n"))
}

// member is a user who has accepted the terms.
func member(t *testing.T, s *drover.Server, name, org string) *caller {
	t.Helper()
	u := user(t, s, name, org)
	c, err := client.New(client.Config{Server: s.URL(), Token: u.token})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Accept(t.Context(), "use", "1"); err != nil {
		t.Fatal(err)
	}
	return u
}

func order(c *caller, name, plan string) (int, error) {
	return c.do("POST", kafkaAPI+"?async=true", fmt.Sprintf(`{"name":%q,"plan":%q,"cloud_provider":"aws","region":"us-east-1"}`, name, plan))
}

// metrics are the series of one scrape.
type metrics map[string]float64

func scrape(t *testing.T, s *drover.Server) metrics {
	t.Helper()
	_, body, err := newCaller(s.URL(), "").read("GET", "/metrics", "")
	if err != nil {
		t.Fatal(err)
	}
	out := metrics{}
	for line := range strings.Lines(string(body)) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		var v float64
		if _, err := fmt.Sscan(value, &v); err == nil {
			out[series] = v
		}
	}
	return out
}

// sum adds the series of a metric that hold all the labels.
func (m metrics) sum(name string, labels ...string) (sum float64) {
	for series, v := range m {
		if n, _, _ := strings.Cut(series, "{"); n == name && !slices.ContainsFunc(labels, func(l string) bool { return !strings.Contains(series, l) }) {
			sum += v
		}
	}
	return sum
}

// until asks twice a second: a scrape costs the server some milliseconds.
func until(t *testing.T, d time.Duration, what string, so func() bool) {
	t.Helper()
	end := time.Now().Add(d)
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		if time.Now().After(end) {
			t.Fatalf("waited %s in vain for %s", d, what)
		}
		<-tick.C
	}
}

// costs are orders together with what the loop did for them until nothing was
// left to do: the processor time of the server for each.
func costs(t *testing.T, s *drover.Server, n int64, send func(i int64) (int, error)) (r rate, each float64) {
	t.Helper()
	load(t, s.PID(), 8, time.Minute, n/10, func(i int64) (int, error) { return send(-i) }) // to warm up
	idle := func() bool {
		m := scrape(t, s)
		return m.sum("drover_work_due", `kind="instance"`)+m.sum("drover_work_running", `kind="instance"`) == 0
	}
	until(t, time.Minute, "the loop to come to rest", idle)
	before := cpu(s.PID())
	r = load(t, s.PID(), 8, 2*time.Minute, n, send)
	until(t, time.Minute, "the loop to come to rest", idle)
	return r, float64(cpu(s.PID())-before) / float64(time.Millisecond) / float64(r.n)
}

// TestPreflight compares an order of a kafka, with quota, terms, a deny list and
// an account for every instance, with one of a plain dinosaur. The clusters are
// ready and their agents away: orders are placed and wait for them.
func TestPreflight(t *testing.T) {
	n := int64(min(many(), 3000))
	each(t, func(t *testing.T, e engine) {
		s := drover.Serve(t, e.args(t)...)
		sell(t, s)
		grant(t, s, "acme")
		simulateAt(t, s, "plain", "local", "local")()
		simulateAt(t, s, "full", "aws", "us-east-1")()
		u := member(t, s, "alice", "acme")
		name := func(prefix string, i int64) string {
			return strings.ReplaceAll(fmt.Sprintf("%s%d", prefix, i), "-", "w")
		}
		plain, plainMS := costs(t, s, n, func(i int64) (int, error) { return create(u, name("rex", i)) })
		full, fullMS := costs(t, s, n, func(i int64) (int, error) { return order(u, name("log", i), "standard.x1") })
		m := scrape(t, s)
		for _, offering := range []string{`offering="dinosaur"`, `offering="kafka"`} {
			if placed, all := m.sum("drover_instances", `status="provisioning"`, offering), m.sum("drover_instances", offering); placed != all {
				t.Errorf("%s: only %.0f of %.0f are placed", offering, placed, all)
			}
		}
		t.Logf("while they were sent: plain %.2f ms, full %.2f ms", plain.serverMS, full.serverMS)
		report("server CPU of a create with full pre-flight against a plain one, the loop's part included, c=8", e.name,
			fmt.Sprintf("%.2f x (%.2f ms against %.2f ms; %.0f/s against %.0f/s)", fullMS/plainMS, fullMS, plainMS, full.perSecond(), plain.perSecond()), "<= 2 x")
	})
}

// simulateAt brings a cluster up that is ready for orders; the result stops its agent.
func simulateAt(t *testing.T, s *drover.Server, id, provider, region string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := simulateIn(ctx, t, s, v1.CreateCluster{Name: id, Provider: provider, Region: region}, 10_000_000)
	until(t, time.Minute, "cluster "+id, func() bool {
		o, err := s.Client(t).Get(t.Context(), "clusters", id, "")
		return err == nil && o.Phase == "ready"
	})
	return func() { cancel(); <-done }
}

// TestTrialsExpire orders trials, gives all of them the same end behind the
// server's back, and measures how long after it the last one is gone: deleted
// on the data plane, its account withdrawn, its units given back.
func TestTrialsExpire(t *testing.T) {
	n := min(many(), 10_000)
	each(t, func(t *testing.T, e engine) {
		args, database := e.args(t), ""
		if len(args) > 0 {
			database = args[1]
		}
		s := drover.Serve(t, args...)
		sell(t, s)
		defer simulateAt(t, s, "trials", "aws", "us-east-1")()
		var users []*caller
		for i := range 50 {
			users = append(users, member(t, s, fmt.Sprintf("user-%d", i), fmt.Sprintf("org-%d", i)))
		}
		r := load(t, s.PID(), 8, 10*time.Minute, int64(n), func(i int64) (int, error) {
			return order(users[i%50], fmt.Sprintf("trial-%d", i), "developer.x1")
		})
		t.Logf("ordered at %.0f/s", r.perSecond())
		ready := func() bool {
			return scrape(t, s).sum("drover_instances", `status="ready"`, `offering="kafka"`) == float64(n)
		}
		until(t, 5*time.Minute, "all trials to be ready", ready)
		s.Stop()
		const ahead = 20 * time.Second // the server is up and all agents are back by then
		end := time.Now().Add(ahead + time.Duration(n)*time.Millisecond)
		endAt(t, s, database, end)
		s.Start(t)
		if !ready() {
			t.Fatal("not all trials are ready after the restart")
		}
		if late := time.Since(end); late > 0 {
			t.Fatalf("the trials ended %s before the server was ready for it", late)
		}
		time.Sleep(time.Until(end)) // what is measured begins now
		used := cpu(s.PID())
		var noticed time.Duration
		until(t, 5*time.Minute, "all trials to be gone", func() bool {
			m := scrape(t, s)
			if noticed == 0 && m.sum("drover_instances_expired_total") == float64(n) {
				noticed = time.Since(end)
			}
			return m.sum("drover_instances", `offering="kafka"`) == 0
		})
		gone := time.Since(end)
		report(fmt.Sprintf("%d trials that expire in the same moment: all noticed / all gone after", n), e.name,
			fmt.Sprintf("%.1f s / %.1f s (server CPU %.1f s)", noticed.Seconds(), gone.Seconds(), (cpu(s.PID())-used).Seconds()), "< 60 s")
	})
}

// endAt gives every instance the same end, with its alarm set for it.
func endAt(t *testing.T, s *drover.Server, database string, end time.Time) {
	t.Helper()
	l := direct(t, s, database)
	defer l.Close()
	for after := ""; ; {
		found, err := l.List(t.Context(), ledger.Query{Kind: instance.Kind.Name, AfterID: after, Limit: 500})
		if err != nil {
			t.Fatal(err)
		}
		if len(found) == 0 {
			return
		}
		after = found[len(found)-1].ID
		set := ledger.Set{Actor: "bench", Cause: ledger.BySchedule("seed")}
		for _, o := range found {
			in, err := instance.Decode(o)
			if err != nil {
				t.Fatal(err)
			}
			in.Status.Expires = end.UTC()
			if o.Status, err = json.Marshal(in.Status); err != nil {
				t.Fatal(err)
			}
			o.Fields["ends"] = in.Status.Expires.Truncate(time.Hour)
			set.Puts = append(set.Puts, ledger.Put{Object: o, Expect: o.Version, Op: "update"})
			set.Wakes = append(set.Wakes, ledger.Wake{Ref: o.Ref, Org: o.Org, After: time.Until(end)})
		}
		if _, err := l.Commit(t.Context(), set); err != nil {
			t.Fatal(err)
		}
	}
}

// TestQuotaOfMany orders by turns in an organisation with very many instances
// and in some with ten each, on one server: what differs is what their quota
// has to be checked against.
func TestQuotaOfMany(t *testing.T) {
	const small = 50
	n := min(many(), 100_000)
	each(t, func(t *testing.T, e engine) {
		args, database := e.args(t), ""
		if len(args) > 0 {
			database = args[1]
		}
		s := drover.Serve(t, args...)
		sell(t, s)
		orgs := []string{"large"}
		for i := range small {
			orgs = append(orgs, fmt.Sprintf("small-%d", i))
		}
		grant(t, s, orgs...)
		few, lots := make([]*caller, small), make([]*caller, small)
		for i := range small {
			few[i], lots[i] = member(t, s, fmt.Sprintf("user-%d", i), orgs[i+1]), member(t, s, fmt.Sprintf("member-%d", i), "large")
		}
		load(t, s.PID(), 8, time.Minute, 10*small, func(i int64) (int, error) { return order(few[i%small], fmt.Sprintf("seed-%d", i), "standard.x1") })
		load(t, s.PID(), 8, time.Minute, 1, func(int64) (int, error) { return order(lots[0], "seed", "standard.x1") })
		s.Stop()
		crowd(t, s, database, n)
		s.Start(t)
		var rates, cpus [2][]float64
		for round := range 6 { // the first one warms up
			for i, callers := range [][]*caller{few, lots} {
				r := load(t, s.PID(), 8, 3*time.Second, 0, func(k int64) (int, error) {
					return order(callers[k%small], fmt.Sprintf("new-%d-%d", round, k), "standard.x1")
				})
				if round > 0 {
					rates[i], cpus[i] = append(rates[i], r.perSecond()), append(cpus[i], r.serverMS)
				}
			}
		}
		mid := func(xs []float64) float64 { slices.Sort(xs); return xs[len(xs)/2] }
		report(fmt.Sprintf("cost of a create with its quota check, %d instances in the organisation against 10", n), e.name,
			fmt.Sprintf("%.2f x (%.0f/s against %.0f/s; server CPU %.2f ms against %.2f ms)", mid(rates[0])/mid(rates[1]),
				mid(rates[1]), mid(rates[0]), mid(cpus[1]), mid(cpus[0])), "<= 1.3 x")
	})
}

// crowd fills the large organisation with copies of its one instance, each
// counted as it is.
func crowd(t *testing.T, s *drover.Server, database string, n int) {
	t.Helper()
	l := direct(t, s, database)
	defer l.Close()
	found, err := l.List(t.Context(), ledger.Query{Kind: instance.Kind.Name, Scope: map[string]any{"org": "large"}})
	if err != nil || len(found) != 1 {
		t.Fatalf("found %d instances to copy: %v", len(found), err)
	}
	in, err := instance.Decode(found[0])
	if err != nil || len(in.Status.Held) == 0 {
		t.Fatalf("it holds no quota: %v", err)
	}
	seedWith(t, l, 0, n, func(set *ledger.Set, i int) {
		o := found[0]
		o.ID, o.Name = ledger.NewID(), fmt.Sprintf("log-%06d", i)
		set.Puts = append(set.Puts, ledger.Put{Object: o, Op: "create"})
		for _, h := range in.Status.Held {
			set.Counts = append(set.Counts, ledger.Count{Name: h.Counter, Delta: h.Units, Max: -1})
		}
	})
}
