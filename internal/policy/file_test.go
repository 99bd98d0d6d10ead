package policy_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/policy"
)

// journal is a log whose lines tests wait for.
type journal chan string

func (j journal) Write(p []byte) (int, error) {
	j <- string(p)
	return len(p), nil
}

// await reads on until a line holds all of this.
func (j journal) await(t *testing.T, what ...string) {
	t.Helper()
	late := time.After(2 * time.Minute)
	for {
		select {
		case line := <-j:
			if !slices.ContainsFunc(what, func(w string) bool { return !strings.Contains(line, w) }) {
				return
			}
		case <-late:
			t.Fatalf("the log never said %q", what)
		}
	}
}

func newJournal() (journal, *slog.Logger) {
	j := make(journal, 1000)
	return j, slog.New(slog.NewTextHandler(j, nil))
}

func TestWatchFiles(t *testing.T) {
	store := open(t)
	j, log := newJournal()
	s := policy.NewService(policy.Config{Store: store, Log: log})
	dir := t.TempDir()
	single := filepath.Join(t.TempDir(), "quota.yaml")
	write := func(path string, data []byte) {
		t.Helper()
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	deny := filepath.Join(dir, "deny.yaml")
	write(deny, doc("DenyList", "main", "{users: [mallory]}"))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.WatchFiles(ctx, []string{dir, single}) }()

	j.await(t, "policies not read; those in force stay", "quota.yaml")
	j.await(t, "policy file read", "deny.yaml", "changed=1")
	if !s.Denied("mallory") {
		t.Error("the file is not in force")
	}

	write(deny, []byte("kind: DenyList\nspec: {users: []}\n"))
	j.await(t, "policy file not applied; the last good version stays in force", "deny.yaml:1:")
	if !s.Denied("mallory") {
		t.Error("a broken file changed something")
	}
	write(deny, doc("DenyList", "main", "{users: [trudy]}"))
	j.await(t, "policy file read", "deny.yaml", "changed=1")
	if !s.Denied("trudy") || s.Denied("mallory") {
		t.Error("the new version is not in force")
	}

	write(single, doc("Quota", "acme", "{organisation: acme, anyUser: true}"))
	j.await(t, "policy file read", "quota.yaml", "changed=1")
	if _, err := s.Get(t.Context(), "quota", "acme"); err != nil {
		t.Error(err)
	}

	if err := os.Remove(deny); err != nil {
		t.Fatal(err)
	}
	j.await(t, "policy file is gone", "deny.yaml")
	if !s.Denied("trudy") {
		t.Error("a file that went away removed something")
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A restart does not undo what somebody has applied or deleted since.
func TestFilesSayThingsOnce(t *testing.T) {
	store := open(t)
	file := filepath.Join(t.TempDir(), "deny.yaml")
	if err := os.WriteFile(file, doc("DenyList", "main", "{users: [mallory]}"), 0o600); err != nil {
		t.Fatal(err)
	}
	restart := func(changes string) *policy.Service {
		t.Helper()
		j, log := newJournal()
		s := policy.NewService(policy.Config{Store: store, Log: log})
		if err := s.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = s.WatchFiles(ctx, []string{file}) }()
		j.await(t, "policy file read", "changed="+changes)
		cancel()
		<-done
		return s
	}
	one := restart("1")
	if !one.Denied("mallory") {
		t.Error("the file is not in force")
	}
	apply(t, one, doc("DenyList", "main", "{users: [trudy]}"))
	two := restart("0")
	if !two.Denied("trudy") || two.Denied("mallory") {
		t.Error("the restart undid what was applied")
	}
	if _, err := two.Delete(t.Context(), "denylist", "main"); err != nil {
		t.Fatal(err)
	}
	three := restart("0")
	if three.Denied("mallory") || three.Denied("trudy") {
		t.Error("the restart brought back what was deleted")
	}
}
