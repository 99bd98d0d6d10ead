package rabbitmq

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Certificates are files in PEM form, of an authority that nobody else knows.
type Certificates struct {
	CA          string
	Certificate string // of a client called User
	Key         string

	server, serverKey string
}

func issue(dir string) (Certificates, error) {
	c := Certificates{
		CA: filepath.Join(dir, "ca.pem"), Certificate: filepath.Join(dir, "client.pem"), Key: filepath.Join(dir, "client.key"),
		server: filepath.Join(dir, "server.pem"), serverKey: filepath.Join(dir, "server.key"),
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return c, err
	}
	root := template("drover test authority")
	root.IsCA, root.BasicConstraintsValid, root.KeyUsage = true, true, x509.KeyUsageCertSign
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return c, err
	}
	if err := sign(root, root, key, key, c.CA, ""); err != nil {
		return c, err
	}
	for _, leaf := range []struct{ name, cert, key string }{{"localhost", c.server, c.serverKey}, {User, c.Certificate, c.Key}} {
		own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return c, err
		}
		x := template(leaf.name)
		x.DNSNames, x.IPAddresses = []string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1)}
		x.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
		x.KeyUsage = x509.KeyUsageDigitalSignature
		if err := sign(x, root, own, key, leaf.cert, leaf.key); err != nil {
			return c, err
		}
	}
	return c, nil
}

func template(name string) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, big.NewInt(1<<62))
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
}

// sign writes a certificate, and its key unless that has no file.
func sign(x, parent *x509.Certificate, own, by *ecdsa.PrivateKey, file, keyFile string) error {
	der, err := x509.CreateCertificate(rand.Reader, x, parent, own.Public(), by)
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil || keyFile == "" {
		return err
	}
	if der, err = x509.MarshalPKCS8PrivateKey(own); err != nil {
		return err
	}
	return os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600)
}
