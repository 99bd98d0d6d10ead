// Package gitserver gives tests a real Git server on loopback, by HTTP and by
// SSH, with Git's own programs behind both.
//
// It owns its repositories and who may read them. It must not know what they are
// read for.
package gitserver

import (
	"bytes"
	"crypto/subtle"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/droverhq/drover/test/servers/process"
)

// Server serves the repositories that are made on it, to readers.
type Server struct {
	URL         string // the same after each Start
	Certificate []byte // PEM, of one with TLS

	root     string // of the repositories
	tls      bool
	leash    *process.Leash // of the port
	backend  http.Handler
	http     *httptest.Server
	requests atomic.Int64
	meddle   atomic.Pointer[func(http.ResponseWriter, *http.Request) bool]

	mu             sync.Mutex
	user, password string // empty: everybody may read
}

// Option changes what is started.
type Option func(*Server)

// WithPassword lets in only who knows it (basic authentication).
func WithPassword(user, password string) Option {
	return func(s *Server) { s.user, s.password = user, password }
}

// WithTLS serves HTTPS, with a certificate of its own.
func WithTLS() Option { return func(s *Server) { s.tls = true } }

// Start runs a server of the test's own, which ends with it.
func Start(t testing.TB, with ...Option) *Server {
	t.Helper()
	at, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Fatalf("there is no Git (apt-get install -y git): %v", err)
	}
	s := &Server{root: t.TempDir()}
	for _, w := range with {
		w(s)
	}
	if s.leash, err = process.NewLeash("gitserver"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.leash.Release)
	s.backend = &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(at)), "git-http-backend"),
		Env:  append(environment(s.root), "GIT_PROJECT_ROOT="+s.root, "GIT_HTTP_EXPORT_ALL=1"),
		// The reader is told too.
		Stderr: io.Discard,
	}
	for range 3 { // a port that was free may be taken
		var ports []string
		if ports, err = s.leash.Ports(1); err != nil {
			break
		}
		s.URL = "http://127.0.0.1:" + ports[0]
		if s.tls {
			s.URL = "https://127.0.0.1:" + ports[0]
		}
		if err = s.Start(); err == nil {
			t.Cleanup(s.Stop)
			return s
		}
	}
	t.Fatalf("cannot run a Git server: %v", err)
	return nil
}

// Start takes connections again after a Stop.
func (s *Server) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.http != nil {
		return nil
	}
	_, at, _ := strings.Cut(s.URL, "://")
	l, err := net.Listen("tcp", at)
	if err != nil {
		return err
	}
	s.http = &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(s.serve)}}
	if !s.tls {
		s.http.Start()
		return nil
	}
	s.http.StartTLS()
	s.Certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.http.Certificate().Raw})
	return nil
}

// Stop ends all connections and refuses new ones.
func (s *Server) Stop() {
	s.mu.Lock()
	running := s.http
	s.http = nil
	s.mu.Unlock()
	if running != nil {
		running.CloseClientConnections()
		running.Close()
	}
}

// SetPassword changes who is let in.
func (s *Server) SetPassword(user, password string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.user, s.password = user, password
}

// Meddle lets a function answer in the place of the server, where it returns
// true; nil: nobody does.
func (s *Server) Meddle(f func(http.ResponseWriter, *http.Request) bool) {
	if f == nil {
		s.meddle.Store(nil)
		return
	}
	s.meddle.Store(&f)
}

// Requests counts what came by HTTP.
func (s *Server) Requests() int64 { return s.requests.Load() }

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	s.requests.Add(1)
	if f := s.meddle.Load(); f != nil && (*f)(w, r) {
		return
	}
	if !s.knows(r) {
		w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
		http.Error(w, "who are you?", http.StatusUnauthorized)
		return
	}
	if r.ContentLength < 0 { // the backend must be told how much comes
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body, r.ContentLength, r.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
	}
	s.backend.ServeHTTP(w, r)
}

func (s *Server) knows(r *http.Request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.password == "" {
		return true
	}
	user, password, _ := r.BasicAuth()
	return user == s.user && subtle.ConstantTimeCompare([]byte(password), []byte(s.password)) == 1
}

// environment keeps Git from the settings of whoever runs the tests.
func environment(home string) []string {
	return []string{
		"HOME=" + home, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0", "LC_ALL=C",
		"GIT_AUTHOR_NAME=Test", "GIT_AUTHOR_EMAIL=test@example.com", "GIT_AUTHOR_DATE=2026-01-01T00:00:00Z",
		"GIT_COMMITTER_NAME=Test", "GIT_COMMITTER_EMAIL=test@example.com", "GIT_COMMITTER_DATE=2026-01-01T00:00:00Z",
	}
}
