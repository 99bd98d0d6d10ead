package e2e

import (
	"encoding/json"
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/droverhq/drover/api/client"
	"github.com/droverhq/drover/test/drover"
)

// goes runs a verb that ends well, and returns what it printed.
func goes(t *testing.T, s *drover.Server, args ...string) string {
	t.Helper()
	out, errs, code := s.Run(args...)
	if code != 0 {
		t.Fatalf("drover %s ended with %d\n%s%s", strings.Join(args, " "), code, out, errs)
	}
	return out + errs
}

// fails runs a verb that does not, and returns what it said.
func fails(t *testing.T, s *drover.Server, code int, args ...string) string {
	t.Helper()
	out, errs, got := s.Run(args...)
	if got != code {
		t.Fatalf("drover %s ended with %d, not %d\n%s%s", strings.Join(args, " "), got, code, out, errs)
	}
	return out + errs
}

// hashOf has a plan made and returns its hash.
func hashOf(t *testing.T, s *drover.Server, args ...string) string {
	t.Helper()
	out := goes(t, s, append([]string{"env", "plan", "-o", "json"}, args...)...)
	var p struct{ Hash string }
	if err := json.NewDecoder(strings.NewReader(out)).Decode(&p); err != nil || p.Hash == "" {
		t.Fatalf("there is no plan: %v\n%s", err, out)
	}
	return p.Hash
}

func awaitEnvironment(t *testing.T, c *client.Client, id, phase string) {
	t.Helper()
	last := ""
	drover.Until(t, "environment "+id+" to be "+phase, func() bool {
		o, err := c.Get(t.Context(), "environments", id, "")
		if err != nil {
			return phase == "Destroyed" && client.Status(err) == 404
		}
		if o.Phase != last {
			last = o.Phase
			t.Logf("%s: %s %s", id, o.Phase, o.Status)
		}
		return o.Phase == phase
	})
}

func awaitResource(t *testing.T, c *client.Client, address, phase string) {
	t.Helper()
	drover.Until(t, address+" to be "+phase, func() bool {
		page, err := c.List(t.Context(), "resources", client.ListOptions{Search: "name = '" + address + "'"})
		return err == nil && len(page.Items) == 1 && page.Items[0].Phase == phase
	})
}

