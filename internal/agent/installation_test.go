package agent_test

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/agent"
	"github.com/droverhq/drover/internal/runtime/simulated"
)

// The server tells installations apart by what a restart does not change.
func TestInstallationOutlivesTheProcess(t *testing.T) {
	home, other := t.TempDir(), t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.say(1)
		for _, dir := range []string{home, home, other} {
			stop := start(t, s, simulated.New(simulated.Config{}), dir)
			settle(time.Minute)
			stop()
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		var lives []v1.Sync
		for _, m := range s.messages {
			if len(lives) == 0 || lives[len(lives)-1].Agent != m.Agent {
				lives = append(lives, m)
			}
		}
		if len(lives) != 3 {
			t.Fatalf("%d processes spoke, want 3", len(lives))
		}
		first, again, stranger := lives[0], lives[1], lives[2]
		if first.Installation == "" || first.Installation != again.Installation {
			t.Errorf("a restart changes %q to %q", first.Installation, again.Installation)
		}
		if stranger.Installation == first.Installation {
			t.Errorf("two directories have one installation %q", first.Installation)
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
