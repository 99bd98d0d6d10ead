package builtin_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/sso"
	"github.com/droverhq/drover/internal/sso/builtin"
	"github.com/droverhq/drover/internal/sso/ssotest"
	"github.com/droverhq/drover/test/postgres"
)

func TestContract(t *testing.T) {
	w := newWorld(t)
	away := newWorld(t)
	w.ok(away.ledger.Close())
	ssotest.Run(t, func(testing.TB) sso.Provider { return w.p }, ssotest.Away(func(testing.TB) sso.Provider { return away.p }))
}

func TestLogin(t *testing.T) {
	w := newWorld(t)
	got := w.login()
	if got.header.Get("Cache-Control") != "no-store" {
		t.Error("tokens may be kept by caches")
	}
	if got.json["expires_in"].(float64) < 290 || got.json["expires_in"].(float64) > 300 || got.text("token_type") != "Bearer" {
		t.Errorf("expires_in %v, token_type %q", got.json["expires_in"], got.text("token_type"))
	}
	claims := claimsOf(t, got.text("access_token"))
	want := map[string]any{
		"iss": builtin.Issuer(w.front.URL, "drover"), "username": "alice", "preferred_username": "alice",
		"org_id": "13640203", "rh-org-id": "13640203", "account_id": "7", "rh-user-id": "7", "is_org_admin": true,
		"realm_access": map[string]any{"roles": []any{"sre"}}, "azp": "drover-cli", "aud": []any{"drover-cli"}, "typ": "Bearer",
		"client_id": "drover-cli", "scope": "openid offline_access",
	}
	drop := cmpopts.IgnoreMapEntries(func(k string, _ any) bool {
		return slices.Contains([]string{"exp", "iat", "nbf", "jti", "sub", "sid"}, k)
	})
	if d := cmp.Diff(want, claims, drop); d != "" {
		t.Errorf("access token: %s", d)
	}
	if claims["exp"].(float64)-claims["iat"].(float64) != 300 {
		t.Errorf("an access token lives for %v s", claims["exp"].(float64)-claims["iat"].(float64))
	}
	who, err := w.auth.Authenticate(t.Context(), got.text("access_token"))
	w.ok(err)
	if d := cmp.Diff(access.Principal{User: "alice", Org: "13640203", Account: "7", OrgAdmin: true, Roles: []string{"sre"}, Issuer: w.p.Endpoints().Issuer}, who); d != "" {
		t.Error(d)
	}
	if who, err := w.auth.Authenticate(t.Context(), got.text("id_token")); !fault.Is(err, fault.Denied) {
		t.Errorf("an id token opens the API for %+v, %v", who, err)
	}
	metadata, err := oidc.NewProvider(t.Context(), w.p.Endpoints().Issuer)
	w.ok(err)
	id, err := metadata.Verifier(&oidc.Config{ClientID: "drover-cli"}).Verify(t.Context(), got.text("id_token"))
	w.ok(err)
	if id.Nonce != "n0nce" || id.Subject != claims["sub"] || id.VerifyAccessToken(got.text("access_token")) != nil {
		t.Errorf("id token %+v", id)
	}
	info := w.get(http.DefaultClient, w.at("userinfo"), got.text("access_token"))
	if info.status != http.StatusOK || info.text("preferred_username") != "alice" || info.text("sub") != claims["sub"] || info.text("org_id") != "13640203" {
		t.Errorf("userinfo: %d %s", info.status, info.body)
	}
	if a := w.get(http.DefaultClient, w.at("userinfo"), got.text("id_token")); a.status == http.StatusOK {
		t.Errorf("an id token opens userinfo: %s", a.body)
	}
	if a := w.introspect(got.text("access_token")); a.json["active"] != true || a.text("client_id") != "drover-cli" || a.text("username") != "alice" {
		t.Errorf("introspection: %d %s", a.status, a.body)
	}
}

