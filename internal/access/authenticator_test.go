package access_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
)

var start = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// clock is a time that tests move.
type clock struct{ at atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.at.Store(start.UnixNano())
	return c
}
func (c *clock) now() time.Time          { return time.Unix(0, c.at.Load()).UTC() }
func (c *clock) forward(d time.Duration) { c.at.Add(int64(d)) }

// idp is an OIDC issuer on a loopback port.
type idp struct {
	*httptest.Server
	keys    atomic.Pointer[jose.JSONWebKeySet]
	fetches atomic.Int64
	broken  atomic.Bool
}

func newIDP(t *testing.T, keys ...jose.JSONWebKey) *idp {
	p := &idp{}
	p.keys.Store(&jose.JSONWebKeySet{Keys: keys})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{
			"issuer": p.URL, "jwks_uri": p.URL + "/keys", "authorization_endpoint": p.URL, "token_endpoint": p.URL,
		})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		p.fetches.Add(1)
		if p.broken.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		_ = json.NewEncoder(w).Encode(p.keys.Load())
	})
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Close)
	return p
}

var (
	rsaKey, _   = rsa.GenerateKey(rand.Reader, 2048)
	ecKey, _    = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	otherKey, _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
)

func public(id string, key crypto.PublicKey) jose.JSONWebKey {
	return jose.JSONWebKey{Key: key, KeyID: id, Use: "sig"}
}

func sign(t *testing.T, alg jose.SignatureAlgorithm, kid string, key any, claims map[string]any) string {
	t.Helper()
	opts := (&jose.SignerOptions{}).WithType("JWT")
	if kid != "" {
		opts = opts.WithHeader("kid", kid)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, opts)
	if err != nil {
		t.Fatal(err)
	}
	return must(jwt.Signed(signer).Claims(claims).Serialize())(t)
}

func claims(iss string, more map[string]any) map[string]any {
	m := map[string]any{"iss": iss, "exp": start.Add(time.Hour).Unix(), "iat": start.Unix(), "username": "alice", "org_id": "acme"}
	for k, v := range more {
		if v == nil {
			delete(m, k)
		} else {
			m[k] = v
		}
	}
	return m
}

func with(m map[string]any, k string, v any) map[string]any {
	m = maps.Clone(m)
	m[k] = v
	return m
}

