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
	const path = "/api/v1/clusters/c1/desired"
	first := one.listen("agent-c1", path+"?agent=a1&installation=home", "")
	first.desired()
	two.report(409, "agent-c1", "c1", map[string]any{"agent": "a2", "installation": "away"})
	var e v1.Error
	two.want(409, "agent-c1", http.MethodGet, path+"?agent=a2&installation=away", "", &e)
	if !strings.Contains(e.Reason, "cluster c1 belongs to another agent installation") ||
		!strings.Contains(e.Reason, "drover update cluster c1 --set installation=away") {
		t.Errorf("it is not told what to do: %s", e.Reason)
	}
	two.want(409, "agent-c1", http.MethodGet, path+"?agent=a2", "", nil)
	two.want(409, "agent-c1", http.MethodGet, "/api/dinosaurs_mgmt/v1/agent-clusters/c1/dinosaurs", "", nil)
	two.want(400, "agent-c1", http.MethodGet, path+"?agent=a2&installation=%60reboot%60", "", nil)
	two.report(400, "agent-c1", "c1", map[string]any{"installation": "a b"})
	two.report(200, "agent-c1", "c1", map[string]any{"agent": "a1", "installation": "home"})
	seq := one.head().Seq
	two.report(200, "agent-c1", "c1", map[string]any{"agent": "a1", "installation": "home", "number": 2})
	if now := one.head().Seq; now != seq {
		t.Errorf("a heartbeat wrote %d changes", now-seq)
	}

	// Who had it hears nothing more after it was handed over.
	two.want(403, "agent-c1", http.MethodPatch, "/api/v1/clusters/c1", `{"installation": "away"}`, nil)
	two.want(403, "alice", http.MethodPatch, "/api/v1/clusters/c1", `{"installation": "away"}`, nil)
	two.want(404, "root", http.MethodPatch, "/api/v1/clusters/c9", `{"installation": "away"}`, nil)
	two.want(400, "root", http.MethodPatch, "/api/v1/clusters/c1", `{}`, nil)
	two.want(400, "root", http.MethodPatch, "/api/v1/clusters/c1", `{"installation": "a b"}`, nil)
	var o struct {
		Status struct{ Installation string }
	}
	two.want(200, "root", http.MethodPatch, "/api/v1/clusters/c1", `{"installation": "away"}`, nil)
	two.want(200, "root", http.MethodGet, "/api/v1/clusters/c1", "", &o)
	if o.Status.Installation != "away" {
		t.Errorf("the cluster belongs to %+v", o)
	}
	if event, more := first.next(); more {
		t.Errorf("the old one is told %+v", event)
	}
	one.report(409, "agent-c1", "c1", map[string]any{"agent": "a1", "installation": "home", "number": 3})
	one.listen("agent-c1", path+"?agent=a2&installation=away", "").desired()
}

// Outside agents tell no installation: they count as one.
func TestAnOutsideAgentsClusterIsNotRunByAnother(t *testing.T) {
	w := newWorld(t)
	w.register("c1")
	const base = "/api/dinosaurs_mgmt/v1/agent-clusters/c1/"
	w.want(200, "root", http.MethodGet, base+"dinosaurs", "", nil) // a look takes nothing
	w.want(200, "agent-c1", http.MethodGet, base+"dinosaurs", "", nil)
	two := w.replica()
	two.want(409, "agent-c1", http.MethodGet, "/api/v1/clusters/c1/desired?agent=a1&installation=home", "", nil)
	two.want(200, "agent-c1", http.MethodPut, base+"status", `{}`, nil)
}
