package keypair_test

import (
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/droverhq/drover/api/client/keypair"
	"github.com/droverhq/drover/internal/authority"
)

// pki is an authority, and files that are replaced.
type pki struct {
	*authority.Authority
	t   *testing.T
	dir string
}

func newPKI(t *testing.T) *pki {
	t.Helper()
	p := &pki{&authority.Authority{Dir: filepath.Join(t.TempDir(), "ca")}, t, t.TempDir()}
	if err := p.Init("", 0); err != nil {
		t.Fatal(err)
	}
	return p
}

// put issues a pair into a directory, and returns its files.
func (p *pki) put(name string, r authority.Request) keypair.Files {
	p.t.Helper()
	r.Name = name
	i, err := p.Issue(r)
	if err != nil {
		p.t.Fatal(err)
	}
	at := filepath.Join(p.dir, name)
	if err := p.Cut(i, at); err != nil {
		p.t.Fatal(err)
	}
	return keypair.Files{CA: filepath.Join(at, "ca.crt"), Certificate: filepath.Join(at, "tls.crt"), Key: filepath.Join(at, "tls.key")}
}

func open(t *testing.T, f keypair.Files) *keypair.Reader {
	t.Helper()
	r, err := keypair.Open(f)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// listen serves what it was shown: the common name of the client's certificate.
func listen(t *testing.T, r *keypair.Reader) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	web := &http.Server{TLSConfig: r.Listener(), ErrorLog: log.New(io.Discard, "", 0), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.TLS.VerifiedChains) > 0 {
			_, _ = io.WriteString(w, r.Proto+" "+r.TLS.PeerCertificates[0].Subject.CommonName+" "+r.TLS.PeerCertificates[0].SerialNumber.String())
		}
	})}
	go web.ServeTLS(l, "", "") // ends with Close
	t.Cleanup(func() { web.Close() })
	return "https://" + l.Addr().String()
}

func get(c *http.Client, url string) (string, error) {
	resp, err := c.Get(url)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return string(data), err
}

var server = authority.Request{Use: authority.UseServer, Hosts: []string{"127.0.0.1"}}

// Both ends get other certificates of another authority, and nobody is restarted.
func TestReplacedWhileRunning(t *testing.T) {
	p := newPKI(t)
	url := listen(t, open(t, p.put("server", server)))
	client := &http.Client{Transport: open(t, p.put("ci", authority.Request{Use: authority.UseClient})).Transport(&http.Transport{})}
	first, err := get(client, url)
	if err != nil || !strings.HasPrefix(first, "HTTP/2.0 ci ") {
		t.Fatalf("%q, %v", first, err)
	}
	if again, err := get(client, url); err != nil || again != first {
		t.Fatalf("%q, %v without any change", again, err)
	}
	if err := p.Rotate(0); err != nil {
		t.Fatal(err)
	}
	p.put("server", server)
	second, err := get(client, url) // it has the old bundle, and the server already the new certificate
	if err != nil || second != first {
		t.Fatalf("%q, %v", second, err)
	}
	p.put("ci", authority.Request{Use: authority.UseClient})
	third, err := get(client, url)
	if err != nil || third == first || !strings.HasPrefix(third, "HTTP/2.0 ci ") {
		t.Fatalf("%q, %v after the client's was replaced", third, err)
	}
}

func TestFilesThatDoNotFitChangeNothing(t *testing.T) {
	p := newPKI(t)
	files := p.put("server", server)
	r := open(t, files)
	before := r.Now()
	other := p.put("other", server)
	data, err := os.ReadFile(other.Certificate)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(files.Certificate, data, 0o644); err != nil {
		t.Fatal(err)
	}
	if r.Wrong() == nil || r.Now() != before {
		t.Fatalf("a certificate of another key was taken: %v", r.Wrong())
	}
	key, err := os.ReadFile(other.Key)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(files.Key, key, 0o600); err != nil {
		t.Fatal(err)
	}
	if r.Wrong() != nil || r.Now().Generation != before.Generation+1 {
		t.Errorf("the pair that fits was not taken: %v", r.Wrong())
	}
	if err := os.Remove(files.Key); err != nil {
		t.Fatal(err)
	}
	if r.Wrong() == nil || r.Now().Certificate == nil {
		t.Error("a file that is gone took the certificate along")
	}
}

func TestWhoIsLetIn(t *testing.T) {
	p, stranger := newPKI(t), newPKI(t)
	files := p.put("server", server)
	url := listen(t, open(t, files))
	for _, tc := range []struct {
		reason string
		files  keypair.Files
		good   bool
	}{
		{"without a certificate, as probes come", keypair.Files{CA: files.CA}, true},
		{"with one of the authority", p.put("ci", authority.Request{Use: authority.UseClient}), true},
		{"with a server's", keypair.Files{CA: files.CA, Certificate: files.Certificate, Key: files.Key}, false},
		{"to a server of somebody else", keypair.Files{CA: stranger.BundlePath()}, false},
		{"to another name", keypair.Files{CA: files.CA, Name: "drover.example.org"}, false},
	} {
		_, err := get(&http.Client{Transport: open(t, tc.files).Transport(&http.Transport{})}, url)
		if (err == nil) != tc.good {
			t.Errorf("%s: %v", tc.reason, err)
		}
	}
	// A client that is not ours shows what it has, whomever the server believes.
	foreign := open(t, stranger.put("thief", authority.Request{Use: authority.UseClient}))
	insist := &tls.Config{RootCAs: open(t, files).Now().CA, GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return foreign.Now().Certificate, nil
	}}
	if _, err := get(&http.Client{Transport: &http.Transport{TLSClientConfig: insist}}, url); err == nil {
		t.Error("a certificate of a stranger's authority was let in")
	}
	old := &tls.Config{RootCAs: open(t, files).Now().CA, MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}
	if _, err := get(&http.Client{Transport: &http.Transport{TLSClientConfig: old}}, url); err == nil {
		t.Error("TLS 1.1 was let in")
	}
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	p := newPKI(t)
	files := p.put("server", server)
	for reason, f := range map[string]keypair.Files{
		"belong together": {Certificate: files.Certificate},
		"no such file":    {CA: files.CA + ".gone"},
		"no certificate":  {CA: files.Key},
		"do not fit":      {Certificate: files.Certificate, Key: p.put("other", server).Key},
	} {
		if _, err := keypair.Open(f); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("want %q, got %v", reason, err)
		}
	}
}
