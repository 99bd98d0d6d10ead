package e2e

import (
	"bytes"
	"context"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/droverhq/drover/test/drover"
	"github.com/droverhq/drover/test/postgres"
)

// attempt runs the binary until it ends by itself.
func attempt(t *testing.T, args ...string) (output string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), drover.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, drover.Binary(), args...)
	cmd.Dir = t.TempDir()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	_ = cmd.Run()
	if ctx.Err() != nil {
		t.Fatalf("%q does not end: %s", args, out.String())
	}
	return out.String(), cmd.ProcessState.ExitCode()
}

// A start that cannot succeed says why, tells no secret, and ends.
func TestStartsThatFail(t *testing.T) {
	s := drover.Up(t)
	free := func() []string { return []string{"--listen", drover.FreeAddress(t), "--routes", drover.FreeAddress(t)} }
	closed := drover.FreeAddress(t)
	dsn := postgres.Database(t)
	drover.Serve(t, "--database", dsn)
	notDir := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(notDir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		reason string
		args   []string
		want   string
	}{
		"port taken":     {"Two servers on one address.", []string{"up", "--listen", s.Listen, "--routes", drover.FreeAddress(t)}, "--listen"},
		"routes taken":   {"Two data planes on one address.", []string{"up", "--listen", drover.FreeAddress(t), "--routes", s.Routes}, "--routes"},
		"directory used": {"Two servers on one SQLite.", append([]string{"up", "--data-dir", s.DataDir}, free()...), "another"},
		"no directory":   {"A file is no directory.", append([]string{"up", "--data-dir", notDir}, free()...), "data directory"},
		"no database":    {"Nobody listens there.", append([]string{"server", "--database", "postgres://u:geheim42@" + closed + "/x?sslmode=disable"}, free()...), "database: connect: connection refused"},
		"wrong password": {"The database refuses.", append([]string{"server", "--database", wrong(t, dsn)}, free()...), "password authentication failed"},
		"another key":    {"A replica with another master key would write what others cannot read.", append([]string{"server", "--database", dsn}, free()...), "master.key is missing"},
		"no offerings":   {"A directory that is not there.", append([]string{"up", "--offerings-dir", notDir}, free()...), "directory of offerings"},
		"bad flag value": {"A lease that is no time.", append([]string{"up", "--lease", "soon"}, free()...), "--lease"},
		"bad issuer":     {"An issuer that is no URL.", append([]string{"up", "--oidc-issuers", "not a url"}, free()...), "issuer"},
		"bad database":   {"No database of ours.", append([]string{"server", "--database", "mysql://u:geheim42@h/x"}, free()...), "database"},
	} {
		t.Run(name, func(t *testing.T) {
			out, code := attempt(t, tc.args...)
			t.Logf("exit code %d: %s", code, out)
			if code == 0 || !strings.Contains(strings.ToLower(out), strings.ToLower(tc.want)) {
				t.Errorf("%s exit code %d, and nothing about %q in: %s", tc.reason, code, tc.want, out)
			}
			if strings.Contains(out, "geheim42") || strings.Contains(out, "goroutine ") {
				t.Errorf("it tells a password, or panics: %s", out)
			}
		})
	}
	if code := status(t, s, "/readyz"); code != 200 {
		t.Errorf("the server that was there first answers %d", code)
	}
}

func wrong(t *testing.T, dsn string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(u.User.Username(), "geheim42")
	return u.String()
}

func status(t *testing.T, s *drover.Server, path string) int {
	t.Helper()
	return drover.Must(t, drover.Request{Method: "GET", URL: s.URL() + path}).Status
}

// Whoever is asked to end, ends well: by an operator at the keyboard or by what
// runs the process.
func TestEndsWhenAsked(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(sig.String(), func(t *testing.T) {
			s := drover.Up(t)
			c := s.Client(t)
			mustOrder(t, c, "rex")
			awaitPhase(t, c, "rex", "ready")
			before := drover.Instances(s.DataDir)
			operator := admin(t, s)
			go func() { // an open stream must not hold it up; ends with the server
				_, _ = drover.Ask(drover.Request{Method: "GET", URL: s.URL() + "/api/v1/watch", Token: operator})
			}()
			if err := syscall.Kill(s.PID(), sig); err != nil {
				t.Fatal(err)
			}
			select {
			case <-s.Done():
			case <-time.After(drover.Patience):
				t.Fatal("it does not end")
			}
			if code := s.ExitCode(); code != 0 {
				t.Errorf("exit code %d", code)
			}
			s.Start(t)
			awaitPhase(t, c, "rex", "ready")
			drover.Until(t, "the route", func() bool { code, _ := drover.Reach(s.Routes, host("rex")); return code == 200 })
			if now := drover.Instances(s.DataDir); len(now) != 1 || now[0] != before[0] {
				t.Errorf("processes %v run, not %v", now, before)
			}
		})
	}
}

// No secret gets into what the processes print, at the most talkative level.
func TestSecretsAreNotTold(t *testing.T) {
	dsn := postgres.Database(t)
	s := drover.Serve(t, "--database", dsn, "--log-level", "debug")
	edge := s.Cluster(t, "edge")
	a := drover.Join(t, s.URL(), "edge", edge, "--log-level", "debug", "--heartbeat", "1s")
	awaitCluster(t, s, "edge")
	c := s.Client(t)
	alice := token(t, s, "--user", "alice", "--org", "acme")
	mustOrder(t, dial(t, s.URL(), alice), "rex")
	awaitPhase(t, c, "rex", "ready")
	drover.Must(t, drover.Request{Method: "GET", URL: s.URL() + "/api/v1/dinosaurs", Token: alice + "x"})
	drover.Must(t, drover.Request{Method: "GET", URL: s.URL() + "/api/v1/dinosaurs?access_token=" + alice, Token: alice})
	key, err := os.ReadFile(filepath.Join(s.DataDir, "master.key"))
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	password, _ := u.User.Password()
	events, _, _ := s.Run("events", "-o", "json", "--limit", "1000")
	for what, secret := range map[string]string{
		"the master key": strings.TrimSpace(string(key)), "the admin's token": admin(t, s), "a user's token": alice,
		"an agent's token": edge, "the database's password": password,
	} {
		if len(secret) < 8 {
			t.Fatalf("%s is %d bytes long", what, len(secret))
		}
		for where, text := range map[string]string{"server's log": s.Log(), "agent's log": a.Log(), "log of changes": events} {
			if len(text) == 0 {
				t.Errorf("the %s is empty", where)
			}
			if strings.Contains(text, secret) {
				t.Errorf("%s is in the %s", what, where)
			}
		}
	}
}
