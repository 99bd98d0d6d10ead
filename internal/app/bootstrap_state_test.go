package app_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/droverhq/drover/internal/app"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/test/gitserver"
)

func localBoot(state string) app.BootstrapConfig {
	return app.BootstrapConfig{BootstrapSettings: app.BootstrapSettings{Location: "local", State: state, Timeout: time.Minute}, Tell: func(app.BootstrapEvent) {}}
}

// A machine's own directories are called run, too.
func TestDestroyRemovesOnlyABootstrap(t *testing.T) {
	state := t.TempDir()
	theirs := filepath.Join(state, "run", "systemd")
	if err := os.MkdirAll(theirs, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := app.BootstrapDestroy(t.Context(), localBoot(state)); !fault.Is(err, fault.NotFound) {
		t.Errorf("what no bootstrap has made is destroyed: %v", err)
	}
	if err := app.Settle(state); !fault.Is(err, fault.Conflict) {
		t.Errorf("somebody's directory is taken: %v", err)
	}
	if _, err := os.Stat(theirs); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(state, "bootstrap.mark")); err == nil {
		t.Error("it is said to be a bootstrap's from now on")
	}

	own := filepath.Join(t.TempDir(), "a", "state")
	if err := app.Settle(own); err != nil {
		t.Fatal(err)
	}
	// Something of the ledger is there, and it was killed before there was more.
	if err := os.WriteFile(filepath.Join(own, "ledger", "master.key"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := app.Settle(own); err != nil {
		t.Errorf("what was begun is not gone on with: %v", err)
	}
	if _, err := app.BootstrapStatus(t.Context(), localBoot(own)); !fault.Is(err, fault.NotFound) {
		t.Errorf("the status of what was only settled: %v", err)
	}
	if err := app.BootstrapDestroy(t.Context(), localBoot(own)); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(own)
	if err != nil || len(left) != 1 || left[0].Name() != "bootstrap.lock" {
		t.Errorf("%v is left, %v", left, err)
	}
}

func TestStateOfOthersStaysAsItIs(t *testing.T) {
	for mode, refused := range map[os.FileMode]bool{0o755: false, 0o700: false, 0o777 | os.ModeSticky: true, 0o775: true} {
		dir := filepath.Join(t.TempDir(), "state")
		if err := errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, mode)); err != nil {
			t.Fatal(err)
		}
		if err := app.Settle(dir); refused != fault.Is(err, fault.Invalid) || !refused && err != nil {
			t.Errorf("%v: %v", mode, err)
		}
		if info, err := os.Stat(dir); err != nil || info.Mode()&^os.ModeDir != mode {
			t.Errorf("%v has become %v, %v", mode, info.Mode(), err)
		}
	}
}

type mapper struct {
	apimeta.RESTMapper
	err error
}

func (m mapper) RESTMapping(schema.GroupKind, ...string) (*apimeta.RESTMapping, error) {
	return &apimeta.RESTMapping{}, m.err
}

func TestCertManagerIsAbsentOnlyWhereTheClusterSaysSo(t *testing.T) {
	for _, tc := range []struct {
		reason string
		err    error
		has    bool
		fails  bool
	}{
		{"it is there", nil, true, false},
		{"it is not", &apimeta.NoKindMatchError{}, false, false},
		{"nobody answers", context.DeadlineExceeded, false, true},
		{"it is not told to us", fmt.Errorf("forbidden"), false, true},
	} {
		has, err := app.HasCertManager(mapper{err: tc.err})
		if has != tc.has || tc.fails != fault.Is(err, fault.Unavailable) || !tc.fails && err != nil {
			t.Errorf("%s: %v, %v", tc.reason, has, err)
		}
	}
}

const ownMeta = "apiVersion: drover.dev/v1\nkind: Template\nmetadata: {name: meta-local}\nspec: {version: %s, resources: [{name: key, executor: secret}]}\n"

// Whoever may push to a repository says what runs here only where that was asked for,
// and by what they had pushed then.
func TestMetaTemplateOfARepository(t *testing.T) {
	git := gitserver.Start(t)
	repo := git.Repo(t, "acme/infra-meta")
	first := repo.Commit(t, "main", map[string]gitserver.Entry{"local/template.yaml": gitserver.File(fmt.Sprintf(ownMeta, "11.0.0"))})
	s, err := app.New(t.Context(), app.Config{Settings: app.Settings{DataDir: t.TempDir(), Listen: "127.0.0.1:0"}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var told []string
	choose := func(from, was string) (string, []string, error) {
		told = nil
		c := localBoot(t.TempDir())
		c.BaseURL, c.Organisation, c.Prefix, c.MetaRepository = git.URL, "acme", "infra-", from
		c.Tell = func(e app.BootstrapEvent) { told = append(told, e.Phase+" "+e.Message) }
		return app.MetaTemplate(t.Context(), s, c, was)
	}

	shipped, left, err := choose("", "")
	if err != nil || !strings.Contains(strings.Join(told, " "), "ships with this drover") {
		t.Fatalf("unasked, it is %s, %v", shipped, err)
	}
	if !slices.ContainsFunc(left, func(l string) bool { return strings.Contains(l, "--meta-repository infra-meta@"+first) }) {
		t.Errorf("that there is one is not told: %v", left)
	}
	one, _, err := choose("infra-meta", "")
	if err != nil || one == shipped || !strings.Contains(strings.Join(told, "\n"), "at commit "+first) || !strings.Contains(strings.Join(told, "\n"), "whoever may push there") {
		t.Fatalf("asked for, it is %s, %v; %v", one, err, told)
	}
	second := repo.Commit(t, "main", map[string]gitserver.Entry{"local/template.yaml": gitserver.File(fmt.Sprintf(ownMeta, "12.0.0"))})
	for _, from := range []string{"", "infra-meta", "infra-meta@" + first} {
		if again, _, err := choose(from, one); err != nil || again != one {
			t.Errorf("a run again with %q takes %s, %v", from, again, err)
		}
	}
	if two, _, err := choose("infra-meta@"+second, one); err != nil || two == one {
		t.Errorf("another commit by name is %s, %v", two, err)
	}
	if back, _, err := choose("infra-meta@"+first, ""); err != nil || back != one {
		t.Errorf("an old commit by name is %s, %v", back, err)
	}
	for _, from := range []string{"infra-meta@main", "infra-none", "infra-meta@" + strings.Repeat("0", 40)} {
		if got, _, err := choose(from, ""); err == nil {
			t.Errorf("%s is taken: %s", from, got)
		}
	}
}
