package offering_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/offering"
)

func TestSeed(t *testing.T) {
	logged := make(records, 10)
	s := offering.NewService(offering.Config{Store: newStore(), Log: slog.New(logged)})
	files := func(v string) fstest.MapFS {
		return fstest.MapFS{"tea.yaml": {Data: variant("tea", v)}, "notes.txt": {Data: []byte("not an offering")}}
	}
	seed := func(v, want, reason string) {
		t.Helper()
		if err := s.Seed(t.Context(), files(v)); err != nil {
			t.Fatal(err)
		}
		if got := versionOf(t, s.Registry(), "tea"); got != want {
			t.Errorf("%s: got %q, want %q", reason, got, want)
		}
	}
	seed("1", "1", "what is absent is applied")
	seed("2", "2", "a newer binary brings its newer file")
	if _, _, err := s.Apply(t.Context(), "request", variant("tea", "admin")); err != nil {
		t.Fatal(err)
	}
	seed("2", "admin", "a restart does not undo what somebody has applied")
	seed("3", "admin", "nor does a newer binary")
	if _, err := s.Delete(t.Context(), "tea"); err != nil {
		t.Fatal(err)
	}
	seed("3", "", "what was deleted stays deleted")

	err := s.Seed(t.Context(), fstest.MapFS{"a.yaml": {Data: []byte("x: 1")}, "b.yaml": {Data: variant("mate", "1")}})
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "embedded:a.yaml:1:1") || versionOf(t, s.Registry(), "mate") != "1" {
		t.Errorf("a bad file is told and keeps none of the others back, got %v", err)
	}
	taker := strings.Replace(string(variant("broth", "1")), "broths_mgmt", "mates_mgmt", 1)
	if err := s.Seed(t.Context(), fstest.MapFS{"broth.yaml": {Data: []byte(taker)}}); err != nil {
		t.Errorf("a clash does not keep the server from starting, got %v", err)
	}
	if r := logged.next(t); !strings.Contains(r, "broth.yaml") {
		t.Errorf("but is logged, got %s", r)
	}
}

func TestWatchDir(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, data []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	st := newStore()
	committed := func() string {
		t.Helper()
		select {
		case o := <-st.commits:
			return o.ID
		case <-time.After(2 * time.Minute):
			t.Fatal("nothing was committed")
			return ""
		}
	}
	logged := make(records, 100)
	s := offering.NewService(offering.Config{Store: st, Log: slog.New(logged)})
	write("tea.yaml", variant("tea", "1"))
	write(".hidden.yaml", variant("hidden", "1"))
	write("readme.md", []byte("not an offering"))

	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.WatchDir(ctx, dir); err != nil {
			t.Error(err)
		}
	})
	defer running.Wait()
	defer cancel()

	if id := committed(); id != "tea" {
		t.Errorf("what is there is applied at once, got %s", id)
	}
	write("mate.json", parse(t, variant("mate", "1")).Data())
	if id := committed(); id != "mate" {
		t.Errorf("a new file is applied, JSON too, got %s", id)
	}
	write("tea.yaml", []byte("apiVersion: [broken"))
	logged.until(t, "not applied", filepath.Join(dir, "tea.yaml")+":1:") // why a broken file has no effect
	if err := os.Remove(filepath.Join(dir, "mate.json")); err != nil {
		t.Fatal(err)
	}
	logged.until(t, "mate.json", "is gone")
	if versionOf(t, s.Registry(), "tea") != "1" || versionOf(t, s.Registry(), "mate") != "1" {
		t.Error("a broken file and one that is gone remove nothing")
	}
	write("tea.yaml", variant("tea", "2"))
	if id := committed(); id != "tea" {
		t.Errorf("a mended file is applied, got %s", id)
	}
	moved := dir + ".moved"
	if err := os.Rename(dir, moved); err != nil {
		t.Fatal(err)
	}
	logged.until(t, "not read; those in force stay")
	if versionOf(t, s.Registry(), "tea") != "2" {
		t.Error("a directory that is gone removes nothing")
	}
	if err := os.Rename(moved, dir); err != nil {
		t.Fatal(err)
	}
	cancel()
	running.Wait()

	if _, _, err := s.Apply(t.Context(), "request", variant("tea", "admin")); err != nil {
		t.Fatal(err)
	}
	committed()
	again := offering.NewService(offering.Config{Store: st, Log: slog.New(logged)})
	if err := again.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	write("zz.yaml", variant("zz", "1")) // applied last, and so a sign that the rest was looked at
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	running.Go(func() { _ = again.WatchDir(ctx, dir) })
	if id := committed(); id != "zz" || versionOf(t, again.Registry(), "tea") != "admin" {
		t.Errorf("a file that says what it said before undoes nothing after a restart, got %s", id)
	}
}

func TestWatchDirNeedsADirectory(t *testing.T) {
	s := offering.NewService(offering.Config{Store: newStore()})
	if err := s.WatchDir(t.Context(), filepath.Join(t.TempDir(), "none")); !fault.Is(err, fault.Invalid) {
		t.Errorf("got %v", err)
	}
}
