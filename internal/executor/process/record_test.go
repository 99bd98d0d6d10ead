//go:build linux

package process_test

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/executor/process"
	"github.com/droverhq/drover/internal/fault"
)

func (w *world) home() string   { return filepath.Join(w.dir, "one") }
func (w *world) record() string { return filepath.Join(w.dir, ".programs", "one", "record.json") }

func (w *world) kill() {
	w.t.Helper()
	for len(w.pids()) > 0 {
		for _, pid := range w.pids() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		time.Sleep(time.Millisecond) // the kernel takes a moment
	}
}

// A program may run as another user, whose the home is then: nothing that the server
// acts on is in there.
func TestAProgramForgesNothing(t *testing.T) {
	w := newWorld(t, shell(`mkdir -p .drover; echo '{"id":"r1","prepared":true,"launch":{"program":"touch","args":["forged"]}}' > .drover/record.json; ln -s victim output.log; `+sleeper))
	w.must()
	for len(w.observe().Drift) == 0 {
		w.kill()
	}
	if err := process.Revive(t.Context(), w.c, func(string, string) {}); err != nil {
		t.Fatal(err)
	}
	if o := w.observe(); !o.Exists || len(o.Drift) > 0 {
		t.Errorf("it was started again as %+v", o)
	}
	for _, name := range []string{"forged", "victim"} {
		if _, err := os.Lstat(filepath.Join(w.home(), name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is there: %v", name, err)
		}
	}
	if info, err := os.Stat(filepath.Dir(filepath.Dir(w.record()))); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("others may look at the records: %v, %v", info, err)
	}
}

// Who makes it is killed after the record was there, and before the home was.
func TestARecordWithoutItsHome(t *testing.T) {
	w := newWorld(t, shell(sleeper))
	w.must()
	w.kill()
	back := func() {
		t.Helper()
		if err := os.Rename(w.home(), filepath.Join(filepath.Dir(w.record()), "home")); err != nil {
			t.Fatal(err)
		}
	}
	back()
	w.must()
	if o := w.observe(); !o.Exists || len(o.Drift) > 0 {
		t.Errorf("it was gone on with as %+v", o)
	}

	// Somebody else has the place meanwhile, and keeps it.
	w.kill()
	back()
	note := filepath.Join(w.home(), "note")
	if err := errors.Join(os.Mkdir(w.home(), 0o700), os.WriteFile(note, []byte("theirs"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := w.apply(); fault.Reason(err) != "not-ours" {
		t.Errorf("somebody's directory is taken: %v", err)
	}
	if _, err := process.New().Destroy(t.Context(), w.r); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(note); err != nil || string(data) != "theirs" {
		t.Errorf("somebody's file is %q, %v", data, err)
	}
	if _, err := os.Stat(w.record()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the record is there: %v", err)
	}
}

func TestAHomeThatWasRemovedIsMadeAnew(t *testing.T) {
	w := newWorld(t, shell(sleeper))
	w.must()
	if err := os.RemoveAll(w.home()); err != nil {
		t.Fatal(err)
	}
	if o := w.observe(); o.Exists {
		t.Errorf("what has no directory is seen as %+v", o)
	}
	w.must()
	leader(t, w.pids())
	// A removal of the record was cut short.
	w.kill()
	if err := errors.Join(os.RemoveAll(w.home()), os.Remove(w.record())); err != nil {
		t.Fatal(err)
	}
	w.must()
}

func TestClearStaysInside(t *testing.T) {
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	in := shell(sleeper)
	in["clear"] = []any{"link/x"}
	in["prepare"] = []any{map[string]any{"command": []any{"ln", "-s", outside, "link"}}, map[string]any{"command": []any{"false"}}}
	w := newWorld(t, in)
	for range 2 {
		if err := w.apply(); err == nil {
			t.Error("a preparation that fails does not")
		}
	}
	if _, err := os.Stat(filepath.Join(outside, "x")); err != nil {
		t.Errorf("a file that is not the program's is gone: %v", err)
	}
}

func TestSecretsInCommandsAreRefused(t *testing.T) {
	secret := executor.NewSecret("open sesame")
	for reason, tc := range map[string]struct {
		prepare any
		refused bool
	}{
		"a word":           {[]any{map[string]any{"command": []any{"echo", secret}}}, true},
		"a whole command":  {[]any{map[string]any{"command": secret}}, true},
		"a whole step":     {[]any{executor.NewSecret(map[string]any{"command": []any{"echo"}})}, true},
		"everything":       {executor.NewSecret([]any{map[string]any{"command": []any{"echo"}}}), true},
		"what it reads":    {[]any{map[string]any{"command": []any{"cat"}, "stdin": secret}}, false},
		"nothing is of it": {[]any{map[string]any{"command": []any{"true"}}}, false},
	} {
		in := shell(sleeper)
		in["name"], in["prepare"] = "one", tc.prepare
		r := executor.Resource{ID: rand.Text(), Connection: executor.Connection{"directory": t.TempDir()}, Log: io.Discard, Inputs: in}
		_, err := process.New().Plan(t.Context(), r)
		if tc.refused != fault.Is(err, fault.Invalid) || err != nil && strings.Contains(err.Error(), "sesame") {
			t.Errorf("%s: %v", reason, err)
		}
	}
}

// A change was cut short, and another program cannot be started.
func TestReviveGoesOn(t *testing.T) {
	w := newWorld(t, shell(sleeper))
	w.must()
	file := filepath.Join(t.TempDir(), "gone")
	if err := os.WriteFile(file, []byte("#!/bin/sh\nexec sleep 1000\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	first := w.r
	first.ID, first.State = rand.Text(), nil
	first.Save = func(context.Context, []byte) error { return nil }
	first.Inputs = map[string]any{"name": "a-first", "program": file}
	if _, err := process.New().Apply(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	swap := func(name, old, now string) {
		t.Helper()
		at := filepath.Join(w.dir, ".programs", name, "record.json")
		data, err := os.ReadFile(at)
		text := strings.Replace(string(data), old, now, 1)
		if err == nil && text == string(data) {
			err = errors.New("the record has no " + old)
		}
		if err = errors.Join(err, os.WriteFile(at, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	swap("a-first", `"number":`, `"number":1,"was":`)
	swap("one", `"run":`, `"beginning":true,"run":`)
	w.kill()
	log := filepath.Join(w.dir, ".programs/a-first/output.log")
	for len(carriers(t, log)) > 0 {
		for _, pid := range carriers(t, log) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		time.Sleep(time.Millisecond)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	err := process.Revive(t.Context(), w.c, func(string, string) {})
	if err == nil || !strings.Contains(err.Error(), "there is no program") {
		t.Errorf("what cannot be started is not told: %v", err)
	}
	if len(w.pids()) == 0 {
		t.Error("what was prepared does not run")
	}
}
