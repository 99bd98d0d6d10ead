package builtin

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// kindBox holds the key that all replicas make opaque texts with.
var kindBox = ledger.Kind{Name: "ssokey"}

// What a text was made for is part of it: a code is no refresh token.
const (
	forCode    = "code"
	forRefresh = "refresh"
	forLogin   = "login"
)

// box makes texts that only this provider can read and nobody can change.
type box struct {
	store  Store
	keeper Keeper

	mu   sync.Mutex // never held during a read of the store
	aead cipher.AEAD
	mac  []byte
}

// ready reads the key, and makes it where there is none.
func (b *box) ready(ctx context.Context) error {
	b.mu.Lock()
	have := b.aead != nil
	b.mu.Unlock()
	if have {
		return nil
	}
	ref := ledger.Ref{Kind: kindBox.Name, ID: "box"}
	o, err := b.store.Get(ctx, ref)
	if fault.Is(err, fault.NotFound) {
		if err = b.make(ctx, ref); err == nil {
			o, err = b.store.Get(ctx, ref)
		}
	}
	if err != nil {
		return fmt.Errorf("cannot read the key of the identity provider: %w", err)
	}
	var spec struct{ Key string }
	if err := json.Unmarshal(o.Spec, &spec); err != nil {
		return fault.New(fault.Internal, "the key of the identity provider is damaged: %w", err)
	}
	key, err := b.keeper.Unseal(ctx, spec.Key)
	if err != nil {
		return fmt.Errorf("cannot open the key of the identity provider: %w", err)
	}
	return b.use(key)
}

// make writes a key unless another replica was first.
func (b *box) make(ctx context.Context, ref ledger.Ref) error {
	key := make([]byte, 64)
	rand.Read(key) //nolint:errcheck // never fails
	sealed, err := b.keeper.Seal(ctx, key)
	if err != nil {
		return err
	}
	spec, err := json.Marshal(map[string]string{"key": sealed})
	if err != nil {
		return err
	}
	_, err = b.store.Commit(ctx, ledger.Set{
		Actor: "system", Cause: ledger.BySchedule("start"),
		Puts: []ledger.Put{{Op: "create", Object: ledger.Object{Ref: ref, Phase: "ready", Spec: spec}}},
	})
	if fault.Is(err, fault.Conflict) {
		_ = b.keeper.Shred(ctx, sealed) // nobody's
		return nil
	}
	return err
}

func (b *box) use(key []byte) error {
	if len(key) != 64 {
		return fault.New(fault.Internal, "the key of the identity provider is damaged")
	}
	block, err := aes.NewCipher(key[:32])
	if err != nil {
		return fault.New(fault.Internal, "cannot make a cipher: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return fault.New(fault.Internal, "cannot make a cipher: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.aead, b.mac = aead, key[32:]
	return nil
}

func (b *box) seal(purpose string, plain []byte) string {
	b.mu.Lock()
	aead := b.aead
	b.mu.Unlock()
	nonce := make([]byte, aead.NonceSize(), aead.NonceSize()+len(plain)+aead.Overhead())
	rand.Read(nonce) //nolint:errcheck // never fails
	return base64.RawURLEncoding.EncodeToString(aead.Seal(nonce, nonce, plain, []byte(purpose)))
}

func (b *box) open(purpose, text string) ([]byte, bool) {
	b.mu.Lock()
	aead := b.aead
	b.mu.Unlock()
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(data) < aead.NonceSize() {
		return nil, false
	}
	plain, err := aead.Open(nil, data[:aead.NonceSize()], data[aead.NonceSize():], []byte(purpose))
	return plain, err == nil
}

// proof ties texts together so that only this provider can have done it.
func (b *box) proof(texts ...string) string {
	b.mu.Lock()
	h := hmac.New(sha256.New, b.mac)
	b.mu.Unlock()
	for _, t := range texts {
		fmt.Fprintf(h, "%d:%s", len(t), t)
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// Encrypt and Decrypt make the library's authorization codes.
func (b *box) Encrypt(s string) (string, error) { return b.seal(forCode, []byte(s)), nil }

// Decrypt is the way back.
func (b *box) Decrypt(s string) (string, error) {
	plain, ok := b.open(forCode, s)
	if !ok {
		return "", fault.New(fault.Denied, "not a text of this provider")
	}
	return string(plain), nil
}

// digest is what is kept of a text that opens something.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
