package file_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/certificate/file"
	"github.com/droverhq/drover/internal/fault"
)

// pair makes a certificate for hosts.
func pair(t *testing.T, until time.Time, hosts ...string) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), DNSNames: hosts, NotBefore: time.Now().Add(-time.Hour), NotAfter: until}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
}

func TestSource(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	now := time.Now()
	s, err := file.New(file.Config{Cert: certFile, Key: keyFile, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	changed := 0
	write := func(path string, data []byte) {
		t.Helper()
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		changed++ // two writes may be too close for the clock of the file system
		at := time.Now().Add(time.Duration(changed) * time.Second)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	want := func(reason, host string, kind fault.Kind) {
		t.Helper()
		c, err := s.For(t.Context(), host)
		if !fault.Is(err, kind) || c.Key != "" || strings.Contains(err.Error(), "PRIVATE") {
			t.Errorf("%s: %v", reason, err)
		}
	}
	gives := func(reason string, cert []byte) {
		t.Helper()
		c, err := s.For(t.Context(), "a.example.org")
		if err != nil || c.Cert != strings.TrimSpace(string(cert)) || !strings.Contains(c.Key, "PRIVATE KEY") {
			t.Errorf("%s: %v", reason, err)
		}
	}
	want("no files yet", "a.example.org", fault.NotFound)
	one, oneKey := pair(t, now.Add(time.Hour), "*.example.org")
	write(certFile, one)
	want("half a pair", "a.example.org", fault.NotFound)
	write(keyFile, []byte("-----BEGIN PRIVATE KEY-----\nrubbish\n"))
	want("a broken key", "a.example.org", fault.Unavailable)
	write(keyFile, oneKey)
	gives("a pair", one)
	want("another host", "a.example.com", fault.NotFound)

	two, twoKey := pair(t, now.Add(48*time.Hour), "*.example.org")
	write(certFile, two)
	gives("half renewed: the last good pair stays", one)
	write(keyFile, twoKey)
	gives("renewed", two)
	if err := os.Remove(certFile); err != nil {
		t.Fatal(err)
	}
	gives("what went away stays in force", two)
	now = now.Add(72 * time.Hour)
	want("but not beyond its end", "a.example.org", fault.Unavailable)

	if err := s.Revoke(t.Context(), "a.example.org", 0); !fault.Is(err, fault.Invalid) {
		t.Errorf("revoke: %v", err)
	}
	if _, err := file.New(file.Config{Cert: certFile}); !fault.Is(err, fault.Invalid) {
		t.Errorf("half a configuration: %v", err)
	}
}
