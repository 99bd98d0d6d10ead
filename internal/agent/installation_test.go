package agent_test

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/droverhq/drover/internal/agent"
	"github.com/droverhq/drover/internal/runtime/simulated"
)

// The server tells installations apart by what a restart does not change.
func TestInstallationOutlivesTheProcess(t *testing.T) {
	home, other := t.TempDir(), t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.say(desired(1))
		for _, dir := range []string{home, home, other} {
			stop := start(t, s, simulated.New(simulated.Config{}), dir)
			settle(time.Minute)
			stop()
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.conns) != 3 {
			t.Fatalf("%d connections, not one of each process", len(s.conns))
		}
		first, again, stranger := s.conns[0], s.conns[1], s.conns[2]
		if first[1] == "" || first[1] != again[1] || first[0] == again[0] {
			t.Errorf("a restart changes %v to %v; want another process of the same installation", first, again)
		}
		if stranger[1] == first[1] {
			t.Errorf("two directories have one installation %q", first[1])
		}
	})
	info, err := os.Stat(filepath.Join(home, "installation"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v", info, err)
	}
}

func TestBrokenInstallationIsNotReplaced(t *testing.T) {
	for _, c := range []struct{ reason, text string }{
		{"a file that was cut off", "i12"},
		{"an empty one", ""},
		{"something else", "installation=$(reboot)"},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "installation"), []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := agent.New(agent.Config{Client: newServer(), Cluster: "c", Runtime: simulated.New(simulated.Config{}), Dir: dir}); err == nil {
			t.Errorf("%s: the agent starts under another name", c.reason)
		}
	}
}
