package postgres

import (
	"context"
	"crypto/rand"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Database returns the DSN of a fresh, empty database, dropped when the test ends.
func Database(t testing.TB) string {
	t.Helper()
	admin := os.Getenv("DROVER_TEST_POSTGRES")
	if admin == "" {
		bin := find(t)
		s, err := shared(bin)
		if err != nil {
			t.Fatalf("cannot run PostgreSQL: %v", err)
		}
		admin = s.URL("postgres")
	}
	return Fresh(t, admin)
}

// Fresh creates an empty database on the server of an admin DSN.
func Fresh(t testing.TB, admin string) string {
	t.Helper()
	name := "t_" + strings.ToLower(rand.Text())
	if err := exec1(admin, "CREATE DATABASE "+name); err != nil {
		t.Fatalf("cannot create a database: %v", err)
	}
	t.Cleanup(func() {
		// The server may be stopped by then: its data goes with it.
		if err := exec1(admin, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)"); err != nil {
			t.Logf("cannot drop the database: %v", err)
		}
	})
	u, err := url.Parse(admin)
	if err != nil {
		t.Fatalf("cannot parse the admin DSN")
	}
	u.Path = "/" + name
	return u.String()
}

// Exec has a database do something, as whoever runs it would.
func Exec(t testing.TB, dsn, sql string) {
	t.Helper()
	if err := exec1(dsn, sql); err != nil {
		t.Fatal(err)
	}
}

func exec1(dsn, sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, sql)
	return err
}

// shared is the test process's one server. Its watchdog ends it with the process.
var shared = func() func(bin string) (*Server, error) {
	var once sync.Once
	var s *Server
	var err error
	return func(bin string) (*Server, error) {
		once.Do(func() {
			if s, err = create(bin); err == nil {
				err = s.start()
			}
		})
		return s, err
	}
}()

// find returns the directory of the server's binaries.
func find(t testing.TB) string {
	t.Helper()
	const missing = "PostgreSQL is not installed: `apt-get install postgresql`, or name a server in DROVER_TEST_POSTGRES"
	if os.Getenv("DROVER_TEST_NO_POSTGRES") == "1" {
		t.Skip(missing)
	}
	if path, err := exec.LookPath("initdb"); err == nil {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			return filepath.Dir(real)
		}
	}
	if out, err := exec.Command("pg_config", "--bindir").Output(); err == nil {
		if dir := strings.TrimSpace(string(out)); executable(dir) {
			return dir
		}
	}
	dirs, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	for i := len(dirs) - 1; i >= 0; i-- {
		if executable(dirs[i]) {
			return dirs[i]
		}
	}
	t.Fatal(missing)
	return ""
}

func executable(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "initdb"))
	return err == nil
}

func sessions(ctx context.Context, t testing.TB, dsn, user string) (encrypted, all int) {
	t.Helper()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	const question = "SELECT count(*) FILTER (WHERE s.ssl AND s.client_dn IS NOT NULL), count(*) FROM pg_stat_activity a JOIN pg_stat_ssl s USING (pid) WHERE a.usename = $1"
	if err := conn.QueryRow(ctx, question, user).Scan(&encrypted, &all); err != nil {
		t.Fatal(err)
	}
	return encrypted, all
}
