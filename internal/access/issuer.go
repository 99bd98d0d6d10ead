package access

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

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
	// NotOlder is the least age of the token: a clock that is behind the one that
	// wrote down when a cluster began makes no token of before. Default: now.
	NotOlder time.Time
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

// Issuer signs tokens with ES256 keys that live in the ledger.
type Issuer struct{ *ring }

// NewIssuer makes an issuer; keys are made when they are first needed.
func NewIssuer(c IssuerConfig) (*Issuer, error) {
	if c.Store == nil {
		return nil, fault.New(fault.Internal, "the issuer needs a store for its keys")
	}
	return &Issuer{newRing(c.Store, c.Clock, jose.ES256, maxTTL)}, nil
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
	key, err := i.now(ctx)
	if err != nil {
		return "", time.Time{}, err
	}
	now := i.clock().Truncate(time.Second)
	if now.Before(c.NotOlder) {
		now = c.NotOlder.Add(time.Second - 1).Truncate(time.Second)
	}
	expires = now.Add(ttl).Truncate(time.Second)
	token, err = jwt.Signed(key.signer).Claims(tokenClaims(c, now, expires)).Serialize()
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
	if _, err := i.now(ctx); err != nil {
		return nil, err
	}
	set := jose.JSONWebKeySet{Keys: i.public()}
	data, err := json.Marshal(set)
	if err != nil {
		return nil, fault.New(fault.Internal, "cannot write the key set: %w", err)
	}
	return data, nil
}