func TestAuthenticatePrincipal(t *testing.T) {
	p := newIDP(t, public("rsa", rsaKey.Public()), public("ec", ecKey.Public()))
	admin := newIDP(t, public("ec", ecKey.Public()))
	a := must(access.NewAuthenticator(access.AuthenticatorConfig{
		Clock: newClock().now,
		OIDC:  []access.OIDC{{Issuer: p.URL}, {Issuer: admin.URL, JWKSURL: admin.URL + "/keys", Admins: true, Agents: true}},
	}))(t)
	agent := map[string]any{"fleetshard-operator-cluster-id": "c1", "realm_access": map[string]any{"roles": []string{"fleetshard_operator"}}}
	boss := map[string]any{"realm_access": map[string]any{"roles": []string{"drover-admin"}}}
	both := maps.Clone(agent)
	both["realm_access"] = map[string]any{"roles": []string{"fleetshard_operator", "drover-admin"}}
	for name, tc := range map[string]struct {
		reason string
		iss    string
		rsa    bool
		claims map[string]any
		want   access.Principal
	}{
		"es256":           {"elliptic keys are accepted", p.URL, false, nil, access.Principal{User: "alice", Org: "acme"}},
		"rs256":           {"RSA keys are accepted", p.URL, true, nil, access.Principal{User: "alice", Org: "acme"}},
		"alternates":      {"alternate claim names count", p.URL, false, map[string]any{"username": nil, "org_id": nil, "preferred_username": "bob", "rh-org-id": "initech"}, access.Principal{User: "bob", Org: "initech"}},
		"first name wins": {"the main claim goes before its alternate", p.URL, false, map[string]any{"preferred_username": "bob"}, access.Principal{User: "alice", Org: "acme"}},
		"numbers":         {"some issuers write ids as numbers and flags as text", p.URL, false, map[string]any{"org_id": 13640203, "account_id": 7, "is_org_admin": "true"}, access.Principal{User: "alice", Org: "13640203", Account: "7", OrgAdmin: true}},
		"service account": {"a client without a user is named by its id", p.URL, false, map[string]any{"username": nil, "clientId": "srvc-1"}, access.Principal{User: "srvc-1", Org: "acme", Client: "srvc-1"}},
		"program":         {"an account of a program is told by its reserved name, too", p.URL, false, map[string]any{"username": nil, "preferred_username": "service-account-srvc-1", "azp": "srvc-1"}, access.Principal{User: "service-account-srvc-1", Org: "acme", Client: "srvc-1"}},
		"person":          {"a person who uses a program is not that program", p.URL, false, map[string]any{"username": nil, "preferred_username": "bob", "azp": "srvc-1"}, access.Principal{User: "bob", Org: "acme"}},
		"agent's client":  {"an agent keeps the id of its account", admin.URL, false, with(agent, "clientId", "srvc-1"), access.Principal{Cluster: "c1", Roles: []string{"fleetshard_operator"}, Client: "srvc-1"}},
		"admin":           {"an admin issuer's role counts", admin.URL, false, boss, access.Principal{User: "alice", Org: "acme", Roles: []string{"drover-admin"}, Admin: true}},
		"no admin":        {"the same role of another issuer opens nothing", p.URL, false, boss, access.Principal{User: "alice", Org: "acme"}},
		"agent":           {"role and claim make an agent, and nobody else", admin.URL, false, agent, access.Principal{Cluster: "c1", Roles: []string{"fleetshard_operator"}}},
		"agent admin":     {"an agent is never an admin", admin.URL, false, both, access.Principal{Cluster: "c1", Roles: []string{"fleetshard_operator", "drover-admin"}}},
		"no agent":        {"only issuers that may make agents do", p.URL, false, agent, access.Principal{User: "alice", Org: "acme"}},
		"claim alone":     {"the cluster claim without the role is nothing", admin.URL, false, map[string]any{"fleetshard-operator-cluster-id": "c1"}, access.Principal{User: "alice", Org: "acme"}},
	} {
		t.Run(name, func(t *testing.T) {
			var token string
			if tc.rsa {
				token = sign(t, jose.RS256, "rsa", rsaKey, claims(tc.iss, tc.claims))
			} else {
				token = sign(t, jose.ES256, "ec", ecKey, claims(tc.iss, tc.claims))
			}
			got, err := a.Authenticate(t.Context(), token)
			if err != nil {
				t.Fatalf("%s: %v", tc.reason, err)
			}
			tc.want.Issuer = tc.iss
			if tc.want.Cluster != "" {
				tc.want.Issued = start
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("%s: %s", tc.reason, d)
			}
		})
	}
}

