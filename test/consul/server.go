// Package consul gives tests real Consul servers, on loopback.
//
// It owns running, stopping and pausing them, and their tokens. It must not know
// what is kept in them.
//
// DROVER_TEST_NO_CONSUL=1 says that there is none, and that this was reported.
package consul

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/droverhq/drover/api/client/keypair"
	"github.com/droverhq/drover/test/servers"
	"github.com/droverhq/drover/test/servers/built"
	"github.com/droverhq/drover/test/servers/process"
	"github.com/droverhq/drover/test/servers/rest"
)

// patience bounds a start, which takes a second, or some with data.
const patience = 3 * time.Minute

// Server is a Consul of one node.
type Server struct {
	URL   string // of its API, the same after each start
	Addr  string // host and port of the URL
	Token string // of one who may do everything; empty without ACLs
	// Secure is the URL of the same API over TLS; empty without WithTLS.
	Secure string

	wan    string // address where other datacentres join
	leader string // its own address, which says who answers
	leash  *process.Leash
	proc   *process.Process
}

// Option changes what is started.
type Option func(*options)

type options struct {
	acls, data bool
	datacenter string
	join       *Server
	files      *keypair.Files
}

// WithACLs denies everything to whoever has no token.
func WithACLs() Option { return func(o *options) { o.acls = true } }

// WithData keeps everything over a stop or a kill, and takes some seconds longer to start.
func WithData() Option { return func(o *options) { o.data = true } }

// WithTLS serves the API also over TLS (Secure), with the certificate of the files and for those
// alone who show one of their authorities. The files are read with each start.
func WithTLS(f keypair.Files) Option { return func(o *options) { o.files = &f } }

// WithDatacenter is the only server of a datacentre, which is dc1 otherwise. Others can join
// it over WAN; with is one to join, or nil.
func WithDatacenter(name string, with *Server) Option {
	return func(o *options) { o.datacenter, o.join = name, with }
}

// Start runs a server of the test's own, which ends with it. Everybody may do
// everything, and what it is told is gone once it is stopped, unless an option
// says otherwise.
func Start(t testing.TB, with ...Option) *Server {
	t.Helper()
	if os.Getenv("DROVER_TEST_NO_CONSUL") == "1" {
		t.Skip("there is no Consul: `test/with-backends.sh true` brings it")
	}
	var o options
	for _, w := range with {
		w(&o)
	}
	dir, err := servers.Build(t.Context(), built.Consul, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	// A port that was free may be taken by the time that it is used.
	for range 3 {
		var s *Server
		if s, err = launch(filepath.Join(dir, built.Consul.Binary), o); err == nil {
			t.Cleanup(s.leash.Release)
			return s
		}
	}
	t.Fatalf("cannot run Consul: %v", err)
	return nil
}

func launch(path string, o options) (s *Server, err error) {
	leash, err := process.NewLeash("consul")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			leash.Release()
		}
	}()
	ports, err := leash.Ports(5)
	if err != nil {
		return nil, err
	}
	s = &Server{Addr: "127.0.0.1:" + ports[0], leader: "127.0.0.1:" + ports[1], leash: leash}
	s.URL, s.wan = "http://"+s.Addr, "127.0.0.1:"+ports[3]
	if o.files != nil {
		s.Secure = "https://127.0.0.1:" + ports[4]
	}
	if o.acls {
		s.Token = uuid()
	}
	config, err := json.Marshal(s.config(ports, o))
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(leash.File("config.json"), config, 0o600); err != nil {
		return nil, err
	}
	args := []string{"agent", "-config-file", leash.File("config.json")}
	if !o.data {
		args = append(args, "-dev")
	}
	s.proc = leash.Process("consul", path, args...)
	return s, s.Start()
}

