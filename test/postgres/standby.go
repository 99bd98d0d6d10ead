package postgres

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/droverhq/drover/test/servers/process"
)

// Standby runs a new server that follows this one by streaming replication, under a
// name; it ends with the test.
func (s *Server) Standby(t testing.TB, name string) *Server {
	t.Helper()
	out, err := s.standby(name)
	if err != nil {
		t.Fatalf("cannot make a standby: %v", err)
	}
	t.Cleanup(func() {
		out.end("QUIT")
		os.RemoveAll(out.dir)
	})
	out.Start(t)
	return out
}

func (s *Server) standby(name string) (*Server, error) {
	dir, err := os.MkdirTemp("", "drover-postgres-")
	if err != nil {
		return nil, err
	}
	if err := hand(dir); err != nil {
		return nil, err
	}
	copied := exec.Command(filepath.Join(s.bin, "pg_basebackup"), "-D", filepath.Join(dir, "data"), "-R", "-X", "stream", "--checkpoint=fast", "--no-sync",
		"-d", fmt.Sprintf("host=127.0.0.1 port=%d user=postgres password=%s application_name=%s", s.port, s.password, name))
	copied.Dir = dir
	unprivileged(copied)
	if out, err := copied.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("pg_basebackup: %w: %s", err, out)
	}
	port, err := process.Port()
	if err != nil {
		return nil, err
	}
	standby := &Server{dir: dir, bin: s.bin, password: s.password}
	standby.port, err = strconv.Atoi(port)
	return standby, err
}

// Synchronous has commits wait for the standbys of these names, as PostgreSQL spells
// them; "" for none.
func (s *Server) Synchronous(t testing.TB, names string) {
	t.Helper()
	for _, sql := range []string{"ALTER SYSTEM SET synchronous_standby_names = '" + names + "'", "SELECT pg_reload_conf()"} {
		if err := exec1(s.URL("postgres"), sql); err != nil {
			t.Fatalf("cannot make commits wait: %v", err)
		}
	}
}

// Promote has a standby take writes.
func (s *Server) Promote(t testing.TB) {
	t.Helper()
	if err := exec1(s.URL("postgres"), "SELECT pg_promote(true, 120)"); err != nil {
		t.Fatalf("cannot promote: %v", err)
	}
}
