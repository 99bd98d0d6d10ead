package policy_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/droverhq/drover/internal/policy"
)

// journal is a log that tests wait for.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) says(what string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Contains(j.text.String(), what)
}

func TestWatchFiles(t *testing.T) {
	store := open(t)
	j := &journal{}
	s := policy.NewService(policy.Config{Store: store, Log: slog.New(slog.NewTextHandler(j, nil))})
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

	eventually(t, func() bool { return s.Denied("mallory") })
	eventually(t, func() bool { return j.says("policies not read; those in force stay") }) // single is not there yet

	write(deny, []byte("kind: DenyList\nspec: {users: []}\n"))
	eventually(t, func() bool {
		return j.says("policy file not applied; the last good version stays in force") && j.says("deny.yaml:1:")
	})
	if !s.Denied("mallory") {
		t.Error("a broken file changed something")
	}
	write(deny, doc("DenyList", "main", "{users: [trudy]}"))
	eventually(t, func() bool { return s.Denied("trudy") && !s.Denied("mallory") })

	write(single, doc("Quota", "acme", "{organisation: acme, anyUser: true}"))
	eventually(t, func() bool { _, err := s.Get(t.Context(), "quota", "acme"); return err == nil })

	if err := os.Remove(deny); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return j.says("policy file is gone") })
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
	start := func() (*policy.Service, *journal, func()) {
		j := &journal{}
		s := policy.NewService(policy.Config{Store: store, Log: slog.New(slog.NewTextHandler(j, nil))})
		if err := s.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = s.WatchFiles(ctx, []string{file, file + ".missing"}) }()
		return s, j, func() {
			// The scan tells of the missing file before it reads the other one,
			// and ends after it: the next scan is five seconds away.
			eventually(t, func() bool { return j.says("missing") })
			cancel()
			<-done
		}
	}
	one, _, stop := start()
	eventually(t, func() bool { return one.Denied("mallory") })
	stop()
	apply(t, one, doc("DenyList", "main", "{users: [trudy]}"))
	two, _, stop := start()
	stop()
	if !two.Denied("trudy") || two.Denied("mallory") {
		t.Error("the restart undid what was applied")
	}
	if _, err := two.Delete(t.Context(), "denylist", "main"); err != nil {
		t.Fatal(err)
	}
	three, _, stop := start()
	stop()
	if three.Denied("mallory") || three.Denied("trudy") {
		t.Error("the restart brought back what was deleted")
	}
}
