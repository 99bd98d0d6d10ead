// Package file is certificates out of two files that somebody else renews: one
// pair for all hosts.
//
// It owns reading them again when they change. It must not know who renews
// them, nor write them anywhere.
package file

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/droverhq/drover/internal/certificate"
	"github.com/droverhq/drover/internal/fault"
)

// Config of a Source.
type Config struct {
	Cert, Key string           // paths of PEM files
	Now       func() time.Time // default: time.Now
}

// Source reads the files when they have changed since the last time. A pair that
// cannot be used leaves the last good one in force as long as that is valid.
type Source struct {
	cfg Config

	mu    sync.Mutex
	seen  [2]stamp
	pair  certificate.Certificate
	leaf  *x509.Certificate
	wrong error // why the files as they are now cannot be used
}

// stamp tells whether a file has changed.
type stamp struct {
	at   time.Time
	size int64
}

var _ certificate.Source = (*Source)(nil)

// New makes a source. Files that are not there yet are waited for.
func New(c Config) (*Source, error) {
	if c.Cert == "" || c.Key == "" {
		return nil, fault.New(fault.Invalid, "certificates out of files need both: the certificate's and the key's")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Source{cfg: c}, nil
}

// For returns the pair if it is for the host. Faults: NotFound where it is not,
// or there is none yet; Unavailable where it cannot be used.
func (s *Source) For(_ context.Context, host string) (certificate.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refresh()
	switch {
	case s.leaf == nil && errors.Is(s.wrong, os.ErrNotExist):
		return certificate.Certificate{}, fault.New(fault.NotFound, "there is no certificate at %s yet", s.cfg.Cert)
	case s.leaf == nil:
		return certificate.Certificate{}, fault.New(fault.Unavailable, "the certificate at %s cannot be used: %w", s.cfg.Cert, s.wrong)
	case s.cfg.Now().After(s.leaf.NotAfter):
		return certificate.Certificate{}, fault.New(fault.Unavailable, "the certificate at %s ended at %s", s.cfg.Cert, s.leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	if err := s.leaf.VerifyHostname(host); err != nil {
		return certificate.Certificate{}, fault.New(fault.NotFound, "the certificate at %s is not for %.255q", s.cfg.Cert, host)
	}
	return s.pair, nil
}

// Ends tells when the certificate that is in use ends, or why there is none.
func (s *Source) Ends() (time.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refresh()
	if s.leaf == nil {
		return time.Time{}, fault.New(fault.Unavailable, "it cannot be used: %w", s.wrong)
	}
	return s.leaf.NotAfter, nil
}

// Revoke is for sources that have certificates issued.
func (s *Source) Revoke(context.Context, string, int) error {
	return fault.New(fault.Invalid, "certificates out of files are revoked where they were issued")
}

// refresh reads the pair if either file has changed. The two are replaced one
// after the other: while they do not fit, they are read again each time.
func (s *Source) refresh() {
	now := [2]stamp{look(s.cfg.Cert), look(s.cfg.Key)}
	if now == s.seen && s.wrong == nil && s.leaf != nil {
		return
	}
	cert, err := read(s.cfg.Cert)
	var key []byte
	if err == nil {
		key, err = read(s.cfg.Key)
	}
	var pair tls.Certificate
	if err == nil {
		if pair, err = tls.X509KeyPair(cert, key); err != nil {
			err = errors.New("certificate and key do not fit, or are no PEM") // the library may quote the key
		}
	}
	s.seen, s.wrong = now, err
	if err == nil {
		s.pair, s.leaf = certificate.Certificate{Cert: string(cert), Key: string(key)}, pair.Leaf
	}
}

func look(path string) stamp {
	info, err := os.Stat(path)
	if err != nil {
		return stamp{}
	}
	return stamp{info.ModTime(), info.Size()}
}

const maxFile = 1 << 20

func read(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxFile {
		return nil, errors.New("not a file, or too large")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile))
	return bytes.TrimSpace(data), err
}
