//go:build linux

package process_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/executor/process"
	"github.com/droverhq/drover/internal/program"
)

// restored is the same resource of another server, which has the same ledger out of a backup.
func (w *world) restored() *world {
	other := newWorld(w.t, shell(sleeper))
	other.r.ID = w.r.ID
	return other
}

func (w *world) destroy() {
	w.t.Helper()
	if _, err := process.New().Destroy(w.t.Context(), w.r); err != nil {
		w.t.Fatal(err)
	}
}

// Servers with the same resources, and a directory each, leave each other's programs alone.
func TestTheSameResourceTwice(t *testing.T) {
	w := newWorld(t, shell(sleeper))
	w.must()
	other, before := w.restored(), leader(t, w.pids())
	other.must()
	if now := leader(t, w.pids()); now != before {
		t.Errorf("the first is process %d, and was %d", now, before)
	}
	leader(t, other.pids())
	other.destroy()
	if now := leader(t, w.pids()); now != before || len(w.observe().Drift) > 0 {
		t.Errorf("the first is process %d, and was %d: %+v", now, before, w.observe())
	}
}

// A copy of a directory says which process it was, and that one is the original's.
func TestACopyOfADirectory(t *testing.T) {
	w := newWorld(t, shell(sleeper))
	w.must()
	other, before := w.restored(), leader(t, w.pids())
	if err := os.CopyFS(other.dir, os.DirFS(w.dir)); err != nil {
		t.Fatal(err)
	}
	other.r.State = w.r.State
	if running, err := process.Running(t.Context(), other.c); err != nil || running["one"] {
		t.Errorf("it is said to run: %v, %v", running, err)
	}
	other.must()
	own := leader(t, other.pids())
	other.destroy()
	if now := leader(t, w.pids()); now != before || own == before || len(w.observe().Drift) > 0 {
		t.Errorf("the first is process %d, and was %d: %+v", now, before, w.observe())
	}
}

// A directory that has moved has its programs still.
func TestADirectoryThatHasMoved(t *testing.T) {
	w := newWorld(t, shell(sleeper))
	w.must()
	before, to := leader(t, w.pids()), w.dir+".moved"
	if err := os.Rename(w.dir, to); err != nil {
		t.Fatal(err)
	}
	w.dir, w.c = to, executor.Connection{"directory": to}
	w.r.Connection = w.c
	if now := leader(t, w.pids()); now != before || len(w.observe().Drift) > 0 {
		t.Errorf("it is process %d, and was %d: %+v", now, before, w.observe())
	}
}

// What a version has started whose nonces were those of resources alone goes on, and is
// ended when it is started anew.
func TestWhatRunsAlreadyGoesOn(t *testing.T) {
	w := newWorld(t, shell(sleeper))
	w.must()
	w.kill()
	old := exec.Command("sleep", "1000")
	old.Env, old.SysProcAttr = []string{program.NonceVar + "=res-" + w.r.ID + "-one.1"}, &syscall.SysProcAttr{Setsid: true}
	if err := old.Start(); err != nil {
		t.Fatal(err)
	}
	over := make(chan error, 1)
	go func() { over <- old.Wait() }()
	t.Cleanup(func() { _ = old.Process.Kill() })
	data, err := os.ReadFile(w.record())
	rec := map[string]any{}
	if err == nil {
		err = json.Unmarshal(data, &rec)
	}
	if err != nil {
		t.Fatal(err)
	}
	delete(rec, "directory")
	rec["pid"] = old.Process.Pid
	rec["birth"], _ = program.Birth(old.Process.Pid)
	if data, err = json.Marshal(rec); err == nil {
		err = os.WriteFile(w.record(), data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.must()
	if o := w.observe(); !o.Exists || len(o.Drift) > 0 {
		t.Errorf("it is seen as %+v", o)
	}
	select {
	case err := <-over:
		t.Fatalf("it was ended: %v", err)
	default:
	}
	w.r.Inputs["env"] = map[string]any{"A": "b"}
	w.must()
	<-over
	env, err := os.ReadFile("/proc/" + strconv.Itoa(leader(t, w.pids())) + "/environ")
	carried := strings.Split(string(env), "\x00")
	if i := slices.IndexFunc(carried, func(kv string) bool { return strings.HasPrefix(kv, program.NonceVar+"=res-"+w.r.ID+"-one-") }); err != nil || i < 0 {
		t.Errorf("the new one carries %q, %v", carried, err)
	}
}
