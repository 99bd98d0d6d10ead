package access

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"golang.org/x/time/rate"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// Claims is what a token of the built-in issuer says of its holder.
type Claims struct {
	User     string
	Org      string
	Account  string
	OrgAdmin bool
	Admin    bool
	Cluster  string // a token for this cluster's agent instead of a user
}

// Store is the part of the ledger that holds the issuer's keys.
type Store interface {
	ledger.Committer
	ledger.Reader
	ledger.Keeper
}

const (
	issuerName = "drover"             // the iss claim
	rotate     = 30 * 24 * time.Hour  // life of a signing key
	maxTTL     = 366 * 24 * time.Hour // of a token
)

// IssuerConfig configures the built-in issuer.
type IssuerConfig struct {
	Store Store
	Clock func() time.Time // default time.Now
}

// Issuer signs tokens with ES256 keys that live in the ledger, so that every
// replica signs and verifies with the same ones. It starts no goroutine: the
// first token of a new period makes that period's key.
type Issuer struct {
	store Store
	clock func() time.Time
	again *rate.Limiter

	loading turn
	mu      sync.Mutex            // of what follows; never held during a read of the store
	keys    map[string]signingKey // by object id
	err     error                 // of the last read
	errAt   time.Time
	signer  jose.Signer
	signing string // object id of the signer's key
}

// NewIssuer makes an issuer; keys are made when they are first needed.
func NewIssuer(c IssuerConfig) (*Issuer, error) {
	if c.Store == nil {
		return nil, fault.New(fault.Internal, "the issuer needs a store for its keys")
	}
	i := &Issuer{
		store: c.Store, clock: c.Clock, keys: map[string]signingKey{},
		again: rate.NewLimiter(10, 10), loading: newTurn(),
	}
	if i.clock == nil {
		i.clock = time.Now
	}
	return i, nil
}

// Name is the iss claim of the issuer's tokens.
func (i *Issuer) Name() string { return issuerName }

// Issue signs a token. Faults: Invalid for claims that name nobody or a
// lifetime that is not between one second and the issuer's bound.
func (i *Issuer) Issue(ctx context.Context, c Claims, ttl time.Duration) (token string, expires time.Time, err error) {
	switch {
	case (c.User == "") == (c.Cluster == ""):
		return "", time.Time{}, fault.New(fault.Invalid, "a token is for a user or for a cluster's agent")
	case c.Cluster != "" && (c.Admin || c.Org != "" || c.OrgAdmin):
		return "", time.Time{}, fault.New(fault.Invalid, "an agent's token has no organisation and no admin rights")
	case ttl < time.Second || ttl > maxTTL:
		return "", time.Time{}, fault.New(fault.Invalid, "a token lives for between 1s and %s", maxTTL)
	}
	for _, s := range []string{c.User, c.Org, c.Account, c.Cluster} {
		if !presentable(s) {
			return "", time.Time{}, fault.New(fault.Invalid, "user, organisation and cluster are printable text of at most %d bytes", maxName)
		}
	}
	signer, err := i.signerNow(ctx)
	if err != nil {
		return "", time.Time{}, err
	}
	now := i.clock().Truncate(time.Second)
	expires = now.Add(ttl).Truncate(time.Second)
	token, err = jwt.Signed(signer).Claims(tokenClaims(c, now, expires)).Serialize()
	if err != nil {
		return "", time.Time{}, fault.New(fault.Internal, "cannot sign a token: %w", err)
	}
	return token, expires, nil
}

func tokenClaims(c Claims, now, expires time.Time) map[string]any {
	var roles []string
	m := map[string]any{
		"iss": issuerName, "iat": now.Unix(), "nbf": now.Unix(), "exp": expires.Unix(), "jti": rand.Text(),
	}
	if c.Cluster != "" {
		m["sub"] = "agent:" + c.Cluster
		m["fleetshard-operator-cluster-id"] = c.Cluster
		roles = append(roles, RoleAgent)
	} else {
		m["sub"] = c.User
		m["username"] = c.User
		m["is_org_admin"] = c.OrgAdmin
	}
	if c.Org != "" {
		m["org_id"] = c.Org
	}
	if c.Account != "" {
		m["account_id"] = c.Account
	}
	if c.Admin {
		roles = append(roles, RoleAdmin)
	}
	if len(roles) > 0 {
		m["realm_access"] = map[string]any{"roles": roles}
	}
	return m
}

// JWKS returns the public keys whose tokens may still be valid, as a JSON Web
// Key Set.
func (i *Issuer) JWKS(ctx context.Context) (json.RawMessage, error) {
	if _, err := i.signerNow(ctx); err != nil {
		return nil, err
	}
	set := jose.JSONWebKeySet{Keys: i.public()}
	data, err := json.Marshal(set)
	if err != nil {
		return nil, fault.New(fault.Internal, "cannot write the key set: %w", err)
	}
	return data, nil
}

// VerifySignature implements oidc.KeySet with the ledger's keys.
func (i *Issuer) VerifySignature(ctx context.Context, token string) ([]byte, error) {
	signed, err := jose.ParseSigned(token, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil || len(signed.Signatures) != 1 {
		return nil, fault.New(fault.Denied, "malformed token")
	}
	id := signed.Signatures[0].Header.KeyID
	if id == "" {
		return nil, fault.New(fault.Denied, "the token names no key")
	}
	list := i.public()
	if !known(list, id) {
		// A key that another replica made; or an invention, which the limiter
		// keeps from the store.
		if err := i.reload(ctx, id); err != nil {
			return nil, err
		}
		list = i.public()
	}
	if payload, ok := verify(signed, list, id); ok {
		return payload, nil
	}
	return nil, fault.New(fault.Denied, "no key of this server made this signature")
}
