// Package keypair is TLS out of files that somebody else replaces: a certificate
// with its key, and the authorities that are believed.
//
// It owns reading them anew when they change, for those who live longer than a
// certificate: transports of clients, configurations of listeners. It must not
// know who issues certificates, nor what they allow.
package keypair

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"
)

// Files are paths of PEM files. Certificate and Key belong together.
type Files struct {
	CA          string // authorities; default: those of the machine
	Certificate string // the leaf first, then what leads to its authority; default: none
	Key         string
	Name        string // a client expects a certificate for it; default: the host that it connects to
}

// Reader has what the files hold. Files that cannot be used leave the last good
// ones in force: they are replaced one after the other. It is safe for concurrent
// use.
type Reader struct {
	files Files

	mu    sync.Mutex
	seen  [3]stamp
	wrong error // why the files as they are now cannot be used
	now   Held
}

// Held is what the files held when they were last good.
type Held struct {
	Certificate *tls.Certificate // nil: none is named
	CA          *x509.CertPool   // nil: none is named
	Generation  int              // grows whenever something was replaced
}

// stamp tells whether a file has changed.
type stamp struct {
	at   time.Time
	size int64
}

// Open reads the files for the first time; they must be good then.
func Open(f Files) (*Reader, error) {
	if (f.Certificate == "") != (f.Key == "") {
		return nil, errors.New("a certificate and its key belong together: name both files or none")
	}
	r := &Reader{files: f}
	r.Now()
	if r.now.Generation == 0 {
		return nil, r.wrong
	}
	return r, nil
}

// Now returns what is in force.
func (r *Reader) Now() Held {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := [3]stamp{look(r.files.CA), look(r.files.Certificate), look(r.files.Key)}
	if seen == r.seen && r.wrong == nil && r.now.Generation > 0 {
		return r.now
	}
	held, err := r.files.read()
	r.seen, r.wrong = seen, err
	if err == nil {
		held.Generation = r.now.Generation + 1
		r.now = held
	}
	return r.now
}

// Wrong is why the files as they are now cannot be used; nil: they can.
func (r *Reader) Wrong() error {
	r.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.wrong
}

func (f Files) read() (h Held, err error) {
	if f.CA != "" {
		data, err := read(f.CA)
		if err != nil {
			return h, err
		}
		if h.CA = x509.NewCertPool(); !h.CA.AppendCertsFromPEM(data) {
			return h, fmt.Errorf("%s: there is no certificate in PEM form", f.CA)
		}
	}
	if f.Certificate == "" {
		return h, nil
	}
	chain, err := read(f.Certificate)
	if err != nil {
		return h, err
	}
	key, err := read(f.Key)
	if err != nil {
		return h, err
	}
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil { // the library may quote the key
		return h, fmt.Errorf("%s and %s do not fit, or are no PEM", f.Certificate, f.Key)
	}
	h.Certificate = &pair
	return h, nil
}

// Listener is the configuration of a server. A client that shows a certificate
// must show one of the authorities, where they are named; whether it must show one
// is for others to say, because probes have none.
func (r *Reader) Listener() *tls.Config {
	c := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	if r.files.CA != "" {
		// Whoever comes back is looked at again: its authority may be gone meanwhile.
		c.ClientAuth, c.SessionTicketsDisabled = tls.VerifyClientCertIfGiven, true
	}
	outer := c.Clone()
	outer.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		held := r.Now()
		inner := c.Clone()
		inner.Certificates, inner.ClientCAs = []tls.Certificate{*held.Certificate}, held.CA
		return inner, nil
	}
	return outer
}

// Transport is base with what the files hold. Requests after a change go over new
// connections; those under way end where they are.
func (r *Reader) Transport(base *http.Transport) http.RoundTripper {
	return &transport{reader: r, base: base}
}

type transport struct {
	reader *Reader
	base   *http.Transport // never used itself

	mu         sync.Mutex
	generation int
	now        *http.Transport
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	return t.current().RoundTrip(req)
}

// CloseIdleConnections is what http.Client asks for.
func (t *transport) CloseIdleConnections() { t.current().CloseIdleConnections() }

func (t *transport) current() *http.Transport {
	held := t.reader.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.now != nil && t.generation >= held.Generation {
		return t.now
	}
	old := t.now
	t.now, t.generation = t.base.Clone(), held.Generation
	t.now.ForceAttemptHTTP2 = true
	t.now.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: held.CA, ServerName: t.reader.files.Name}
	if held.Certificate != nil {
		t.now.TLSClientConfig.Certificates = []tls.Certificate{*held.Certificate}
	}
	if old != nil {
		old.CloseIdleConnections()
	}
	return t.now
}

func look(path string) stamp {
	info, err := os.Stat(path)
	if path == "" || err != nil {
		return stamp{}
	}
	return stamp{info.ModTime(), info.Size()}
}

const maxFile = 1 << 20

func read(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read %w", err)
	}
	if !info.Mode().IsRegular() || info.Size() > maxFile {
		return nil, fmt.Errorf("%s is not a file, or too large", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile))
	return bytes.TrimSpace(data), err
}
