package transport_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/droverhq/drover/internal/authority"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/transport"
)

// files are those of one holder.
type files struct{ ca, cert, key string }

// issue makes a pair of an authority of its own, below a directory of the test's.
func issue(t *testing.T, use string) files {
	t.Helper()
	a := &authority.Authority{Dir: filepath.Join(t.TempDir(), "ca")}
	if err := a.Init("", 0); err != nil {
		t.Fatal(err)
	}
	i, err := a.Issue(authority.Request{Name: "one", Use: use, Hosts: map[string][]string{authority.UseServer: {"127.0.0.1"}}[use]})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := a.Cut(i, dir); err != nil {
		t.Fatal(err)
	}
	return files{filepath.Join(dir, "ca.crt"), filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// server shows the certificate of the moment, and answers who has come.
type server struct {
	*httptest.Server
	shows, admits atomic.Pointer[files]
}

func serve(t *testing.T, shows, admits files) *server {
	t.Helper()
	s := &server{}
	s.shows.Store(&shows)
	s.admits.Store(&admits)
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.TLS.PeerCertificates[0].SerialNumber.String())
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		pair, err := tls.LoadX509KeyPair(s.shows.Load().cert, s.shows.Load().key)
		if err != nil {
			return nil, err
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(read(t, s.admits.Load().ca))
		return &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}, nil
	}}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// get asks over a new connection.
func get(t *testing.T, way *http.Transport, url string) (string, error) {
	t.Helper()
	way.CloseIdleConnections()
	resp, err := (&http.Client{Transport: way}).Get(url)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return string(data), err
}

// Both authorities and both pairs are replaced by strangers to the old ones, and the way
// stays the same.
func TestFilesAreReplacedWhileInUse(t *testing.T) {
	one, two := issue(t, authority.UseServer), issue(t, authority.UseServer)
	me, other := issue(t, authority.UseClient), issue(t, authority.UseClient)
	s := serve(t, one, me)
	mine := files{filepath.Join(t.TempDir(), "ca"), me.cert, me.key}
	write(t, mine.ca, read(t, one.ca))
	_, way, err := transport.New(transport.Config{Address: s.URL, CAFile: mine.ca, CertFile: mine.cert, KeyFile: mine.key})
	if err != nil {
		t.Fatal(err)
	}
	first, err := get(t, way, s.URL)
	if err != nil {
		t.Fatal(err)
	}

	// A server of an authority that nobody has told of is nobody's.
	s.shows.Store(&two)
	if _, err := get(t, way, s.URL); err == nil || !strings.Contains(err.Error(), "unknown authority") {
		t.Fatalf("a stranger was believed: %v", err)
	}
	write(t, mine.ca, read(t, two.ca))
	if again, err := get(t, way, s.URL); err != nil || again != first {
		t.Fatalf("%q, %v after the ca was replaced", again, err)
	}

	// Halves of files change nothing, and are told of where it matters.
	write(t, mine.ca, []byte("half"))
	write(t, mine.cert, []byte("half"))
	if again, err := get(t, way, s.URL); err != nil || again != first {
		t.Fatalf("%q, %v while the files are halves", again, err)
	}
	s.shows.Store(&one)
	if _, err := get(t, way, s.URL); err == nil || !strings.Contains(err.Error(), "ca holds no certificate") {
		t.Fatalf("it is not said that the ca cannot be used: %v", err)
	}
	write(t, mine.ca, read(t, one.ca))

	write(t, mine.cert, read(t, other.cert))
	write(t, mine.key, read(t, other.key))
	s.admits.Store(&other)
	if second, err := get(t, way, s.URL); err != nil || second == first {
		t.Fatalf("%q, %v after the client's pair was replaced", second, err)
	}
}

