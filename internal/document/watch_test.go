package document_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/document"
	"github.com/droverhq/drover/internal/fault"
)

// journal is what a watch logs and applies, in its order.
type journal chan string

func (j journal) Write(p []byte) (int, error) {
	j <- string(p)
	return len(p), nil
}

// await reads on until a line holds all of this, and returns what came before.
func (j journal) await(t *testing.T, what ...string) (before []string) {
	t.Helper()
	late := time.After(2 * time.Minute)
	for {
		select {
		case line := <-j:
			if !slices.ContainsFunc(what, func(w string) bool { return !strings.Contains(line, w) }) {
				return before
			}
			before = append(before, line)
		case <-late:
			t.Fatalf("it was never said: %q", what)
		}
	}
}

func write(t *testing.T, path, data string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestWatch(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cats")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	single := filepath.Join(t.TempDir(), "dog")
	in := func(name string) string { return filepath.Join(dir, name) }
	write(t, in("tom.yaml"), "tom 1")
	write(t, in(".hidden.yaml"), "hidden")
	write(t, in("readme.md"), "readme")
	if err := syscall.Mkfifo(in("pipe.yaml"), 0o600); err != nil {
		t.Fatal(err)
	}
	j := make(journal, 1000)
	var away atomic.Bool
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- document.Watch{
			Paths: []string{dir, single, in("tom.yaml")}, Bytes: 10, Log: slog.New(slog.NewTextHandler(j, nil)),
			All: "animals", One: "animal file", Stay: "it lives on",
			Apply: func(_ context.Context, file string, data []byte) error {
				switch {
				case away.Load():
					return fault.New(fault.Unavailable, "away")
				case strings.HasPrefix(string(data), "broken"):
					return fault.New(fault.Invalid, "it is broken")
				}
				j <- "applied " + filepath.Base(file) + ": " + string(data)
				return nil
			},
		}.Run(ctx)
	}()

	j.await(t, "animals not read; those in force stay", "dog")
	j.await(t, "animal file not read; the last good version stays in force", "pipe.yaml", "not a file")
	j.await(t, "applied tom.yaml: tom 1")

	write(t, single, "a dog that is long")
	for _, line := range j.await(t, "applied dog: a dog that ") {
		if strings.Contains(line, "applied tom") || strings.Contains(line, "those in force stay") {
			t.Errorf("a file is applied once, and told to be missing once: %s", line)
		}
	}

	write(t, in("tom.yaml"), "broken")
	j.await(t, "animal file not applied; the last good version stays in force", "tom.yaml", "it is broken")
	write(t, in("tom.yaml"), "tom 2")
	j.await(t, "applied tom.yaml: tom 2")

	away.Store(true)
	write(t, in("tom.yaml"), "tom 3")
	j.await(t, "not applied", "tom.yaml", "away")
	away.Store(false)
	write(t, in("tim.json"), "tim 1")
	before := j.await(t, "applied tom.yaml: tom 3") // though the file did not change again
	if !slices.Contains(before, "applied tim.json: tim 1") {
		j.await(t, "applied tim.json: tim 1")
	}

	if err := os.Remove(in("tim.json")); err != nil {
		t.Fatal(err)
	}
	j.await(t, "animal file is gone; it lives on", "tim.json")
	if err := os.Remove(single); err != nil {
		t.Fatal(err)
	}
	j.await(t, "animals not read; those in force stay", "dog")
	j.await(t, "animal file is gone; it lives on", "dog")

	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Of a directory that is away nothing is known: its files are not gone, and are
// not new when it is back.
func TestWatchedDirectoryGoesAndComesBack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cats")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	sign := filepath.Join(t.TempDir(), "sign") // its changes make the watch look
	write(t, filepath.Join(dir, "tom.yaml"), "tom")
	write(t, sign, "1")
	j := make(journal, 1000)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- document.Watch{
			Paths: []string{dir, sign}, Log: slog.New(slog.NewTextHandler(j, nil)), All: "animals", One: "animal file", Stay: "it lives on",
			Apply: func(_ context.Context, file string, data []byte) error {
				j <- "applied " + filepath.Base(file) + ": " + string(data)
				return nil
			},
		}.Run(ctx)
	}()
	j.await(t, "applied tom.yaml")
	j.await(t, "applied sign: 1")
	for _, round := range []string{"2", "3"} {
		if err := os.Rename(dir, dir+".moved"); err != nil {
			t.Fatal(err)
		}
		write(t, sign, "0")
		quiet := j.await(t, "animals not read", "cats") // each time that it goes
		if err := os.Rename(dir+".moved", dir); err != nil {
			t.Fatal(err)
		}
		write(t, sign, round)
		for _, line := range append(quiet, j.await(t, "applied sign: "+round)...) {
			if strings.Contains(line, "tom.yaml") {
				t.Errorf("got %s", line)
			}
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
