//go:build e2e

package gitops_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var hash = regexp.MustCompile(`--plan ([0-9a-f]{12})`)

// inEnvironment: a deployment is one resource of many.
func inEnvironment(t *testing.T, w *world) {
	ns := w.namespace(t)
	name := "env" + ns[len(ns)-6:]
	repo := w.git.Repo(t, ns)
	first := repo.Commit(t, "main", files{"k8s/a.yaml": configMap("a", "1")})
	repo.Commit(t, "next", files{"k8s/a.yaml": configMap("a", "2")})
	dir := t.TempDir()
	text := fmt.Sprintf(`apiVersion: drover.dev/v1
kind: Template
metadata: {name: %s}
spec:
  version: 1.0.0
  parameters:
    type: object
    properties: {branch: {type: string, default: main}}
  resources:
    - name: web
      executor: deployment
      with: {repository: %q, path: k8s, revision: "${params.branch}", cluster: edge, namespace: %s}
  outputs:
    - {name: commit, value: "${web.outputs.revision}"}
`, name, repo.URL, ns)
	if err := os.WriteFile(filepath.Join(dir, "template.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	w.run(t, "template", "add", dir)
	// Owners of environments reach what their organisation reaches.
	w.run(t, "deploy", "workspace", "put", "local", "--org", "local", "--reach", "edge/"+ns, "--engine", "edge")
	w.run(t, "env", "create", name, "--template", name, "--wait")
	w.value(t, ns, "a", "1")
	// Where the server died meanwhile, it was asked for twice, and the second time refused
	// without a wait.
	until(t, "the output", func() bool {
		out, _, code := w.try(t, "env", "outputs", name, "commit")
		return code == 0 && strings.TrimSpace(out) == first
	})
	plan := hash.FindStringSubmatch(w.run(t, "env", "plan", name, "--set", "branch=next"))
	if plan == nil {
		t.Fatal("nothing is planned")
	}
	w.run(t, "env", "apply", name, "--plan", plan[1], "--wait")
	w.value(t, ns, "a", "2")
	if out := w.run(t, "deploy", "get", "--size", "1000"); !strings.Contains(out, name) {
		t.Errorf("the deployments are\n%s", out)
	}
	w.run(t, "env", "destroy", name, "--yes", "--wait")
	w.value(t, ns, "a", "none")
}
