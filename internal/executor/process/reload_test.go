//go:build linux

package process_test

import (
	"crypto/tls"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A program takes a new certificate while it runs: it is told, and not started anew.
func TestReloadIsNoRestart(t *testing.T) {
	in := shell(`trap 'cat tls/a.crt >> seen' HUP; cat tls/a.crt > seen; while :; do sleep 0.05; done`)
	in["files"] = map[string]any{"tls/a.crt": "one\n", "conf": "x"}
	in["reload"] = map[string]any{"files": []any{"tls/a.crt"}, "signal": "HUP"}
	in["health"] = map[string]any{"command": []any{"grep", "-q", "one", "seen"}}
	w := newWorld(t, in)
	w.must()
	before := leader(t, w.pids())
	in["files"] = map[string]any{"tls/a.crt": "two\n", "conf": "x"}
	if o := w.observe(); len(o.Drift) != 1 || o.Drift[0].Path != "files.tls/a.crt" {
		t.Errorf("it is seen as %+v", o)
	}
	w.must()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		seen, _ := os.ReadFile(filepath.Join(w.home(), "seen"))
		if string(seen) == "one\ntwo\n" {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("it was told %q", seen)
		}
	}
	if now := leader(t, w.pids()); now != before {
		t.Error("it was started anew")
	}
	if o := w.observe(); len(o.Drift) > 0 {
		t.Errorf("it is seen as %+v", o)
	}
	// Any other file is a new start.
	in["files"] = map[string]any{"tls/a.crt": "one\n", "conf": "y"}
	w.must()
	if now := leader(t, w.pids()); now == before {
		t.Error("it goes on with a file that it does not take")
	}
}

// Under nohup a server ignores HUP. What it starts does not.
func TestProgramsHearWhatTheServerIgnores(t *testing.T) {
	signal.Ignore(syscall.SIGHUP)
	t.Cleanup(func() { signal.Reset(syscall.SIGHUP) })
	in := shell(`trap 'echo heard > seen' HUP; kill -HUP $$; while :; do sleep 0.05; done`)
	in["health"] = map[string]any{"command": []any{"grep", "-q", "heard", "seen"}, "within": "10s"}
	newWorld(t, in).must()
}

// A certificate of an authority that nobody else believes.
func TestHealthBelievesItsOwnAuthority(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	s.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	s.StartTLS()
	defer s.Close()
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	for reason, tc := range map[string]struct{ file, want string }{
		"its own":         {"ca.crt", ""},
		"the machine's":   {"", "no answer"},
		"one that is not": {"none.crt", "cannot be read"},
		"a way out":       {"../../ca.crt", "cannot be read"},
	} {
		in := shell(sleeper)
		in["files"] = map[string]any{"ca.crt": ca}
		health := map[string]any{"http": s.URL, "within": "200ms"}
		if tc.file != "" {
			health["ca"] = tc.file
		}
		in["health"] = health
		err := newWorld(t, in).apply()
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %v", reason, err)
		}
	}
}
