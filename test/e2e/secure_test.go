package e2e

import (
	"crypto/tls"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/droverhq/drover/api/client/keypair"
	"github.com/droverhq/drover/test/drover"
	"github.com/droverhq/drover/test/postgres"
	"github.com/droverhq/drover/test/rabbitmq"
)

// pki is an authority of `drover ca`, and the places where what it issues is used.
type pki struct {
	t       *testing.T
	ca, dir string
}

func newPKI(t *testing.T) *pki {
	t.Helper()
	p := &pki{t, filepath.Join(t.TempDir(), "ca"), t.TempDir()}
	p.run("init")
	return p
}

func (p *pki) run(args ...string) string {
	p.t.Helper()
	out, err := exec.Command(drover.Binary(), append(append([]string{"ca"}, args...), "--dir", p.ca)...).CombinedOutput()
	if err != nil || strings.Contains(string(out), "PRIVATE") {
		p.t.Fatalf("drover ca %v: %v: %s", args, err, out)
	}
	return string(out)
}

// issue makes a certificate and carries it to where it is used.
func (p *pki) issue(use, name string, more ...string) keypair.Files {
	p.t.Helper()
	p.run(append([]string{"issue", use, name}, more...)...)
	return p.carry(use + "-" + name)
}

func (p *pki) files(name string) keypair.Files {
	at := filepath.Join(p.dir, name)
	return keypair.Files{CA: filepath.Join(at, "ca.crt"), Certificate: filepath.Join(at, "tls.crt"), Key: filepath.Join(at, "tls.key")}
}

// carry brings a certificate with its key and the bundle to where they are used.
func (p *pki) carry(name string) keypair.Files {
	p.t.Helper()
	to := p.files(name)
	p.copy(filepath.Join(p.ca, "issued", name+".key"), to.Key)
	p.copy(filepath.Join(p.ca, "issued", name+".crt"), to.Certificate)
	p.bundle(name)
	return to
}

func (p *pki) bundle(names ...string) {
	p.t.Helper()
	for _, name := range names {
		p.copy(filepath.Join(p.ca, "ca.crt"), p.files(name).CA)
	}
}

