// Package file takes a credential from a file, or from a directory as Kubernetes
// mounts a secret, and again whenever that changes.
//
// It owns what is in the file. It must not know who writes it.
package file

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/droverhq/drover/internal/credential"
	"github.com/droverhq/drover/internal/fault"
)

// maxSize of a file with a credential.
const maxSize = 64 << 10

// Config of a source.
type Config struct {
	// Path is of a directory with the files username and password, or of a file: an
	// object of JSON with these names, or the password alone.
	Path string
	// Every is how often it is looked at; default 1 s.
	Every time.Duration
}

// Source is one file's.
type Source struct {
	credential.Held
	path string
	stop context.CancelFunc
	wg   sync.WaitGroup
}

var _ credential.Source = (*Source)(nil)

// New begins to look at the file, which need not be there yet. One goroutine does,
// until Close.
func New(c Config) *Source {
	if c.Every <= 0 {
		c.Every = time.Second
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &Source{path: c.Path, stop: cancel}
	s.look()
	s.wg.Go(func() {
		tick := time.NewTicker(c.Every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				s.look()
			case <-ctx.Done():
				return
			}
		}
	})
	return s
}

// Close implements credential.Source.
func (s *Source) Close() {
	s.stop()
	s.wg.Wait()
}

// Get implements credential.Source.
func (s *Source) Get(context.Context) (credential.Credential, error) {
	s.look()
	if c, ok := s.Now(); ok {
		return c, nil
	}
	return credential.Credential{}, s.Trouble()
}

// Refused implements credential.Source. The file is looked at in any case.
func (s *Source) Refused(credential.Credential) {}

func (s *Source) look() {
	c, err := read(s.path)
	// A pair is two files, and may be replaced between them.
	for again, e := read(s.path); err == nil && e == nil && !again.Same(c); again, e = read(s.path) {
		c = again
	}
	if err != nil {
		s.Fail(err)
		return
	}
	s.Set(c)
}

func read(path string) (credential.Credential, error) {
	var c credential.Credential
	about, err := os.Stat(path)
	if err != nil {
		return c, unread(err)
	}
	if about.IsDir() {
		if c.Username, err = text(filepath.Join(path, "username")); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return c, unread(err)
		}
		if c.Password, err = text(filepath.Join(path, "password")); err != nil {
			return c, unread(err)
		}
	} else if c.Password, err = text(path); err != nil {
		return c, unread(err)
	}
	if strings.HasPrefix(c.Password, "{") && !about.IsDir() {
		var in struct{ Username, Password string }
		if json.Unmarshal([]byte(c.Password), &in) != nil { // its words repeat what is there
			return c, fault.New(fault.Invalid, "%s is no JSON; write {\"username\": ..., \"password\": ...}, or the password alone", path).Because("credential")
		}
		c.Username, c.Password = in.Username, in.Password
	}
	if c.Password == "" {
		return c, fault.New(fault.Invalid, "there is no password in %s", path).Because("credential")
	}
	return c, nil
}

func text(path string) (string, error) {
	about, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if about.Size() > maxSize {
		return "", errors.New("it is too large for a credential")
	}
	data, err := os.ReadFile(path)
	return strings.TrimSpace(string(data)), err
}

func unread(err error) error {
	return fault.New(fault.Unavailable, "cannot read the credential: %w", err).Because("credential")
}
