//go:build e2e

package site

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/droverhq/drover/api/client"
	"github.com/droverhq/drover/test/drover"
)

// The secondary has what the primary has, says how old that may be, and sends whoever
// wants to write to the primary.
func TestSecondaryReadsAndRefusesWrites(t *testing.T) {
	w := pair(t, given{})
	a, b := w.a.Client(t), w.b.Client(t)
	token := w.a.Cluster(t, "edge")
	drover.Join(t, w.a.URL(), "edge", token, "--heartbeat", "1s")

	head, err := b.Ledger(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	phases := make(chan string, 100)
	go func() { // ends with the test
		defer close(phases)
		for c, err := range b.Watch(t.Context(), client.WatchOptions{After: head.Seq}) {
			if err != nil {
				return
			}
			if c.Object.Name == "rex" {
				phases <- c.Object.Phase
			}
		}
	}()
	if err := order(t.Context(), a, "rex"); err != nil {
		t.Fatal(err)
	}
	for p := range phases { // a watch on the secondary
		if p == "ready" {
			break
		}
	}
	awaitPhase(t, b, "rex", "ready")
	for _, args := range [][]string{{"get", "dinosaurs"}, {"describe", "dinosaur", "rex"}, {"audit", "--name", "rex"}, {"ledger"}, {"ledger", "heads"}} {
		stdout, stderr, code := w.b.Run(args...)
		if code != 0 || stdout == "" {
			t.Errorf("drover %s at the secondary: %d %s%s", strings.Join(args, " "), code, stdout, stderr)
		}
		if !strings.Contains(stderr, "from the secondary site") {
			t.Errorf("drover %s does not say that it is the secondary's: %s", strings.Join(args, " "), stderr)
		}
	}
	if stdout, stderr, code := w.b.Run("doctor"); code != 0 && code != 7 {
		t.Errorf("drover doctor at the secondary: %d %s%s", code, stdout, stderr)
	}

	admin, err := w.b.AdminToken()
	if err != nil {
		t.Fatal(err)
	}
	read := drover.Must(t, drover.Request{Method: http.MethodGet, URL: w.b.URL() + "/api/v1/dinosaurs", Token: admin})
	lag, err := strconv.ParseFloat(read.Header.Get("Drover-Lag"), 64)
	if read.Header.Get("Drover-Role") != "secondary" || err != nil || lag < 0 || lag > 120 {
		t.Errorf("a read is marked %v", read.Header)
	}
	if verified := drover.Must(t, drover.Request{Method: http.MethodPost, URL: w.b.URL() + "/api/v1/ledger/verify", Token: admin, Body: []byte(`{}`)}); verified.Status != http.StatusOK || strings.Contains(string(verified.Body), `"flaw"`) {
		t.Errorf("the secondary's copy is verified: %d %s", verified.Status, verified.Body)
	}
	write := drover.Must(t, drover.Request{Method: http.MethodPost, URL: w.b.URL() + "/api/v1/dinosaurs", Token: admin, Body: []byte(`{"name":"late"}`)})
	if write.Status != 421 || write.Header.Get("Drover-Primary") != w.a.URL() || !strings.Contains(write.Error().Reason, w.a.URL()) {
		t.Errorf("a write is answered %d %v %s", write.Status, write.Header, write.Body)
	}
	sync := drover.Must(t, drover.Request{Method: http.MethodPost, URL: w.b.URL() + "/api/v1/clusters/edge/sync", Token: token, Body: []byte(`{}`)})
	if sync.Status != 421 || sync.Header.Get("Drover-Primary") != w.a.URL() {
		t.Errorf("an agent is answered %d %v", sync.Status, sync.Header)
	}
	if _, stderr, code := w.b.Run("create", "dinosaur", "late"); code == 0 || !strings.Contains(stderr, w.a.URL()) {
		t.Errorf("the command line does not say where to write: %d %s", code, stderr)
	}
	if got := phase(a, "late"); !strings.Contains(got, "no") {
		t.Errorf("what was refused is there: %s", got)
	}
	ready := drover.Must(t, drover.Request{Method: http.MethodGet, URL: w.b.URL() + "/readyz"})
	if ready.Status != http.StatusOK || !strings.Contains(string(ready.Body), "reads alone") {
		t.Errorf("the secondary is ready: %d %s", ready.Status, ready.Body)
	}
	metrics := drover.Must(t, drover.Request{Method: http.MethodGet, URL: w.b.URL() + "/metrics"})
	for _, want := range []string{"drover_site_leads 0", "drover_site_epoch 1", "drover_site_lag_seconds", "drover_site_peer_heard 1"} {
		if !strings.Contains(string(metrics.Body), want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
	stdout, stderr, code := w.b.Run("dr", "status")
	if code != 0 || !strings.Contains(stdout, "leading") || !strings.Contains(stdout, "following") {
		t.Errorf("drover dr status: %d %s%s", code, stdout, stderr)
	}
	t.Logf("\n%s", stdout)
}