// config has no port but those that are needed, and nothing that talks to
// anybody outside.
func (s *Server) config(ports []string, o options) map[string]any {
	numbers := map[string]int{"dns": -1, "grpc": -1, "grpc_tls": -1, "serf_wan": -1, "https": -1}
	names := []string{"http", "server", "serf_lan"}
	if o.datacenter != "" {
		names = append(names, "serf_wan")
	}
	for i, name := range names {
		numbers[name], _ = strconv.Atoi(ports[i])
	}
	config := map[string]any{
		"ports": numbers, "bind_addr": "127.0.0.1", "client_addr": "127.0.0.1",
		"node_name": "consul-" + ports[0], "datacenter": cmp.Or(o.datacenter, "dc1"),
		"disable_update_check": true, "leave_on_terminate": false,
		"connect": map[string]any{"enabled": false}, "peering": map[string]any{"enabled": false},
		"log_level": "warn",
	}
	if o.data {
		config["data_dir"], config["server"], config["bootstrap_expect"] = s.leash.File("data"), true, 1
		config["performance"] = map[string]any{"raft_multiplier": 1}
	}
	if o.join != nil {
		config["retry_join_wan"], config["retry_interval_wan"] = []string{o.join.wan}, "1s"
	}
	if o.files != nil {
		numbers["https"], _ = strconv.Atoi(ports[4])
		config["tls"] = map[string]any{"https": map[string]any{
			"cert_file": o.files.Certificate, "key_file": o.files.Key, "ca_file": o.files.CA, "verify_incoming": true,
		}}
	}
	if o.acls {
		config["acl"] = map[string]any{
			"enabled": true, "default_policy": "deny", "enable_token_persistence": true,
			"tokens": map[string]any{"initial_management": s.Token, "agent": s.Token},
		}
	}
	return config
}

// Start runs a server that was stopped, with its address, and waits until it
// takes writes.
func (s *Server) Start() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return s.proc.Ready(ctx, s.look)
}

func (s *Server) look(ctx context.Context) error {
	var leader string
	if err := s.API().Ask(ctx, http.MethodGet, "/v1/status/leader", nil, &leader); err != nil {
		return err
	}
	if leader != s.leader {
		return fmt.Errorf("%q leads", leader)
	}
	// A write that leaves nothing behind.
	return s.API().Ask(ctx, http.MethodDelete, "/v1/kv/drover-test-ready", nil, nil)
}

// Stop asks the server to end, and waits for it.
func (s *Server) Stop() error { return s.proc.Stop() }

// Kill ends the server without a word, and waits until it is gone.
func (s *Server) Kill() error { return s.proc.Kill() }

// Restart is Stop and Start.
func (s *Server) Restart() error { return errors.Join(s.Stop(), s.Start()) }

// Pause freezes the server: connections stay open and nothing is answered.
func (s *Server) Pause() error { return s.proc.Pause() }

// Resume lets a paused server go on.
func (s *Server) Resume() error { return s.proc.Resume() }

// Log is what the server said last.
func (s *Server) Log() string { return s.proc.Log() }

// API asks the server as one who may do everything.
func (s *Server) API() rest.Client { return s.As(s.Token) }

// As asks the server with a token; an empty one is none.
func (s *Server) As(token string) rest.Client {
	c := rest.Client{URL: s.URL}
	if token != "" {
		c.Header = http.Header{"X-Consul-Token": {token}}
	}
	return c
}

// TokenOf makes a token of one who may do what the rules say, which are in
// Consul's own words.
func (s *Server) TokenOf(t testing.TB, rules string) string {
	t.Helper()
	name := rand.Text()
	if err := s.API().Ask(t.Context(), http.MethodPut, "/v1/acl/policy", map[string]any{"Name": name, "Rules": rules}, nil); err != nil {
		t.Fatalf("cannot make a policy: %v", err)
	}
	var token struct{ SecretID string }
	in := map[string]any{"Policies": []map[string]string{{"Name": name}}}
	if err := s.API().Ask(t.Context(), http.MethodPut, "/v1/acl/token", in, &token); err != nil {
		t.Fatalf("cannot make a token: %v", err)
	}
	return token.SecretID
}

// uuid is what Consul's tokens look like.
func uuid() string {
	b := make([]byte, 16)
	rand.Read(b)
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
