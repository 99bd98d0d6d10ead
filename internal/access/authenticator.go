package access

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/droverhq/drover/internal/fault"
)

const (
	// maxToken bounds a token: real ones have one or two kilobytes, and a
	// request's header has to hold it.
	maxToken = 16 << 10
	// maxCached bounds the verified tokens that are remembered.
	maxCached = 20_000
	// maxTrusted is how long a verified token is believed without looking at
	// its issuer's keys again.
	maxTrusted = 5 * time.Minute
)

// Algorithms that a token may be signed with. None and the HMAC family are not
// among them: a public key must never be taken for a shared secret.
var algorithms = []string{oidc.RS256, oidc.ES256}

// OIDC is an issuer of tokens outside of this server.
type OIDC struct {
	Issuer   string // the iss claim, exactly
	JWKSURL  string // default: what the issuer's discovery document says
	JWKSFile string // keys from a file instead
	Audience string // required aud claim; default: any
	// Admins and Agents say whether the admin role, and cluster claims, of this
	// issuer's tokens count. Default: they open nothing.
	Admins bool
	Agents bool
}

// AuthenticatorConfig lists whose tokens are accepted.
type AuthenticatorConfig struct {
	OIDC    []OIDC
	Builtin *Issuer          // nil: there is none
	Realm   *Realm           // of the server's own identity provider; nil: there is none
	Client  *http.Client     // for discovery and keys; default: one with a timeout of 10s
	Clock   func() time.Time // default time.Now
}

// Authenticator verifies bearer tokens. It starts no goroutine.
type Authenticator struct {
	issuers map[string]*verifier
	clock   func() time.Time

	mu    sync.Mutex
	cache map[[sha256.Size]byte]verified
}

type verifier struct {
	*oidc.IDTokenVerifier
	trust trust
	own   bool // the keys are in the ledger
}

type verified struct {
	principal Principal
	until     time.Time
}

// NewAuthenticator checks the configuration; it does not wait for any issuer.
func NewAuthenticator(c AuthenticatorConfig) (*Authenticator, error) {
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Client == nil {
		c.Client = &http.Client{Timeout: 10 * time.Second}
	}
	a := &Authenticator{issuers: map[string]*verifier{}, clock: c.Clock, cache: map[[sha256.Size]byte]verified{}}
	if c.Builtin != nil {
		a.add(OIDC{Issuer: issuerName, Admins: true, Agents: true}, c.Builtin)
		a.issuers[issuerName].own = true
	}
	if c.Realm != nil {
		a.add(OIDC{Issuer: c.Realm.Name(), Admins: true, Agents: true}, c.Realm)
		a.issuers[c.Realm.Name()].own = true
	}
	for _, o := range c.OIDC {
		if o.Issuer == "" {
			return nil, fault.New(fault.Invalid, "an OIDC issuer needs its name: the iss claim of its tokens")
		}
		if a.issuers[o.Issuer] != nil {
			return nil, fault.New(fault.Invalid, "OIDC issuer %q is configured twice", o.Issuer)
		}
		keys, err := newKeys(o, c.Client, c.Clock)
		if err != nil {
			return nil, err
		}
		a.add(o, keys)
	}
	return a, nil
}

func (a *Authenticator) add(o OIDC, keys oidc.KeySet) {
	a.issuers[o.Issuer] = &verifier{
		IDTokenVerifier: oidc.NewVerifier(o.Issuer, noting{keys}, &oidc.Config{
			ClientID: o.Audience, SkipClientIDCheck: o.Audience == "",
			SupportedSigningAlgs: algorithms, Now: a.clock,
			SkipExpiryCheck: true, // timely looks, which can say which clock may be wrong
		}),
		trust: trust{admins: o.Admins, agents: o.Agents},
	}
}

// ErrIssuerAway is in the error for a token that nobody can verify at the moment: it may
// be good another time.
var ErrIssuerAway = errors.New("its issuer does not tell its keys at the moment")

