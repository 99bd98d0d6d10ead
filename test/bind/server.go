package bind

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/droverhq/drover/test/servers/process"
)

// Key is the name of the TSIG key, of algorithm hmac-sha256.
const Key = "drover-test"

// patience bounds a start and each call, which take a moment.
const patience = 2 * time.Minute

// Server is a server of a test's own.
type Server struct {
	Addr   string // of UDP and TCP, the same after each Start
	Secret string // of the key, base64

	dir   string
	named string
	shell *exec.Cmd
	leash io.WriteCloser
}

// Start runs a server for the zones; it ends with the test.
func Start(t testing.TB, zones ...string) *Server {
	t.Helper()
	s := &Server{named: find(t), dir: t.TempDir()}
	secret := make([]byte, 32)
	rand.Read(secret)
	s.Secret = base64.StdEncoding.EncodeToString(secret)
	port, err := process.Port()
	if err != nil {
		t.Fatal(err)
	}
	s.Addr = "127.0.0.1:" + port
	var conf strings.Builder
	fmt.Fprintf(&conf, `options {
	directory %[1]q; managed-keys-directory %[1]q; pid-file none; session-keyfile none;
	listen-on port %[2]s { 127.0.0.1; }; listen-on-v6 { none; };
	recursion no; dnssec-validation no; notify no;
	tcp-clients 500; tcp-listen-queue 100;
};
controls { };
key %[3]q { algorithm hmac-sha256; secret %[4]q; };
`, s.dir, port, Key, s.Secret)
	for _, z := range zones {
		fmt.Fprintf(&conf, "zone %q { type primary; file %q; allow-update { key %q; }; allow-transfer { key %q; }; };\n", z, z+".zone", Key, Key)
		zone := fmt.Sprintf("$ORIGIN %s.\n$TTL 60\n@ SOA ns hostmaster 1 3600 600 86400 60\n@ NS ns\nns A 127.0.0.1\n", z)
		write(t, filepath.Join(s.dir, z+".zone"), zone)
	}
	write(t, filepath.Join(s.dir, "named.conf"), conf.String())
	t.Cleanup(s.Stop)
	s.Start(t)
	return s
}

// watchdog ends the server when a line or the end of its input comes: also when
// this process dies for whatever reason.
const watchdog = `"$@" </dev/null & pid=$!
read -r how
kill -"${how:-KILL}" $pid 2>/dev/null
wait $pid`

// Start runs the server again after Stop and waits until it answers.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	logs, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer logs.Close()
	s.shell = exec.Command("/bin/sh", "-c", watchdog, "sh", s.named, "-g", "-n", "1", "-c", filepath.Join(s.dir, "named.conf"))
	s.shell.Stdout, s.shell.Stderr = logs, logs
	if s.leash, err = s.shell.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := s.shell.Start(); err != nil {
		t.Fatalf("cannot start named: %v", err)
	}
	q := new(dns.Msg).SetQuestion("version.bind.", dns.TypeTXT)
	q.Question[0].Qclass = dns.ClassCHAOS
	for deadline := time.Now().Add(patience); ; {
		_, _, err := (&dns.Client{Net: "tcp", Timeout: time.Second}).Exchange(q, s.Addr)
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			out, _ := os.ReadFile(filepath.Join(s.dir, "log"))
			t.Fatalf("named does not answer: %v; its log: %s", err, out)
		}
		time.Sleep(10 * time.Millisecond) // the server offers no signal to wait for
	}
}

// Stop ends the server; what it knows it has kept in its journal.
func (s *Server) Stop() {
	if s.shell == nil {
		return
	}
	fmt.Fprintln(s.leash, "TERM")
	s.leash.Close()
	s.shell.Wait() //nolint:errcheck // it ends by a signal
	s.shell = nil
}

// Add puts records, in the form of zone files, into a zone, as its owner would.
func (s *Server) Add(t testing.TB, zone string, records ...string) {
	t.Helper()
	m := new(dns.Msg).SetUpdate(dns.Fqdn(zone))
	m.Insert(parse(t, records))
	s.update(t, m)
}

// Delete takes the records of a name and a type out of a zone.
func (s *Server) Delete(t testing.TB, zone, name, kind string) {
	t.Helper()
	s.DeleteAtOnce(t, zone, [2]string{name, kind})
}

// DeleteAtOnce takes the records of several names and types out of a zone: nobody
// sees it without some of them and with the others.
func (s *Server) DeleteAtOnce(t testing.TB, zone string, of ...[2]string) {
	t.Helper()
	m := new(dns.Msg).SetUpdate(dns.Fqdn(zone))
	for _, x := range of {
		m.RemoveRRset([]dns.RR{&dns.ANY{Hdr: dns.RR_Header{Name: dns.Fqdn(x[0]), Rrtype: dns.StringToType[x[1]]}}})
	}
	s.update(t, m)
}

func (s *Server) update(t testing.TB, m *dns.Msg) {
	t.Helper()
	m.SetTsig(dns.Fqdn(Key), dns.HmacSHA256, 300, time.Now().Unix())
	a, _, err := (&dns.Client{Net: "tcp", Timeout: patience, TsigSecret: s.secrets()}).Exchange(m, s.Addr)
	if err != nil || a.Rcode != dns.RcodeSuccess {
		t.Fatalf("cannot update: %v %v", a, err)
	}
}

// Records returns the CNAME, TXT and A records of a zone but for its own, as
// "name type data", by a transfer.
func (s *Server) Records(t testing.TB, zone string) []string {
	t.Helper()
	m := new(dns.Msg).SetAxfr(dns.Fqdn(zone))
	m.SetTsig(dns.Fqdn(Key), dns.HmacSHA256, 300, time.Now().Unix())
	in, err := (&dns.Transfer{DialTimeout: patience, ReadTimeout: patience, WriteTimeout: patience, TsigSecret: s.secrets()}).In(m, s.Addr)
	if err != nil {
		t.Fatalf("cannot transfer: %v", err)
	}
	var out []string
	for e := range in {
		if e.Error != nil {
			t.Fatalf("cannot transfer: %v", e.Error)
		}
		for _, rr := range e.RR {
			h := rr.Header()
			name := strings.TrimSuffix(h.Name, ".")
			switch r := rr.(type) {
			case *dns.CNAME:
				out = append(out, name+" CNAME "+strings.TrimSuffix(r.Target, "."))
			case *dns.TXT:
				out = append(out, name+" TXT "+strings.Join(r.Txt, ""))
			case *dns.A:
				if name != "ns."+zone {
					out = append(out, name+" A "+r.A.String())
				}
			}
		}
	}
	return out
}

func (s *Server) secrets() map[string]string { return map[string]string{dns.Fqdn(Key): s.Secret} }

func parse(t testing.TB, records []string) []dns.RR {
	t.Helper()
	var out []dns.RR
	for _, r := range records {
		rr, err := dns.NewRR(r)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, rr)
	}
	return out
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func find(t testing.TB) string {
	t.Helper()
	const missing = "BIND is not installed: `apt-get install bind9`"
	if os.Getenv("DROVER_TEST_NO_BIND") == "1" {
		t.Skip(missing)
	}
	for _, name := range []string{"named", "/usr/sbin/named", "/usr/local/sbin/named", "/opt/homebrew/sbin/named"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatal(missing)
	return ""
}
