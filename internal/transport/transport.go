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
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync"
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
	// CAFile, CertFile and KeyFile are files with the same. They are read anew for
	// each connection, because they end; those that cannot be used leave the last
	// good ones in force.
	CAFile, CertFile, KeyFile string
	// Plaintext lets http:// lead to another machine: somebody has said that the way itself
	// is safe.
	Plaintext bool
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
	if at.Scheme == "http" && !c.Plaintext && !Loopback(at.Hostname()) {
		return nil, nil, fault.New(fault.Invalid, "%s address %.255s is another machine, and what is said there over http, a token among it, could be read on the way: write it as https://, or say plaintext: true where the way itself is safe",
			c.Whose, at.Host).Because("plaintext")
	}
	if c.Dial == nil {
		c.Dial = (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext
	}
	t := &http.Transport{
		DialContext:         c.Dial,
		MaxIdleConnsPerHost: 16, MaxConnsPerHost: 100, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: handshake,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.ServerName},
	}
	if err := c.pair(t.TLSClientConfig); err != nil {
		return nil, nil, err
	}
	switch {
	case c.CAFile != "":
		roots, err := follow(func() (*x509.CertPool, error) {
			data, err := os.ReadFile(c.CAFile)
			if err != nil {
				return nil, fault.New(fault.Invalid, "cannot read %s ca: %w", c.Whose, err)
			}
			return c.roots(string(data))
		})
		if err != nil {
			return nil, nil, err
		}
		t.DialTLSContext = dialTLS(c.Dial, t.TLSClientConfig, roots)
	case c.CA != "":
		if t.TLSClientConfig.RootCAs, err = c.roots(c.CA); err != nil {
			return nil, nil, err
		}
	}
	return at, t, nil
}

// Loopback reports whether a host is this machine, whatever a name server says.
func Loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && ip.IsLoopback()
}

const handshake = 5 * time.Second

func (c Config) roots(pem string) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(pem)) {
		return nil, fault.New(fault.Invalid, "%s ca holds no certificate; it is a PEM", c.Whose)
	}
	return pool, nil
}

func (c Config) pair(t *tls.Config) error {
	if c.CertFile != "" || c.KeyFile != "" {
		pair, err := follow(func() (tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
			if err != nil {
				err = fault.New(fault.Invalid, "cannot use %s certificate and key: %w", c.Whose, err)
			}
			return pair, err
		})
		if err != nil {
			return err
		}
		t.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			now, _ := pair.now()
			return &now, nil
		}
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

// dialTLS connects with the roots of the moment, which a transport has no place for.
func dialTLS(dial func(ctx context.Context, network, addr string) (net.Conn, error), base *tls.Config, roots *followed[*x509.CertPool]) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		raw, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		config := base.Clone()
		if config.ServerName == "" {
			config.ServerName, _, _ = net.SplitHostPort(addr)
		}
		var wrong error
		config.RootCAs, wrong = roots.now()
		ctx, cancel := context.WithTimeout(ctx, handshake)
		defer cancel()
		conn := tls.Client(raw, config)
		err = conn.HandshakeContext(ctx)
		if err == nil {
			return conn, nil
		}
		_ = raw.Close()
		if wrong != nil { // somebody has just replaced it, and wonders
			err = fmt.Errorf("%w; %w", err, wrong)
		}
		return nil, err
	}
}

// followed is what files held when they were last good: they are replaced one after
// the other. It is safe for concurrent use.
type followed[T any] struct {
	read func() (T, error)

	mu   sync.Mutex
	good T
}

// follow reads for the first time; the files must be good then.
func follow[T any](read func() (T, error)) (*followed[T], error) {
	good, err := read()
	return &followed[T]{read: read, good: good}, err
}

// now reads anew. The error is why what is there now does not count.
func (f *followed[T]) now() (T, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	v, err := f.read()
	if err == nil {
		f.good = v
	}
	return f.good, err
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
