package builtin

import (
	"net"
	"net/url"
	"slices"
	"time"

	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// application is a client as the library sees it.
type application struct {
	p      *Provider
	id     string
	public bool // no secret
	spec   clientSpec
}

var _ op.Client = (*application)(nil)

// commandLine is the client that needs no entry in the ledger.
func (p *Provider) commandLine() *application {
	a := &application{p: p, id: p.PublicClient, public: true}
	for _, path := range p.PublicRedirects {
		for _, host := range []string{"localhost", "127.0.0.1", "[::1]"} {
			a.spec.Redirects = append(a.spec.Redirects, "http://"+host+path)
		}
	}
	return a
}

// sentTo reports whether people may be sent to this URL: one of the client's to
// the letter, or for a command line the same on another port (RFC 8252, 7.3).
func (a *application) sentTo(redirect string) bool {
	if slices.Contains(a.spec.Redirects, redirect) {
		return true
	}
	u, err := url.Parse(redirect)
	if err != nil || !a.public || u.Scheme != "http" || u.User != nil || u.Fragment != "" || u.RawQuery != "" || u.Opaque != "" {
		return false
	}
	if ip := net.ParseIP(u.Hostname()); u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return false
	}
	host := u.Hostname()
	if host == "::1" {
		host = "[::1]"
	}
	return slices.Contains(a.spec.Redirects, "http://"+host+u.EscapedPath())
}

func (a *application) GetID() string                    { return a.id }
func (a *application) RedirectURIs() []string           { return a.spec.Redirects }
func (a *application) PostLogoutRedirectURIs() []string { return a.spec.Redirects }

func (a *application) ApplicationType() op.ApplicationType {
	if a.public {
		return op.ApplicationTypeNative
	}
	return op.ApplicationTypeWeb
}

func (a *application) AuthMethod() oidc.AuthMethod {
	if a.public {
		return oidc.AuthMethodNone
	}
	return oidc.AuthMethodBasic
}

func (a *application) ResponseTypes() []oidc.ResponseType {
	return []oidc.ResponseType{oidc.ResponseTypeCode}
}

func (a *application) GrantTypes() []oidc.GrantType {
	var grants []oidc.GrantType
	if !a.public {
		grants = append(grants, oidc.GrantTypeClientCredentials)
	}
	if len(a.spec.Redirects) > 0 {
		grants = append(grants, oidc.GrantTypeCode, oidc.GrantTypeRefreshToken)
	}
	return grants
}

func (a *application) LoginURL(id string) string {
	return a.p.issuer + loginPath + "?request=" + url.QueryEscape(id)
}

func (a *application) AccessTokenType() op.AccessTokenType                      { return op.AccessTokenTypeJWT }
func (a *application) IDTokenLifetime() time.Duration                           { return a.p.AccessTTL }
func (a *application) DevMode() bool                                            { return false }
func (a *application) RestrictAdditionalIdTokenScopes() func([]string) []string { return unrestricted }
func (a *application) RestrictAdditionalAccessTokenScopes() func([]string) []string {
	return unrestricted
}
func (a *application) IsScopeAllowed(string) bool           { return false } // beyond the standard's
func (a *application) IDTokenUserinfoClaimsAssertion() bool { return true }
func (a *application) ClockSkew() time.Duration             { return 0 }

func unrestricted(scopes []string) []string { return scopes }
