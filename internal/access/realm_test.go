package access_test

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
)

const realmURL = "https://drover.example/auth/realms/drover"

func TestRealmTokens(t *testing.T) {
	s, c := newStore(), newClock()
	i := must(access.NewIssuer(access.IssuerConfig{Store: s, Clock: c.now}))(t)
	r := must(access.NewRealm(access.RealmConfig{Store: s, URL: realmURL + "/", Clock: c.now}))(t)
	elsewhere := must(access.NewRealm(access.RealmConfig{Store: newStore(), URL: realmURL, Clock: c.now}))(t)
	p := newIDP(t, public("ec", ecKey.Public()))
	a := must(access.NewAuthenticator(access.AuthenticatorConfig{
		Builtin: i, Realm: r, OIDC: []access.OIDC{{Issuer: p.URL}}, Clock: c.now,
	}))(t)
	key := must(r.SigningKey(t.Context()))(t)
	stranger := must(elsewhere.SigningKey(t.Context()))(t)
	issue(t, i, access.Claims{User: "alice"}, time.Hour) // so that the issuer has a key, too
	drover := must(i.JWKS(t.Context()))(t)
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(drover, &set); err != nil {
		t.Fatal(err)
	}
	good := claims(realmURL, map[string]any{"realm_access": map[string]any{"roles": []string{"drover-admin"}}})
	token := sign(t, jose.RS256, key.KeyID, key.Key, good)
	got, err := a.Authenticate(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	want := access.Principal{User: "alice", Org: "acme", Roles: []string{"drover-admin"}, Admin: true, Issuer: realmURL}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	public := must(r.PublicKeys(t.Context()))(t)
	if len(public) != 1 || !public[0].IsPublic() || public[0].Algorithm != "RS256" {
		t.Fatalf("the realm tells %d keys, %+v", len(public), public)
	}
	der := must(x509.MarshalPKIXPublicKey(public[0].Key))(t)
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","kid":"` + key.KeyID + `"}`))
	with := func(more map[string]any) map[string]any { return claims(realmURL, more) }
	for name, tc := range map[string]struct{ reason, token string }{
		"expired":           {"its time is over", sign(t, jose.RS256, key.KeyID, key.Key, with(map[string]any{"exp": start.Add(-time.Second).Unix()}))},
		"not yet":           {"its time has not come", sign(t, jose.RS256, key.KeyID, key.Key, with(map[string]any{"nbf": start.Add(time.Hour).Unix()}))},
		"alg none":          {"nobody signed it", none + "." + strings.Split(token, ".")[1] + "."},
		"hs256 by key":      {"a public key is no shared secret", sign(t, jose.HS256, key.KeyID, der, with(nil))},
		"unknown key":       {"no key of that name", sign(t, jose.RS256, "invented", key.Key, with(nil))},
		"no key id":         {"a key must be named", sign(t, jose.RS256, "", key.Key, with(nil))},
		"another's key":     {"signed by another server's realm", sign(t, jose.RS256, stranger.KeyID, stranger.Key, with(nil))},
		"under our key id":  {"its key under our key's name", sign(t, jose.RS256, key.KeyID, stranger.Key, with(nil))},
		"external key":      {"the key of an external issuer is not the realm's", sign(t, jose.ES256, "ec", ecKey, with(nil))},
		"external issuer":   {"nor is the realm's key the external issuer's", sign(t, jose.RS256, key.KeyID, key.Key, claims(p.URL, nil))},
		"the other builtin": {"nor that of the other issuer here", sign(t, jose.RS256, key.KeyID, key.Key, claims("drover", nil))},
		"id of the other":   {"nor under the name of its key", sign(t, jose.RS256, set.Keys[0].KeyID, key.Key, claims("drover", nil))},
		"id token":          {"it was made for an application", sign(t, jose.RS256, key.KeyID, key.Key, with(map[string]any{"typ": "ID"}))},
	} {
		t.Run(name, func(t *testing.T) {
			if who, err := a.Authenticate(t.Context(), tc.token); !fault.Is(err, fault.Denied) || fault.Reason(err) != "token" {
				t.Errorf("%s: got %+v, %v", tc.reason, who, err)
			}
		})
	}
}

func TestRealmAway(t *testing.T) {
	s, c := newStore(), newClock()
	signer := must(access.NewRealm(access.RealmConfig{Store: s, URL: realmURL, Clock: c.now}))(t)
	key := must(signer.SigningKey(t.Context()))(t)
	r := must(access.NewRealm(access.RealmConfig{Store: s, URL: realmURL, Clock: c.now}))(t)
	a := must(access.NewAuthenticator(access.AuthenticatorConfig{Realm: r, Clock: c.now}))(t)
	s.away = fault.New(fault.Unavailable, "the store is away")
	token := sign(t, jose.RS256, key.KeyID, key.Key, claims(realmURL, nil))
	if _, err := a.Authenticate(t.Context(), token); !fault.Is(err, fault.Unavailable) {
		t.Errorf("our own store's absence says nothing of a token: %v", err)
	}
}

func TestRealmKeysEnd(t *testing.T) {
	s, c := newStore(), newClock()
	r := must(access.NewRealm(access.RealmConfig{Store: s, URL: realmURL, Clock: c.now}))(t)
	old := must(r.SigningKey(t.Context()))(t)
	c.forward(30 * day)
	if fresh := must(r.SigningKey(t.Context()))(t); fresh.KeyID == old.KeyID {
		t.Error("a key signs for ever")
	}
	c.forward(day)
	for _, k := range must(r.PublicKeys(t.Context()))(t) {
		if k.KeyID == old.KeyID {
			t.Error("a key is told a day after its last token")
		}
	}
}
