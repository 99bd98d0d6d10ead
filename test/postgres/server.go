package postgres

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/droverhq/drover/test/servers/process"
)

// Server is a server of a test's own, which it may stop, kill and start again
// on the same port and data directory.
type Server struct {
	dir      string
	port     int
	password string
	bin      string
	args     []string // more of them, of Mount

	shell *exec.Cmd
	leash io.WriteCloser
}

// Start runs a new server; it ends with the test.
func Start(t testing.TB) *Server {
	t.Helper()
	s, err := create(find(t))
	if err != nil {
		t.Fatalf("cannot create a PostgreSQL server: %v", err)
	}
	t.Cleanup(func() {
		s.end("QUIT")
		os.RemoveAll(s.dir)
	})
	s.Start(t)
	return s
}

// URL is the DSN of a database on the server.
func (s *Server) URL(database string) string {
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword("postgres", s.password),
		Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)), Path: "/" + database,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

// Port is the loopback port, the same after each Start.
func (s *Server) Port() int { return s.port }

// Start runs the server again after Stop or Kill and waits until it answers.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	if err := s.start(); err != nil {
		t.Fatalf("cannot start PostgreSQL: %v", err)
	}
}

// Stop shuts the server down as an administrator would, ending all sessions.
func (s *Server) Stop() { s.end("INT") }

// Restart stops and starts.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.Stop()
	s.Start(t)
}

// Kill ends the server as a crash of the machine would, but for the disk cache.
func (s *Server) Kill() { s.end("KILL") }

// create initialises a data directory.
func create(bin string) (*Server, error) {
	dir, err := os.MkdirTemp("", "drover-postgres-")
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, bin: bin, password: rand.Text()}
	secret := filepath.Join(dir, "password")
	if err := os.WriteFile(secret, []byte(s.password), 0o600); err != nil {
		return nil, err
	}
	if err := hand(dir, secret); err != nil {
		return nil, err
	}
	initdb := exec.Command(filepath.Join(bin, "initdb"), "-D", filepath.Join(dir, "data"), "-U", "postgres",
		"-A", "scram-sha-256", "--pwfile", secret, "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")
	initdb.Dir = dir
	unprivileged(initdb)
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	port, err := process.Port()
	if err != nil {
		return nil, err
	}
	s.port, err = strconv.Atoi(port)
	return s, err
}

// watchdog keeps the server on a leash: a line on its standard input names the
// signal that ends the server, and the end of the input, which comes when this
// process dies for whatever reason, ends the server and removes its data.
const watchdog = `dir=$1; shift; "$@" </dev/null & pid=$!
read -r how || how=
kill -"${how:-QUIT}" $pid 2>/dev/null
wait $pid
[ -n "$how" ] || rm -rf "$dir"`

// patience bounds a start, which takes a second, and the end of what was killed.
const patience = 3 * time.Minute

// start tries again for a while: the children of a killed server take a moment
// to notice, and until then a new one refuses to touch their data.
func (s *Server) start() error {
	for deadline := time.Now().Add(patience); ; {
		err := s.launch()
		if err == nil || !strings.Contains(err.Error(), "pre-existing shared memory") || time.Now().After(deadline) {
			return err
		}
		time.Sleep(50 * time.Millisecond) // nothing signals the end of another's children
	}
}

func (s *Server) launch() error {
	logs, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer logs.Close()
	args := []string{"-c", watchdog, "sh", s.dir,
		filepath.Join(s.bin, "postgres"), "-D", filepath.Join(s.dir, "data"), "-p", strconv.Itoa(s.port),
		"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "fsync=on",
		"-c", "max_connections=200", "-c", "shared_buffers=256MB", "-c", "max_wal_size=2GB"}
	s.shell = exec.Command("/bin/sh", append(args, s.args...)...)
	s.shell.Dir = s.dir
	s.shell.Stdout, s.shell.Stderr = logs, logs
	unprivileged(s.shell)
	if s.leash, err = s.shell.StdinPipe(); err != nil {
		return err
	}
	if err := s.shell.Start(); err != nil {
		return err
	}
	if err := s.ready(); err != nil {
		s.end("QUIT")
		return err
	}
	return nil
}

// ready waits until the server answers, or has said why it will not.
func (s *Server) ready() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, s.URL("postgres"))
		if err == nil {
			return conn.Close(ctx)
		}
		out, _ := os.ReadFile(filepath.Join(s.dir, "log"))
		if ctx.Err() != nil || strings.Contains(string(out), "FATAL:  pre-existing shared memory") {
			return fmt.Errorf("%w; its log: %s", err, out)
		}
		time.Sleep(10 * time.Millisecond) // the server offers no signal to wait for
	}
}

func (s *Server) end(signal string) {
	if s.shell == nil {
		return
	}
	fmt.Fprintln(s.leash, signal)
	s.leash.Close()
	s.shell.Wait() //nolint:errcheck // it ends by a signal
	s.shell = nil
}
