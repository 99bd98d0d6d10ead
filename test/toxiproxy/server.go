// Package toxiproxy gives tests a real Toxiproxy: a bad network between a client
// and its server.
//
// It owns running it on loopback and what it is asked for. It must not know what
// goes through.
//
// DROVER_TEST_NO_TOXIPROXY=1 says that there is none, and that this was reported.
package toxiproxy

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/droverhq/drover/test/servers"
	"github.com/droverhq/drover/test/servers/built"
	"github.com/droverhq/drover/test/servers/process"
	"github.com/droverhq/drover/test/servers/rest"
)

// patience bounds a start, which takes less than a second.
const patience = 3 * time.Minute

// Server is a running Toxiproxy, with any number of proxies.
type Server struct {
	URL string // of its API

	api   rest.Client
	leash *process.Leash
	proc  *process.Process
}

// Start runs a server of the test's own, which ends with it.
func Start(t testing.TB) *Server {
	t.Helper()
	if os.Getenv("DROVER_TEST_NO_TOXIPROXY") == "1" {
		t.Skip("there is no Toxiproxy: `test/with-backends.sh true` brings it")
	}
	dir, err := servers.Build(t.Context(), built.Toxiproxy, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	var s *Server
	// A port that was free may be taken by the time that it is used.
	for range 3 {
		if s, err = launch(t.Context(), filepath.Join(dir, built.Toxiproxy.Binary)); err == nil {
			t.Cleanup(s.leash.Release)
			return s
		}
	}
	t.Fatalf("cannot run Toxiproxy: %v", err)
	return nil
}

func launch(ctx context.Context, path string) (s *Server, err error) {
	leash, err := process.NewLeash("toxiproxy")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			leash.Release()
		}
	}()
	ports, err := leash.Ports(1)
	if err != nil {
		return nil, err
	}
	// A server that finds its port taken stays, and is silent. A proxy that only
	// ours has tells it from the one that has the port.
	mark := rand.Text()
	config := fmt.Sprintf(`[{"name":%q,"listen":"127.0.0.1:0","upstream":"127.0.0.1:1","enabled":false}]`, mark)
	if err := os.WriteFile(leash.File("config.json"), []byte(config), 0o600); err != nil {
		return nil, err
	}
	s = &Server{URL: "http://127.0.0.1:" + ports[0], leash: leash}
	s.api = rest.Client{URL: s.URL}
	s.proc = leash.Process("toxiproxy", path, "-host", "127.0.0.1", "-port", ports[0], "-config", leash.File("config.json"))
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return s, s.proc.Ready(ctx, func(ctx context.Context) error {
		return s.api.Ask(ctx, http.MethodGet, "/proxies/"+mark, nil, nil)
	})
}

// Stop ends the server, and with it all that goes through.
func (s *Server) Stop() error { return s.proc.Stop() }

// Pause freezes the server: connections stay open, and nothing goes through.
func (s *Server) Pause() error { return s.proc.Pause() }

// Resume lets a paused server go on.
func (s *Server) Resume() error { return s.proc.Resume() }
