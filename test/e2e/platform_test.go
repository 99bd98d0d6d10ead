package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/droverhq/drover/test/consul"
	"github.com/droverhq/drover/test/drover"
	"github.com/droverhq/drover/test/openbao"
	"github.com/droverhq/drover/test/tofu"
)

// tools runs a server with a real OpenTofu behind it, and with connections.
func tools(t *testing.T, connections string) *drover.Server {
	t.Helper()
	args := []string{"--executor-options", "terraform.binary=" + tofu.Path(t) + ",terraform.config=" + tofu.Config(t)}
	if connections != "" {
		file := filepath.Join(t.TempDir(), "connections.yaml")
		if err := os.WriteFile(file, []byte(connections), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--connections", file)
	}
	return drover.Serve(t, args...)
}

// do runs a verb that must go well.
func do(t *testing.T, s *drover.Server, args ...string) string {
	t.Helper()
	out, errs, code := s.Run(args...)
	if code != 0 {
		t.Fatalf("drover %s: %d\n%s%s", strings.Join(args, " "), code, out, errs)
	}
	return out
}

// planned makes a plan and returns its hash.
func planned(t *testing.T, s *drover.Server, args ...string) (hash, phase string) {
	t.Helper()
	var p struct {
		Hash  string `json:"hash"`
		Phase string `json:"phase"`
	}
	out, errs, _ := s.Run(append([]string{"env", "plan", "-o", "json"}, args...)...)
	if err := json.Unmarshal([]byte(out), &p); err != nil || p.Hash == "" {
		t.Fatalf("the plan is %s%s", out, errs)
	}
	return p.Hash, p.Phase
}

// swept waits until no run has left anything behind: one that looks for drift may be at it.
func swept(t *testing.T, s *drover.Server) {
	t.Helper()
	drover.Until(t, "the directories of runs to be gone", func() bool {
		runs, err := os.ReadDir(filepath.Join(s.DataDir, "tofu", "runs"))
		return err == nil && len(runs) == 0
	})
}

func TestPlatform(t *testing.T) {
	kv, bao, place := consul.Start(t), openbao.Start(t), t.TempDir()
	secret := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(secret, []byte(bao.Token), 0o600); err != nil {
		t.Fatal(err)
	}
	s := tools(t, fmt.Sprintf(`apiVersion: drover.dev/v1
kind: Connection
metadata: {name: default}
spec: {executor: consul, options: {address: %q}, for: {orgs: ["*"]}}
---
apiVersion: drover.dev/v1
kind: Connection
metadata: {name: default}
spec: {executor: vault, options: {address: %q, auth: token, tokenFile: %q}, for: {orgs: ["*"]}}
`, kv.URL, bao.URL, secret))
	do(t, s, "template", "add", "../../examples/platform")

	hash, _ := planned(t, s, "demo", "--template", "platform", "--set", "directory="+place)
	if left, _ := os.ReadDir(place); len(left) > 0 {
		t.Fatalf("a plan has made %v", left)
	}
	do(t, s, "env", "apply", "demo", "--plan", hash, "--wait")

	var outputs map[string]any
	if err := json.Unmarshal([]byte(do(t, s, "env", "outputs", "demo", "-o", "json")), &outputs); err != nil {
		t.Fatal(err)
	}
	t.Logf("outputs: %v", outputs)
	logins, _ := filepath.Glob(filepath.Join(place, "demo-*.login"))
	if len(logins) != 1 {
		t.Fatalf("there is no login: %v", logins)
	}
	login, err := os.ReadFile(logins[0])
	name, password, ok := strings.Cut(string(login), ":")
	if err != nil || !ok || len(password) != 24 || strings.Contains(fmt.Sprint(outputs), password) || !strings.Contains(fmt.Sprint(outputs), name) {
		t.Errorf("the login has a password of %d letters, outputs are %v, %v", len(password), outputs, err)
	}
	var keys []struct{ Key string }
	if err := kv.API().Ask(t.Context(), http.MethodGet, "/v1/kv/platform/demo?recurse=true", nil, &keys); err != nil || len(keys) != 3 {
		t.Errorf("Consul has %v, %v", keys, err)
	}

	// The password is nowhere that it does not belong.
	for _, args := range [][]string{{"env", "get", "demo", "-o", "json"}, {"env", "describe", "demo"}, {"env", "history", "demo"}, {"env", "logs", "demo/app"}, {"get", "resources", "-o", "json"}} {
		if out, errs, _ := s.Run(args...); strings.Contains(out+errs, password) {
			t.Errorf("drover %s tells the password", strings.Join(args, " "))
		}
	}
	if strings.Contains(s.Log(), password) {
		t.Error("the server's log tells the password")
	}
	swept(t, s)
	err = filepath.WalkDir(s.DataDir, func(path string, d os.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil // the database's own files come and go
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			return nil
		}
		if strings.Contains(string(data), password) {
			t.Errorf("%s holds the password", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}

	// What somebody has removed is planned to be made again.
	if err := os.Remove(logins[0]); err != nil {
		t.Fatal(err)
	}
	drover.Until(t, "the drift is known", func() bool {
		out, _, _ := s.Run("env", "drift", "demo", "--now")
		return strings.Contains(out, "local_sensitive_file.login")
	})
	out, errs, _ := s.Run("env", "plan", "demo")
	if !strings.Contains(out, "local_sensitive_file.login") {
		t.Errorf("the plan does not say what is gone: %s%s", out, errs)
	}
	hash, _ = planned(t, s, "demo")
	do(t, s, "env", "apply", "demo", "--plan", hash, "--wait")
	if again, err := os.ReadFile(logins[0]); err != nil || string(again) != string(login) {
		t.Errorf("it came back as another one: %v", err)
	}

	// Data goes only when somebody has approved that.
	hash, phase := planned(t, s, "demo", "--destroy")
	if phase != "approval" {
		t.Errorf("the plan of the end is %s", phase)
	}
	var waiting struct {
		Items []struct {
			ID    string `json:"id"`
			Phase string `json:"phase"`
		} `json:"items"`
	}
	if err := json.Unmarshal([]byte(do(t, s, "get", "approvals", "-o", "json")), &waiting); err != nil || len(waiting.Items) == 0 {
		t.Fatalf("nothing waits: %v", err)
	}
	do(t, s, "approve", waiting.Items[0].ID)
	drover.Until(t, "the plan is approved", func() bool {
		_, _, code := s.Run("env", "destroy", "demo", "--plan", hash, "--wait")
		return code == 0
	})
	if left, _ := os.ReadDir(place); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
	if err := kv.API().Ask(t.Context(), http.MethodGet, "/v1/kv/platform/demo?recurse=true", nil, &keys); err == nil && len(keys) > 0 {
		t.Errorf("Consul still has %v", keys)
	}
}

// slow makes something, and then waits until somebody lets it go on. Whatever it
// begins twice is counted twice.
const slow = `
variable "place" { type = string }
resource "terraform_data" "first" { input = "made" }
resource "terraform_data" "second" {
  input = terraform_data.first.output
  provisioner "local-exec" {
    command = "echo begun >> '${var.place}/begun'; while [ -e '${var.place}/wait' ]; do sleep 0.1; done"
  }
}
output "second" { value = terraform_data.second.output }
`

const slowTemplate = `apiVersion: drover.dev/v1
kind: Template
metadata: {name: slow}
spec:
  version: 1.0.0
  description: takes its time
  parameters:
    type: object
    required: [place]
    properties: {place: {type: string}}
  resources:
    - name: it
      executor: terraform
      with: {module: ./module, variables: {place: "${params.place}"}}
  outputs:
    - {name: second, value: "${it.outputs.second}"}
`

// OpenTofu outlives a server that was killed, and brings what it has made to the
// one that comes after it.
func TestServerKilledWhileOpenTofuWorks(t *testing.T) {
	place, template := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{filepath.Join(place, "wait"): "", filepath.Join(template, "template.yaml"): slowTemplate, filepath.Join(template, "module", "main.tf"): slow} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := tools(t, "")
	do(t, s, "template", "add", template)
	do(t, s, "env", "create", "demo", "--template", "slow", "--set", "place="+place)
	begun := func() string { data, _ := os.ReadFile(filepath.Join(place, "begun")); return string(data) }
	drover.Until(t, "OpenTofu works", func() bool { return begun() != "" })
	s.Kill()
	if err := os.Remove(filepath.Join(place, "wait")); err != nil {
		t.Fatal(err)
	}
	s.Start(t)
	drover.Until(t, "it is deployed", func() bool {
		out, _, _ := s.Run("env", "outputs", "demo", "-o", "json")
		return strings.Contains(out, `"made"`)
	})
	if begun() != "begun\n" {
		t.Errorf("what was under way was begun again: %q", begun())
	}
	do(t, s, "env", "destroy", "demo", "--yes", "--wait")
	swept(t, s)
}
