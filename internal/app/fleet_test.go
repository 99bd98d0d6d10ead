package app_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/api/client"
	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/agent"
	"github.com/droverhq/drover/internal/app"
	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/runtime/simulated"
	"github.com/droverhq/drover/internal/sqlledger"
	"github.com/droverhq/drover/test/postgres"
)

const patience = time.Minute // for what must come

var key = strings.Repeat("5a", ledger.KeySize)

// serve runs a control plane in this process until stop, or the end of the test.
func serve(t *testing.T, c app.Settings) (s *app.Server, stop func()) {
	t.Helper()
	c.Listen, c.MasterKey, c.LogLevel = "127.0.0.1:0", key, "error"
	ctx, cancel := context.WithCancel(context.Background())
	s, err := app.New(ctx, app.Config{Settings: c})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- s.Run(ctx) }() // ends with ctx
	ended := false
	stop = func() {
		if cancel(); !ended {
			ended = true
			if err := <-done; err != nil {
				t.Errorf("the server ended with %v", err)
			}
		}
	}
	t.Cleanup(stop)
	return s, stop
}

// scrape returns the series of the fleet, but for the buckets of histograms.
func scrape(t *testing.T, s *app.Server) map[string]string {
	t.Helper()
	resp, err := http.Get(s.URL() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	out := map[string]string{}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		series, value, _ := strings.Cut(lines.Text(), " ")
		if strings.HasPrefix(series, "drover_instance") || strings.HasPrefix(series, "drover_cluster_") {
			if !strings.Contains(series, "_bucket{") && !strings.Contains(series, "_sum{") {
				out[series] = value
			}
		}
	}
	return out
}

// only keeps what there is, and leaves out what was counted.
func only(all map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range all {
		if !strings.Contains(k, "_total{") && !strings.Contains(k, "_count{") {
			out[k] = v
		}
	}
	return out
}

