package action_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/droverhq/drover/internal/executor/action"
)

// left is what a run in a directory leaves when its server is killed.
func left(t *testing.T, work, name string) string {
	t.Helper()
	dir := filepath.Join(work, "drover-run-"+name)
	if err := os.MkdirAll(filepath.Join(dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(dir, "sub", "secret"), dir + ".lock"} {
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func there(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// What killed servers have left goes with the next start; what somebody still uses,
// and what is not ours, stays.
func TestLeftBehind(t *testing.T) {
	work, elsewhere := t.TempDir(), t.TempDir()
	gone, used := left(t, work, "1"), left(t, work, "2")
	lock, err := os.OpenFile(used+".lock", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	// The command that a killed server has started lives on and has it open.
	child := exec.Command("sleep", "60")
	child.ExtraFiles = []*os.File{lock}
	if !action.Lock(lock) {
		t.Fatal("it cannot be locked")
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	lock.Close()
	others := filepath.Join(work, "drover-run-3")
	if err := os.Mkdir(others, 0o700); err != nil { // nobody knows who works there
		t.Fatal(err)
	}
	kept := filepath.Join(elsewhere, "kept")
	if err := os.WriteFile(kept, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, to := range map[string]string{filepath.Join(work, "drover-run-4"): elsewhere, filepath.Join(work, "drover-run-4.lock"): kept} {
		if err := os.Symlink(to, path); err != nil {
			t.Fatal(err)
		}
	}
	action.NewRunner(action.Config{Work: work})
	if there(gone) || there(gone+".lock") {
		t.Error("what was left behind is there still")
	}
	if !there(filepath.Join(used, "sub", "secret")) || !there(used+".lock") || !there(others) || !there(kept) {
		t.Error("what is used, or not ours, is gone")
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	action.NewRunner(action.Config{Work: work})
	if there(used) {
		t.Error("nobody uses it any more, and it is there")
	}
}

// A run leaves nothing, and a server that starts meanwhile takes nothing from it.
func TestRunsHoldTheirRoom(t *testing.T) {
	work := t.TempDir()
	r := action.NewRunner(action.Config{Work: work, Allow: []string{"/bin/sh"}})
	began := make(chan struct{})
	go func() {
		<-began
		action.NewRunner(action.Config{Work: work})
		_ = os.WriteFile(filepath.Join(work, "swept"), nil, 0o600)
	}()
	out, err := r.Run(t.Context(), action.Command{Argv: []string{"sh", "-c", "echo on; until [ -e ../swept ]; do :; done; ls -d $PWD"}, Log: first(began)})
	if err != nil || out.Exit != 0 {
		t.Errorf("it ended with %d, %v: %s", out.Exit, err, out.Tells)
	}
	if found, _ := filepath.Glob(filepath.Join(work, "drover-run-*")); len(found) > 0 {
		t.Errorf("left behind: %v", found)
	}
}

// first closes a channel when something is written.
type first chan struct{}

func (f first) Write(p []byte) (int, error) {
	select {
	case <-f:
	default:
		close(f)
	}
	return len(p), nil
}
