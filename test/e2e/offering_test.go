package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/droverhq/drover/test/drover"
)

// second is an offering like the shipped one, under names of its own.
func second(t *testing.T, names string) string {
	t.Helper()
	text, err := os.ReadFile("../../offerings/dinosaur.yaml")
	if err != nil {
		t.Fatal(err)
	}
	one := strings.TrimSuffix(names, "s")
	s := strings.NewReplacer(
		"dinosaurs_mgmt", names+"_mgmt", "DINOSAURS-MGMT", strings.ToUpper(names)+"-MGMT",
		"name: dinosaur\n", "name: "+one+"\n",
		"{kind: Dinosaur, singular: dinosaur, plural: dinosaurs}", fmt.Sprintf("{kind: %s, singular: %s, plural: %s}", strings.ToUpper(one[:1])+one[1:], one, names),
		".dinosaurs.localhost", "."+names+".localhost",
	).Replace(string(text))
	if strings.Contains(s, "dinosaurs") {
		t.Fatalf("the shipped offering has changed; not all names were replaced:\n%s", s)
	}
	return s
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	// Replaced at once, as deployments do: nobody reads half a file.
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestOfferingAppliedWhileRunning(t *testing.T) {
	s := drover.Up(t)
	api := s.URL() + "/api/mammoths_mgmt/v1"
	ask := func(path string) drover.Answer {
		return drover.Must(t, drover.Request{Method: http.MethodGet, URL: api + path, Token: admin(t, s)})
	}
	if got := ask("/mammoths").Status; got != 404 {
		t.Errorf("an API that nobody offers answers %d", got)
	}
	if _, stderr, code := s.Run("create", "mammoth", "manny"); code != 3 {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	pid := s.PID()
	file := write(t, filepath.Join(t.TempDir(), "mammoth.yaml"), second(t, "mammoths"))
	if stdout, stderr, code := s.Run("apply", "-f", file); code != 0 {
		t.Fatalf("apply: %s%s", stdout, stderr)
	}
	if stdout, stderr, code := s.Run("create", "mammoth", "manny", "--wait"); code != 0 {
		t.Fatalf("create: %s%s", stdout, stderr)
	}
	for line, want := range map[string]string{"get mammoths": `(?m)^manny +ready`, "get": `(?m)^mammoths\b`, "get offerings": `(?m)^mammoth\b`} {
		stdout, stderr, code := s.Run(strings.Fields(line)...)
		if code != 0 || !regexp.MustCompile(want).MatchString(stdout) {
			t.Errorf("%s: exit code %d, no %s in:\n%s%s", line, code, want, stdout, stderr)
		}
	}
	if stdout, _, _ := s.Run("get", "dinosaurs"); strings.Contains(stdout, "manny") {
		t.Error("a mammoth is among the dinosaurs")
	}
	if a := ask("/mammoths"); a.Status != 200 || !strings.Contains(string(a.Body), `"name":"manny"`) {
		t.Errorf("its own API: %d %s", a.Status, a.Body)
	}
	if a := ask("/mammoths/nobody"); a.Status != 404 || a.Error().Code != "MAMMOTHS-MGMT-7" {
		t.Errorf("its own errors: %d %s", a.Status, a.Body)
	}
	if status, body := drover.Reach(s.Routes, "manny.mammoths.localhost"); status != 200 || !strings.Contains(body, "manny") {
		t.Errorf("its own route: %d %s", status, body)
	}
	if s.PID() != pid {
		t.Error("the server was restarted")
	}

	// A broken file: where and why, and the last good version stays.
	c := s.Client(t)
	before := atRest(t, s, c)
	good := second(t, "mammoths")
	line := 1 + strings.Count(good[:strings.Index(good, "DINOSAUR_SPECIES")], "\n")
	for name, tc := range map[string]struct{ reason, text, want string }{
		"expression": {"A field that is not there.", strings.Replace(good, "instance.parameters.species", "instance.parameters.speces", 1), fmt.Sprintf(`mammoth\.yaml:%d:\d+: .*speces`, line)},
		"yaml":       {"No YAML.", strings.Replace(good, "spec:\n", "spec: [\n", 1), `mammoth\.yaml:\d+:\d+: `},
		"unknown":    {"A field that no offering has.", strings.Replace(good, "  components:", "  componnts:", 1), `mammoth\.yaml:\d+:\d+: .*componnts`},
		"path":       {"The API path stays while there are instances.", strings.Replace(good, "mammoths_mgmt", "mammuts_mgmt", 1), `mammoth\.yaml: `},
		"taken":      {"Names that another offering has.", strings.Replace(good, "plural: mammoths", "plural: dinosaurs", 1), `mammoth\.yaml: `},
	} {
		broken := write(t, filepath.Join(t.TempDir(), "mammoth.yaml"), tc.text)
		_, stderr, code := s.Run("apply", "-f", broken)
		t.Logf("%s: %s", name, stderr)
		if code == 0 || !regexp.MustCompile(tc.want).MatchString(stderr) {
			t.Errorf("%s: %s exit code %d, no %s in: %s", name, tc.reason, code, tc.want, stderr)
		}
	}
	unmoved(t, c, before)
	if stdout, stderr, code := s.Run("create", "mammoth", "ellie", "--wait"); code != 0 {
		t.Errorf("the last good version is not in force: %s%s", stdout, stderr)
	}

	// It is still there after a restart.
	s.Stop()
	s.Start(t)
	if a := ask("/mammoths"); a.Status != 200 || !strings.Contains(string(a.Body), "ellie") {
		t.Errorf("after a restart: %d %s", a.Status, a.Body)
	}
	if stdout, stderr, code := s.Run("delete", "mammoth", "manny", "--wait"); code != 0 {
		t.Errorf("delete: %s%s", stdout, stderr)
	}
}

func TestOfferingsDirIsWatched(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "sloth.yaml"), second(t, "sloths"))
	s := drover.Serve(t, "--offerings-dir", dir)
	c := s.Client(t)
	sold := func(name string) bool {
		_, err := c.Get(context.Background(), "offerings", name, "")
		return err == nil
	}
	drover.Until(t, "the sloth, which was there before the start", func() bool { return sold("sloth") })
	path := write(t, filepath.Join(dir, "mammoth.yaml"), second(t, "mammoths"))
	drover.Until(t, "the mammoth, which came later", func() bool { return sold("mammoth") })

	served := func() bool {
		a := drover.Must(t, drover.Request{Method: http.MethodGet, URL: s.URL() + "/api/mammoths_mgmt/v1/mammoths", Token: admin(t, s)})
		return a.Status == http.StatusOK
	}
	drover.Until(t, "its API", served)

	// A change is put into force.
	write(t, path, strings.Replace(second(t, "mammoths"), "A dinosaur that answers", "A woolly one that answers", 1))
	describes := func(text string) func() bool {
		return func() bool {
			o, err := c.Get(context.Background(), "offerings", "mammoth", "")
			return err == nil && strings.Contains(string(o.Spec), text)
		}
	}
	drover.Until(t, "the change", describes("woolly"))

	// A broken file is told with its place and removes nothing; nor does one
	// that goes away.
	write(t, path, strings.Replace(second(t, "mammoths"), "instance.parameters.species", "instance.parameters.speces", 1))
	drover.Until(t, "the complaint", func() bool {
		return regexp.MustCompile(`mammoth\.yaml:\d+:\d+: .*speces`).MatchString(s.Log())
	})
	if !describes("woolly")() || !served() {
		t.Error("a broken file replaced the last good version")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "bison.yaml"), second(t, "bisons"))
	drover.Until(t, "the next file", func() bool { return sold("bison") })
	if !sold("mammoth") || !served() {
		t.Error("a file that went away removed its offering")
	}
}