// admin is a client of the running server.
func admin(t *testing.T, s *app.Server, dir string) *client.Client {
	t.Helper()
	if resp, err := http.Get(s.URL() + "/metrics"); err != nil { // it answers once its token is written
		t.Fatal(err)
	} else {
		resp.Body.Close()
	}
	token, err := os.ReadFile(filepath.Join(dir, "admin.token"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(client.Config{Server: s.URL(), Token: strings.TrimSpace(string(token))})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// await follows the log until an instance of that name is in a phase.
func await(t *testing.T, c *client.Client, name, phase string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for change, err := range c.Watch(ctx, client.WatchOptions{Resource: "instances"}) {
		if err != nil {
			t.Fatalf("%s did not become %s: %v", name, phase, err)
		}
		if change.Object.Name == name && change.Object.Phase == phase {
			return
		}
	}
	t.Fatalf("%s did not become %s", name, phase)
}

// join runs an agent whose data plane does everything at once.
func join(t *testing.T, s *app.Server, admin *client.Client) (stop func()) {
	t.Helper()
	token, err := admin.Token(t.Context(), v1.TokenRequest{Cluster: "here"})
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(client.Config{Server: s.URL(), Token: token.Token})
	if err != nil {
		t.Fatal(err)
	}
	a, err := agent.New(agent.Config{Client: c, Cluster: "here", Dir: t.TempDir(), Runtime: simulated.New(simulated.Config{Capacity: 10})})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = a.Run(ctx) }() // ends with ctx
	return func() { cancel(); <-done }
}

const readyRex = `drover_instances{offering="dinosaur",provider="local",region="local",status="ready",type="standard"}`

// TestFleetMetrics brings an instance up, and looks at what a replica, and the
// next server on the same ledger, tell at their first scrape.
func TestFleetMetrics(t *testing.T) {
	for name, url := range map[string]func(testing.TB) string{
		"SQLite":     func(testing.TB) string { return "" },
		"PostgreSQL": postgres.Database,
	} {
		t.Run(name, func(t *testing.T) { fleet(t, url(t)) })
	}
}

func fleet(t *testing.T, database string) {
	settings := app.Settings{DataDir: t.TempDir(), Database: database}
	s, stop := serve(t, settings)
	if got := scrape(t, s); len(got) != 0 {
		t.Errorf("an empty fleet tells %v", got)
	}
	c := admin(t, s, settings.DataDir)
	if _, err := c.Create(t.Context(), "clusters", v1.CreateCluster{Name: "here", Provider: "local", Region: "local"}); err != nil {
		t.Fatal(err)
	}
	leave := join(t, s, c)
	for _, name := range []string{"rex", "tops"} {
		if _, err := c.Create(t.Context(), "dinosaurs", v1.CreateInstance{Name: name}); err != nil {
			t.Fatal(err)
		}
		await(t, c, name, instance.Ready)
	}
	if _, err := c.Delete(t.Context(), "dinosaurs", "tops"); err != nil {
		t.Fatal(err)
	}
	await(t, c, "tops", instance.Deleting)
	gone := map[string]string{
		readyRex: "1",
		`drover_instances_expiring{offering="dinosaur"}`:                                                                     "0",
		`drover_cluster_units{cluster="here",provider="local",region="local"}`:                                               "10",
		`drover_cluster_units_used{cluster="here",provider="local",region="local"}`:                                          "1",
		`drover_cluster_type_units_used{cluster="here",offering="dinosaur",provider="local",region="local",type="standard"}`: "1",
	}
	settle(t, s, gone)
	all := scrape(t, s)
	if n := all[`drover_instance_time_to_ready_seconds_count{offering="dinosaur"}`]; n != "2" {
		t.Errorf("%s instances were ready, want 2: %v", n, all)
	}
	if database != "" {
		other, end := serve(t, app.Settings{DataDir: t.TempDir(), Database: database})
		if diff := cmp.Diff(gone, scrape(t, other)); diff != "" {
			t.Errorf("another replica's first scrape (-want +got):\n%s", diff)
		}
		end()
	}
	leave()
	stop()
	s, stop = serve(t, settings)
	if diff := cmp.Diff(gone, scrape(t, s)); diff != "" {
		t.Errorf("the first scrape after a restart (-want +got):\n%s", diff)
	}
	stop()

	// What is about to end is told, and what ends is counted.
	for _, step := range []struct {
		reason   string
		end      time.Duration
		expiring string
	}{
		{"ends in a while", 3 * time.Hour, "1"},
		{"ends the day after tomorrow", 50 * time.Hour, "0"},
		{"has ended", -time.Hour, ""},
	} {
		endsAt(t, settings, time.Now().Add(step.end))
		s, stop = serve(t, settings)
		if step.expiring != "" {
			if got := scrape(t, s)[`drover_instances_expiring{offering="dinosaur"}`]; got != step.expiring {
				t.Errorf("%s: %q expire within a day, want %s", step.reason, got, step.expiring)
			}
			stop()
			continue
		}
		await(t, admin(t, s, settings.DataDir), "rex", instance.Deprovision)
		for end := time.Now().Add(patience); ; { // it is counted a moment after it is in the log
			got := scrape(t, s)[`drover_instances_expired_total{offering="dinosaur"}`]
			if got == "1" {
				break
			}
			if got != "" || time.Now().After(end) {
				t.Fatalf("%s: %q were counted, want 1", step.reason, got)
			}
		}
	}
}

// settle scrapes until the fleet is as wanted: what an agent is told, it does in a moment.
func settle(t *testing.T, s *app.Server, want map[string]string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	diff := ""
	for ctx.Err() == nil {
		if diff = cmp.Diff(want, only(scrape(t, s))); diff == "" {
			return
		}
	}
	t.Fatalf("the fleet is not as wanted (-want +got):\n%s", diff)
}

// endsAt gives the one instance another end, behind a server that is stopped.
func endsAt(t *testing.T, settings app.Settings, end time.Time) {
	t.Helper()
	url := settings.Database
	if url == "" {
		url = filepath.Join(settings.DataDir, "drover.db")
	}
	k, err := ledger.ParseKey(key)
	if err != nil {
		t.Fatal(err)
	}
	l, err := sqlledger.Open(t.Context(), sqlledger.Config{URL: url, Key: k, Kinds: app.Kinds()})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	found, err := l.List(t.Context(), ledger.Query{Kind: instance.Kind.Name})
	if err != nil || len(found) != 1 {
		t.Fatalf("found %d instances, %v", len(found), err)
	}
	in, err := instance.Decode(found[0])
	if err != nil {
		t.Fatal(err)
	}
	in.Status.Expires = end.UTC()
	o := found[0]
	if o.Status, err = json.Marshal(in.Status); err != nil {
		t.Fatal(err)
	}
	o.Fields["ends"] = in.Status.Expires.Truncate(time.Hour)
	if _, err := l.Commit(t.Context(), ledger.Set{Actor: "tester", Cause: ledger.BySchedule("test"),
		Puts:  []ledger.Put{{Object: o, Expect: o.Version, Op: "update"}},
		Wakes: []ledger.Wake{{Ref: o.Ref, Org: o.Org}}}); err != nil {
		t.Fatal(err)
	}
}

// A cluster's capacity is told by type where its agent tells the types apart.
func TestCapacityByType(t *testing.T) {
	settings := app.Settings{DataDir: t.TempDir()}
	k, err := ledger.ParseKey(key)
	if err != nil {
		t.Fatal(err)
	}
	l, err := sqlledger.Open(t.Context(), sqlledger.Config{URL: filepath.Join(settings.DataDir, "drover.db"), Key: k, Kinds: app.Kinds()})
	if err != nil {
		t.Fatal(err)
	}
	spec, _ := json.Marshal(cluster.Spec{Provider: "aws", Region: "eu-west-1"})
	status, _ := json.Marshal(cluster.Status{Capacity: 7, Units: map[string]cluster.Units{"kafka/standard": {Max: 5}, "kafka/developer": {Max: 2}}})
	_, err = l.Commit(t.Context(), ledger.Set{Actor: "tester", Cause: ledger.BySchedule("test"),
		Puts: []ledger.Put{{Op: "create", Object: ledger.Object{Ref: ledger.Ref{Kind: cluster.Kind.Name, ID: "c1"}, Name: "c1", Phase: cluster.Ready, Spec: spec, Status: status}}},
		Counts: []ledger.Count{
			{Name: cluster.CapacityCounter("c1"), Delta: 4, Max: -1}, {Name: cluster.TypeCounter("c1", "kafka", "standard"), Delta: 3, Max: -1},
			{Name: cluster.TypeCounter("c1", "dinosaur", "standard"), Delta: 1, Max: -1},
			{Name: cluster.CapacityCounter("c10"), Delta: 9, Max: -1}, // of a cluster that is gone
		}})
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	s, _ := serve(t, settings)
	const at = `cluster="c1",`
	want := map[string]string{
		`drover_cluster_units{` + at + `provider="aws",region="eu-west-1"}`:                                               "7",
		`drover_cluster_units_used{` + at + `provider="aws",region="eu-west-1"}`:                                          "4",
		`drover_cluster_type_units{` + at + `offering="kafka",provider="aws",region="eu-west-1",type="standard"}`:         "5",
		`drover_cluster_type_units{` + at + `offering="kafka",provider="aws",region="eu-west-1",type="developer"}`:        "2",
		`drover_cluster_type_units_used{` + at + `offering="kafka",provider="aws",region="eu-west-1",type="standard"}`:    "3",
		`drover_cluster_type_units_used{` + at + `offering="kafka",provider="aws",region="eu-west-1",type="developer"}`:   "0",
		`drover_cluster_type_units_used{` + at + `offering="dinosaur",provider="aws",region="eu-west-1",type="standard"}`: "1",
	}
	if diff := cmp.Diff(want, scrape(t, s)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
