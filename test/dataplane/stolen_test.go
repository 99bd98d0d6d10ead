//go:build e2e

package dataplane_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/droverhq/drover/test/drover"
	"github.com/droverhq/drover/test/kubernetes"
)

// Whoever steals the token of one cluster's agent learns nothing of others, and
// changes nothing there: every route of the server is tried with it.
func TestStolenAgentToken(t *testing.T) {
	t.Parallel()
	k := kubernetes.Start(t, kubernetes.WithControllers())
	k.Node(t, "n1", "8", "32Gi")
	kubelet(t, k)
	w := start(t)
	p := w.register("edge", "north", k)
	const marked = "whispered-only-here"
	w.order("corner", "north", map[string]any{"greeting": marked})
	w.is("shops", "corner", "ready")
	before := look(t, k)
	thief := w.s.Cluster(t, "stolen")

	var document struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	answer := w.ask(http.MethodGet, "/openapi.json", "")
	if err := json.Unmarshal(answer.Body, &document); err != nil || len(document.Paths) < 20 {
		t.Fatalf("the document of the API: %d, %v, %d paths", answer.Status, err, len(document.Paths))
	}
	corner, err := w.c.Get(t.Context(), "shops", "corner", "")
	if err != nil {
		t.Fatal(err)
	}
	head, err := w.c.Ledger(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for path, methods := range document.Paths {
		for method := range methods {
			method = strings.ToUpper(method)
			if method == "PARAMETERS" {
				continue
			}
			for _, id := range []string{"edge", corner.ID, "corner"} {
				url := path
				for strings.Contains(url, "{") {
					i, j := strings.Index(url, "{"), strings.Index(url, "}")
					fill := id
					if strings.Contains(url[i:j], "resource") {
						fill = "shops"
					}
					url = url[:i] + fill + url[j+1:]
				}
				if strings.HasSuffix(url, "/watch") || strings.HasSuffix(url, "/changes") {
					url += "?limit=1"
				}
				got, err := drover.Ask(drover.Request{Method: method, URL: w.s.URL() + url, Token: thief, Body: []byte(`{}`), Timeout: 3e9})
				tried++
				if strings.Contains(string(got.Body), marked) || strings.Contains(string(got.Body), corner.ID) && !strings.Contains(url, corner.ID) {
					t.Errorf("%s %s tells of another cluster's instance (%d, %v): %.200s", method, url, got.Status, err, got.Body)
				}
				named := strings.Contains(path, "{")
				if method != http.MethodGet && named && got.Status/100 == 2 {
					t.Errorf("%s %s is done: %d %.200s", method, url, got.Status, got.Body)
				}
			}
		}
	}
	t.Logf("%d requests on %d paths", tried, len(document.Paths))

	sync := func(cluster, body string) int {
		return drover.Must(t, drover.Request{Method: http.MethodPost, URL: w.s.URL() + "/api/v1/clusters/" + cluster + "/sync", Token: thief, Body: []byte(body)}).Status
	}
	if got := sync("edge", `{"protocol":1,"agent":"thief","installation":"thief","number":1,"ready":true}`); got != http.StatusNotFound {
		t.Errorf("it speaks for the other cluster: %d", got)
	}
	// In its own cluster's name it can speak of the other's instance, and is not believed.
	lie, err := json.Marshal(map[string]any{"protocol": 1, "ledger": head.Ledger, "epoch": head.Epoch, "agent": "thief", "installation": "thief", "number": 1, "ready": true, "bodies": []string{corner.ID},
		"items": []map[string]any{{"id": corner.ID, "generation": corner.Generation, "state": "deleted"}}})
	if err != nil {
		t.Fatal(err)
	}
	own := drover.Must(t, drover.Request{Method: http.MethodPost, URL: w.s.URL() + "/api/v1/clusters/stolen/sync", Token: thief, Body: lie})
	if own.Status != http.StatusOK || strings.Contains(string(own.Body), marked) {
		t.Errorf("its own sync: %d %.200s", own.Status, own.Body)
	}
	w.is("shops", "corner", "ready")
	p.converges("drover-"+corner.ID, "still here")
	unharmed(t, k, before)
}
