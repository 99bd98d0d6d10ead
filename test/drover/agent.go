package drover

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Agent is a running `drover agent` with instances as local processes.
type Agent struct {
	Server  string // URL
	Cluster string
	Token   string
	DataDir string
	Routes  string
	Args    []string // more flags

	process
}

// Cluster registers a data plane as an admin does, by the command line, and
// returns the token of its agent.
func (s *Server) Cluster(t testing.TB, name string) (token string) {
	t.Helper()
	if _, stderr, code := s.Run("create", "cluster", name, "--provider", "local", "--region", "local"); code != 0 {
		t.Fatalf("cannot register a cluster: %s", stderr)
	}
	token, stderr, code := s.Run("token", "--cluster", name)
	if code != 0 {
		t.Fatalf("cannot make the agent's token: %s", stderr)
	}
	return strings.TrimSpace(token)
}

// Join starts an agent in a fresh data directory. It ends with the test, and so
// do its instances.
func Join(t testing.TB, server, cluster, token string, args ...string) *Agent {
	t.Helper()
	a := &Agent{Server: server, Cluster: cluster, Token: token, DataDir: t.TempDir(), Routes: FreeAddress(t), Args: args}
	a.Start(t)
	t.Cleanup(func() {
		a.Kill()
		Clear(a.DataDir)
		if t.Failed() {
			t.Logf("log of the agent of %s:\n%s", cluster, tail(a.Log()))
		}
	})
	return a
}

// Start starts the process again on the same directory and ports. It does not
// wait: the server knows when the agent has come.
func (a *Agent) Start(t testing.TB) {
	t.Helper()
	file := filepath.Join(a.DataDir, "token")
	if err := os.WriteFile(file, []byte(a.Token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"agent", "--server", a.Server, "--cluster", a.Cluster, "--token-file", file,
		"--data-dir", a.DataDir, "--routes", a.Routes}
	if err := a.launch(append(args, a.Args...), nil); err != nil {
		t.Fatal(err)
	}
}
