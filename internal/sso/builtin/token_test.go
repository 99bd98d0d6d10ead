package builtin_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/access"
)

func TestRefresh(t *testing.T) {
	w := newWorld(t)
	first := w.login()
	w.skew.Store(int64(9 * time.Hour))
	second := w.refresh(first.text("refresh_token"))
	if second.status != http.StatusOK || second.text("refresh_token") == first.text("refresh_token") || second.text("access_token") == "" {
		t.Fatalf("a refresh within ten hours: %d %s", second.status, second.body)
	}
	before, after := claimsOf(t, first.text("access_token")), claimsOf(t, second.text("access_token"))
	if before["sub"] != after["sub"] || before["sid"] != after["sid"] || before["jti"] == after["jti"] {
		t.Errorf("the token of another login: %v, %v", before, after)
	}
	w.skew.Store(int64(18 * time.Hour))
	third := w.refresh(second.text("refresh_token"))
	if third.status != http.StatusOK {
		t.Fatalf("each refresh gives ten hours: %d %s", third.status, third.body)
	}
	// An old one is in two hands: the whole login ends.
	if reuse := w.refresh(second.text("refresh_token")); reuse.status != http.StatusBadRequest || reuse.text("error") != "invalid_grant" {
		t.Errorf("a refresh token a second time: %d %s", reuse.status, reuse.body)
	}
	if ended := w.refresh(third.text("refresh_token")); ended.text("error") != "invalid_grant" {
		t.Errorf("the newest after that: %d %s", ended.status, ended.body)
	}
	idle := w.login()
	w.skew.Store(int64(29 * time.Hour))
	if late := w.refresh(idle.text("refresh_token")); late.text("error") != "invalid_grant" {
		t.Errorf("after eleven idle hours: %d %s", late.status, late.body)
	}
}

func TestRefreshRefuses(t *testing.T) {
	w := newWorld(t)
	w.ok(w.p.Apply(t.Context(), robot))
	got := w.login()
	good := got.text("refresh_token")
	for name, tc := range map[string]struct {
		reason string
		form   url.Values
	}{
		"another client": {"it is not the robot's", url.Values{"client_id": {robot.ID}, "client_secret": {robot.Secret}, "refresh_token": {good}}},
		"no client":      {"nobody's", url.Values{"client_id": {"nobody"}, "refresh_token": {good}}},
		"bent":           {"nobody sealed it", url.Values{"client_id": {"drover-cli"}, "refresh_token": {"A" + good[1:]}}},
		"access token":   {"an access token is none", url.Values{"client_id": {"drover-cli"}, "refresh_token": {got.text("access_token")}}},
		"login's id":     {"nor is the name of a login", url.Values{"client_id": {"drover-cli"}, "refresh_token": {claimsOf(t, got.text("access_token"))["sid"].(string)}}},
		"more scopes":    {"a login does not grow", url.Values{"client_id": {"drover-cli"}, "refresh_token": {good}, "scope": {"openid email"}}},
	} {
		t.Run(name, func(t *testing.T) {
			tc.form.Set("grant_type", "refresh_token")
			a := w.post("token", tc.form)
			if a.status != http.StatusBadRequest && a.status != http.StatusUnauthorized || a.text("error") == "" || a.text("access_token") != "" {
				t.Errorf("%s: got %d %s", tc.reason, a.status, a.body)
			}
		})
	}
	if a := w.refresh(good); a.status != http.StatusOK {
		t.Errorf("what others tried ended the login: %d %s", a.status, a.body)
	}
}

func TestRevocation(t *testing.T) {
	w := newWorld(t)
	w.ok(w.p.Apply(t.Context(), robot))
	for _, which := range []string{"refresh_token", "access_token"} {
		got := w.login()
		foreign := w.post("revoke", url.Values{"client_id": {robot.ID}, "client_secret": {robot.Secret}, "token": {got.text(which)}})
		if foreign.status == http.StatusOK {
			t.Errorf("%s: another client may revoke it", which)
		}
		if a := w.post("revoke", url.Values{"client_id": {"drover-cli"}, "token": {claimsOf(t, got.text("access_token"))["jti"].(string)}}); a.status != http.StatusOK {
			t.Errorf("a text that is no token: %d", a.status)
		}
		if a := w.introspect(got.text("access_token")); a.json["active"] != true {
			t.Fatalf("%s: the login ended too early: %s", which, a.body)
		}
		if a := w.post("revoke", url.Values{"client_id": {"drover-cli"}, "token": {got.text(which)}}); a.status != http.StatusOK {
			t.Errorf("%s: %d %s", which, a.status, a.body)
		}
		if a := w.refresh(got.text("refresh_token")); a.text("error") != "invalid_grant" {
			t.Errorf("%s: a refresh after revocation: %d %s", which, a.status, a.body)
		}
		if a := w.introspect(got.text("access_token")); a.json["active"] != false || len(a.json) != 1 {
			t.Errorf("%s: introspection after revocation: %s", which, a.body)
		}
	}
}

