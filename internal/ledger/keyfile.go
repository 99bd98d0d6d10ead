package ledger

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/droverhq/drover/internal/fault"
)

// KeyGuard keeps the text of a master key so that whoever has the file does not have
// the key.
type KeyGuard interface {
	Wrap(text string) (string, error)
	Unwrap(text string) (string, error)
}

// LoadKey reads the master key from a file of hexadecimal digits, and makes one,
// readable by its owner alone, where there is no such file.
func LoadKey(path string) ([]byte, error) { return LoadGuardedKey(path, nil) }

// LoadGuardedKey is LoadKey of a file that holds what a guard has wrapped.
func LoadGuardedKey(path string, guard KeyGuard) ([]byte, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeKey(path, guard); err != nil {
			return nil, fmt.Errorf("cannot create the master key: %w", err)
		}
		data, err = os.ReadFile(path) // ours, or that of a process that was first
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the master key: %w", err)
	}
	text := strings.TrimSpace(string(data))
	if guard != nil {
		if text, err = guard.Unwrap(text); err != nil {
			return nil, fmt.Errorf("cannot unwrap the master key in %s: %w", path, err)
		}
	}
	key, err := ParseKey(text)
	if err != nil {
		return nil, fault.New(fault.Invalid, "%s does not hold a master key: %w", path, err)
	}
	return key, nil
}

// ParseKey reads a master key. The error does not repeat it.
func ParseKey(text string) ([]byte, error) {
	key, err := hex.DecodeString(strings.TrimSpace(text))
	if err != nil || len(key) != KeySize {
		return nil, fault.New(fault.Invalid, "a master key has %d hexadecimal digits", 2*KeySize)
	}
	return key, nil
}

// makeKey writes a new key unless there is one. The file appears whole or not
// at all: a half-written key would be taken for the real one for ever, and one
// that a power cut takes back would take all secrets with it.
func makeKey(path string, guard KeyGuard) error {
	key := make([]byte, KeySize)
	rand.Read(key) //nolint:errcheck // never fails
	text := hex.EncodeToString(key)
	if guard != nil {
		var err error
		if text, err = guard.Wrap(text); err != nil {
			return err
		}
	}
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, ".master-key-*") // readable by its owner alone
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(text + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		// No links in this file system: the rename is whole, too, but does not
		// see who was first.
		if err := os.Rename(f.Name(), path); err != nil {
			return err
		}
	}
	if d, err := os.Open(dir); err == nil { // not everywhere can a directory be flushed
		_ = d.Sync()
		_ = d.Close()
	}
	return nil
}