// put writes files of a template.
func put(t *testing.T, dir string, files map[string]string) string {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// The shop as its users type it, on one laptop with nothing else installed.
func TestShop(t *testing.T) {
	dir, s := desk(t)
	examples, err := filepath.Abs("../../examples")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(examples, filepath.Join(dir, "examples")); err != nil {
		t.Fatal(err)
	}
	types := func(line string, patterns ...string) string {
		t.Helper()
		out, code := typed(t, dir, line)
		if code != 0 {
			t.Fatalf("%s ended with %d\n%s", line, code, out)
		}
		for _, p := range patterns {
			if !regexp.MustCompile(p).MatchString(out) {
				t.Errorf("%s: nothing matches %s in:\n%s", line, p, out)
			}
		}
		return out
	}
	types("bin/drover template add ./examples/shop", `template/shop added \(version 1.0.0, commit [0-9a-f]{12}\)`)
	out := types("bin/drover env plan shop-staging --template shop --set size=small", `(?m)^\+ rex \(instance\)`, `content = \(known after apply\)`, `4 to create`)
	if n := drover.Instances(s.DataDir); len(n) > 0 {
		t.Errorf("planning has made %d dinosaurs", len(n))
	}
	hash := regexp.MustCompile(`--plan ([0-9a-f]{12})`).FindStringSubmatch(out)
	if hash == nil {
		t.Fatal("there is no hash")
	}
	types("bin/drover env apply shop-staging --plan "+hash[1]+" --wait", `(?m)^rex +ready`, `(?m)^front.home +ready`, `environment shop-staging is Deployed-OK`, `counter: http://shop-staging-rex\.`)
	types("bin/drover env get", `shop-staging +Deployed-OK +4/4 +shop@[0-9a-f]{12}`)
	types("bin/drover env describe shop-staging", `(?m)^Ready: +4/4`, `(?m)^  rex +instance +ready`, `apply → Deploying`)
	svg := types("bin/drover env graph shop-staging -o svg", `front\.page\[0\]`)
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("the drawing is no XML: %v", err)
		}
	}
	types("bin/drover env outputs shop-staging", `counter +http://shop-staging-rex.*entry point`)
	home := strings.TrimSpace(types("bin/drover env outputs shop-staging home"))
	if page, err := os.ReadFile(home); err != nil || !strings.Contains(string(page), "<h1>shop-staging</h1>") {
		t.Errorf("the home page is %q, %v", page, err)
	}
	types("bin/drover env drift shop-staging --now", `as it should be`)
	types("bin/drover env history shop-staging", `Deployed-OK`)
	types("bin/drover env logs shop-staging/rex")
	types(`bin/drover env action run shop-staging greet --set 'name=$(id)'`, `greets \$\(id\)`)
	types("bin/drover env create demo --template shop --ttl 8h --wait", `environment demo is Deployed-OK`)
	types("bin/drover env get demo", ` in [78]h`)
	types("bin/drover env extend demo +4h", `is destroyed at`)
	types(`bin/drover search "payments"`, `template +shop`, `resource +rex +ready +shop-staging`, `resource +rex +ready +demo`)
	types("bin/drover search usedBy:front.home", `rex`, `settings`)
	types("bin/drover env why shop-staging/rex", `external/payments-api`, `shop-staging/front\.home ready`)

	// What is tagged data goes with an approval only.
	out = types("bin/drover env plan demo --destroy", `policy keep-data wants an approval for rex`, `drover approve \S+`)
	approval := regexp.MustCompile("`drover approve (\\S+)`").FindStringSubmatch(out)[1]
	hash = regexp.MustCompile(`Plan ([0-9a-f]{12})`).FindStringSubmatch(out)
	if out, code := typed(t, dir, "bin/drover env destroy demo --plan "+hash[1]); code != 5 || !strings.Contains(out, "approval") {
		t.Errorf("without an approval: %d, %s", code, out)
	}
	types("bin/drover approve " + approval)
	c := s.Client(t)
	drover.Until(t, "the plan to be approved", func() bool {
		p, err := c.Plan(t.Context(), hash[1])
		return err == nil && p.Phase == "planned"
	})
	types("bin/drover env destroy demo --plan "+hash[1]+" --wait", `environment demo is Destroyed`)
	if _, err := os.Stat(filepath.Join(s.DataDir, "files", "demo", "index.html")); !os.IsNotExist(err) {
		t.Errorf("the home page is still there: %v", err)
	}
	if n := drover.Instances(s.DataDir); len(n) != 1 {
		t.Errorf("%d dinosaurs run, not the one of the other shop", len(n))
	}
	types("bin/drover env get", `shop-staging`)
}

// The lines of the README about environments, as they stand there.
func TestReadmeShop(t *testing.T) {
	dir, s := desk(t)
	examples, err := filepath.Abs("../../examples")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(examples, filepath.Join(dir, "examples")); err != nil {
		t.Fatal(err)
	}
	lines := 0
	for _, block := range blocks(t) {
		if !strings.HasPrefix(block[0], "bin/drover template") {
			continue
		}
		for _, line := range block {
			lines++
			if out, code := typed(t, dir, line); code != 0 {
				t.Fatalf("%s ended with %d\n%s", line, code, out)
			}
		}
	}
	if lines != 5 {
		t.Errorf("the README has %d lines about environments", lines)
	}
	if drawn, err := os.ReadFile(filepath.Join(dir, "demo.svg")); err != nil || !strings.HasPrefix(string(drawn), "<svg ") {
		t.Errorf("the drawing is %.80q, %v", drawn, err)
	}
	if n := drover.Instances(s.DataDir); len(n) != 1 {
		t.Errorf("%d dinosaurs run, not one", len(n))
	}
}

