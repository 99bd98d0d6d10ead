//go:build e2e

// Package own tests what Drover itself needs of others, on the built binary: its
// credentials from OpenBao, and names from Consul.
package own

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/droverhq/drover/api/client"
	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/test/drover"
	"github.com/droverhq/drover/test/openbao"
	"github.com/droverhq/drover/test/postgres"
	"github.com/droverhq/drover/test/rabbitmq"
)

// world is a database and a vault that makes users of it.
type world struct {
	db     *postgres.Server
	admin  *pgx.Conn
	bao    *openbao.Server
	policy string // of what Drover needs
	secret string // that Drover logs in with
	flags  []string
}

// ask is of an administrator of the vault.
func (w *world) ask(t testing.TB, path string, in any) {
	t.Helper()
	if err := w.bao.API().Ask(t.Context(), http.MethodPost, "/v1/"+path, in, nil); err != nil {
		t.Fatal(err)
	}
}

// lives are how long things do, in seconds.
type lives struct{ lease, most, token, mostToken int }

// newWorld sets everything up as docs/vault.md says.
func newWorld(t *testing.T, l lives, with ...openbao.Option) *world {
	t.Helper()
	w := &world{db: postgres.Start(t), bao: openbao.Start(t, append(with, openbao.WithData())...)}
	w.sql(t, "CREATE ROLE drover NOLOGIN", "CREATE DATABASE drover OWNER drover")
	at, err := url.Parse(w.db.URL("drover"))
	if err != nil {
		t.Fatal(err)
	}
	password, _ := at.User.Password()
	w.ask(t, "sys/mounts/database", map[string]string{"type": "database"})
	w.ask(t, "database/config/drover", map[string]any{
		"plugin_name": "postgresql-database-plugin", "allowed_roles": "drover", "username": at.User.Username(), "password": password,
		"connection_url": "postgresql://{{username}}:{{password}}@" + at.Host + "/drover?sslmode=disable",
	})
	w.ask(t, "database/roles/drover", map[string]any{
		"db_name": "drover", "default_ttl": l.lease, "max_ttl": l.most,
		"creation_statements":   `CREATE ROLE "{{name}}" LOGIN PASSWORD '{{password}}' VALID UNTIL '{{expiration}}' IN ROLE drover; ALTER ROLE "{{name}}" SET role = 'drover';`,
		"renew_statements":      `ALTER ROLE "{{name}}" VALID UNTIL '{{expiration}}';`,
		"revocation_statements": `DROP ROLE IF EXISTS "{{name}}";`,
	})
	w.policy = w.bao.Policy(t, `
path "database/creds/drover" { capabilities = ["read"] }
path "rabbitmq/creds/drover" { capabilities = ["read"] }
path "transit/encrypt/drover" { capabilities = ["update"] }
path "transit/decrypt/drover" { capabilities = ["update"] }`)
	role, secret := w.bao.AppRole(t, "drover", w.policy)
	w.ask(t, "auth/approle/role/drover", map[string]any{"token_policies": []string{w.policy}, "token_ttl": l.token, "token_max_ttl": l.mostToken})
	w.secret = secret
	file := filepath.Join(t.TempDir(), "secret-id")
	if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	at.User = nil
	w.flags = []string{
		"--vault", w.bao.URL, "--vault-options", "auth=approle,role-id=" + role + ",secret-id-file=" + file,
		"--database", at.String(), "--database-credentials", "vault:database/creds/drover",
	}
	return w
}

// broker adds one whose accounts the vault makes.
func (w *world) broker(t *testing.T, lease, most int) *rabbitmq.Server {
	t.Helper()
	mq := rabbitmq.Start(t, rabbitmq.WithManagement())
	w.ask(t, "sys/mounts/rabbitmq", map[string]string{"type": "rabbitmq"})
	// Its API comes a moment after the node.
	drover.Until(t, "the vault reaches the broker", func() bool {
		in := map[string]string{"connection_uri": mq.Managed, "username": rabbitmq.User, "password": mq.Password}
		return w.bao.API().Ask(t.Context(), http.MethodPost, "/v1/rabbitmq/config/connection", in, nil) == nil
	})
	w.ask(t, "rabbitmq/config/lease", map[string]int{"ttl": lease, "max_ttl": most})
	w.ask(t, "rabbitmq/roles/drover", map[string]string{"tags": "", "vhosts": `{"/": {"configure": "^drover[.].*", "write": "^(drover[.].*|amq[.]default)$", "read": "^drover[.].*"}}`})
	w.flags = append(w.flags, "--bus", "rabbitmq", "--bus-options", "url=amqp://"+mq.Addr+",credentials=vault:rabbitmq/creds/drover")
	return mq
}