func TestWhoIsBelieved(t *testing.T) {
	is, stranger, me := issue(t, authority.UseServer), issue(t, authority.UseServer), issue(t, authority.UseClient)
	s := serve(t, is, me)
	with := func(change func(c *transport.Config)) transport.Config {
		c := transport.Config{Address: s.URL, CAFile: is.ca, CertFile: me.cert, KeyFile: me.key}
		change(&c)
		return c
	}
	for _, tc := range []struct {
		reason string
		config transport.Config
		says   string // nothing: it works
	}{
		{"by files", with(func(*transport.Config) {}), ""},
		{"by what they hold", transport.Config{Address: s.URL, CA: string(read(t, is.ca)), Cert: string(read(t, me.cert)), Key: string(read(t, me.key))}, ""},
		{"of another authority", with(func(c *transport.Config) { c.CAFile = stranger.ca }), "unknown authority"},
		{"of another authority, by what it holds", with(func(c *transport.Config) { c.CAFile, c.CA = "", string(read(t, stranger.ca)) }), "unknown authority"},
		{"of no authority that the machine knows", with(func(c *transport.Config) { c.CAFile = "" }), "unknown authority"},
		{"under another name", with(func(c *transport.Config) { c.ServerName = "vault.example.com" }), "vault.example.com"},
		{"who shows nothing", with(func(c *transport.Config) { c.CertFile, c.KeyFile = "", "" }), "certificate required"},
	} {
		_, way, err := transport.New(tc.config)
		if err != nil {
			t.Fatalf("%s: %v", tc.reason, err)
		}
		_, err = get(t, way, s.URL)
		if tc.says == "" && err != nil || tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)) {
			t.Errorf("%s: want %q, got %v", tc.reason, tc.says, err)
		}
	}
}

// Whoever dials may know where a name is; the certificate is still for the name.
func TestDialIsUsed(t *testing.T) {
	is, me := issue(t, authority.UseServer), issue(t, authority.UseClient)
	s := serve(t, is, me)
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, s.Listener.Addr().String())
	}
	for name, good := range map[string]bool{"127.0.0.1": true, "vault.service.consul": false} {
		_, way, err := transport.New(transport.Config{Address: "https://" + name + ":1", CAFile: is.ca, CertFile: me.cert, KeyFile: me.key, Dial: dial})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := get(t, way, "https://"+name+":1"); (err == nil) != good {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Nothing is said over http to another machine, unless somebody has said that it may be.
func TestPlaintext(t *testing.T) {
	for address, plain := range map[string]bool{
		"https://vault.example.org:8200": false, "http://127.0.0.1:8200": false, "http://127.8.9.1": false, "http://localhost:8200": false, "http://LOCALHOST": false, "http://[::1]:8200": false,
		"http://vault.example.org:8200": true, "http://vault": true, "http://10.0.0.1": true, "http://localhost.example.org": true, "http://127.0.0.1.example.org": true, "http://0.0.0.0": true, "http://[fe80::1]": true,
	} {
		_, _, err := transport.New(transport.Config{Address: address})
		if (err != nil) != plain || plain && (fault.Reason(err) != "plaintext" || !strings.Contains(err.Error(), "https://, or say plaintext: true")) {
			t.Errorf("%s: %v", address, err)
		}
		if _, _, err := transport.New(transport.Config{Address: address, Plaintext: true}); err != nil {
			t.Errorf("%s, which is safe by itself: %v", address, err)
		}
	}
}

func TestNewSaysWhatIsWrong(t *testing.T) {
	me := issue(t, authority.UseClient)
	for _, tc := range []struct {
		says, reason string
		config       transport.Config
	}{
		{"is no URL", "no scheme", transport.Config{Address: "vault:8200"}},
		{"is no URL", "a password in it", transport.Config{Address: "https://a:b@vault:8200"}},
		{"cannot read", "no such file", transport.Config{Address: "https://vault", CAFile: me.ca + ".gone"}},
		{"holds no certificate", "a key", transport.Config{Address: "https://vault", CAFile: me.key}},
		{"holds no certificate", "a key, by what it holds", transport.Config{Address: "https://vault", CA: string(read(t, me.key))}},
		{"certificate and key", "half a pair", transport.Config{Address: "https://vault", CertFile: me.cert}},
		{"no pair", "half a pair, by what it holds", transport.Config{Address: "https://vault", Cert: string(read(t, me.cert))}},
	} {
		_, _, err := transport.New(tc.config)
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: want %q, got %v", tc.reason, tc.says, err)
		}
		if err != nil && strings.Contains(err.Error(), "PRIVATE KEY") {
			t.Errorf("%s: the error holds a key", tc.reason)
		}
	}
}
