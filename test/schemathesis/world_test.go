//go:build e2e

package schemathesis_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/droverhq/drover/test/drover"
)

const (
	kafkas    = "/api/kafkas_mgmt/v1"
	dinosaurs = "/api/dinosaurs_mgmt/v1"
)

const policies = `apiVersion: drover.dev/v1
kind: Quota
metadata: {name: acme}
spec:
  organisation: acme
  anyUser: true
  grants:
  - {offering: kafka, type: standard, units: -1}
---
apiVersion: drover.dev/v1
kind: Terms
metadata: {name: house-rules}
spec: {version: "1", url: https://example.com/rules}
`

const clusterReady = `{"conditions": [{"type": "Ready", "status": "True"}],
	"capacity": {"standard": {"maxUnits": 500, "remainingUnits": 400}, "developer": {"maxUnits": 500, "remainingUnits": 400}},
	"strimzi": [{"ready": true, "version": "strimzi-cluster-operator.v0.10.0", "kafkaVersions": ["3.0.0", "3.1.0"], "kafkaIbpVersions": ["3.0", "3.1"]}]}`

// world is a small fleet without data planes: agents are among those who ask.
type world struct {
	*drover.Server
	operator, tenant, other, agent string // tokens
	ids                            []string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	metrics := httptest.NewServer(http.HandlerFunc(prometheus))
	t.Cleanup(metrics.Close)
	w := &world{Server: drover.Serve(t, "--metrics-url", metrics.URL, "--log-level", "warn")}
	file := filepath.Join(t.TempDir(), "policies.yaml")
	if err := os.WriteFile(file, []byte(policies), 0o600); err != nil {
		t.Fatal(err)
	}
	w.run(t, "apply", "-f", file)
	w.run(t, "create", "cluster", "c1", "--provider", "aws", "--region", "us-east-1")
	w.run(t, "create", "cluster", "c2", "--provider", "local", "--region", "local")
	var err error
	if w.operator, err = w.AdminToken(); err != nil {
		t.Fatal(err)
	}
	w.tenant = w.run(t, "token", "--user", "boss", "--org", "acme", "--org-admin")
	w.other = w.run(t, "token", "--user", "mallory", "--org", "globex")
	w.agent = w.run(t, "token", "--cluster", "c1")
	w.ask(t, w.agent, "PUT", kafkas+"/agent-clusters/c1/status", clusterReady, 200)
	for _, name := range []string{"one", "two"} {
		w.ids = append(w.ids, w.order(t, kafkas+"/kafkas", name))
	}
	w.ids = append(w.ids, w.order(t, dinosaurs+"/dinosaurs", "rex"))
	w.ids = append(w.ids, w.environment(t)...)
	account := w.ask(t, w.tenant, "POST", kafkas+"/service_accounts", `{"name": "robot"}`, 202)
	w.ids = append(w.ids, account["id"].(string), "c1", "c2", "house-rules", "acme", "7", "aws", "local")
	// One that runs, so that more can be asked of it.
	drover.Until(t, "a cluster for a kafka", func() bool {
		w.ask(t, w.agent, "PUT", kafkas+"/agent-clusters/c1/kafkas/status",
			fmt.Sprintf(`{%q: {"conditions": [{"type": "Ready", "status": "True"}]}}`, w.ids[0]), 200)
		return w.ask(t, w.tenant, "GET", kafkas+"/kafkas/"+w.ids[0], "", 200)["status"] == "ready"
	})
	return w
}

const yardTemplate = `apiVersion: drover.dev/v1
kind: Template
metadata: {name: yard}
spec:
  version: 1.0.0
  description: A yard with a gate
  parameters: {type: object, properties: {color: {type: string, default: green, maxLength: 32}}}
  resources:
  - {name: gate, executor: file, external: [{name: street}], with: {path: "${env.id}/gate", content: "${params.color}"}}
  - {name: wall, executor: file, count: 2, with: {path: "${env.id}/wall-${index}", content: "${gate.outputs.path}"}}
  outputs: [{name: gate, value: "${gate.outputs.path}"}]
`

// environment makes one, with a plan of its next change, and returns what they are
// called by.
func (w *world) environment(t *testing.T) []string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "template.yaml"), []byte(yardTemplate), 0o600); err != nil {
		t.Fatal(err)
	}
	w.run(t, "template", "add", dir)
	made := w.ask(t, w.tenant, "POST", "/api/v1/environments", `{"name": "yard", "template": "yard"}`, 202)
	drover.Until(t, "an environment", func() bool {
		return w.ask(t, w.tenant, "GET", "/api/v1/environments/yard", "", 200)["phase"] == "Deployed-OK"
	})
	plan := w.ask(t, w.tenant, "POST", "/api/v1/environments/yard/plan", `{"parameters": {"color": "red"}}`, 202)
	return []string{"yard", made["id"].(string), plan["id"].(string)}
}

func (w *world) run(t *testing.T, args ...string) string {
	t.Helper()
	stdout, stderr, code := w.Run(args...)
	if code != 0 {
		t.Fatalf("drover %s: %s", strings.Join(args, " "), stderr)
	}
	return strings.TrimSpace(stdout)
}

func (w *world) ask(t *testing.T, token, method, path, body string, want int) (out map[string]any) {
	t.Helper()
	a := drover.Must(t, drover.Request{Method: method, URL: w.URL() + path, Token: token, Body: []byte(body)})
	if a.Status != want {
		t.Fatalf("%s %s: status %d: %s", method, path, a.Status, a.Body)
	}
	_ = json.Unmarshal(a.Body, &out) // some answers have no body
	return out
}

func (w *world) order(t *testing.T, path, name string) (id string) {
	t.Helper()
	return w.ask(t, w.tenant, "POST", path+"?async=true", fmt.Sprintf(`{"name": %q}`, name), 202)["id"].(string)
}

// prometheus has one series for every question.
func prometheus(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/federate") {
		fmt.Fprint(w, "# TYPE up gauge\nup 1\n")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	kind, points := "vector", `"value": [1700000000, "1"]`
	if strings.HasSuffix(r.URL.Path, "/query_range") {
		kind, points = "matrix", `"values": [[1700000000, "1"], [1700000030, "NaN"]]`
	}
	fmt.Fprintf(w, `{"status": "success", "data": {"resultType": %q, "result": [{"metric": {"__name__": "up"}, %s}]}}`, kind, points)
}
