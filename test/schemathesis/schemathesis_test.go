//go:build e2e

package schemathesis_test

import (
	"bytes"
	"context"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/test/drover"
)

const (
	examples = 200 // requests made up per operation with the fixed seed
	again    = 50  // and with another one, which every run chooses anew, but for those that decide about a change
	seed     = 20261115
)

// checks are all that hold answers against the document. The others of
// Schemathesis want certain answers to certain requests (that whatever fits a
// schema is accepted, say), and no schema can tell which names are taken.
const checks = "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,response_schema_conformance"

// untried paths: a stream does not end, so that each request would only wait, and a
// subscription sends to whatever address was made up. Both have tests of their own.
var untried = []string{"/api/v1/watch", "/api/v1/subscriptions", "/api/v1/subscriptions/{id}"}

// TestDocuments asks what every document describes. The rightful caller asks
// most of the time, the others try.
func TestDocuments(t *testing.T) {
	command := find(t)
	other := rand.Uint32()
	if os.Getenv("CI") == "true" {
		other = seed + 1
	}
	if text := os.Getenv("DROVER_TEST_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			t.Fatalf("DROVER_TEST_SEED: %v", err)
		}
		other = uint32(n)
	}
	for name, tc := range map[string]struct {
		path   string
		reason string
		first  func(*world) string // who asks most of the time
	}{
		"own":       {"/openapi.json", "Drover's own API, as an operator", func(w *world) string { return w.operator }},
		"kafkas":    {kafkas + "/openapi", "tenants' API of an offering with everything", func(w *world) string { return w.tenant }},
		"dinosaurs": {dinosaurs + "/openapi", "and of a small one", func(w *world) string { return w.tenant }},
		"admin":     {"/docs/admin.json", "operators' API of the offerings", func(w *world) string { return w.operator }},
		"agent":     {"/docs/agent.json", "agents' API", func(w *world) string { return w.agent }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t) // of its own: operators' requests close doors
			f := &fuzz{command: command, world: w, dir: t.TempDir(), document: tc.path}
			f.write(t, []string{tc.first(w), w.operator, w.tenant, w.agent, w.other, "x.y.z"})
			f.run(t, seed, examples, "examples,coverage,fuzzing")
			f.run(t, other, again, "fuzzing")
			for _, line := range strings.Split(w.Log(), "\n") {
				if strings.Contains(line, "panic") || strings.Contains(line, " status=500 ") {
					t.Errorf("%s: the server's log has: %s", tc.reason, line)
				}
			}
		})
	}
}

func find(t *testing.T) string {
	t.Helper()
	const missing = "Schemathesis is not there: `test/with-schemathesis.sh true` brings it"
	if os.Getenv("DROVER_TEST_NO_SCHEMATHESIS") == "1" {
		t.Skip(missing)
	}
	path := os.Getenv("DROVER_TEST_SCHEMATHESIS")
	if path == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		if all, _ := filepath.Glob(filepath.Join(cache, "drover", "schemathesis-*", "bin", "schemathesis")); len(all) > 0 {
			path = all[len(all)-1]
		}
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatal(missing)
	}
	return path
}

// fuzz is one document and those who use it.
type fuzz struct {
	command  string
	world    *world
	dir      string
	document string
}

// write leaves the document, the tokens and the names for the command.
func (f *fuzz) write(t *testing.T, tokens []string) {
	t.Helper()
	doc := drover.Must(t, drover.Request{Method: "GET", URL: f.world.URL() + f.document})
	if doc.Status != 200 {
		t.Fatalf("%s: status %d: %s", f.document, doc.Status, doc.Body)
	}
	world, err := json.Marshal(map[string]any{"tokens": tokens, "names": map[string][]string{
		"id":                  f.world.ids,
		"resource":            {"kafkas", "dinosaurs", "instances", "clusters", "offerings", "operations", "quotas", "terms", "users", "audits"},
		"cloud_provider":      {"aws", "local"},
		"cloud_region":        {"us-east-1", "local"},
		"cluster_external_id": {"c1"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{"document.json": doc.Body, "world.json": world}
	for name, from := range map[string]string{"drover_hooks.py": "hooks.py", "schemathesis.toml": "schemathesis.toml"} {
		if files[name], err = os.ReadFile(from); err != nil {
			t.Fatal(err)
		}
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(f.dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// wide are lines that nobody reads to their end.
var wide = regexp.MustCompile(`(?m)^(.{400}).+$`)

func (f *fuzz) run(t *testing.T, seed uint32, examples int, phases string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	args := []string{"run", "document.json", "--url", f.world.URL(), "--seed", strconv.FormatUint(uint64(seed), 10),
		"--max-examples", strconv.Itoa(examples), "--phases", phases, "--checks", checks, "--continue-on-failure",
		"--request-timeout", "120", "--generation-database", "none", "--suppress-health-check", "all",
		// Tokens are of this run alone, and what fails is not tried in simpler forms: the ledger is another one by then.
		"--no-shrink", "--warnings", "off", "--no-color"}
	for _, path := range untried {
		args = append(args, "--exclude-path", path)
	}
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, f.command, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = f.dir, &out, &out
	cmd.Env = append(os.Environ(), "SCHEMATHESIS_HOOKS=drover_hooks", "PYTHONPATH="+f.dir, "DROVER_FUZZ_WORLD="+filepath.Join(f.dir, "world.json"))
	start := time.Now()
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s with DROVER_TEST_SEED=%d: %v\n%s", f.document, seed, err, wide.ReplaceAllString(out.String(), "$1..."))
	}
	all, total, operations := f.answers(t), 0, 0
	for operation, varies := range f.operations(t) {
		n := 0
		for _, times := range all[operation] {
			n += times
		}
		total += n
		operations++
		t.Logf("%s: %v", operation, all[operation])
		if n == 0 || varies && n < examples {
			t.Errorf("%s was asked %d times", operation, n)
		}
	}
	t.Logf("%s: seed %d, %d requests to %d operations in %s", f.document, seed, total, operations, time.Since(start).Round(time.Second))
}

// operations are those of the document without the untried ones, and whether anything of
// them can vary. What was asked is held against them: a generator that has died on
// its way ends like one that has done its work.
func (f *fuzz) operations(t *testing.T) map[string]bool {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(f.dir, "document.json"))
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for path, item := range doc.Paths {
		for method, raw := range item {
			var operation struct {
				Parameters  []any
				RequestBody any
			}
			if slices.Contains(untried, path) || json.Unmarshal(raw, &operation) != nil {
				continue // an item has more than operations
			}
			out[strings.ToUpper(method)+" "+path] = len(operation.Parameters) > 0 || operation.RequestBody != nil
		}
	}
	return out
}

// answers counts statuses by operation.
func (f *fuzz) answers(t *testing.T) map[string]map[string]int {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(f.dir, "world.json.answers"))
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]map[string]int
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}