// Authenticate returns the principal of a token. Faults: Denied (reason
// "token") for a bad one, and, with ErrIssuerAway in it, for one that cannot be
// verified because its issuer is away; Unavailable where it is the ledger that is.
// The texts say what is wrong with a token but hold nothing of it.
func (a *Authenticator) Authenticate(ctx context.Context, token string) (Principal, error) {
	if token == "" || len(token) > maxToken {
		return Principal{}, refused("the token is empty or longer than %d bytes", maxToken)
	}
	now := a.clock()
	sum := sha256.Sum256([]byte(token))
	a.mu.Lock()
	hit, ok := a.cache[sum]
	a.mu.Unlock()
	if ok && now.Before(hit.until) {
		return hit.principal, nil
	}
	v := a.issuers[issuerOf(token)]
	if v == nil {
		return Principal{}, refused("the token's issuer is not known here")
	}
	var seen witness
	t, err := v.Verify(context.WithValue(ctx, witnessKey{}, &seen), token)
	if err != nil {
		switch {
		case v.own && fault.Is(seen.err, fault.Unavailable), ctx.Err() != nil:
			return Principal{}, fault.New(fault.Unavailable, "the keys of the token's issuer cannot be had: %w", seen.err)
		case fault.Is(seen.err, fault.Unavailable):
			return Principal{}, refused("the token cannot be verified: %w", ErrIssuerAway)
		}
		return Principal{}, refused("the token is not signed by its issuer, or is for somebody else")
	}
	if err := timely(t, now); err != nil {
		return Principal{}, err
	}
	var c claims
	if err := t.Claims(&c); err != nil {
		return Principal{}, refused("the token's claims have wrong types")
	}
	p, err := c.principal(v.trust)
	if err != nil {
		return Principal{}, refused("%w", err)
	}
	a.remember(sum, verified{p, earlier(t.Expiry, now.Add(maxTrusted))}, now)
	return p, nil
}

// maxSkew is how far the clock of whoever signed a token may be before this one's:
// another replica, this server before its clock was set, or an issuer outside. A
// token that is used too early harms nobody; one that has ended has ended.
const maxSkew = 15 * time.Minute

// timely says why a token that is signed well is not good at this time.
func timely(t *oidc.IDToken, now time.Time) error {
	var c struct {
		Since float64 `json:"nbf"`
	}
	if err := t.Claims(&c); err != nil {
		return refused("the token's claims have wrong types")
	}
	const clock = "2006-01-02 15:04:05 UTC"
	since := time.Unix(int64(min(max(c.Since, 0), 1<<40)), 0)
	switch {
	case t.Expiry.Before(now):
		return refused("the token has expired: it was good until %s, and it is %s by this server's clock", t.Expiry.UTC().Format(clock), now.UTC().Format(clock))
	case since.After(now.Add(maxSkew)):
		return refused("the token is not valid yet: it is good from %s on, and it is %s by this server's clock", since.UTC().Format(clock), now.UTC().Format(clock))
	}
	return nil
}

func (a *Authenticator) remember(sum [sha256.Size]byte, v verified, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.cache) >= maxCached {
		for k, old := range a.cache {
			if !now.Before(old.until) {
				delete(a.cache, k)
			}
		}
	}
	for k := range a.cache {
		if len(a.cache) < maxCached {
			break
		}
		delete(a.cache, k)
	}
	a.cache[sum] = v
}

// issuerOf reads the iss claim of a token that nobody has verified yet, only
// to know whose keys to verify it with.
func issuerOf(token string) string {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return ""
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return ""
	}
	var c struct {
		Issuer string `json:"iss"`
	}
	if json.Unmarshal(payload, &c) != nil {
		return ""
	}
	return c.Issuer
}

func refused(format string, args ...any) *fault.Error {
	return fault.New(fault.Denied, format, args...).Because("token")
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// witness keeps the error of a key set, whose kind the verifier drops.
type witness struct{ err error }

type witnessKey struct{}

type noting struct{ keys oidc.KeySet }

func (n noting) VerifySignature(ctx context.Context, token string) ([]byte, error) {
	payload, err := n.keys.VerifySignature(ctx, token)
	if w, ok := ctx.Value(witnessKey{}).(*witness); ok {
		w.err = err
	}
	return payload, err
}