func TestDiscovery(t *testing.T) {
	w := newWorld(t)
	base := w.at("")
	issuer := builtin.Issuer(w.front.URL, "")
	a := w.get(http.DefaultClient, issuer+"/.well-known/openid-configuration", "")
	list := func(s ...string) []any {
		out := []any{}
		for _, x := range s {
			out = append(out, x)
		}
		return out
	}
	want := map[string]any{
		"issuer": issuer, "authorization_endpoint": base + "auth", "token_endpoint": base + "token", "jwks_uri": base + "certs",
		"userinfo_endpoint": base + "userinfo", "end_session_endpoint": base + "logout", "revocation_endpoint": base + "revoke",
		"introspection_endpoint":   base + "token/introspect",
		"response_types_supported": list("code"), "grant_types_supported": list("authorization_code", "refresh_token", "client_credentials"),
		"code_challenge_methods_supported": list("S256"), "id_token_signing_alg_values_supported": list("RS256"),
		"subject_types_supported":               list("public"),
		"token_endpoint_auth_methods_supported": list("none", "client_secret_basic", "client_secret_post"),
	}
	for name, v := range want {
		if d := cmp.Diff(v, a.json[name]); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	if _, ok := a.json["device_authorization_endpoint"]; ok {
		t.Error("it offers what it does not have")
	}
	if plain := w.get(http.DefaultClient, w.front.URL+"/.well-known/openid-configuration", ""); plain.text("issuer") != issuer {
		t.Errorf("the plain document: %d %s", plain.status, plain.body)
	}
	certs := w.get(http.DefaultClient, base+"certs", "")
	keys, _ := certs.json["keys"].([]any)
	if len(keys) != 1 || keys[0].(map[string]any)["alg"] != "RS256" || keys[0].(map[string]any)["kty"] != "RSA" || keys[0].(map[string]any)["d"] != nil {
		t.Errorf("keys: %s", certs.body)
	}
	realm := w.get(http.DefaultClient, issuer, "")
	if der, err := base64.StdEncoding.DecodeString(realm.text("public_key")); realm.text("realm") != "drover" || realm.text("token-service")+"/" != base || err != nil || len(der) < 200 {
		t.Errorf("the realm: %d %s", realm.status, realm.body)
	}
	e := w.p.Endpoints()
	if d := cmp.Diff(sso.Endpoints{Name: "builtin", BaseURL: w.front.URL, Realm: "drover", Issuer: issuer, TokenURL: base + "token", JWKSURL: base + "certs"}, e); d != "" {
		t.Error(d)
	}
	if other := w.get(http.DefaultClient, w.front.URL+"/auth/realms/other/.well-known/openid-configuration", ""); other.status != http.StatusNotFound {
		t.Errorf("another realm: %d", other.status)
	}
}

func TestTwoReplicas(t *testing.T) {
	t.Run("embedded", func(t *testing.T) {
		w := newWorld(t)
		twoReplicas(t, w, w.replica())
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		where := postgres.Database(t)
		w := newWorldOn(t, where)
		twoReplicas(t, w, w.replicaOn(openLedger(t, where)))
	})
}

// twoReplicas starts a login at one and finishes it at the other.
func twoReplicas(t *testing.T, w *world, second *builtin.Provider) {
	first := w.p
	a, b := newAttempt(), w.browser()
	w.use(first)
	page := w.open(b, a)
	w.use(second)
	back := w.submit(b, page, "alice", password)
	_, query, _ := strings.Cut(back.header.Get("Location"), "code=")
	code, _, _ := strings.Cut(query, "&")
	w.use(first)
	got := w.exchange(a, code)
	if got.status != http.StatusOK {
		t.Fatalf("a code of the other replica: %d %s", got.status, got.body)
	}
	w.use(second)
	next := w.refresh(got.text("refresh_token"))
	if next.status != http.StatusOK {
		t.Fatalf("a refresh token of the other replica: %d %s", next.status, next.body)
	}
	if _, err := w.auth.Authenticate(t.Context(), next.text("access_token")); err != nil {
		t.Error(err)
	}
	w.use(first)
	if again := w.refresh(got.text("refresh_token")); again.text("error") != "invalid_grant" {
		t.Errorf("a token that the other replica exchanged: %d %s", again.status, again.body)
	}
	w.use(second)
	if ended := w.refresh(next.text("refresh_token")); ended.text("error") != "invalid_grant" {
		t.Errorf("the login that the other replica ended: %d %s", ended.status, ended.body)
	}
}

func TestNoSecretInTheLog(t *testing.T) {
	w := newWorld(t)
	w.ok(w.p.Apply(t.Context(), robot))
	a := newAttempt()
	code := w.code(a)
	got := w.exchange(a, code)
	next := w.refresh(got.text("refresh_token"))
	own := w.post("token", w.credentials())
	if next.status != http.StatusOK || own.status != http.StatusOK {
		t.Fatalf("%s %s", next.body, own.body)
	}
	changes, err := w.ledger.Changes(t.Context(), ledger.ChangeQuery{Limit: 10000})
	w.ok(err)
	kinds := map[string]int{}
	for _, c := range changes {
		kinds[c.Object.Kind]++
	}
	if kinds["ssoclient"] == 0 || kinds["ssosession"] < 3 || kinds["user"] == 0 || kinds["signingkey"] == 0 || kinds["ssokey"] != 1 {
		t.Fatalf("the log is not that of what happened: %v", kinds)
	}
	log, err := json.Marshal(changes)
	w.ok(err)
	for what, secret := range map[string]string{
		"password": password, "client secret": robot.Secret, "code": code, "verifier": a.verifier,
		"refresh token": got.text("refresh_token"), "next refresh token": next.text("refresh_token"),
		"access token": got.text("access_token"), "id token": got.text("id_token"), "program's token": own.text("access_token"),
		"private key": "PRIVATE KEY", "hash": "argon2id",
	} {
		if secret == "" || strings.Contains(string(log), secret) {
			t.Errorf("the log holds the %s", what)
		}
	}
}

func TestSweep(t *testing.T) {
	w := newWorld(t)
	kept := w.login()
	a := newAttempt()
	w.code(a) // never exchanged
	if n, err := w.p.Sweep(t.Context()); n != 0 || err != nil {
		t.Fatalf("swept %d that are not over, %v", n, err)
	}
	w.skew.Store(int64(90 * 60 * 1e9))
	if n, err := w.p.Sweep(t.Context()); n != 1 || err != nil {
		t.Errorf("swept %d, %v; want the code that nobody used", n, err)
	}
	if next := w.refresh(kept.text("refresh_token")); next.status != http.StatusOK {
		t.Errorf("a login that goes on was swept: %s", next.body)
	}
	left, err := w.ledger.List(t.Context(), ledger.Query{Kind: "ssosession"})
	w.ok(err)
	if len(left) != 1 {
		t.Errorf("%d logins are left", len(left))
	}
}

func TestNewChecks(t *testing.T) {
	w := newWorld(t)
	realm, err := access.NewRealm(access.RealmConfig{Store: w.ledger, URL: "https://drover.example/auth/realms/drover"})
	w.ok(err)
	good := builtin.Config{Store: w.ledger, Keeper: w.ledger, Keys: realm, Users: w.users, BaseURL: "https://drover.example"}
	if _, err := builtin.New(good); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		reason string
		spoil  func(c *builtin.Config)
	}{
		"no users":     {"nobody could log in", func(c *builtin.Config) { c.Users = nil }},
		"no base":      {"nobody could find it", func(c *builtin.Config) { c.BaseURL = "" }},
		"odd base":     {"nor there", func(c *builtin.Config) { c.BaseURL = "drover.example" }},
		"odd realm":    {"a realm is part of a path", func(c *builtin.Config) { c.Realm = "a/b" }},
		"other's keys": {"its tokens would be nobody's", func(c *builtin.Config) { c.Realm = "other" }},
		"long life":    {"keys are told for a day", func(c *builtin.Config) { c.AccessTTL = 1e15 }},
	} {
		t.Run(name, func(t *testing.T) {
			c := good
			tc.spoil(&c)
			if _, err := builtin.New(c); err == nil {
				t.Error(tc.reason)
			}
		})
	}
}
