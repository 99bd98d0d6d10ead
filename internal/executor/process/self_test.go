//go:build linux

package process_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/droverhq/drover/internal/executor/process"
)

// Of the server itself nothing is corrected that it would have to be started anew for: it
// takes new certificates, and what somebody has edited beside them stays and is told.
func TestAServerIsCorrectedWhileItRuns(t *testing.T) {
	in := shell(`trap 'cat tls/a.crt >> seen' HUP; cat tls/a.crt > seen; while :; do sleep 0.05; done`)
	in["files"] = map[string]any{"tls/a.crt": "one\n", "conf": "x"}
	in["reload"] = map[string]any{"files": []any{"tls/a.crt"}, "signal": "HUP"}
	w := newWorld(t, in)
	w.must()
	pid := leader(t, w.pids())
	t.Cleanup(process.Is(pid))
	conf := filepath.Join(w.home(), "conf")
	if err := os.WriteFile(conf, []byte("by hand"), 0o600); err != nil {
		t.Fatal(err)
	}
	if o := w.observe(); len(o.Drift) > 0 || !strings.Contains(o.Unready, "files.conf is not what was applied") {
		t.Errorf("it is seen as %+v", o)
	}
	in["files"] = map[string]any{"tls/a.crt": "two\n", "conf": "x"}
	if o := w.observe(); len(o.Drift) != 1 || o.Drift[0].Path != "files.tls/a.crt" {
		t.Errorf("it is seen as %+v", o)
	}
	w.must()
	certificate, _ := os.ReadFile(filepath.Join(w.home(), "tls/a.crt"))
	edited, _ := os.ReadFile(conf)
	if string(certificate) != "two\n" || string(edited) != "by hand" || leader(t, w.pids()) != pid {
		t.Errorf("it has %q and %q", certificate, edited)
	}
	if o := w.observe(); len(o.Drift) > 0 || !strings.Contains(o.Unready, "files.conf") {
		t.Errorf("afterwards it is seen as %+v", o)
	}
	// A plan that wants what it cannot have is refused.
	in["files"] = map[string]any{"tls/a.crt": "two\n", "conf": "y"}
	w.r.Mark = w.observe().Mark
	if err := w.apply(); err == nil || !strings.Contains(err.Error(), "cannot start itself anew") {
		t.Errorf("a plan that changes it: %v", err)
	}
}
