// Package transport makes ways to servers that speak HTTP out of what people write
// down: an address, certificates, keys.
//
// It owns how these are read and checked. It must not know what is asked over them.
package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/droverhq/drover/internal/fault"
)

// Config says where a server is, and how it is spoken to. Nothing is taken from the
// environment, not even a proxy.
type Config struct {
	Whose      string // begins what is said of a mistake: "the connection's"; default "the"
	Address    string // URL
	CA         string // PEM of those who sign the server's certificate; default: the system's
	Cert, Key  string // PEM of ours
	ServerName string // in the server's certificate; default: the address's
	// CAFile, CertFile and KeyFile are files with the same. The pair is read anew
	// for each connection, because it ends.
	CAFile, CertFile, KeyFile string
	// Dial connects; default: that of a net.Dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// New makes the way. It calls nobody.
func New(c Config) (*url.URL, *http.Transport, error) {
	if c.Whose == "" {
		c.Whose = "the"
	}
	at, err := url.Parse(c.Address)
	if err != nil || at.Host == "" || at.User != nil || at.Scheme != "http" && at.Scheme != "https" {
		return nil, nil, fault.New(fault.Invalid, "%s address is no URL; write it as https://name.example.com:8501", c.Whose)
	}
	if c.Dial == nil {
		c.Dial = (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext
	}
	t := &http.Transport{
		DialContext:         c.Dial,
		MaxIdleConnsPerHost: 16, MaxConnsPerHost: 100, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: 5 * time.Second,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.ServerName},
	}
	if c.CAFile != "" {
		data, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, nil, fault.New(fault.Invalid, "cannot read %s ca: %w", c.Whose, err)
		}
		c.CA = string(data)
	}
	if c.CA != "" || c.CAFile != "" {
		t.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !t.TLSClientConfig.RootCAs.AppendCertsFromPEM([]byte(c.CA)) {
			return nil, nil, fault.New(fault.Invalid, "%s ca holds no certificate; it is a PEM", c.Whose)
		}
	}
	if err := c.pair(t.TLSClientConfig); err != nil {
		return nil, nil, err
	}
	return at, t, nil
}

func (c Config) pair(t *tls.Config) error {
	if c.CertFile != "" || c.KeyFile != "" {
		read := func() (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
			return &pair, err
		}
		if _, err := read(); err != nil {
			return fault.New(fault.Invalid, "cannot use %s certificate and key: %w", c.Whose, err)
		}
		t.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return read() }
	}
	if c.Cert != "" || c.Key != "" {
		pair, err := tls.X509KeyPair([]byte(c.Cert), []byte(c.Key))
		if err != nil {
			return fault.New(fault.Invalid, "%s cert and key are no pair; both are PEM", c.Whose)
		}
		t.Certificates = []tls.Certificate{pair}
	}
	return nil
}

// Unreached is why a call was not answered, without what was asked for: the path of a
// secret is not for everybody who uses the same way.
func Unreached(err error) error {
	for {
		var u *url.Error
		if !errors.As(err, &u) {
			return err
		}
		err = u.Err
	}
}
