// Package drover runs the real binary for tests and benchmarks: a control plane
// in a temporary directory on free loopback ports.
//
// It must not know the rooms inside: what it needs it asks the binary.
package drover

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/droverhq/drover/api/client"
	"github.com/droverhq/drover/api/client/keypair"
)

// Binary returns the path of the binary: DROVER_TEST_BINARY, or built once per process.
var Binary = sync.OnceValue(func() string {
	if path := os.Getenv("DROVER_TEST_BINARY"); path != "" {
		abs, err := filepath.Abs(path)
		if err != nil {
			panic(err)
		}
		return abs
	}
	dir, err := os.MkdirTemp("", "drover-bin-")
	if err != nil {
		panic(err)
	}
	path := filepath.Join(dir, "drover")
	if runtime.GOOS == "windows" {
		path += ".exe"
	}
	cmd := exec.Command("go", "build", "-o", path, "github.com/droverhq/drover/cmd/drover")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		panic(fmt.Sprintf("cannot build the binary: %v\n%s", err, out))
	}
	return path
})

// Server is a running control plane.
type Server struct {
	Mode    string // "up" or "server"
	DataDir string
	Listen  string
	Routes  string
	Args    []string // more flags
	Env     []string // more environment
	Under   []string // program, with its arguments, that becomes the binary; empty: none
	// Files are what it is known by, and what is shown to it; none: it speaks http.
	Files keypair.Files

	process
}

// Up starts `drover up` in a fresh data directory and waits until it is ready.
func Up(t testing.TB, args ...string) *Server { return start(t, "up", args) }

// Serve starts `drover server` in a fresh data directory and waits until it is ready.
func Serve(t testing.TB, args ...string) *Server { return start(t, "server", args) }

// Secured is Serve for a server with a certificate.
func Secured(t testing.TB, files keypair.Files, args ...string) *Server {
	t.Helper()
	return begin(t, &Server{Mode: "server", DataDir: t.TempDir(), Listen: FreeAddress(t), Args: args, Files: files})
}

func start(t testing.TB, mode string, args []string) *Server {
	t.Helper()
	return begin(t, &Server{Mode: mode, DataDir: t.TempDir(), Listen: FreeAddress(t), Routes: FreeAddress(t), Args: args})
}

func begin(t testing.TB, s *Server) *Server {
	t.Helper()
	s.Start(t)
	t.Cleanup(func() {
		s.Kill()
		Clear(s.DataDir)
		if t.Failed() {
			t.Logf("log of drover %s:\n%s", s.Mode, tail(s.Log()))
		}
	})
	return s
}

// Start starts the process again on the same directory and ports.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	if err := s.Launch(); err != nil {
		t.Fatal(err)
	}
	if err := s.Await(Patience); err != nil {
		t.Fatalf("%v\n%s", err, s.Log())
	}
}

// Launch starts the process and does not wait.
func (s *Server) Launch() error {
	args := []string{s.Mode, "--data-dir", s.DataDir, "--listen", s.Listen}
	if s.Mode == "up" {
		args = append(args, "--routes", s.Routes)
	}
	s.under = s.Under
	return s.launch(append(args, s.Args...), s.Env)
}

// Await waits until the API is ready.
func (s *Server) Await(d time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	for {
		req, _ := http.NewRequestWithContext(ctx, http.MethodGet, s.URL()+"/readyz", nil)
		if resp, err := s.web().Do(req); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-s.done:
			return fmt.Errorf("drover %s ended by itself", s.Mode)
		case <-ctx.Done():
			return fmt.Errorf("drover %s is not ready after %s", s.Mode, d)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// URL of the API.
func (s *Server) URL() string {
	if s.Files.CA != "" {
		return "https://" + s.Listen
	}
	return "http://" + s.Listen
}

// web connects to the server.
func (s *Server) web() *http.Client {
	r, err := keypair.Open(s.Files)
	if err != nil || s.Files.CA == "" {
		return http.DefaultClient // what is wrong with the files is found out by using none
	}
	return client.HTTPClient(r.Transport(client.Transport()))
}

// AdminToken reads the token that the server wrote for its owner.
func (s *Server) AdminToken() (string, error) {
	data, err := os.ReadFile(filepath.Join(s.DataDir, "local.json"))
	if err != nil {
		return "", err
	}
	var local struct {
		TokenFile string `json:"token_file"`
	}
	if err := json.Unmarshal(data, &local); err != nil {
		return "", err
	}
	if !filepath.IsAbs(local.TokenFile) {
		local.TokenFile = filepath.Join(s.DataDir, local.TokenFile)
	}
	token, err := os.ReadFile(local.TokenFile)
	return strings.TrimSpace(string(token)), err
}

// Client speaks to the server as its admin.
func (s *Server) Client(t testing.TB) *client.Client {
	t.Helper()
	token, err := s.AdminToken()
	if err != nil {
		t.Fatal(err)
	}
	config := client.Config{Server: s.URL(), Token: token}
	if s.Files.CA != "" {
		config.HTTPClient = s.web()
	}
	c, err := client.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Run runs the binary as a client of the server.
func (s *Server) Run(args ...string) (stdout, stderr string, code int) {
	args = append(args, "--data-dir", s.DataDir)
	if s.Files.Certificate != "" {
		args = append(args, "--client-certificate-file", s.Files.Certificate, "--client-key-file", s.Files.Key)
	}
	cmd := exec.Command(Binary(), args...)
	cmd.Env = append(os.Environ(), "DROVER_CONFIG=")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if exit, ok := err.(*exec.ExitError); ok {
		code = exit.ExitCode()
	} else if err != nil {
		return "", err.Error(), -1
	}
	return out.String(), errs.String(), code
}

// FreeAddress returns a loopback address that nobody listened on just now. It is
// below the ports that systems give away by themselves: a server that is killed
// and started again must find its own free, and not an instance, an outgoing
// connection or the server of a test in another process on it. So each process
// has some hundred ports of its own, above those of test/kubernetes.
func FreeAddress(t testing.TB) string {
	t.Helper()
	for range 1000 {
		address := fmt.Sprintf("127.0.0.1:%d", 14_000+os.Getpid()%36*500+rand.IntN(500))
		if _, given := taken.LoadOrStore(address, true); given {
			continue
		}
		if l, err := net.Listen("tcp", address); err == nil {
			l.Close()
			t.Cleanup(func() { taken.Delete(address) }) // after the end of whoever was given it later
			return address
		}
	}
	t.Fatal("there is no free port")
	return ""
}

// taken are the addresses that this process has given away, until their tests end.
var taken sync.Map
