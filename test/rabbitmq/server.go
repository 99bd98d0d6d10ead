package rabbitmq

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/droverhq/drover/test/servers/process"
)

// patience bounds a start, which takes half a minute on a busy machine.
const patience = 5 * time.Minute

// User is the name of the account that may do everything, and of the one whom
// the certificate Client is issued to.
const User = "drover"

// Server is a node of a test's own, which it may stop, kill and start again with
// the same addresses and data.
type Server struct {
	URL      string // amqp://, with the account in it
	TLS      string // amqps://, without it
	Addr     string // host and port of URL
	Password string // of User
	Managed  string // http:// of the API that makes accounts; empty unless WithManagement
	Files    Certificates
	Secure   string // host and port where nobody is heard without a certificate; empty unless Mount

	leash *process.Leash
	ports *process.Process
	node  *process.Process
	bin   string
	env   []string
}

// Option changes what is started.
type Option func(*options)

type options struct{ management bool }

// WithManagement has the node serve the API by which others make accounts.
func WithManagement() Option { return func(o *options) { o.management = true } }

// Start runs a new node; it ends with the test.
func Start(t testing.TB, with ...Option) *Server {
	t.Helper()
	s, err := New(t.Context(), find(t), with...)
	if err != nil {
		t.Fatalf("cannot run RabbitMQ: %v", err)
	}
	t.Cleanup(s.Release)
	return s
}

// New runs a node with the programs of a directory, until Release or the end of
// this process. Most tests want Start or Shared.
func New(ctx context.Context, bin string, with ...Option) (s *Server, err error) {
	var o options
	for _, w := range with {
		w(&o)
	}
	for range 3 { // a port that was free may be taken by the time that it is used
		if s, err = launch(ctx, bin, o); err == nil || ctx.Err() != nil {
			return s, err
		}
	}
	return nil, err
}

func launch(ctx context.Context, bin string, o options) (s *Server, err error) {
	leash, err := process.NewLeash("rabbitmq")
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
	plain, secure, dist, mapper := ports[0], ports[1], ports[2], ports[3]
	s = &Server{leash: leash, bin: bin, Password: rand.Text(), Addr: "127.0.0.1:" + plain}
	s.URL = (&url.URL{Scheme: "amqp", User: url.UserPassword(User, s.Password), Host: s.Addr, Path: "/"}).String()
	s.TLS = "amqps://127.0.0.1:" + secure + "/"
	if s.Files, err = issue(leash.File("pki")); err != nil {
		return nil, err
	}
	config := fmt.Sprintf(`listeners.tcp.1 = %s
listeners.ssl.1 = 127.0.0.1:%s
ssl_options.cacertfile = %s
ssl_options.certfile = %s
ssl_options.keyfile = %s
ssl_options.verify = verify_peer
ssl_options.fail_if_no_peer_cert = false
ssl_cert_login_from = common_name
auth_mechanisms.1 = PLAIN
auth_mechanisms.2 = EXTERNAL
default_user = %s
default_pass = %s
loopback_users = none
disk_free_limit.absolute = %s
vm_memory_high_watermark.absolute = 1GB
log.console = true
log.console.level = warning
`, s.Addr, secure, s.Files.CA, s.Files.server, s.Files.serverKey, User, s.Password, enough)
	plugins := "[rabbitmq_auth_mechanism_ssl].\n"
	if o.management {
		plugins = "[rabbitmq_auth_mechanism_ssl, rabbitmq_management].\n"
		config += "management.tcp.ip = 127.0.0.1\nmanagement.tcp.port = " + ports[4] + "\n"
		s.Managed = "http://127.0.0.1:" + ports[4]
	}
	for name, text := range map[string]string{
		"rabbitmq.conf": config, "enabled_plugins": plugins, ".erlang.cookie": rand.Text(),
	} {
		if err := os.WriteFile(leash.File(name), []byte(text), 0o400); err != nil {
			return nil, err
		}
	}
	s.env = []string{
		"RABBITMQ_NODENAME=n" + strings.ToLower(rand.Text()[:8]) + "@localhost",
		"RABBITMQ_NODE_PORT=" + plain, "RABBITMQ_NODE_IP_ADDRESS=127.0.0.1", "RABBITMQ_DIST_PORT=" + dist,
		"ERL_EPMD_PORT=" + mapper, "ERL_EPMD_ADDRESS=127.0.0.1",
		"RABBITMQ_MNESIA_BASE=" + leash.File("mnesia"), "RABBITMQ_LOG_BASE=" + leash.File("log"), "RABBITMQ_LOGS=-",
		"RABBITMQ_CONFIG_FILE=" + leash.File("rabbitmq.conf"), "RABBITMQ_ADVANCED_CONFIG_FILE=" + leash.File("none.config"),
		"RABBITMQ_CONF_ENV_FILE=" + leash.File("none.sh"), "RABBITMQ_ENABLED_PLUGINS_FILE=" + leash.File("enabled_plugins"),
		"RABBITMQ_GENERATED_CONFIG_DIR=" + leash.File("config"), "RABBITMQ_PID_FILE=" + leash.File("pid"),
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1} -start_epmd false +S 2:2",
		// The script becomes the node then, instead of being its parent: whom we
		// signal is whom we mean.
		"RUNNING_UNDER_SYSTEMD=true", "LANG=C.UTF-8",
	}
	epmd, err := exec.LookPath("epmd")
	if err != nil {
		return nil, err
	}
	s.ports = leash.Process("epmd", epmd, "-port", mapper, "-address", "127.0.0.1")
	s.node = leash.Process("rabbitmq", filepath.Join(bin, "rabbitmq-server"))
	s.ports.Env, s.node.Env = s.env, s.env
	return s, s.start(ctx)
}