func (w *world) sql(t testing.TB, statements ...string) {
	t.Helper()
	if w.admin == nil {
		var err error
		if w.admin, err = pgx.Connect(context.Background(), w.db.URL("postgres")); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { w.admin.Close(context.Background()) })
	}
	for _, sql := range statements {
		if _, err := w.admin.Exec(context.Background(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

// users are those with connections to the ledger.
func (w *world) users(t testing.TB) (out []string) {
	t.Helper()
	rows, err := w.admin.Query(context.Background(), "SELECT DISTINCT usename::text FROM pg_stat_activity WHERE datname = 'drover' AND application_name = 'drover' AND usename IS NOT NULL")
	if err == nil {
		out, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// load orders without end, and nobody may refuse.
type load struct {
	t       *testing.T
	client  *client.Client
	prefix  string // of the names
	mu      sync.Mutex
	ordered map[string]bool
	stop    chan struct{}
	wg      sync.WaitGroup
	halt    func()
}

func newLoad(t *testing.T, s *drover.Server, workers int) *load {
	t.Helper()
	l := &load{t: t, client: s.Client(t), prefix: strings.ToLower(rand.Text()[:6]), ordered: map[string]bool{}, stop: make(chan struct{})}
	l.halt = sync.OnceFunc(func() { close(l.stop); l.wg.Wait() })
	t.Cleanup(l.halt)
	for i := range workers {
		l.wg.Go(func() { l.order(i) })
	}
	return l
}

func (l *load) order(worker int) {
	for n := 0; ; n++ {
		select {
		case <-l.stop:
			return
		case <-time.After(20 * time.Millisecond):
		}
		name := fmt.Sprintf("d%s-%d-%d", l.prefix, worker, n)
		if _, err := l.client.Create(context.Background(), "dinosaurs", v1.CreateInstance{Name: name}); err != nil {
			l.t.Errorf("the order of %s failed: %v", name, err)
			return
		}
		l.mu.Lock()
		l.ordered[name] = true
		l.mu.Unlock()
	}
}

func (l *load) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.ordered)
}

// more waits for orders that begin from now on.
func (l *load) more(t *testing.T, what string) {
	t.Helper()
	n := l.count() + 10
	drover.Until(t, "orders "+what, func() bool { return l.count() >= n || t.Failed() })
}

// check ends the load, and looks whether everything is there that was acknowledged.
func (l *load) check(t *testing.T) {
	t.Helper()
	l.halt()
	there := map[string]bool{}
	for page := 1; ; page++ {
		got, err := l.client.List(t.Context(), "dinosaurs", client.ListOptions{Page: page, Size: 100})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range got.Items {
			there[o.Name] = true
		}
		if len(got.Items) < 100 {
			break
		}
	}
	for name := range l.ordered {
		if !there[name] {
			t.Errorf("%s was acknowledged and is lost", name)
		}
	}
	if len(l.ordered) == 0 {
		t.Error("nothing was ordered")
	}
}

// ends starts a server that must not come up, and must say why.
func ends(t *testing.T, says string, flags ...string) *drover.Server {
	t.Helper()
	s := &drover.Server{Mode: "server", DataDir: t.TempDir(), Listen: drover.FreeAddress(t), Args: flags}
	if err := s.Launch(); err != nil {
		t.Fatal(err)
	}
	<-s.Done()
	if s.ExitCode() == 0 || !strings.Contains(s.Log(), says) {
		t.Errorf("it ends with %d, and does not say %q:\n%s", s.ExitCode(), says, s.Log())
	}
	return s
}

// put writes a file whole, as those do who rotate what others read.
func put(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// doctor is what it says.
func doctor(s *drover.Server) string {
	out, _, _ := s.Run("doctor")
	return out
}

// audit is what was done.
func audit(t *testing.T, s *drover.Server) string {
	t.Helper()
	out, stderr, code := s.Run("audit", "-o", "jsonl")
	if code != 0 || out == "" {
		t.Fatalf("drover audit: %d %s%s", code, out, stderr)
	}
	return out
}

func add(seen []string, more ...string) []string {
	for _, m := range more {
		if !slices.Contains(seen, m) {
			seen = append(seen, m)
		}
	}
	return seen
}

// quiet checks that a log holds none of what nobody must read.
func quiet(t *testing.T, s *drover.Server, secrets ...string) {
	t.Helper()
	for _, secret := range secrets {
		if strings.Contains(s.Log(), secret) {
			t.Error("the log holds a secret")
		}
	}
}
