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