func TestClientCredentials(t *testing.T) {
	w := newWorld(t)
	w.ok(w.p.Apply(t.Context(), robot))
	form := w.credentials()
	form.Set("scope", "openid something.else")
	got := w.post("token", form)
	if got.status != http.StatusOK || got.text("refresh_token") != "" || got.text("id_token") != "" {
		t.Fatalf("%d %s", got.status, got.body)
	}
	token := got.text("access_token")
	who, err := w.auth.Authenticate(t.Context(), token)
	w.ok(err)
	want := access.Principal{User: "alice", Org: "13640203", Roles: []string{"reader"}, Client: robot.ID, Issuer: w.p.Endpoints().Issuer}
	if d := cmp.Diff(want, who); d != "" {
		t.Error(d)
	}
	claims := claimsOf(t, token)
	for name, want := range map[string]any{
		"clientId": robot.ID, "azp": robot.ID, "client_id": robot.ID, "sub": "service-account-" + robot.ID,
		"preferred_username": "service-account-" + robot.ID, "typ": "Bearer", "scope": "openid",
	} {
		if claims[name] != want {
			t.Errorf("claim %s: got %v, want %v", name, claims[name], want)
		}
	}
	basic, err := http.NewRequest(http.MethodPost, w.at("token"), strings.NewReader("grant_type=client_credentials"))
	w.ok(err)
	basic.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	basic.SetBasicAuth(robot.ID, robot.Secret)
	if a := w.do(http.DefaultClient, basic); a.status != http.StatusOK {
		t.Errorf("credentials in the header: %d %s", a.status, a.body)
	}
	for _, tc := range []struct{ reason, id, secret string }{
		{"the secret is wrong", robot.ID, "x"},
		{"there is none", robot.ID, ""},
		{"there is no such client", "nobody", robot.Secret},
		{"command lines have no account", "drover-cli", ""},
	} {
		a := w.post("token", url.Values{"grant_type": {"client_credentials"}, "client_id": {tc.id}, "client_secret": {tc.secret}})
		if a.status != http.StatusUnauthorized || a.text("error") != "invalid_client" || a.text("access_token") != "" {
			t.Errorf("%s: got %d %s", tc.reason, a.status, a.body)
		}
	}
	if a := w.introspect(token); a.json["active"] != true || a.text("client_id") != robot.ID {
		t.Errorf("introspection: %s", a.body)
	}
	if a := w.post("revoke", url.Values{"client_id": {robot.ID}, "client_secret": {robot.Secret}, "token": {token}}); a.status != http.StatusOK {
		t.Fatalf("revocation: %d %s", a.status, a.body)
	}
	if a := w.introspect(token); a.json["active"] != false {
		t.Errorf("introspection after revocation: %s", a.body)
	}
}

// What the owner of a client writes must not say whose token it is.
func TestClaimsDoNotLie(t *testing.T) {
	w := newWorld(t)
	liar := robot
	liar.Claims = map[string]string{
		"clientId": "another", "azp": "another", "iss": "https://evil.example", "sub": "root", "aud": "everybody",
		"exp": "99999999999", "typ": "ID", "realm_access": "drover-admin", "username": "alice", "client_id": "another",
	}
	w.ok(w.p.Apply(t.Context(), liar))
	token := w.post("token", w.credentials()).text("access_token")
	who, err := w.auth.Authenticate(t.Context(), token)
	w.ok(err)
	if who.Client != liar.ID || who.Admin || who.Issuer != w.p.Endpoints().Issuer {
		t.Errorf("the token lies: %+v", who)
	}
	claims := claimsOf(t, token)
	if claims["sub"] != "service-account-"+liar.ID || claims["client_id"] != liar.ID || claims["exp"].(float64) > float64(time.Now().Add(time.Hour).Unix()) {
		t.Errorf("the token lies: %v", claims)
	}
}