// gated has a resource whose program waits until a file is there.
const gated = `
apiVersion: drover.dev/v1
kind: Template
metadata: {name: gated}
spec:
  version: "1"
  parameters:
    type: object
    required: [gate]
    properties: {gate: {type: string}, text: {type: string, default: one}}
  resources:
    - {name: before, executor: file, with: {path: "${env.name}/before", content: "${params.text}"}}
    - name: slow
      executor: action
      needs: [before]
      with: {app: {name: wait, url: "file:./wait.sh"}, command: [wait], env: {GATE: "${params.gate}"}}
    - {name: after, executor: file, needs: [slow], with: {path: "${env.name}/after", content: "${slow.outputs.stdout}"}}
`

const waitProgram = `#!/bin/sh
echo waiting >&2
while ! [ -e "$GATE" ]; do sleep 0.05; done
echo open
`

// yard is a server with the gated template.
func yard(t *testing.T) (s *drover.Server, gate string) {
	t.Helper()
	s = drover.Up(t)
	goes(t, s, "template", "add", put(t, t.TempDir(), map[string]string{"template.yaml": gated, "wait.sh": waitProgram}))
	return s, filepath.Join(t.TempDir(), "gate")
}

func open(t *testing.T, gate string) {
	t.Helper()
	if err := os.WriteFile(gate, nil, 0o644); err != nil {
		t.Fatal(err)
	}
}

// kill -9 in the middle of an apply: the next server goes on where it stopped.
func TestServerKilledWhileDeploying(t *testing.T) {
	s, gate := yard(t)
	c := s.Client(t)
	goes(t, s, "env", "create", "x", "--template", "gated", "--set", "gate="+gate)
	awaitResource(t, c, "slow", "applying")
	s.Kill()
	s.Start(t)
	open(t, gate)
	c = s.Client(t)
	awaitEnvironment(t, c, "x", "Deployed-OK")
	if text, err := os.ReadFile(filepath.Join(s.DataDir, "files", "x", "after")); err != nil || string(text) != "open\n" {
		t.Errorf("behind the gate is %q, %v", text, err)
	}
	if out := goes(t, s, "env", "logs", "x/slow", "-f"); !strings.Contains(out, "waiting") {
		t.Errorf("the log says %q", out)
	}
	goes(t, s, "env", "destroy", "x", "--yes", "--wait")
	if left, _ := filepath.Glob(filepath.Join(s.DataDir, "files", "x", "*")); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}

// Destroying does not wait for what is being made to be finished, and leaves
// nothing of it.
func TestDestroyWhileDeploying(t *testing.T) {
	s, gate := yard(t)
	c := s.Client(t)
	goes(t, s, "env", "create", "x", "--template", "gated", "--set", "gate="+gate)
	awaitResource(t, c, "slow", "applying")
	goes(t, s, "env", "destroy", "x", "--yes")
	open(t, gate)
	awaitEnvironment(t, c, "x", "Destroyed")
	if left, _ := filepath.Glob(filepath.Join(s.DataDir, "files", "x", "*")); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}

// Of two applies at once one is carried out, whoever is not served is told
// why not, and the next one finds everything in order.
func TestTwoAppliesAtOnce(t *testing.T) {
	s, gate := yard(t)
	open(t, gate)
	goes(t, s, "env", "create", "x", "--template", "gated", "--set", "gate="+gate, "--wait")
	hashes := []string{hashOf(t, s, "x", "--set", "text=two"), hashOf(t, s, "x", "--set", "text=three")}
	type end struct {
		text string
		code int
	}
	ends := make(chan end, 2)
	for _, hash := range hashes {
		go func() {
			out, errs, code := s.Run("env", "apply", "x", "--plan", hash, "--wait")
			ends <- end{out + errs, code}
		}()
	}
	good := 0
	for range hashes {
		if e := <-ends; e.code == 0 {
			good++
		} else if e.code != 1 && e.code != 5 || !strings.Contains(e.text, "plan") && !strings.Contains(e.text, "told something else") {
			t.Errorf("code %d, without a next step: %s", e.code, e.text)
		}
	}
	text, err := os.ReadFile(filepath.Join(s.DataDir, "files", "x", "before"))
	if good != 1 || err != nil || string(text) != "two" && string(text) != "three" {
		t.Errorf("%d were carried out, and the text is %q, %v", good, text, err)
	}
	goes(t, s, "env", "apply", "x", "--set", "text=four", "--yes", "--wait")
	if text, err := os.ReadFile(filepath.Join(s.DataDir, "files", "x", "before")); err != nil || string(text) != "four" {
		t.Errorf("in the end the text is %q, %v", text, err)
	}
}

