package e2e

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/droverhq/drover/api/client"
	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/test/drover"
)

// watcher is `drover events --watch`, as it prints.
type watcher struct {
	changes chan v1.Change
	last    int64
}

// watch begins to watch, and has seen what was there before.
func watch(t *testing.T, s *drover.Server, args ...string) *watcher {
	t.Helper()
	cmd := exec.Command(drover.Binary(), append([]string{"events", "--watch", "-o", "json", "--after", "0", "--limit", "1000", "--data-dir", s.DataDir}, args...)...)
	cmd.Env = append(os.Environ(), "DROVER_CONFIG=")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	w := &watcher{changes: make(chan v1.Change, 10_000)}
	read := make(chan struct{})
	go func() { // ends with the process
		defer close(read)
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 8<<20)
		for lines.Scan() {
			var c v1.Change
			if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
				t.Errorf("%v: %s", err, lines.Bytes())
			}
			w.changes <- c
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-read
		_ = cmd.Wait()
	})
	return w
}

// until reads on until an object of a name is in a phase. Whatever passes comes in order.
func (w *watcher) until(t *testing.T, name, phase string) (passed []v1.Change) {
	t.Helper()
	for deadline := time.After(drover.Patience); ; {
		select {
		case c := <-w.changes:
			if c.Seq <= w.last {
				t.Errorf("change %d comes after %d", c.Seq, w.last)
			}
			w.last = c.Seq
			if passed = append(passed, c); c.Object.Kind == "instance" && c.Object.Name == name && c.Object.Phase == phase {
				return passed
			}
		case <-deadline:
			t.Fatalf("nobody tells that %s is %s; the last was %d", name, phase, w.last)
		}
	}
}

// Whoever watches sees each change once, in order, of its own organisation alone, and
// goes on where it was after the server was killed: what happened meanwhile included.
func TestEventsAreWatched(t *testing.T) {
	s := drover.Up(t)
	alice := token(t, s, "--org", "acme", "--user", "alice")
	order := func(name, token string) {
		t.Helper()
		args := []string{"create", "dinosaur", name, "--wait"}
		if token != "" {
			args = append(args, "--token", token)
		}
		goes(t, s, args...)
	}
	all, hers := watch(t, s), watch(t, s, "--token", alice)
	order("rex", alice)
	order("theirs", "")
	phases := map[string]bool{}
	for _, c := range all.until(t, "rex", "ready") {
		if c.Object.Name == "rex" && c.Object.Kind == "instance" {
			phases[c.Object.Phase] = true
		}
	}
	if !phases["accepted"] || !phases["provisioning"] {
		t.Errorf("rex went over %v", phases)
	}
	all.until(t, "theirs", "ready")
	hers.until(t, "rex", "ready")
	s.Kill()
	s.Start(t)
	order("tina", alice)
	all.until(t, "tina", "ready")
	seen := map[int64]bool{}
	for _, c := range hers.until(t, "tina", "ready") {
		if c.Object.Org != "acme" {
			t.Errorf("alice sees %s %s of %q", c.Object.Kind, c.Object.Name, c.Object.Org)
		}
		seen[c.Seq] = true
	}
	past, err := dial(t, s.URL(), alice).Changes(t.Context(), client.ChangeOptions{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range past.Items {
		if c.Object.Kind == "instance" && c.Object.Name == "tina" && c.Seq <= hers.last && !seen[c.Seq] {
			t.Errorf("change %d was not told", c.Seq)
		}
	}
}