func TestAuthenticateRefuses(t *testing.T) {
	p := newIDP(t, public("rsa", rsaKey.Public()), public("ec", ecKey.Public()),
		jose.JSONWebKey{Key: []byte("0123456789abcdef0123456789abcdef"), KeyID: "hmac"})
	a := must(access.NewAuthenticator(access.AuthenticatorConfig{
		Clock: newClock().now, OIDC: []access.OIDC{{Issuer: p.URL, Audience: "drover"}},
	}))(t)
	ok := func(more map[string]any) map[string]any {
		c := claims(p.URL, more)
		if _, set := c["aud"]; !set {
			c["aud"] = "drover"
		}
		return c
	}
	der := must(x509.MarshalPKIXPublicKey(rsaKey.Public()))(t)
	good := sign(t, jose.ES256, "ec", ecKey, ok(nil))
	parts := strings.Split(good, ".")
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","typ":"JWT"}`))
	forged := base64.RawURLEncoding.EncodeToString(must(json.Marshal(ok(map[string]any{"username": "mallory"})))(t))
	if _, err := a.Authenticate(t.Context(), good); err != nil {
		t.Fatalf("the token that the others are made of must be good: %v", err)
	}
	for name, tc := range map[string]struct{ reason, token string }{
		"empty":           {"no token is nobody", ""},
		"garbage":         {"text is no token", "hello"},
		"dots":            {"two dots make no token", "a.b.c"},
		"huge":            {"a token beyond the bound is not even read", good + strings.Repeat("A", 17<<10)},
		"alg none":        {"an unsigned token is nobody's word", none + "." + parts[1] + "."},
		"alg none signed": {"nor with a signature that nobody checks", none + "." + parts[1] + "." + parts[2]},
		"hs256":           {"a shared secret is no proof", sign(t, jose.HS256, "hmac", []byte("0123456789abcdef0123456789abcdef"), ok(nil))},
		"hs256 by key":    {"a public key must not serve as a shared secret", sign(t, jose.HS256, "rsa", der, ok(nil))},
		"rs512":           {"only the two algorithms are taken", sign(t, jose.RS512, "rsa", rsaKey, ok(nil))},
		"wrong issuer":    {"an unknown issuer's key proves nothing", sign(t, jose.ES256, "ec", ecKey, ok(map[string]any{"iss": "https://evil.example"}))},
		"no issuer":       {"nor does a token that names none", sign(t, jose.ES256, "ec", ecKey, ok(map[string]any{"iss": nil}))},
		"wrong key":       {"a known key id with another key's signature", sign(t, jose.ES256, "ec", otherKey, ok(nil))},
		"unknown key":     {"a key that the issuer does not have", sign(t, jose.ES256, "new", otherKey, ok(nil))},
		"no kid":          {"no key named: none of the issuer's made it", sign(t, jose.ES256, "", otherKey, ok(nil))},
		"key confusion":   {"an RSA key cannot verify an elliptic signature", sign(t, jose.ES256, "rsa", ecKey, ok(nil))},
		"forged claims":   {"the signature covers the claims", parts[0] + "." + forged + "." + parts[2]},
		"expired":         {"its time is over", sign(t, jose.ES256, "ec", ecKey, ok(map[string]any{"exp": start.Add(-time.Second).Unix()}))},
		"never expires":   {"a token without an end is refused", sign(t, jose.ES256, "ec", ecKey, ok(map[string]any{"exp": nil}))},
		"not yet":         {"its time has not come", sign(t, jose.ES256, "ec", ecKey, ok(map[string]any{"nbf": start.Add(time.Hour).Unix()}))},
		"id token":        {"made for an application, not for us", sign(t, jose.ES256, "ec", ecKey, ok(map[string]any{"typ": "ID"}))},
		"refresh token":   {"good at its issuer alone", sign(t, jose.ES256, "ec", ecKey, ok(map[string]any{"typ": "Refresh"}))},
		"no audience":     {"where one is configured, it must be there", sign(t, jose.ES256, "ec", ecKey, claims(p.URL, nil))},
		"wrong audience":  {"it was made for somebody else", sign(t, jose.ES256, "ec", ecKey, ok(map[string]any{"aud": "other"}))},
		"nobody":          {"it names no user", sign(t, jose.ES256, "ec", ecKey, ok(map[string]any{"username": nil}))},
		"control":         {"a name with control characters could forge log lines", sign(t, jose.ES256, "ec", ecKey, ok(map[string]any{"username": "al\nice"}))},
		"long name":       {"a name must fit its column", sign(t, jose.ES256, "ec", ecKey, ok(map[string]any{"username": strings.Repeat("a", 300)}))},
		"object name":     {"a name is text", sign(t, jose.ES256, "ec", ecKey, ok(map[string]any{"username": map[string]any{"a": 1}}))},
	} {
		t.Run(name, func(t *testing.T) {
			who, err := a.Authenticate(t.Context(), tc.token)
			if !fault.Is(err, fault.Denied) || fault.Reason(err) != "token" {
				t.Fatalf("%s: got %+v, %v", tc.reason, who, err)
			}
			if len(tc.token) > 20 && strings.Contains(err.Error(), tc.token[:20]) {
				t.Errorf("the error holds the token: %v", err)
			}
		})
	}
}

