package ledger

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/droverhq/drover/internal/fault"
)

// KeySize is the length of the master key in bytes.
const KeySize = 32

// Vault encrypts what a store keeps: blobs under a key derived from the master
// key, and each secret under a key of its own that is wrapped by another one.
// Its errors never contain what it was given.
type Vault struct{ blob, wrap, token cipher.AEAD }

// NewVault derives the keys. The master key has KeySize bytes.
func NewVault(master []byte) (*Vault, error) {
	if len(master) != KeySize {
		return nil, fault.New(fault.Invalid, "the master key must have %d bytes", KeySize)
	}
	var v Vault
	for use, aead := range map[string]*cipher.AEAD{"blob": &v.blob, "wrap": &v.wrap, "check": &v.token} {
		key, err := hkdf.Key(sha256.New, master, nil, "drover ledger "+use, KeySize)
		if err != nil {
			return nil, fmt.Errorf("cannot derive the %s key: %w", use, err)
		}
		if *aead, err = gcm(key); err != nil {
			return nil, err
		}
	}
	return &v, nil
}

// Token is a text that only this master key can Check.
func (v *Vault) Token() []byte { return lock(v.token, []byte("drover"), nil) }

// Check reports whether the token was made with the same master key.
func (v *Vault) Check(token []byte) error {
	_, err := unlock(v.token, token, nil)
	return err
}

// Digest names a blob by its plain bytes.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// LockBlob encrypts a blob; it opens only under its own digest.
func (v *Vault) LockBlob(digest string, data []byte) []byte {
	return lock(v.blob, data, []byte(digest))
}

// UnlockBlob decrypts and checks a blob.
func (v *Vault) UnlockBlob(digest string, sealed []byte) ([]byte, error) {
	data, err := unlock(v.blob, sealed, []byte(digest))
	if err == nil && Digest(data) != digest {
		err = errors.New("the blob does not have its digest")
	}
	return data, err
}

// LockSecret encrypts a secret under a new key and returns that key, wrapped.
func (v *Vault) LockSecret(id string, plain []byte) (key, sealed []byte, err error) {
	fresh := make([]byte, KeySize)
	rand.Read(fresh) //nolint:errcheck // never fails
	aead, err := gcm(fresh)
	if err != nil {
		return nil, nil, err
	}
	return lock(v.wrap, fresh, []byte(id)), lock(aead, plain, []byte(id)), nil
}

// UnlockSecret is the way back.
func (v *Vault) UnlockSecret(id string, key, sealed []byte) ([]byte, error) {
	fresh, err := unlock(v.wrap, key, []byte(id))
	if err != nil {
		return nil, err
	}
	aead, err := gcm(fresh)
	if err != nil {
		return nil, err
	}
	return unlock(aead, sealed, []byte(id))
}

func gcm(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("cannot make a cipher: %w", err)
	}
	return cipher.NewGCM(block)
}

func lock(aead cipher.AEAD, plain, bind []byte) []byte {
	nonce := make([]byte, aead.NonceSize(), aead.NonceSize()+len(plain)+aead.Overhead())
	rand.Read(nonce) //nolint:errcheck // never fails
	return aead.Seal(nonce, nonce, plain, bind)
}

func unlock(aead cipher.AEAD, sealed, bind []byte) ([]byte, error) {
	if len(sealed) < aead.NonceSize() {
		return nil, errors.New("cannot decrypt: too short")
	}
	plain, err := aead.Open(nil, sealed[:aead.NonceSize()], sealed[aead.NonceSize():], bind)
	if err != nil {
		return nil, errors.New("cannot decrypt: wrong key or damaged data")
	}
	return plain, nil
}

// LoadKey reads the master key from a file of hexadecimal digits, and makes one,
// readable by its owner alone, where there is no such file.
func LoadKey(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeKey(path); err != nil {
			return nil, fmt.Errorf("cannot create the master key: %w", err)
		}
		data, err = os.ReadFile(path) // ours, or that of a process that was first
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the master key: %w", err)
	}
	key, err := ParseKey(string(data))
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
func makeKey(path string) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, ".master-key-*") // readable by its owner alone
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	key := make([]byte, KeySize)
	rand.Read(key) //nolint:errcheck // never fails
	_, err = f.WriteString(hex.EncodeToString(key) + "\n")
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
