package app_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/app"
	"github.com/droverhq/drover/internal/fault"
)

// A microk8s that hangs is given up, with whatever it has started.
func TestMicroK8sIsNotWaitedForForEver(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	for _, c := range []struct {
		reason, does string
		within       time.Duration
		says         string
		kind         fault.Kind
		good         bool
	}{
		{"it answers", "echo kind: Config", time.Minute, "", 0, true},
		{"it fails", "exit 3", time.Minute, "has failed", fault.Invalid, false},
		{"it hangs, and its child holds the output", "sleep 40 & sleep 40", 100 * time.Millisecond, "nothing within 100ms", fault.Unavailable, false},
	} {
		if err := os.WriteFile(filepath.Join(dir, "microk8s"), []byte("#!/bin/sh\n"+c.does+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		out, err := app.MicroK8s(c.within)
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("%s: after %s", c.reason, took)
		}
		if c.good != (err == nil) || c.good && !strings.Contains(string(out), "Config") || !c.good && (!fault.Is(err, c.kind) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %q, %v", c.reason, out, err)
		}
	}
}