func TestAuthenticateRemembersUntilExpiry(t *testing.T) {
	c := newClock()
	p := newIDP(t, public("ec", ecKey.Public()))
	a := must(access.NewAuthenticator(access.AuthenticatorConfig{Clock: c.now, OIDC: []access.OIDC{{Issuer: p.URL}}}))(t)
	token := sign(t, jose.ES256, "ec", ecKey, claims(p.URL, map[string]any{"exp": start.Add(2 * time.Minute).Unix()}))
	for range 3 {
		if _, err := a.Authenticate(t.Context(), token); err != nil {
			t.Fatal(err)
		}
	}
	p.Close()
	c.forward(time.Minute)
	if _, err := a.Authenticate(t.Context(), token); err != nil {
		t.Errorf("a verified token must not need its issuer again: %v", err)
	}
	c.forward(time.Minute + time.Second)
	if _, err := a.Authenticate(t.Context(), token); !fault.Is(err, fault.Denied) {
		t.Errorf("a remembered token must end with its time, got %v", err)
	}
}

func TestIssuerKeysRotateAndFail(t *testing.T) {
	c := newClock()
	p := newIDP(t, public("old", ecKey.Public()))
	a := must(access.NewAuthenticator(access.AuthenticatorConfig{Clock: c.now, OIDC: []access.OIDC{{Issuer: p.URL}}}))(t)
	p.broken.Store(true)
	old := sign(t, jose.ES256, "old", ecKey, claims(p.URL, nil))
	if _, err := a.Authenticate(t.Context(), old); fault.Reason(err) != "token" || !errors.Is(err, access.ErrIssuerAway) || !strings.Contains(err.Error(), "issuer does not tell its keys") {
		t.Fatalf("a token that nobody can verify is refused, with the culprit's name: %v", err)
	}
	p.broken.Store(false)
	if _, err := a.Authenticate(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	p.keys.Store(&jose.JSONWebKeySet{Keys: []jose.JSONWebKey{public("new", otherKey.Public())}})
	fresh := sign(t, jose.ES256, "new", otherKey, claims(p.URL, nil))
	if _, err := a.Authenticate(t.Context(), fresh); err != nil {
		t.Fatalf("a new key must be found: %v", err)
	}
	before := p.fetches.Load()
	for i := range 200 {
		token := sign(t, jose.ES256, fmt.Sprint("invented", i), otherKey, claims(p.URL, nil))
		if _, err := a.Authenticate(t.Context(), token); err == nil {
			t.Fatal("an invented key id was accepted")
		}
	}
	if n := p.fetches.Load() - before; n > 3 {
		t.Errorf("invented key ids became %d requests to the issuer", n)
	}
}

func TestKeyFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "jwks.json")
	data := must(json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{public("ec", ecKey.Public())}}))(t)
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	a := must(access.NewAuthenticator(access.AuthenticatorConfig{
		Clock: newClock().now, OIDC: []access.OIDC{{Issuer: "https://sso.example", JWKSFile: file}},
	}))(t)
	if _, err := a.Authenticate(t.Context(), sign(t, jose.ES256, "ec", ecKey, claims("https://sso.example", nil))); err != nil {
		t.Error(err)
	}
}

func TestNewAuthenticatorChecks(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "jwks.json")
	if err := os.WriteFile(empty, []byte(`{"keys":[]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		reason string
		oidc   []access.OIDC
	}{
		"no name": {"without a name no token can be matched", []access.OIDC{{JWKSURL: "http://127.0.0.1/keys"}}},
		"twice":   {"two sets of keys for one name are a mistake", []access.OIDC{{Issuer: "a"}, {Issuer: "a"}}},
		"no file": {"a missing file must not wait for the first request", []access.OIDC{{Issuer: "a", JWKSFile: empty + ".not"}}},
		"no keys": {"a file without keys would refuse everybody", []access.OIDC{{Issuer: "a", JWKSFile: empty}}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := access.NewAuthenticator(access.AuthenticatorConfig{OIDC: tc.oidc}); !fault.Is(err, fault.Invalid) {
				t.Errorf("%s: got %v", tc.reason, err)
			}
		})
	}
}

func BenchmarkAuthenticateKnown(b *testing.B) {
	i, err := access.NewIssuer(access.IssuerConfig{Store: newStore()})
	if err != nil {
		b.Fatal(err)
	}
	a, err := access.NewAuthenticator(access.AuthenticatorConfig{Builtin: i})
	if err != nil {
		b.Fatal(err)
	}
	token, _, err := i.Issue(context.Background(), access.Claims{User: "alice"}, time.Hour)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := a.Authenticate(context.Background(), token); err != nil {
			b.Fatal(err)
		}
	}
}
