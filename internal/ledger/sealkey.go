package ledger

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// SealKey is the public half of a key that blocks are signed with. Each vouches
// for the one after it, so that whoever knows one of them can tell whether the
// later ones are the ledger's.
type SealKey struct {
	ID        string            `json:"id"`
	Public    ed25519.PublicKey `json:"public"`
	Since     time.Time         `json:"since"`
	By        string            `json:"by,omitempty"`        // id of the key before; its own for the first
	Signature []byte            `json:"signature,omitempty"` // made with that
}

// NewSealKey makes the statement that a key is the ledger's; by signs it: the
// key before, or the key itself.
func NewSealKey(ledger string, public ed25519.PublicKey, since time.Time, by ed25519.PrivateKey) SealKey {
	k := SealKey{ID: KeyID(public), Public: public, Since: since.UTC().Truncate(time.Microsecond), By: KeyID(by.Public().(ed25519.PublicKey))}
	said := k.hash(ledger)
	k.Signature = ed25519.Sign(by, said[:])
	return k
}

// KeyID names a key by its bytes.
func KeyID(public ed25519.PublicKey) string {
	digest := sha256.Sum256(public)
	return hex.EncodeToString(digest[:8])
}

func (k *SealKey) hash(ledger string) Hash {
	w := begin("drover key 1")
	text(w, ledger)
	text(w, string(k.Public))
	numbers(w, k.Since.UnixMicro())
	text(w, k.By)
	return sum(w)
}

// signed reports whether a key made a signature of a hash.
func (k *SealKey) signed(h Hash, signature []byte) bool {
	return len(k.Public) == ed25519.PublicKeySize && ed25519.Verify(k.Public, h[:], signature)
}

// Sign signs a block. It names the key, which the hash then covers.
func (b *Block) Sign(ledger string, key ed25519.PrivateKey) {
	b.Key = KeyID(key.Public().(ed25519.PublicKey))
	h := b.Hash(ledger)
	b.Signature = ed25519.Sign(key, h[:])
}

// Sign signs a checkpoint.
func (c *Checkpoint) Sign(ledger string, key ed25519.PrivateKey) {
	c.Key = KeyID(key.Public().(ed25519.PublicKey))
	h := c.Hash(ledger)
	c.Signature = ed25519.Sign(key, h[:])
}

// ring are keys that can be believed if the first of them is.
type ring map[string]*SealKey

// newRing follows the keys from the first to the last.
func newRing(ledger string, keys []SealKey) (ring, *Flaw) {
	r := ring{}
	for i := range keys {
		k := &keys[i]
		by := k
		if i > 0 {
			by = &keys[i-1]
		}
		if k.ID != KeyID(k.Public) || k.By != by.ID || !by.signed(k.hash(ledger), k.Signature) {
			return nil, &Flaw{Kind: FlawKey, Text: "key " + k.ID + " is not one that key " + by.ID + " vouches for: it was not made by this ledger"}
		}
		r[k.ID] = k
	}
	return r, nil
}

func (r ring) signed(key string, h Hash, signature []byte) bool {
	k := r[key]
	return k != nil && k.signed(h, signature)
}
