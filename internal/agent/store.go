package agent

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Store keeps what must outlive the agent's process: who it is, which ledger it
// follows, its token, and what it was told. Names are fixed, about seventy in
// all, of letters, digits, dots and dashes. What it keeps holds secrets.
type Store interface {
	// Load returns what was saved last; an error that is fs.ErrNotExist where
	// there is nothing.
	Load(name string) ([]byte, error)
	// Save replaces a whole entry or leaves it as it was. An entry has the
	// items of one bucket with their bodies, and can be of some megabytes.
	Save(name string, data []byte) error
	// Delete drops an entry; one that is not there is no error.
	Delete(name string) error
}

// Dir is a Store of files in a directory, readable by their owner alone.
func Dir(path string) Store { return dir(path) }

type dir string

func (d dir) Load(name string) ([]byte, error) { return os.ReadFile(filepath.Join(string(d), name)) }

func (d dir) Delete(name string) error {
	if err := os.Remove(filepath.Join(string(d), name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (d dir) Save(name string, data []byte) (err error) {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(string(d), "."+name+"-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	if _, err = f.Write(data); err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(string(d), name))
	}
	if err == nil {
		syncDir(string(d))
	}
	return err
}

// syncDir makes the file's name outlive a power cut. Not every system can; the
// file itself is safe.
func syncDir(dir string) {
	if d, err := os.Open(dir); err == nil {
		_ = d.Sync()
		_ = d.Close()
	}
}

// Nowhere is a Store that keeps nothing: for simulations, whose data planes end
// with their agents.
func Nowhere() Store { return nowhere{} }

type nowhere struct{}

func (nowhere) Load(string) ([]byte, error) { return nil, fs.ErrNotExist }
func (nowhere) Save(string, []byte) error   { return nil }
func (nowhere) Delete(string) error         { return nil }
