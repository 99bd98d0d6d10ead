package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/droverhq/drover/test/consul"
	"github.com/droverhq/drover/test/drover"
)

// registered is an environment whose services are in Consul, and whose template has no checks.
const registered = `
apiVersion: drover.dev/v1
kind: Template
metadata: {name: registered}
spec:
  version: "1"
  resources:
    - {name: key, executor: consul, with: {key: "${env.name}/size", value: small}}
    - name: web
      executor: consul
      with: {service: web, id: "${env.name}", address: 192.0.2.7, port: 80, checks: [{name: alive, http: "http://192.0.2.7/healthz"}]}
`

// report is what somebody who runs the checks of external services, such as consul-esm, tells
// Consul of the service with that id.
func report(t *testing.T, c *consul.Server, id, status string) {
	t.Helper()
	var checks []map[string]any
	ctx := context.WithoutCancel(t.Context())
	if err := c.API().Ask(ctx, http.MethodGet, "/v1/health/checks/web", nil, &checks); err != nil {
		t.Fatal(err)
	}
	for _, check := range checks {
		if check["ServiceID"] != id {
			continue
		}
		check["Status"], check["Output"] = status, "a body that holds s3cr3t"
		in := map[string]any{"Node": check["Node"], "Address": "192.0.2.7", "SkipNodeUpdate": true, "Check": check}
		if err := c.API().Ask(ctx, http.MethodPut, "/v1/catalog/register", in, nil); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatalf("Consul has no check of %s: %v", id, checks)
}

// What Consul says of a service that an environment has registered is the environment's.
func TestHealthInConsulIsTheEnvironments(t *testing.T) {
	c := consul.Start(t, consul.WithData())
	config := filepath.Join(t.TempDir(), "connections.yaml")
	connections := fmt.Sprintf("apiVersion: drover.dev/v1\nkind: Connection\nmetadata: {name: default}\nspec: {executor: consul, options: {address: %q}, for: {orgs: [\"*\"]}}\n", c.URL)
	if err := os.WriteFile(config, []byte(connections), 0o600); err != nil {
		t.Fatal(err)
	}
	s := drover.Serve(t, "--connections", config)
	api := s.Client(t)
	goes(t, s, "template", "add", put(t, t.TempDir(), map[string]string{"template.yaml": registered}))
	for _, name := range []string{"east", "west"} {
		goes(t, s, "env", "create", name, "--template", "registered", "--wait")
		awaitEnvironment(t, api, name, "Deployed-OK")
	}
	report(t, c, "east", "critical")
	awaitEnvironment(t, api, "east", "Deployed-Fail")
	out := goes(t, s, "env", "describe", "east")
	if !strings.Contains(out, `check "alive" is critical`) || strings.Contains(out, "s3cr3t") {
		t.Errorf("it says\n%s", out)
	}
	resourceIs(t, api, "east", "web", "ready", `is critical`) // and so does the resource, without waiting for its next look
	if o, err := api.Get(t.Context(), "environments", "west", ""); err != nil || o.Phase != "Deployed-OK" {
		t.Errorf("another's instance of the same service: %s, %v", o.Phase, err)
	}

	// Consul is away: of neither of the two is anything known.
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	drover.Until(t, "the doctor to miss Consul", func() bool {
		out, _, code := s.Run("doctor")
		return code == 7 && strings.Contains(out, "Consul at")
	})
	for name, phase := range map[string]string{"east": "Deployed-Fail", "west": "Deployed-OK"} {
		if o, err := api.Get(t.Context(), "environments", name, ""); err != nil || o.Phase != phase {
			t.Errorf("without Consul %s is %s, %v", name, o.Phase, err)
		}
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	report(t, c, "east", "passing")
	awaitEnvironment(t, api, "east", "Deployed-OK")
	if history := goes(t, s, "events", "environment", "west"); strings.Contains(history, "Deployed-Fail") || !strings.Contains(history, "Deployed-OK") {
		t.Errorf("west has failed meanwhile:\n%s", history)
	}
}
