package access

import (
	"cmp"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// SigningKey is the kind of the built-in issuer's keys.
var SigningKey = ledger.Kind{Name: "signingkey"}

// signingKey is the spec of such an object. The private key is a reference to
// a sealed secret, destroyed when nobody needs to sign with it any more.
type signingKey struct {
	Public  jose.JSONWebKey `json:"public"`
	Private string          `json:"private"`
	Period  int64           `json:"period"`
	Until   time.Time       `json:"until"` // its last token has expired by then
}

// period numbers the time in which one key signs. The key's id is made of it:
// that is what lets any number of replicas agree on one key, by the ledger's
// guard that an object must not exist yet.
func (i *Issuer) period() int64 { return i.clock().UnixNano() / int64(rotate) }

func keyID(period int64) string { return fmt.Sprintf("es256-%d", period) }

// signerNow returns a signer with the key of the present period.
func (i *Issuer) signerNow(ctx context.Context) (jose.Signer, error) {
	period := i.period()
	i.mu.Lock()
	signer, id := i.signer, i.signing
	i.mu.Unlock()
	if signer != nil && id == keyID(period) {
		return signer, nil
	}
	if err := i.loading.take(ctx); err != nil {
		return nil, err
	}
	defer i.loading.give()
	if err := i.load(ctx); err != nil {
		return nil, err
	}
	i.mu.Lock()
	key, ok := i.keys[keyID(period)]
	i.mu.Unlock()
	if !ok {
		if err := i.generate(ctx, period); err != nil {
			return nil, err
		}
		if err := i.load(ctx); err != nil {
			return nil, err
		}
		i.mu.Lock()
		key = i.keys[keyID(period)]
		i.mu.Unlock()
	}
	signer, err := i.open(ctx, key)
	if err != nil {
		return nil, err
	}
	i.mu.Lock()
	i.signer, i.signing = signer, keyID(period)
	i.mu.Unlock()
	return signer, nil
}

// generate writes the key of a period unless another replica was first.
func (i *Issuer) generate(ctx context.Context, period int64) error {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fault.New(fault.Internal, "cannot make a signing key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return fault.New(fault.Internal, "cannot write a signing key: %w", err)
	}
	ref, err := i.store.Seal(ctx, der)
	if err != nil {
		return fmt.Errorf("cannot seal a signing key: %w", err)
	}
	public := jose.JSONWebKey{Key: private.Public(), Algorithm: string(jose.ES256), Use: "sig"}
	print, err := public.Thumbprint(crypto.SHA256)
	if err != nil {
		return fault.New(fault.Internal, "cannot name a signing key: %w", err)
	}
	public.KeyID = base64.RawURLEncoding.EncodeToString(print)
	end := time.Unix(0, (period+1)*int64(rotate)).UTC()
	spec, err := json.Marshal(signingKey{Public: public, Private: ref, Period: period, Until: end.Add(maxTTL)})
	if err != nil {
		return fault.New(fault.Internal, "cannot write a signing key: %w", err)
	}
	_, err = i.store.Commit(ctx, ledger.Set{
		Actor: "system", Cause: ledger.BySchedule("key-rotation"),
		Puts: []ledger.Put{{Op: "create", Object: ledger.Object{
			Ref: ledger.Ref{Kind: SigningKey.Name, ID: keyID(period)}, Phase: "ready", Spec: spec,
		}}},
	})
	switch {
	case fault.Is(err, fault.Conflict):
		_ = i.store.Shred(ctx, ref) // the other replica's key is in force; ours is nobody's
		return nil
	case err != nil:
		return fmt.Errorf("cannot store a signing key: %w", err)
	}
	i.retire(ctx, period)
	return nil
}

// retire destroys private keys that no replica signs with any more, one period
// of grace for clocks that differ. What cannot be destroyed now is tried again
// with the next key.
func (i *Issuer) retire(ctx context.Context, period int64) {
	i.mu.Lock()
	list := slices.Collect(maps.Values(i.keys))
	i.mu.Unlock()
	for _, key := range list {
		if key.Period < period-1 {
			_ = i.store.Shred(ctx, key.Private)
		}
	}
}

func (i *Issuer) open(ctx context.Context, key signingKey) (jose.Signer, error) {
	der, err := i.store.Unseal(ctx, key.Private)
	if err != nil {
		return nil, fmt.Errorf("cannot open the signing key: %w", err)
	}
	private, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, fault.New(fault.Internal, "the signing key is damaged: %w", err)
	}
	signer, err := jose.NewSigner(
		jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: private, KeyID: key.Public.KeyID}},
		(&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		return nil, fault.New(fault.Internal, "cannot sign with the signing key: %w", err)
	}
	return signer, nil
}

// sulk is how long a failed read answers for the next ones: while the store is
// away, callers must not queue up to find that out one after the other.
const sulk = time.Second

// load reads all keys; the caller has the turn.
func (i *Issuer) load(ctx context.Context) error {
	i.mu.Lock()
	err, since := i.err, i.clock().Sub(i.errAt)
	i.mu.Unlock()
	if err != nil && since >= 0 && since < sulk {
		return err
	}
	keys, err := i.read(ctx)
	if err != nil && ctx.Err() != nil {
		return err // one caller left; that says nothing to the others
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.err, i.errAt = err, i.clock(); err == nil {
		i.keys = keys
	}
	return err
}

// read fetches the keys. There is one per period and a token's life spans only
// a few, so a page holds them.
func (i *Issuer) read(ctx context.Context) (map[string]signingKey, error) {
	objects, err := i.store.List(ctx, ledger.Query{Kind: SigningKey.Name, Order: []ledger.Order{{Column: "created", Desc: true}}, Limit: 1000})
	if err != nil {
		return nil, fmt.Errorf("cannot read the signing keys: %w", err)
	}
	keys := make(map[string]signingKey, len(objects))
	for _, o := range objects {
		var k signingKey
		if err := json.Unmarshal(o.Spec, &k); err != nil {
			return nil, fault.New(fault.Internal, "signing key %s is damaged: %w", o.ID, err)
		}
		keys[o.ID] = k
	}
	return keys, nil
}

// reload reads the keys again if none has this key id.
func (i *Issuer) reload(ctx context.Context, id string) error {
	if err := i.loading.take(ctx); err != nil {
		return err
	}
	defer i.loading.give()
	if known(i.public(), id) {
		return nil
	}
	if !i.again.AllowN(i.clock(), 1) {
		i.mu.Lock()
		defer i.mu.Unlock()
		return i.err
	}
	return i.load(ctx)
}

// public returns the keys whose tokens may still be valid, newest first.
func (i *Issuer) public() []jose.JSONWebKey {
	now := i.clock()
	i.mu.Lock()
	list := slices.Collect(maps.Values(i.keys))
	i.mu.Unlock()
	slices.SortFunc(list, func(a, b signingKey) int { return cmp.Compare(b.Period, a.Period) })
	out := make([]jose.JSONWebKey, 0, len(list))
	for _, k := range list {
		if now.Before(k.Until) {
			out = append(out, k.Public)
		}
	}
	return out
}
