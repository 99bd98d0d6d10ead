package builtin_test

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/Nerzal/gocloak/v13"
)

// What was written for Keycloak finds its way here.
func TestClientsOfKeycloak(t *testing.T) {
	w := newWorld(t)
	w.ok(w.p.Apply(t.Context(), robot))
	k := gocloak.NewClient(w.front.URL, gocloak.SetAuthRealms("auth/realms"))
	own, err := k.LoginClient(t.Context(), robot.ID, robot.Secret, "drover")
	w.ok(err)
	_, claims, err := k.DecodeAccessToken(t.Context(), own.AccessToken, "drover") // by its own reading of our keys
	w.ok(err)
	if (*claims)["clientId"] != robot.ID {
		t.Errorf("claims %v", claims)
	}
	told, err := k.RetrospectToken(t.Context(), own.AccessToken, robot.ID, robot.Secret, "drover")
	w.ok(err)
	if !gocloak.PBool(told.Active) {
		t.Errorf("introspection: %v", told)
	}
	realm, err := k.GetIssuer(t.Context(), "drover")
	w.ok(err)
	if gocloak.PString(realm.Realm) != "drover" || gocloak.PString(realm.PublicKey) == "" {
		t.Errorf("realm %v", realm)
	}
	if _, err := k.LoginClient(t.Context(), robot.ID, "wrong", "drover"); err == nil {
		t.Error("a wrong secret logs in")
	}

	person := w.login()
	// Some read the refresh token itself: until when is it good?
	parts := strings.Split(person.text("refresh_token"), ".")
	if len(parts) != 3 {
		t.Fatal("a refresh token has not the form of a JWT")
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	w.ok(err)
	var says struct {
		Type    string `json:"typ"`
		Expires int64  `json:"exp"`
		Issued  int64  `json:"iat"`
	}
	w.ok(json.Unmarshal(text, &says))
	if says.Type != "Refresh" || says.Expires-says.Issued != 10*3600 {
		t.Errorf("a refresh token says %s", text)
	}
	forged := parts[0] + "." + parts[1] + "." + parts[2][:20] + "AAAA" + parts[2][24:]
	if _, err := k.RefreshToken(t.Context(), forged, "drover-cli", "", "drover"); err == nil {
		t.Error("a refresh token with another signature is good")
	}
	info, err := k.GetUserInfo(t.Context(), person.text("access_token"), "drover")
	w.ok(err)
	if gocloak.PString(info.PreferredUsername) != "alice" {
		t.Errorf("user info %v", info)
	}
	next, err := k.RefreshToken(t.Context(), person.text("refresh_token"), "drover-cli", "", "drover")
	w.ok(err)
	w.ok(k.LogoutPublicClient(t.Context(), "drover-cli", "drover", next.AccessToken, next.RefreshToken))
	if _, err := k.RefreshToken(t.Context(), next.RefreshToken, "drover-cli", "", "drover"); err == nil {
		t.Error("a login goes on after logging out")
	}

	// An application logs a person out with its own credentials in the header.
	a := newAttempt()
	a.query.Set("client_id", robot.ID)
	a.query.Set("redirect_uri", robot.Redirects[0])
	b := w.browser()
	to, err := url.Parse(w.submit(b, w.open(b, a), "alice", password).header.Get("Location"))
	w.ok(err)
	got := w.post("token", url.Values{
		"grant_type": {"authorization_code"}, "client_id": {robot.ID}, "client_secret": {robot.Secret},
		"redirect_uri": {robot.Redirects[0]}, "code": {to.Query().Get("code")}, "code_verifier": {a.verifier},
	})
	w.ok(k.Logout(t.Context(), robot.ID, robot.Secret, "drover", got.text("refresh_token")))
	if _, err := k.RefreshToken(t.Context(), got.text("refresh_token"), robot.ID, robot.Secret, "drover"); err == nil {
		t.Error("a login goes on after logging out")
	}
}