// A plan is refused where somebody's hand came before it, an upgrade is a plan, and
// there is a way back.
func TestUpgradeAndRollback(t *testing.T) {
	s := drover.Up(t)
	const text = "apiVersion: drover.dev/v1\nkind: Template\nmetadata: {name: page}\nspec:\n  version: VERSION\n  resources:\n    - {name: page, executor: file, with: {path: \"${env.name}/page\", content: TEXT}}\n"
	add := func(version, content string) {
		goes(t, s, "template", "add", put(t, t.TempDir(), map[string]string{"template.yaml": strings.NewReplacer("VERSION", version, "TEXT", content).Replace(text)}))
	}
	add("1.0.0", "old")
	goes(t, s, "env", "create", "x", "--template", "page", "--wait")
	page := filepath.Join(s.DataDir, "files", "x", "page")
	shows := func(want string) {
		t.Helper()
		if got, err := os.ReadFile(page); err != nil || string(got) != want {
			t.Fatalf("the page is %q, %v, want %q", got, err, want)
		}
	}
	add("1.1.0", "new")
	if out := goes(t, s, "env", "plan", "x"); !strings.Contains(out, "0 to change") {
		t.Errorf("adding a version has changed an environment: %s", out)
	}
	shows("old")
	hash := hashOf(t, s, "x", "--template", "page@1.1.0")
	if err := os.WriteFile(page, []byte("by hand"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out := fails(t, s, 1, "env", "apply", "x", "--plan", hash, "--wait"); !strings.Contains(out, "page") {
		t.Errorf("it says %q", out)
	}
	shows("by hand")
	goes(t, s, "env", "apply", "x", "--template", "page@1.1.0", "--yes", "--wait")
	shows("new")
	var p struct{ Hash string }
	if err := json.Unmarshal([]byte(goes(t, s, "env", "rollback", "x", "-o", "json")), &p); err != nil {
		t.Fatal(err)
	}
	goes(t, s, "env", "apply", "x", "--plan", p.Hash, "--wait")
	shows("old")
	fails(t, s, 5, "template", "delete", "page")
	goes(t, s, "env", "protect", "x")
	fails(t, s, 5, "env", "destroy", "x", "--yes")
	goes(t, s, "env", "protect", "x", "--off")
	goes(t, s, "env", "destroy", "x", "--yes", "--wait")
	goes(t, s, "template", "delete", "page")
}

// Tenants have environments of the templates that they may plan, by the command
// line alone.
func TestTenantsEnvironment(t *testing.T) {
	s := drover.Up(t)
	goes(t, s, "template", "add", put(t, t.TempDir(), map[string]string{"template.yaml": "apiVersion: drover.dev/v1\nkind: Template\nmetadata: {name: page}\nspec:\n  version: 1.0.0\n" +
		"  resources:\n    - {name: page, executor: file, with: {path: \"${env.name}/page\", content: hello}}\n"}))
	token := filepath.Join(t.TempDir(), "token")
	out, _, _ := s.Run("token", "--user", "alice", "--org", "acme")
	if err := os.WriteFile(token, []byte(out), 0o600); err != nil {
		t.Fatal(err)
	}
	alice := func(args ...string) string { return goes(t, s, append(args, "--token-file", token)...) }
	alice("env", "create", "mine", "--template", "page", "--wait")
	alice("env", "apply", "mine", "--yes", "--wait")
	alice("env", "retry", "mine", "--wait")
	if out := alice("env", "destroy", "mine", "--yes", "--wait"); !strings.Contains(out, "Destroyed") {
		t.Errorf("got %s", out)
	}
}
