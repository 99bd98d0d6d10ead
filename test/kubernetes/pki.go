package kubernetes

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

// authority signs the certificates of one cluster.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	c := template("drover-test-ca", nil)
	c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign|x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		return nil, err
	}
	if c, err = x509.ParseCertificate(der); err != nil {
		return nil, err
	}
	return &authority{cert: c, key: key, pem: block("CERTIFICATE", der)}, nil
}

func template(name string, groups []string) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 100))
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name, Organization: groups},
		// Early, for tests that set clocks back.
		NotBefore: now.Add(-24 * time.Hour), NotAfter: now.Add(30 * 24 * time.Hour),
	}
}

// server signs a certificate of an API server on loopback.
func (a *authority) server() (cert, key []byte, err error) {
	c := template("kube-apiserver", nil)
	c.KeyUsage, c.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback, net.IPv4(10, 0, 0, 1)}
	c.DNSNames = []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"}
	return a.sign(c)
}

// client signs a certificate of a user.
func (a *authority) client(user string, groups []string) (cert, key []byte, err error) {
	c := template(user, groups)
	c.KeyUsage, c.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.sign(c)
}

func (a *authority) sign(c *x509.Certificate) (cert, key []byte, err error) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, k.Public(), a.key)
	if err != nil {
		return nil, nil, err
	}
	secret, err := x509.MarshalECPrivateKey(k)
	return block("CERTIFICATE", der), block("EC PRIVATE KEY", secret), err
}

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// lay writes what the servers read: the authority, the API server's certificates, as
// a server and to kubelets, and the key of service accounts' tokens.
func (a *authority) lay(dir string) error {
	cert, key, err := a.server()
	if err != nil {
		return err
	}
	_, accounts, err := a.sign(template("service-accounts", nil))
	if err != nil {
		return err
	}
	shown, shownKey, err := a.client(kubeletClient, nil)
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{"ca.crt": a.pem, "server.crt": cert, "server.key": key, "accounts.key": accounts,
		"kubelet-client.crt": shown, "kubelet-client.key": shownKey} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}
