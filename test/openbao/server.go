// Package openbao gives tests real OpenBao servers, on loopback. Whoever speaks
// to Vault speaks to them.
//
// It owns running, stopping, pausing, sealing and unsealing them, and who may do
// what there. It must not know what is kept in them.
//
// DROVER_TEST_NO_OPENBAO=1 says that there is none, and that this was reported.
package openbao

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/droverhq/drover/api/client/keypair"
	"github.com/droverhq/drover/test/servers"
	"github.com/droverhq/drover/test/servers/built"
	"github.com/droverhq/drover/test/servers/process"
	"github.com/droverhq/drover/test/servers/rest"
)

// patience bounds a start, which takes a second.
const patience = 3 * time.Minute

// Server is an OpenBao. Secrets are kept with versions (KV 2) under secret/.
type Server struct {
	URL   string // of its API, the same after each start
	Addr  string // host and port of the URL
	Token string // of one who may do everything
	// Secure is the URL of the same API over TLS; empty without WithTLS.
	Secure string

	files *keypair.Files
	key   string // that unseals it
	data  bool
	leash *process.Leash
	proc  *process.Process
}

// Option changes what is started.
type Option func(*Server)

// WithData keeps everything over a stop or a kill, after which the server is
// sealed.
func WithData() Option { return func(s *Server) { s.data = true } }

// WithTLS is WithData, and serves the API also over TLS (Secure), with the certificate of the
// files and for those alone who show one of their authorities. The files are read with
// each start.
func WithTLS(f keypair.Files) Option { return func(s *Server) { s.data, s.files = true, &f } }

// Start runs a server of the test's own, unsealed, which ends with it. What it
// is told is gone once it is stopped, unless an option says otherwise.
func Start(t testing.TB, with ...Option) *Server {
	t.Helper()
	if os.Getenv("DROVER_TEST_NO_OPENBAO") == "1" {
		t.Skip("there is no OpenBao: `test/with-backends.sh true` brings it")
	}
	dir, err := servers.Build(t.Context(), built.OpenBao, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	// A port that was free may be taken by the time that it is used.
	for range 3 {
		s := &Server{}
		for _, w := range with {
			w(s)
		}
		if err = s.launch(filepath.Join(dir, built.OpenBao.Binary)); err == nil {
			t.Cleanup(s.leash.Release)
			return s
		}
	}
	t.Fatalf("cannot run OpenBao: %v", err)
	return nil
}

func (s *Server) launch(path string) (err error) {
	if s.leash, err = process.NewLeash("openbao"); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			s.leash.Release()
		}
	}()
	ports, err := s.leash.Ports(2)
	if err != nil {
		return err
	}
	s.Addr = "127.0.0.1:" + ports[0]
	s.URL = "http://" + s.Addr
	if !s.data {
		s.Token = rand.Text()
		s.proc = s.leash.Process("openbao", path, "server", "-dev", "-dev-no-store-token",
			"-dev-listen-address="+s.Addr, "-dev-root-token-id="+s.Token, "-log-level=warn")
		return s.Start()
	}
	config := fmt.Sprintf("storage \"file\" { path = %q }\nlistener \"tcp\" {\n\taddress = %q\n\ttls_disable = true\n}\napi_addr = %q\nui = false\n",
		s.leash.File("data"), s.Addr, s.URL)
	if s.files != nil {
		s.Secure = "https://127.0.0.1:" + ports[1]
		config += fmt.Sprintf("listener \"tcp\" {\n\taddress = %q\n\ttls_cert_file = %q\n\ttls_key_file = %q\n\ttls_client_ca_file = %q\n\ttls_require_and_verify_client_cert = true\n}\n",
			"127.0.0.1:"+ports[1], s.files.Certificate, s.files.Key, s.files.CA)
	}
	if err := os.WriteFile(s.leash.File("config.hcl"), []byte(config), 0o600); err != nil {
		return err
	}
	s.proc = s.leash.Process("openbao", path, "server", "-config="+s.leash.File("config.hcl"), "-log-level=warn")
	if err := s.Start(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return s.initialise(ctx)
}

func (s *Server) initialise(ctx context.Context) error {
	var keys struct {
		Keys      []string `json:"keys"`
		RootToken string   `json:"root_token"`
	}
	in := map[string]any{"secret_shares": 1, "secret_threshold": 1}
	if err := s.API().Ask(ctx, http.MethodPut, "/v1/sys/init", in, &keys); err != nil {
		return err
	}
	if len(keys.Keys) != 1 {
		return fmt.Errorf("it has %d keys", len(keys.Keys))
	}
	s.Token, s.key = keys.RootToken, keys.Keys[0]
	if err := s.Unseal(); err != nil {
		return err
	}
	// The same as without data.
	if err := s.API().Ask(ctx, http.MethodPost, "/v1/sys/mounts/secret", map[string]any{"type": "kv", "options": map[string]string{"version": "2"}}, nil); err != nil {
		return err
	}
	for { // it takes no questions while it is being made
		err := s.API().Ask(ctx, http.MethodGet, "/v1/secret/data/none", nil, nil)
		if !rest.Is(err, http.StatusBadRequest) || ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// Start runs a server that was stopped, with its address, and waits until it
// answers. One with data is sealed then.
func (s *Server) Start() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if s.data {
		return s.proc.Ready(ctx, func(ctx context.Context) error {
			return s.API().Ask(ctx, http.MethodGet, "/v1/sys/seal-status", nil, nil)
		})
	}
	return s.proc.Ready(ctx, s.look)
}

// look wants an answer to the token, which also says that it is our server, and
// to its mount: both come a moment after the server is unsealed.
func (s *Server) look(ctx context.Context) error {
	if err := s.API().Ask(ctx, http.MethodGet, "/v1/auth/token/lookup-self", nil, nil); err != nil {
		return err
	}
	err := s.API().Ask(ctx, http.MethodGet, "/v1/secret/config", nil, nil)
	if s.data && rest.Is(err, http.StatusNotFound) {
		return nil // the mount is made later
	}
	return err
}

// Seal lets the server answer nobody until it is unsealed. One without data
// cannot be unsealed.
func (s *Server) Seal() error {
	return s.API().Ask(context.Background(), http.MethodPut, "/v1/sys/seal", nil, nil)
}

// Unseal lets a sealed server answer again, and waits until it does.
func (s *Server) Unseal() error {
	if !s.data {
		return errors.New("a server without data cannot be unsealed: start it WithData")
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.API().Ask(ctx, http.MethodPut, "/v1/sys/unseal", map[string]string{"key": s.key}, nil); err != nil {
		return err
	}
	return s.proc.Ready(ctx, s.look)
}

// Stop asks the server to end, and waits for it.
func (s *Server) Stop() error { return s.proc.Stop() }

// Kill ends the server without a word, and waits until it is gone.
func (s *Server) Kill() error { return s.proc.Kill() }

// Restart is Stop, Start and, where there is data, Unseal.
func (s *Server) Restart() error {
	err := errors.Join(s.Stop(), s.Start())
	if err != nil || !s.data {
		return err
	}
	return s.Unseal()
}

// Pause freezes the server: connections stay open and nothing is answered.
func (s *Server) Pause() error { return s.proc.Pause() }

// Resume lets a paused server go on.
func (s *Server) Resume() error { return s.proc.Resume() }

// Log is what the server said last.
func (s *Server) Log() string { return s.proc.Log() }
