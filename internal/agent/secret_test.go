package agent_test

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "github.com/droverhq/drover/api/v1"
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
		previous := slog.Default()
		slog.SetDefault(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
		defer slog.SetDefault(previous)
		stop := start(t, s, rt, dir)
		defer stop()
		stored := json.RawMessage(`{"password":"drover-secret:canary"}`)
		filled := func(id string) v1.Item {
			it := item(id, 1)
			it.Digest, it.Filled = v1.BodyDigest(stored), true
			it.Body = json.RawMessage(`{"password":"hunter2-` + id + `"}`)
			return it
		}
		s.say(desired(7, filled("a"), filled("b")))
		settle(100 * time.Millisecond)
		for _, id := range []string{"a", "b"} {
			if !strings.Contains(applied[id], "hunter2-"+id) {
				t.Errorf("%s was applied as %s", id, applied[id])
			}
		}
		again := filled("a")
		again.Body, again.Filled, again.Generation = nil, false, 2
		b := filled("b")
		b.Body = nil
		s.say(desired(8, again, b))
		settle(100 * time.Millisecond)
		if !strings.Contains(applied["a"], "hunter2-a") {
			t.Errorf("a body that was sent before: %s", applied["a"])
		}
		reports, err := json.Marshal(s.reports)
		if err != nil {
			t.Fatal(err)
		}
		seen := string(reports) + log.String()
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, _ error) error {
			if !d.IsDir() {
				data, _ := os.ReadFile(path)
				seen += string(data)
			}
			return nil
		})
		if strings.Contains(seen, "hunter2") {
			t.Error("a secret is in a report, in the log or in a file of the agent")
		}
		wrong := item("c", 1)
		wrong.Digest = v1.BodyDigest(stored)
		s.say(desired(9, wrong))
		settle(100 * time.Millisecond)
		if _, ok := applied["c"]; ok {
			t.Error("a body that does not fit its digest, and says nothing of secrets, was applied")
		}
	})
}
