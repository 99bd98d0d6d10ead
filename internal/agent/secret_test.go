package agent_test

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/agent"
	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/simulated"
)

// A body with its secrets is not the one that the digest was made of, and two
// items may have one digest and different secrets. The agent gives them to the
// runtime and to nothing else.
func TestSecretsGoToTheRuntimeAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		applied := map[string]string{}
		rt := simulated.New(simulated.Config{Delay: func(it runtime.Item) time.Duration {
			mu.Lock()
			defer mu.Unlock()
			applied[it.ID] = string(it.Body)
			return 0
		}})
		s, dir := newServer(), t.TempDir()
		var log bytes.Buffer
		stop := start(t, s, rt, dir, func(c *agent.Config) {
			c.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		})
		defer stop()
		stored := json.RawMessage(`{"password":"drover-secret:canary"}`)
		filled := func(id string) v1.Item {
			it := item(id, 1)
			it.Digest, it.Filled = v1.BodyDigest(stored), true
			it.Body = json.RawMessage(`{"password":"hunter2-` + id + `"}`)
			return it
		}
		s.say(7, filled("a"), filled("b"))
		settle(100 * time.Millisecond)
		for _, id := range []string{"a", "b"} {
			if !strings.Contains(applied[id], "hunter2-"+id) {
				t.Errorf("%s was applied as %s", id, applied[id])
			}
		}
		again := filled("a")
		again.Generation = 2
		s.say(8, again, filled("b"))
		settle(100 * time.Millisecond)
		if !strings.Contains(applied["a"], "hunter2-a") {
			t.Errorf("a body that was sent before: %s", applied["a"])
		}
		reports, err := json.Marshal(s.messages)
		if err != nil {
			t.Fatal(err)
		}
		seen := string(reports) + log.String()
		if strings.Contains(seen, "hunter2") {
			t.Error("a secret is in a message or in the log")
		}
		// What is kept for a start without a control plane is the agent's alone.
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, _ error) error {
			if info, err := d.Info(); err != nil || info.Mode().Perm()&0o077 != 0 && path != dir {
				t.Errorf("%s is readable by others: %v, %v", path, info.Mode(), err)
			}
			return nil
		})
		wrong := item("c", 1)
		wrong.Digest = v1.BodyDigest(stored)
		s.say(9, wrong)
		settle(100 * time.Millisecond)
		if _, ok := applied["c"]; ok {
			t.Error("a body that does not fit its digest, and says nothing of secrets, was applied")
		}
	})
}