// copy replaces a file at once.
func (p *pki) copy(from, to string) {
	p.t.Helper()
	data, err := os.ReadFile(from)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(to), 0o700)
	}
	if err == nil {
		err = os.WriteFile(to+".new", data, 0o600)
	}
	if err == nil {
		err = os.Rename(to+".new", to)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

// serial is which certificate a listener shows.
func serial(t *testing.T, address string, f keypair.Files) string {
	t.Helper()
	r, err := keypair.Open(f)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := tls.Dial("tcp", address, &tls.Config{RootCAs: r.Now().CA})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
}

// Server, agent, command line, database and broker know each other by certificates
// alone; then the authority is replaced, and with it every certificate, and nobody is
// restarted.
func TestEverybodyIsKnownAndNobodyIsRestarted(t *testing.T) {
	p := newPKI(t)
	own := p.issue("server", "drover", "--host", "127.0.0.1", "--host", "drover.example.org")
	agent, admin, login := p.issue("agent", "edge"), p.issue("client", "admin"), p.issue("client", "drover")
	base := p.issue("server", "postgres", "--host", "127.0.0.1")

	db := postgres.Start(t)
	db.Exec(t, "CREATE ROLE drover LOGIN")
	db.Exec(t, "CREATE DATABASE drover OWNER drover")
	db.Secure(t, "drover", base.CA, base.Certificate, base.Key)
	mq := rabbitmq.Start(t)
	heard := listen(t, mq.URL)

	s := drover.Secured(t, admin,
		"--database", db.Encrypted("drover", "drover", login.CA, login.Certificate, login.Key),
		"--bus", "rabbitmq", "--bus-options", "url="+mq.TLS+",ca="+mq.Files.CA+",certificate="+mq.Files.Certificate+",key="+mq.Files.Key,
		"--tls-certificate-file", own.Certificate, "--tls-key-file", own.Key, "--tls-client-ca-file", own.CA, "--tls-client-auth", "all")
	token := s.Cluster(t, "edge")
	a := drover.Join(t, s.URL(), "edge", token, "--ca-file", agent.CA, "--client-certificate-file", agent.Certificate, "--client-key-file", agent.Key)
	order := func(name string) {
		t.Helper()
		if _, stderr, code := s.Run("create", "dinosaur", name, "--wait", "--timeout", "4m"); code != 0 {
			t.Fatalf("%s is not ready: %s\nthe agent: %s", name, stderr, a.Log())
		}
	}
	// Whoever has lost its connections says so, and is asked again.
	insist := func(name string) {
		t.Helper()
		drover.Until(t, name+" is taken", func() bool {
			_, _, code := s.Run("create", "dinosaur", name)
			return code == 0 || code == 5 // 5: it was, and the answer was lost
		})
		if _, stderr, code := s.Run("wait", "dinosaur", name, "--timeout", "4m"); code != 0 {
			t.Fatalf("%s is not ready: %s\nthe agent: %s", name, stderr, a.Log())
		}
	}
	order("first")
	if encrypted, all := db.Sessions(t.Context(), t, "drover"); all == 0 || encrypted != all {
		t.Errorf("of %d connections to the database %d showed a certificate", all, encrypted)
	}
	if m := <-heard; len(m.Body) == 0 {
		t.Error("nothing came over the broker")
	}
	stranger := s.Files
	stranger.Certificate, stranger.Key = "", ""
	if status := answered(t, s.URL()+"/api/v1/whoami", stranger); status != http.StatusForbidden {
		t.Errorf("whoever shows nothing is answered %d", status)
	}
	if status := answered(t, s.URL()+"/readyz", stranger); status != http.StatusOK {
		t.Errorf("a probe is answered %d", status)
	}

	// Another authority. The listener changes first, the bundles of the others later.
	before := serial(t, s.Listen, own)
	p.run("rotate")
	if out := p.run("renew"); strings.Count(out, ".crt") != 5 {
		t.Fatalf("renewed: %s", out)
	}
	p.carry("server-drover")
	drover.Until(t, "the listener's new certificate", func() bool { return serial(t, s.Listen, agent) != before })
	order("second") // the agent and the command line have their old certificates and the old bundle
	p.carry("agent-edge")
	p.carry("client-admin")
	p.carry("client-drover")
	order("third")

	// The old authority is nobody's any more: who had not changed would be shut out.
	p.run("retire")
	p.bundle("server-drover", "agent-edge", "client-admin", "client-drover", "server-postgres")
	p.carry("server-postgres")
	db.Secure(t, "drover", base.CA, base.Certificate, base.Key)
	db.Exec(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'drover'")
	insist("fourth")
	// A server that begins anew has no connection left that was opened before.
	s.Kill()
	s.Start(t)
	insist("fifth")
	if strings.Contains(s.Log()+a.Log(), "PRIVATE KEY") {
		t.Error("a key is in a log")
	}
}

// listen follows what the broker is told.
func listen(t *testing.T, url string) <-chan amqp.Delivery {
	t.Helper()
	line, err := amqp.Dial(url)
	if err != nil {
		t.Fatal("the broker cannot be reached")
	}
	t.Cleanup(func() { line.Close() })
	ch, err := line.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if err := ch.ExchangeDeclare("drover.events", "topic", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	q, err := ch.QueueDeclare("", false, true, true, false, nil)
	if err == nil {
		err = ch.QueueBind(q.Name, "#", "drover.events", false, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	out, err := ch.Consume(q.Name, "", true, true, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func answered(t *testing.T, url string, f keypair.Files) int {
	t.Helper()
	r, err := keypair.Open(f)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: r.Transport(&http.Transport{DisableKeepAlives: true})}).Get(url)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}