func (s *Server) start(ctx context.Context) error {
	if err := s.ports.Start(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return s.node.Ready(ctx, func(ctx context.Context) error {
		if s.Secure != "" {
			return s.answers(ctx)
		}
		c, err := amqp.Dial(s.URL)
		if err != nil {
			return errors.New("it does not take connections") // the library's words have the address with the password
		}
		return c.Close()
	})
}

// Start runs the node again after Stop or Kill and waits until it answers.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	if err := s.start(t.Context()); err != nil {
		t.Fatalf("cannot start RabbitMQ: %v", err)
	}
}

// Stop shuts the node down as an administrator would.
func (s *Server) Stop(t testing.TB) { t.Helper(); must(t, s.node.Stop()) }

// Kill ends the node as a crash of the machine would, but for the disk cache. What is
// confirmed stays; queues do so that are older than a moment: version 3.10 notes
// them on disk half a second after it has said that they are there, so it is told to
// do it now.
func (s *Server) Kill(t testing.TB) { t.Helper(); s.KillAfter(t, func() {}) }

// KillAfter is Kill right after something else, which makes no queue: asking the node
// takes longer than most that a test has going on.
func (s *Server) KillAfter(t testing.TB, what func()) {
	t.Helper()
	s.ctl(t, "eval", "[dets:sync(T) || T <- dets:all()].")
	what()
	must(t, s.node.Kill())
}

// Pause freezes the node: connections stay open, and nothing is answered.
func (s *Server) Pause(t testing.TB) { t.Helper(); must(t, s.node.Pause()) }

// Resume lets a paused node go on.
func (s *Server) Resume(t testing.TB) { t.Helper(); must(t, s.node.Resume()) }

// Release ends the node and removes its data.
func (s *Server) Release() { s.leash.Release() }

// Log is what the node said last, for failures that it may explain.
func (s *Server) Log() string { return s.node.Log() }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// find returns the directory of the programs, or ends the test.
func find(t testing.TB) string {
	t.Helper()
	if os.Getenv("DROVER_TEST_NO_RABBITMQ") == "1" {
		t.Skip(missing)
	}
	dir, err := Find()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

const missing = "RabbitMQ is not installed: `apt-get install rabbitmq-server`"

// Find returns the directory of RabbitMQ's own programs. Those on Debian's path
// are others, which run as the user rabbitmq alone, and a node of theirs.
func Find() (string, error) {
	dirs, _ := filepath.Glob("/usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin")
	dirs = append(dirs, "/opt/homebrew/sbin", "/usr/local/sbin")
	for _, dir := range dirs {
		if _, err := os.Stat(filepath.Join(dir, "rabbitmqctl")); err == nil {
			return dir, nil
		}
	}
	return "", errors.New(missing)
}
