package e2e

import (
	"io/fs"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/test/drover"
)

// blocks returns the commands of the README's shell blocks, without comments.
func blocks(t *testing.T) [][]string {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var out [][]string
	for _, m := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		var lines []string
		for _, line := range strings.Split(m[1], "\n") {
			line, _, _ = strings.Cut(line, "#")
			if line = strings.TrimSpace(line); line != "" {
				lines = append(lines, line)
			}
		}
		out = append(out, lines)
	}
	return out
}

// desk is where a user of the README sits: a directory with bin/drover, and a
// control plane that was started in it.
func desk(t *testing.T) (dir string, s *drover.Server) {
	t.Helper()
	dir = t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(drover.Binary(), filepath.Join(dir, "bin", "drover")); err != nil {
		t.Fatal(err)
	}
	s = &drover.Server{Mode: "up", DataDir: filepath.Join(dir, ".drover"), Listen: drover.FreeAddress(t), Routes: drover.FreeAddress(t)}
	t.Cleanup(func() {
		s.Kill()
		drover.Clear(s.DataDir)
		if t.Failed() {
			t.Logf("log:\n%s", s.Log())
		}
	})
	s.Start(t)
	return dir, s
}

// typed runs a line as a shell does that was opened in the directory.
func typed(t *testing.T, dir, line string) (output string, code int) {
	t.Helper()
	cmd := exec.Command("sh", "-c", line)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	t.Logf("$ %s\n%s", line, out)
	if _, exited := err.(*exec.ExitError); err != nil && !exited {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

func TestReadme(t *testing.T) {
	const create, list, curl, describe, remove, order, why = 0, 1, 2, 3, 4, 5, 6
	want := []string{
		"bin/drover create dinosaur rex --wait",
		"bin/drover get dinosaurs",
		"curl http://rex.dinosaurs.localhost:8080/",
		"bin/drover describe dinosaur rex",
		"bin/drover delete dinosaur rex --wait",
		"bin/drover create kafka orders",
		"bin/drover describe kafka orders",
	}
	all := blocks(t)
	if len(all) < 2 || !cmp.Equal(all[0], []string{"make run"}) {
		t.Fatalf("the README starts with another command than make run: %q", all)
	}
	lines := all[1]
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Fatalf("the README's lines are not those that are tested (-tested +README):\n%s", diff)
	}
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`(?m)^run: build.*\n\tbin/drover up$`).Match(makefile) {
		t.Error("make run does not run bin/drover up")
	}

	dir, s := desk(t)
	run := func(i int) string {
		t.Helper()
		out, code := typed(t, dir, lines[i])
		if code != 0 {
			t.Fatalf("%s: exit code %d\n%s", lines[i], code, out)
		}
		return out
	}
	matches := func(out string, patterns ...string) {
		t.Helper()
		for _, p := range patterns {
			if !regexp.MustCompile(p).MatchString(out) {
				t.Errorf("nothing matches %s in:\n%s", p, out)
			}
		}
	}

	matches(run(create), `(?ms)^accepted +\d+\.\d+ s.*^preparing +\d+\.\d+ s.*^provisioning +\d+\.\d+ s.*^dinosaur rex is ready after \d+\.\d+ s`)
	matches(run(list), `(?m)^NAME +PHASE +HOST`, `(?m)^rex +ready +rex\.dinosaurs\.localhost +admin`)

	u, err := url.Parse(strings.Fields(lines[curl])[1])
	if err != nil {
		t.Fatal(err)
	}
	if u.Port() != "8080" || u.Hostname() != "rex.dinosaurs.localhost" {
		t.Errorf("the README's route is %s", u)
	}
	// The port is another one, because 8080 may be taken where tests run.
	_, port, _ := net.SplitHostPort(s.Routes)
	if status, body := drover.Reach(s.Routes, net.JoinHostPort(u.Hostname(), port)); status != 200 || !strings.Contains(body, "rex") {
		t.Errorf("the dinosaur answers %d: %s", status, body)
	}
	if got := drover.Instances(s.DataDir); len(got) != 1 {
		t.Errorf("%d processes run, not one", len(got))
	}

	matches(run(describe),
		`(?m)^Phase: +ready`, `(?m)^Owner: +admin`,
		`WHO +WHAT +WHY`,
		`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ +admin +create → accepted +admin asked for it \(request \w+\)`,
		`system +preparing +followed \d+`, `agent:local +report +cluster local reported it`, `system +ready +followed`)

	matches(run(remove), `(?m)^deprovision +\d+\.\d+ s`, `(?m)^deleting +\d+\.\d+ s`, `dinosaur rex is deleted after \d+\.\d+ s`)
	if got := drover.Instances(s.DataDir); len(got) != 0 {
		t.Errorf("%d processes still run", len(got))
	}
	if status, _ := drover.Reach(s.Routes, "rex.dinosaurs.localhost"); status != 404 {
		t.Errorf("the route of a deleted dinosaur answers %d", status)
	}
	matches(run(order), `(?m)^kafka/orders created`)
	drover.Until(t, "the kafka to say what it waits for", func() bool {
		out, _ := typed(t, dir, lines[why])
		return strings.Contains(out, "waiting for a ready cluster in region us-east-1 of aws")
	})

	for name, c := range map[string]struct {
		reason, line string
		code         int
	}{
		"gone":     {"What is deleted is not found.", "bin/drover get dinosaur rex", 3},
		"usage":    {"A wrong flag is the caller's mistake.", "bin/drover get --nonsense", 2},
		"resource": {"A resource that nobody sells.", "bin/drover create mammoth m1", 3},
		"name":     {"What the server refuses fails.", "bin/drover create dinosaur 'No Name'", 1},
		"denied":   {"A token that means nothing opens nothing.", "bin/drover get dinosaurs --token nonsense", 4},
		"nobody":   {"Nobody listens there.", "bin/drover get dinosaurs --server http://127.0.0.1:1 --token x", 6},
	} {
		if _, code := typed(t, dir, c.line); code != c.code {
			t.Errorf("%s: %s: %q: exit code %d, want %d", name, c.reason, c.line, code, c.code)
		}
	}
	if code := s.Stop(); code != 0 {
		t.Errorf("drover up ends with code %d when it is asked to", code)
	}
}

