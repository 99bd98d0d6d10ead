package ssotest

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/droverhq/drover/internal/sso"
)

// browser talks to providers and follows no redirect: where one leads is what
// some tests want to know.
var browser = &http.Client{
	Timeout:       time.Minute,
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// fresh is a text that was never used before.
func fresh() string { return strings.ToLower(rand.Text()) }

// client is a client that nobody has; it is removed with the test.
func client(t *testing.T, p sso.Provider) sso.Client {
	c := sso.Client{
		ID: "srvc-acct-" + fresh(), Secret: fresh(), Name: "first", Description: "made by a test",
		Claims: map[string]string{
			"rh-org-id": "13640203", "org_id": "13640203", "rh-user-id": "7",
			"username": "mary", "preferred_username": "mary",
		},
		Roles: []string{"drover-test-first"},
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = p.Delete(ctx, c.ID) // the server may be away by then
	})
	return c
}

// content is what a token says.
type content struct {
	claims map[string]any
	roles  []string
}

// Token logs in by client credentials, as a program does, and returns the
// access token; ok is false where the login was refused.
func Token(ctx context.Context, e sso.Endpoints, id, secret string) (token string, ok bool, err error) {
	form := url.Values{"grant_type": {"client_credentials"}, "client_id": {id}, "client_secret": {secret}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.TokenURL, strings.NewReader(form.Encode()))
	if err != nil {
		return "", false, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := browser.Do(req)
	if err != nil {
		return "", false, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return "", false, err
	}
	var answer struct {
		AccessToken string `json:"access_token"`
		Error       string `json:"error"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return "", false, fmt.Errorf("the token endpoint answers %s without JSON", res.Status)
	}
	switch {
	case res.StatusCode == http.StatusOK && answer.AccessToken != "":
		return answer.AccessToken, true, nil
	case (res.StatusCode == http.StatusUnauthorized || res.StatusCode == http.StatusBadRequest) &&
		(answer.Error == "invalid_client" || answer.Error == "unauthorized_client"):
		return "", false, nil
	}
	return "", false, fmt.Errorf("the token endpoint answers %s, error %q", res.Status, answer.Error)
}

// carries logs in and checks that the token verifies and says what it should.
func carries(t *testing.T, p sso.Provider, c sso.Client) content {
	t.Helper()
	e := p.Endpoints()
	raw, ok, err := Token(t.Context(), e, c.ID, c.Secret)
	if err != nil || !ok {
		t.Fatalf("cannot log in with the client's secret: refused %v, %v", !ok, err)
	}
	verifier := oidc.NewVerifier(e.Issuer, oidc.NewRemoteKeySet(t.Context(), e.JWKSURL), &oidc.Config{SkipClientIDCheck: true})
	token, err := verifier.Verify(t.Context(), raw)
	if err != nil {
		t.Fatalf("the token does not verify: %v", err)
	}
	got := content{claims: map[string]any{}}
	var realm struct {
		Access struct {
			Roles []string `json:"roles"`
		} `json:"realm_access"`
	}
	if err := token.Claims(&got.claims); err != nil {
		t.Fatal(err)
	}
	if err := token.Claims(&realm); err != nil {
		t.Fatal(err)
	}
	got.roles = realm.Access.Roles
	want := map[string]string{"clientId": c.ID}
	maps.Copy(want, c.Claims)
	for name, v := range want {
		if got.claims[name] != v {
			t.Errorf("claim %s: got %v, want %q", name, got.claims[name], v)
		}
	}
	for _, r := range c.Roles {
		if !slices.Contains(got.roles, r) {
			t.Errorf("realm_access.roles: got %v, want %q among them", got.roles, r)
		}
	}
	if life := time.Until(token.Expiry); life <= 0 || life > 24*time.Hour {
		t.Errorf("the token lives for %v", life)
	}
	if strings.Contains(raw, c.Secret) || strings.Contains(fmt.Sprint(got.claims), c.Secret) {
		t.Error("the token contains the client's secret")
	}
	return got
}

// refused checks that a login fails, because of who logs in.
func refused(t *testing.T, p sso.Provider, id, secret, reason string) {
	t.Helper()
	_, ok, err := Token(t.Context(), p.Endpoints(), id, secret)
	if err != nil {
		t.Fatalf("%s: the login must be refused, got %v", reason, err)
	}
	if ok {
		t.Errorf("%s, and yet it gets a token", reason)
	}
}

// testRedirects checks what people who log in to an application meet: they are
// sent back to its own URLs only.
func testRedirects(t *testing.T, p sso.Provider) {
	c := client(t, p)
	const mine, other = "https://oauth.cluster-1.example.org/oauth2callback/sre", "https://elsewhere.example.org/callback"
	c.Redirects = []string{mine}
	apply(t, p, c)
	same(t, p, c, "it has redirects")
	carries(t, p, c)
	metadata, err := oidc.NewProvider(t.Context(), p.Endpoints().Issuer)
	if err != nil {
		t.Fatalf("the issuer is not discoverable: %v", err)
	}
	if status, _ := authorize(t, metadata, c.ID, mine); status >= http.StatusBadRequest {
		t.Errorf("a login with the client's redirect: got %d, want the login page or the way there", status)
	}
	turned := func(redirect, reason string) {
		t.Helper()
		status, location := authorize(t, metadata, c.ID, redirect)
		if status < http.StatusBadRequest || strings.HasPrefix(location, redirect) {
			t.Errorf("%s: got %d and location %q, want a refusal that stays here", reason, status, location)
		}
	}
	turned(other, "the redirect is not the client's")
	turned(mine+".evil.example", "a redirect matches whole")
	c.Redirects = []string{other}
	apply(t, p, c)
	same(t, p, c, "the redirects were changed")
	turned(mine, "the redirect was taken away")
	c.Redirects = nil
	apply(t, p, c)
	same(t, p, c, "it has no redirects any more")
	turned(other, "it is no application any more")
}

// authorize asks for a login page as a browser would.
func authorize(t *testing.T, metadata *oidc.Provider, id, redirect string) (status int, location string) {
	t.Helper()
	q := url.Values{
		"response_type": {"code"}, "client_id": {id}, "redirect_uri": {redirect}, "scope": {"openid"}, "state": {fresh()},
		// RFC 7636, appendix B: some providers insist on it.
		"code_challenge": {"E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"}, "code_challenge_method": {"S256"},
	}
	at := metadata.Endpoint().AuthURL + "?" + q.Encode()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := browser.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	return res.StatusCode, res.Header.Get("Location")
}
