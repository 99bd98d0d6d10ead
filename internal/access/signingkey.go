package access

import (
	"cmp"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"golang.org/x/time/rate"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// SigningKey is the kind of the server's own keys.
var SigningKey = ledger.Kind{Name: "signingkey"}

// signingKey is the spec of such an object. The private key is a reference to
// a sealed secret, destroyed when nobody needs to sign with it any more.
type signingKey struct {
	Public  jose.JSONWebKey `json:"public"`
	Private string          `json:"private"`
	Period  int64           `json:"period"`
	Until   time.Time       `json:"until"` // its last token has expired by then
}

// ring is a line of signing keys in the ledger, one after the other, so that
// every replica signs and verifies with the same ones. It starts no goroutine:
// whoever signs first in a new period makes that period's key.
type ring struct {
	store     Store
	clock     func() time.Time
	algorithm jose.SignatureAlgorithm
	prefix    string        // of the objects' ids
	life      time.Duration // of the longest token: keys are shown that much longer
	again     *rate.Limiter

	loading turn
	mu      sync.Mutex            // of what follows; never held during a read of the store
	keys    map[string]signingKey // by object id
	err     error                 // of the last read
	errAt   time.Time
	held    held
}

// held is the private key that is signed with at present.
type held struct {
	object string
	key    jose.JSONWebKey
	signer jose.Signer
	plain  jose.Signer // of what is no token
}

func newRing(store Store, clock func() time.Time, algorithm jose.SignatureAlgorithm, life time.Duration) *ring {
	if clock == nil {
		clock = time.Now
	}
	return &ring{
		store: store, clock: clock, algorithm: algorithm, life: life,
		prefix: strings.ToLower(string(algorithm)) + "-",
		keys:   map[string]signingKey{}, again: rate.NewLimiter(10, 10), loading: newTurn(),
	}
}

// period numbers the time in which one key signs. The key's id is made of it:
// that is what lets any number of replicas agree on one key, by the ledger's
// guard that an object must not exist yet.
func (r *ring) period() int64 { return r.clock().UnixNano() / int64(rotate) }

func (r *ring) keyID(period int64) string { return fmt.Sprintf("%s%d", r.prefix, period) }

// now returns the key of the present period.
func (r *ring) now(ctx context.Context) (held, error) {
	period := r.period()
	r.mu.Lock()
	h := r.held
	r.mu.Unlock()
	if h.signer != nil && h.object == r.keyID(period) {
		return h, nil
	}
	if err := r.loading.take(ctx); err != nil {
		return held{}, err
	}
	defer r.loading.give()
	if err := r.load(ctx); err != nil {
		return held{}, err
	}
	r.mu.Lock()
	key, ok := r.keys[r.keyID(period)]
	r.mu.Unlock()
	if !ok {
		if err := r.generate(ctx, period); err != nil {
			return held{}, err
		}
		if err := r.load(ctx); err != nil {
			return held{}, err
		}
		r.mu.Lock()
		key = r.keys[r.keyID(period)]
		r.mu.Unlock()
	}
	h, err := r.open(ctx, key)
	if err != nil {
		return held{}, err
	}
	h.object = r.keyID(period)
	r.mu.Lock()
	r.held = h
	r.mu.Unlock()
	return h, nil
}

// generate writes the key of a period unless another replica was first.
func (r *ring) generate(ctx context.Context, period int64) error {
	private, err := r.make()
	if err != nil {
		return fault.New(fault.Internal, "cannot make a signing key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return fault.New(fault.Internal, "cannot write a signing key: %w", err)
	}
	ref, err := r.store.Seal(ctx, der)
	if err != nil {
		return fmt.Errorf("cannot seal a signing key: %w", err)
	}
	public := jose.JSONWebKey{Key: private.Public(), Algorithm: string(r.algorithm), Use: "sig"}
	print, err := public.Thumbprint(crypto.SHA256)
	if err != nil {
		return fault.New(fault.Internal, "cannot name a signing key: %w", err)
	}
	public.KeyID = base64.RawURLEncoding.EncodeToString(print)
	end := time.Unix(0, (period+1)*int64(rotate)).UTC()
	spec, err := json.Marshal(signingKey{Public: public, Private: ref, Period: period, Until: end.Add(r.life)})
	if err != nil {
		return fault.New(fault.Internal, "cannot write a signing key: %w", err)
	}
	_, err = r.store.Commit(ctx, ledger.Set{
		Actor: "system", Cause: ledger.BySchedule("key-rotation"),
		Puts: []ledger.Put{{Op: "create", Object: ledger.Object{
			Ref: ledger.Ref{Kind: SigningKey.Name, ID: r.keyID(period)}, Phase: "ready", Spec: spec,
		}}},
	})
	switch {
	case fault.Is(err, fault.Conflict):
		_ = r.store.Shred(ctx, ref) // the other replica's key is in force; ours is nobody's
		return nil
	case err != nil:
		return fmt.Errorf("cannot store a signing key: %w", err)
	}
	r.retire(ctx, period)
	return nil
}

func (r *ring) make() (crypto.Signer, error) {
	if r.algorithm == jose.RS256 {
		return rsa.GenerateKey(rand.Reader, 2048)
	}
	return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
}

// retire destroys private keys that no replica signs with any more, one period
// of grace for clocks that differ. What cannot be destroyed now is tried again
// with the next key.
func (r *ring) retire(ctx context.Context, period int64) {
	r.mu.Lock()
	list := slices.Collect(maps.Values(r.keys))
	r.mu.Unlock()
	for _, key := range list {
		if key.Period < period-1 {
			_ = r.store.Shred(ctx, key.Private)
		}
	}
}

func (r *ring) open(ctx context.Context, key signingKey) (held, error) {
	der, err := r.store.Unseal(ctx, key.Private)
	if err != nil {
		return held{}, fmt.Errorf("cannot open the signing key: %w", err)
	}
	private, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return held{}, fault.New(fault.Internal, "the signing key is damaged: %w", err)
	}
	h := held{key: jose.JSONWebKey{Key: private, KeyID: key.Public.KeyID, Algorithm: string(r.algorithm), Use: "sig"}}
	with := jose.SigningKey{Algorithm: r.algorithm, Key: jose.JSONWebKey{Key: private, KeyID: key.Public.KeyID}}
	h.signer, err = jose.NewSigner(with, (&jose.SignerOptions{}).WithType("JWT"))
	if err == nil {
		h.plain, err = jose.NewSigner(with, nil)
	}
	if err != nil {
		return held{}, fault.New(fault.Internal, "cannot sign with the signing key: %w", err)
	}
	return h, nil
}

// sulk is how long a failed read answers for the next ones: while the store is
// away, callers must not queue up to find that out one after the other.
const sulk = time.Second

// load reads all keys; the caller has the turn.
func (r *ring) load(ctx context.Context) error {
	r.mu.Lock()
	err, since := r.err, r.clock().Sub(r.errAt)
	r.mu.Unlock()
	if err != nil && since >= 0 && since < sulk {
		return err
	}
	keys, err := r.read(ctx)
	if err != nil && ctx.Err() != nil {
		return err // one caller left; that says nothing to the others
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err, r.errAt = err, r.clock(); err == nil {
		r.keys = keys
	}
	return err
}

// read fetches the keys. There is one per period and a token's life spans only
// a few, so a page holds them.
func (r *ring) read(ctx context.Context) (map[string]signingKey, error) {
	objects, err := r.store.List(ctx, ledger.Query{Kind: SigningKey.Name, Order: []ledger.Order{{Column: "created", Desc: true}}, Limit: 1000})
	if err != nil {
		return nil, fmt.Errorf("cannot read the signing keys: %w", err)
	}
	keys := make(map[string]signingKey, len(objects))
	for _, o := range objects {
		if !strings.HasPrefix(o.ID, r.prefix) {
			continue
		}
		var k signingKey
		if err := json.Unmarshal(o.Spec, &k); err != nil {
			return nil, fault.New(fault.Internal, "signing key %s is damaged: %w", o.ID, err)
		}
		keys[o.ID] = k
	}
	return keys, nil
}

// reload reads the keys again if none has this key id.
func (r *ring) reload(ctx context.Context, id string) error {
	if err := r.loading.take(ctx); err != nil {
		return err
	}
	defer r.loading.give()
	if known(r.public(), id) {
		return nil
	}
	if !r.again.AllowN(r.clock(), 1) {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.err
	}
	return r.load(ctx)
}

// public returns the keys whose tokens may still be valid, newest first.
func (r *ring) public() []jose.JSONWebKey {
	now := r.clock()
	r.mu.Lock()
	list := slices.Collect(maps.Values(r.keys))
	r.mu.Unlock()
	slices.SortFunc(list, func(a, b signingKey) int { return cmp.Compare(b.Period, a.Period) })
	out := make([]jose.JSONWebKey, 0, len(list))
	for _, k := range list {
		if now.Before(k.Until) {
			out = append(out, k.Public)
		}
	}
	return out
}

// VerifySignature implements oidc.KeySet with the ledger's keys.
func (r *ring) VerifySignature(ctx context.Context, token string) ([]byte, error) {
	signed, err := jose.ParseSigned(token, []jose.SignatureAlgorithm{r.algorithm})
	if err != nil || len(signed.Signatures) != 1 {
		return nil, fault.New(fault.Denied, "malformed token")
	}
	id := signed.Signatures[0].Header.KeyID
	if id == "" {
		return nil, fault.New(fault.Denied, "the token names no key")
	}
	list := r.public()
	if !known(list, id) {
		// A key that another replica made; or an invention, which the limiter
		// keeps from the store.
		if err := r.reload(ctx, id); err != nil {
			return nil, err
		}
		list = r.public()
	}
	if payload, ok := verify(signed, list, id); ok {
		return payload, nil
	}
	return nil, fault.New(fault.Denied, "no key of this server made this signature")
}
