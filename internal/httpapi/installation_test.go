package httpapi_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/httpapi"
	"github.com/droverhq/drover/internal/ledger"
)

// replica is a second server on the same ledger; edit may change its configuration.
func (w *world) replica(edit ...func(*httpapi.Config)) *world {
	w.Helper()
	r := &world{
		T: w.T, ledger: w.ledger, gate: w.gate, away: w.away, offerings: w.offerings, instances: w.instances,
		clusters: cluster.NewService(w.ledger), log: &bytes.Buffer{}, written: make(chan struct{}, 1),
	}
	feed := ledger.NewFeed(w.ledger)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = feed.Run(ctx) })
	c := httpapi.Config{
		Ending: ctx,
		Ledger: w.ledger, Feed: feed, Offerings: w.offerings, Instances: r.instances, Clusters: r.clusters,
		Heartbeat: 100 * time.Millisecond, Authenticator: w.gate, Log: slog.New(slog.NewTextHandler(r, nil)),
	}
	for _, e := range edit {
		e(&c)
	}
	handler, err := httpapi.New(c)
	if err != nil {
		w.Fatal(err)
	}
	r.server = httptest.NewServer(recording(handler))
	w.Cleanup(func() {
		r.server.CloseClientConnections()
		r.server.Close()
		stop()
		running.Wait()
	})
	return r
}

func TestOneInstallationRunsACluster(t *testing.T) {
	one := newWorld(t)
	two := one.replica()
	one.register("c1")
	home, away := one.agent("c1"), two.agent("c1")
	away.process, away.home = "a2", "away"
	home.sync()
	var e v1.Error
	two.want(409, "agent-c1", http.MethodPost, "/api/v1/clusters/c1/sync", text(t, away.message()), &e)
	if !strings.Contains(e.Reason, "cluster c1 belongs to another agent installation") ||
		!strings.Contains(e.Reason, "drover update cluster c1 --set installation=away") {
		t.Errorf("it is not told what to do: %s", e.Reason)
	}
	nameless := two.agent("c1")
	nameless.process, nameless.home = "a2", ""
	if got := nameless.try(); got != 409 {
		t.Errorf("an agent without an installation is answered %d", got)
	}
	two.want(409, "agent-c1", http.MethodGet, "/api/dinosaurs_mgmt/v1/agent-clusters/c1/dinosaurs", "", nil)
	moved := two.agent("c1") // the same process at another replica
	moved.number = home.number
	moved.sync()
	moved.sync()
	seq := one.head().Seq
	moved.sync()
	if now := one.head().Seq; now != seq {
		t.Errorf("a heartbeat wrote %d changes", now-seq)
	}

	// Who had it hears nothing more after it was handed over, not even on a
	// message that waits.
	q := moved.message()
	q.Wait = true
	lost := make(chan int, 1)
	go func() {
		status, _, _ := moved.post(t.Context(), q)
		lost <- status
	}()
	two.want(403, "agent-c1", http.MethodPatch, "/api/v1/clusters/c1", `{"installation": "away"}`, nil)
	two.want(403, "alice", http.MethodPatch, "/api/v1/clusters/c1", `{"installation": "away"}`, nil)
	two.want(404, "root", http.MethodPatch, "/api/v1/clusters/c9", `{"installation": "away"}`, nil)
	two.want(400, "root", http.MethodPatch, "/api/v1/clusters/c1", `{}`, nil)
	two.want(400, "root", http.MethodPatch, "/api/v1/clusters/c1", `{"installation": "a b"}`, nil)
	two.want(200, "root", http.MethodPatch, "/api/v1/clusters/c1", `{"installation": "away"}`, nil)
	if _, status := one.cluster("c1"); status.Installation != "away" {
		t.Errorf("the cluster belongs to %+v", status)
	}
	if got := <-lost; got != 409 {
		t.Errorf("the old one, which waits, is answered %d", got)
	}
	if got := home.try(); got != 409 {
		t.Errorf("the old one is answered %d", got)
	}
	one.agentAs(away).sync()
}

// agentAs is an agent that speaks to this replica.
func (w *world) agentAs(d *dataPlane) *dataPlane {
	moved := *d
	moved.world = w
	return &moved
}

// Outside agents tell no installation: they count as one.
func TestAnOutsideAgentsClusterIsNotRunByAnother(t *testing.T) {
	w := newWorld(t)
	w.register("c1")
	const base = "/api/dinosaurs_mgmt/v1/agent-clusters/c1/"
	w.want(200, "root", http.MethodGet, base+"dinosaurs", "", nil) // a look takes nothing
	w.want(200, "agent-c1", http.MethodGet, base+"dinosaurs", "", nil)
	two := w.replica()
	if got := two.agent("c1").try(); got != 409 {
		t.Errorf("Drover's own agent is answered %d", got)
	}
	two.want(200, "agent-c1", http.MethodPut, base+"status", `{}`, nil)
}

// A token of an agent whose cluster is gone is not good for the next cluster of
// that name, at any door.
func TestTokensDoNotOutliveTheirCluster(t *testing.T) {
	w := newWorld(t)
	w.register("c1")
	old := w.agent("c1")
	old.sync()
	o, err := w.clusters.Get(t.Context(), "c1")
	if err != nil {
		t.Fatal(err)
	}
	version := o.Version
	o.Deleted = time.Now()
	if _, err := w.ledger.Commit(t.Context(), ledger.Set{Actor: "test", Cause: ledger.BySchedule("test"), Puts: []ledger.Put{{Object: o, Expect: version, Op: "delete"}}}); err != nil {
		t.Fatal(err)
	}
	w.clusters.Leave("c1", old.process) // it need not be waited for
	w.register("c1")
	next := w.agent("c1")
	next.who, next.process, next.home = "later-c1", "a2", "elsewhere"
	next.sync()
	if got := old.try(); got != 404 {
		t.Errorf("the old token is answered %d", got)
	}
	w.want(404, "agent-c1", http.MethodGet, "/api/dinosaurs_mgmt/v1/agent-clusters/c1/dinosaurs", "", nil)
	w.want(404, "agent-c1", http.MethodPut, "/api/dinosaurs_mgmt/v1/agent-clusters/c1/status", `{}`, nil)
	next.sync()
}