func TestApplicationLogin(t *testing.T) {
	w := newWorld(t)
	w.ok(w.p.Apply(t.Context(), robot))
	a := newAttempt()
	a.query.Set("client_id", robot.ID)
	a.query.Set("redirect_uri", robot.Redirects[0])
	a.query.Del("code_challenge")
	a.query.Del("code_challenge_method")
	b := w.browser()
	back := w.submit(b, w.open(b, a), "alice", password)
	to, err := url.Parse(back.header.Get("Location"))
	w.ok(err)
	if to.Host != "app.example.org" || to.Query().Get("x") != "1" || to.Query().Get("code") == "" {
		t.Fatalf("sent to %q", to)
	}
	form := url.Values{"grant_type": {"authorization_code"}, "client_id": {robot.ID}, "redirect_uri": {robot.Redirects[0]}, "code": {to.Query().Get("code")}}
	if got := w.post("token", form); got.status != http.StatusUnauthorized {
		t.Errorf("an application without its secret: %d %s", got.status, got.body)
	}
	form.Set("client_secret", robot.Secret)
	got := w.post("token", form)
	if got.status != http.StatusOK {
		t.Fatalf("%d %s", got.status, got.body)
	}
	// A person who uses the robot's application is not the robot.
	who, err := w.auth.Authenticate(t.Context(), got.text("access_token"))
	w.ok(err)
	if who.User != "alice" || who.Client != "" {
		t.Errorf("%+v", who)
	}
}

func TestLogout(t *testing.T) {
	w := newWorld(t)
	for name, out := range map[string]func(answer) answer{
		"by refresh token": func(got answer) answer {
			return w.post("logout", url.Values{"client_id": {"drover-cli"}, "refresh_token": {got.text("refresh_token")}})
		},
		"by id token": func(got answer) answer {
			return w.get(w.browser(), w.at("logout")+"?id_token_hint="+got.text("id_token"), "")
		},
	} {
		got := w.login()
		if a := out(got); a.status != http.StatusNoContent && (a.status != http.StatusOK || !strings.Contains(a.body, "logged out")) {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
		if a := w.refresh(got.text("refresh_token")); a.text("error") != "invalid_grant" {
			t.Errorf("%s: the login goes on: %d %s", name, a.status, a.body)
		}
	}
	got := w.login()
	sent := w.get(w.browser(), w.at("logout")+"?post_logout_redirect_uri=https://evil.example/&id_token_hint="+got.text("id_token"), "")
	if sent.status != http.StatusBadRequest || sent.header.Get("Location") != "" {
		t.Errorf("logging out leads elsewhere: %d %q", sent.status, sent.header.Get("Location"))
	}
	if sent := w.get(w.browser(), w.at("logout")+"?post_logout_redirect_uri=https://evil.example/", ""); sent.header.Get("Location") != "" {
		t.Errorf("logging out leads elsewhere: %d %q", sent.status, sent.header.Get("Location"))
	}
	if a := w.refresh(got.text("refresh_token")); a.status != http.StatusOK {
		t.Errorf("a refused logout ended the login: %d %s", a.status, a.body)
	}
}

// A program must not throw a good login away because the ledger is away.
func TestLedgerAway(t *testing.T) {
	w := newWorld(t)
	w.ok(w.p.Apply(t.Context(), robot))
	got := w.login()
	a, b := newAttempt(), w.browser()
	page := w.open(b, a)
	w.ok(w.ledger.Close())
	for name, res := range map[string]answer{
		"refresh":       w.refresh(got.text("refresh_token")),
		"credentials":   w.post("token", w.credentials()),
		"code":          w.exchange(a, got.text("refresh_token")),
		"introspection": w.post("token/introspect", w.credentials()),
		"userinfo":      w.get(http.DefaultClient, w.at("userinfo"), got.text("access_token")),
		"revocation":    w.post("revoke", url.Values{"client_id": {"drover-cli"}, "token": {got.text("refresh_token")}}),
		"login":         w.submit(b, page, "alice", password),
	} {
		want := http.StatusServiceUnavailable
		if name == "code" {
			want = http.StatusBadRequest // no code at all: the ledger is not asked
		}
		if res.status != want || strings.Contains(res.body, "database") {
			t.Errorf("%s: got %d %s", name, res.status, res.body)
		}
	}
}

func TestAgentsAccount(t *testing.T) {
	w := newWorld(t)
	agent := robot
	agent.Claims = map[string]string{"fleetshard-operator-cluster-id": "c1"}
	agent.Roles = []string{"fleetshard_operator"}
	w.ok(w.p.Apply(t.Context(), agent))
	who, err := w.auth.Authenticate(t.Context(), w.post("token", w.credentials()).text("access_token"))
	w.ok(err)
	if age := time.Since(who.Issued); age < 0 || age > time.Minute {
		t.Errorf("issued %v ago", age)
	}
	want := access.Principal{Cluster: "c1", Roles: agent.Roles, Client: agent.ID, Issuer: w.p.Endpoints().Issuer, Issued: who.Issued}
	if d := cmp.Diff(want, who); d != "" {
		t.Error(d)
	}
}