func TestNothingIsOpenByDefault(t *testing.T) {
	dir, s := desk(t)
	for name, want := range map[string]fs.FileMode{
		".drover": 0o700, ".drover/local.json": 0o600, ".drover/admin.token": 0o600,
		".drover/master.key": 0o600, ".drover/drover.db": 0o600,
	} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
		} else if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, not %o", name, got, want)
		}
	}

	// Every operation of every document, without a token.
	var own, agents, dinosaurs struct {
		Paths map[string]map[string]any `json:"paths"`
	}
	get(t, s.URL()+"/openapi.json", &own)
	get(t, s.URL()+"/docs/agent.json", &agents)
	get(t, s.URL()+"/api/dinosaurs_mgmt/v1/openapi", &dinosaurs)
	public := regexp.MustCompile(`^(/healthz|/readyz|/metrics|/openapi\.json|/\.well-known/[a-z-]+(\.json)?|/docs.*` +
		`|/api/dinosaurs_mgmt(/v1(/openapi|/errors(/[^/]*)?)?)?|/api/v1/errors(/[^/]*)?)$`)
	asked := 0
	for _, doc := range []map[string]map[string]any{own.Paths, agents.Paths, dinosaurs.Paths} {
		for path, methods := range doc {
			if public.MatchString(path) {
				continue
			}
			path = regexp.MustCompile(`\{[^}]*\}`).ReplaceAllString(path, "x")
			for method := range methods {
				if !regexp.MustCompile("^(get|put|post|patch|delete)$").MatchString(method) {
					continue
				}
				asked++
				for _, token := range []string{"", "nonsense", "a.b.c"} {
					a := drover.Must(t, drover.Request{Method: strings.ToUpper(method), URL: s.URL() + path, Token: token, Body: []byte("{}")})
					if a.Status != 401 || !strings.HasSuffix(a.Error().Code, "-15") {
						t.Errorf("%s %s with token %q: status %d, code %q", method, path, token, a.Status, a.Error().Code)
					}
				}
			}
		}
	}
	if asked < 20 {
		t.Errorf("only %d operations were tried", asked)
	}
}
