package access

import (
	"context"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/droverhq/drover/internal/fault"
)

// maxRealmTTL bounds the tokens that the server's own identity provider makes:
// its keys are shown for that much longer than they sign.
const maxRealmTTL = 24 * time.Hour

// RealmConfig describes the realm of the server's own identity provider.
type RealmConfig struct {
	Store Store
	URL   string           // the iss claim: <base>/auth/realms/<realm>
	Clock func() time.Time // default time.Now
}

// Realm is the server's own identity provider as far as trust goes: its name and
// its RS256 keys, which are not those of the Issuer. The provider signs with
// them, and the Authenticator verifies without asking it over HTTP.
type Realm struct {
	*ring
	url string
}

// NewRealm makes a realm; keys are made when they are first needed.
func NewRealm(c RealmConfig) (*Realm, error) {
	if c.Store == nil || c.URL == "" {
		return nil, fault.New(fault.Internal, "a realm needs a store for its keys and its URL")
	}
	return &Realm{newRing(c.Store, c.Clock, jose.RS256, maxRealmTTL), strings.TrimSuffix(c.URL, "/")}, nil
}

// Name is the iss claim of the realm's tokens.
func (r *Realm) Name() string { return r.url }

// SigningKey returns the private key that is in force.
func (r *Realm) SigningKey(ctx context.Context) (jose.JSONWebKey, error) {
	h, err := r.now(ctx)
	return h.key, err
}

// PublicKeys returns the keys whose tokens may still be valid, newest first.
func (r *Realm) PublicKeys(ctx context.Context) ([]jose.JSONWebKey, error) {
	if _, err := r.now(ctx); err != nil {
		return nil, err
	}
	return r.public(), nil
}
