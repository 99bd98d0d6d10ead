package builtin

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"

	"github.com/droverhq/drover/internal/fault"
)

// Where things are within the realm: Keycloak's paths.
const (
	discoveryPath  = "/.well-known/openid-configuration"
	protocol       = "/protocol/openid-connect"
	authPath       = protocol + "/auth"
	tokenPath      = protocol + "/token"
	introspectPath = protocol + "/token/introspect"
	userinfoPath   = protocol + "/userinfo"
	certsPath      = protocol + "/certs"
	logoutPath     = protocol + "/logout"
	revokePath     = protocol + "/revoke"
	loginPath      = protocol + "/login"
	goodbyePath    = protocol + "/logout/done"
)

const (
	maxBody  = 64 << 10
	maxQuery = 32 << 10
	maxValue = 16 << 10 // of a parameter
)

var scopesKnown = []string{oidc.ScopeOpenID, oidc.ScopeProfile, oidc.ScopeEmail, oidc.ScopeOfflineAccess}

// server is the library's provider with our paths, and without what we do not
// offer. (The library's own options for paths change a variable of the package.)
type server struct {
	*op.Provider
	p *Provider
}

func newServer(p *Provider) (*server, error) {
	options := []op.Option{op.WithCrypto(p.box)}
	if p.base.Scheme == "http" {
		options = append(options, op.WithAllowInsecure())
	}
	provider, err := op.NewProvider(&op.Config{
		DefaultLogoutRedirectURI: p.issuer + goodbyePath,
		CodeMethodS256:           true, AuthMethodPost: true, GrantTypeRefreshToken: true,
	}, &storage{p}, op.StaticIssuer(p.issuer), options...)
	if err != nil {
		return nil, err
	}
	return &server{provider, p}, nil
}

func (s *server) AuthorizationEndpoint() *op.Endpoint       { return op.NewEndpoint(authPath) }
func (s *server) TokenEndpoint() *op.Endpoint               { return op.NewEndpoint(tokenPath) }
func (s *server) IntrospectionEndpoint() *op.Endpoint       { return op.NewEndpoint(introspectPath) }
func (s *server) UserinfoEndpoint() *op.Endpoint            { return op.NewEndpoint(userinfoPath) }
func (s *server) RevocationEndpoint() *op.Endpoint          { return op.NewEndpoint(revokePath) }
func (s *server) EndSessionEndpoint() *op.Endpoint          { return op.NewEndpoint(logoutPath) }
func (s *server) KeysEndpoint() *op.Endpoint                { return op.NewEndpoint(certsPath) }
func (s *server) DeviceAuthorizationEndpoint() *op.Endpoint { return nil }
func (s *server) CheckSessionIframe() *op.Endpoint          { return nil }

func (s *server) GrantTypeJWTAuthorizationSupported() bool            { return false }
func (s *server) IntrospectionAuthMethodPrivateKeyJWTSupported() bool { return false }
func (s *server) RevocationAuthMethodPrivateKeyJWTSupported() bool    { return false }

// ValidateAuthRequest is stricter than the library: redirects match to the
// letter, and only S256 proves that a code is in the right hands.
func (s *server) ValidateAuthRequest(ctx context.Context, r *oidc.AuthRequest, _ op.Storage, v *op.IDTokenHintVerifier) (string, error) {
	found, err := s.Storage().GetClientByClientID(ctx, r.ClientID)
	app, ok := found.(*application)
	if err != nil || !ok {
		return "", oidc.ErrInvalidRequestRedirectURI().WithDescription("there is no such client")
	}
	if !app.sentTo(r.RedirectURI) {
		return "", oidc.ErrInvalidRequestRedirectURI().WithDescription("the redirect_uri is not one of the client's")
	}
	user, err := op.ValidateAuthRequestClient(ctx, r, app, v)
	if err != nil {
		return "", err
	}
	switch {
	case app.public && r.CodeChallenge == "":
		return "", oidc.ErrInvalidRequest().WithDescription("a client without a secret needs PKCE: code_challenge is missing")
	case r.CodeChallenge != "" && r.CodeChallengeMethod != oidc.CodeChallengeMethodS256:
		return "", oidc.ErrInvalidRequest().WithDescription("code_challenge_method must be S256")
	case len(r.Prompt) == 1 && r.Prompt[0] == oidc.PromptNone:
		return "", oidc.ErrLoginRequired()
	}
	return user, nil
}

// routes of the issuer. Whatever else is below the realm is not ours.
func (p *Provider) routes() http.Handler {
	mux := http.NewServeMux()
	handle := func(path string, methods string, h http.HandlerFunc) {
		for _, m := range strings.Fields(methods) {
			mux.HandleFunc(m+" "+p.path(path), h)
		}
	}
	s := p.server
	for _, path := range []string{discoveryPath, tokenPath, introspectPath, userinfoPath, certsPath, revokePath} {
		handle(path, "OPTIONS", preflight)
	}
	handle("", "GET", p.describe)
	handle(discoveryPath, "GET", p.discover)
	mux.HandleFunc("GET "+strings.TrimSuffix(p.base.Path, "/")+discoveryPath, p.discover)
	handle(certsPath, "GET", func(w http.ResponseWriter, r *http.Request) { op.Keys(w, r, s.Storage()) })
	handle(authPath, "GET POST", func(w http.ResponseWriter, r *http.Request) { op.Authorize(w, r, s) })
	handle(tokenPath, "POST", func(w http.ResponseWriter, r *http.Request) { op.Exchange(w, r, s) })
	handle(introspectPath, "POST", func(w http.ResponseWriter, r *http.Request) { op.Introspect(w, headed(r), s) })
	handle(userinfoPath, "GET POST", func(w http.ResponseWriter, r *http.Request) { op.Userinfo(w, r, s) })
	handle(revokePath, "POST", func(w http.ResponseWriter, r *http.Request) { op.Revoke(w, r, s) })
	handle(logoutPath, "GET POST", p.logout)
	handle(goodbyePath, "GET", p.goodbye)
	handle(loginPath, "GET", p.loginForm)
	handle(loginPath, "POST", p.login)
	return op.NewIssuerInterceptor(s.IssuerFromRequest).Handler(p.guard(mux))
}

// guard bounds requests, sees to it that the key is there, and says so when the
// ledger is away.
func (p *Provider) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		if !strings.HasSuffix(r.URL.Path, authPath) && !strings.Contains(r.URL.Path, loginPath) && !strings.Contains(r.URL.Path, logoutPath) {
			h.Set("Access-Control-Allow-Origin", "*") // tokens, never cookies
		}
		if len(r.URL.RawQuery) > maxQuery {
			http.Error(w, "the query is too long", http.StatusRequestURITooLong)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		if wrong := unread(r); wrong != "" {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_ = json.NewEncoder(w).Encode(map[string]string{"error": "invalid_request", "error_description": wrong})
			return
		}
		if err := p.box.ready(r.Context()); err != nil {
			unavailable(w)
			return
		}
		t := &trouble{}
		next.ServeHTTP(&honest{ResponseWriter: w, trouble: t}, r.WithContext(context.WithValue(r.Context(), trouble{}, t)))
	})
}

// unread tells why a form is not read: a parameter is longer than any honest
// one, and all of them travel on, through pages, URLs and the library's log.
func unread(r *http.Request) string {
	if err := r.ParseForm(); err != nil {
		return "the form cannot be read"
	}
	for name, values := range r.Form {
		limit, ok := limits[name]
		if !ok {
			limit = maxValue
		}
		for _, v := range values {
			if len(v) > limit {
				return fmt.Sprintf("%.64q is too long", name)
			}
		}
	}
	return ""
}

var limits = map[string]int{
	"state": 2048, "nonce": 1024, "code_challenge": 128, "code_challenge_method": 16, "login_hint": 256, "grant_type": 128,
	"client_id": maxID, "redirect_uri": 2048, "response_type": 64, "response_mode": 64, "scope": 1024, "prompt": 64, "ui_locales": 256,
}

// trouble is what kept the storage from answering.
type trouble struct{ err error }

// note remembers an error that is not the caller's fault, and returns it.
func note(ctx context.Context, err error) error {
	if t, ok := ctx.Value(trouble{}).(*trouble); ok && err != nil {
		switch fault.Of(err) {
		case fault.Unavailable, fault.Internal:
			t.err = err
		}
	}
	return err
}

// honest replaces whatever the library makes of trouble: "invalid_grant" would
// make programs throw a good login away.
type honest struct {
	http.ResponseWriter
	trouble *trouble
	begun   bool
	muted   bool
}

func (w *honest) WriteHeader(status int) {
	if w.begun {
		return
	}
	w.begun = true
	if w.trouble.err != nil {
		w.muted = true
		w.Header().Del("Location")
		w.Header().Del("Content-Length")
		unavailable(w.ResponseWriter)
		return
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *honest) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.muted {
		return len(b), nil
	}
	return w.ResponseWriter.Write(b)
}

func unavailable(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Retry-After", "5")
	w.WriteHeader(http.StatusServiceUnavailable)
	_ = json.NewEncoder(w).Encode(map[string]string{
		"error": "temporarily_unavailable", "error_description": "the identity provider cannot reach its store; try again",
	})
}

func preflight(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Access-Control-Allow-Methods", "GET, POST")
	w.Header().Set("Access-Control-Allow-Headers", "Authorization, Content-Type")
	w.Header().Set("Access-Control-Max-Age", "3600")
	w.WriteHeader(http.StatusNoContent)
}

// discover tells what is offered, and nothing of what the library could do.
func (p *Provider) discover(w http.ResponseWriter, r *http.Request) {
	d := op.CreateDiscoveryConfig(r.Context(), p.server, p.server.Storage())
	d.ScopesSupported = scopesKnown
	d.ResponseTypesSupported = []string{string(oidc.ResponseTypeCode)}
	d.ResponseModesSupported = []string{"query", "fragment", "form_post"}
	d.GrantTypesSupported = []oidc.GrantType{oidc.GrantTypeCode, oidc.GrantTypeRefreshToken, oidc.GrantTypeClientCredentials}
	d.IntrospectionEndpointAuthMethodsSupported = []oidc.AuthMethod{oidc.AuthMethodBasic, oidc.AuthMethodPost}
	d.ClaimsSupported = []string{
		"iss", "sub", "aud", "exp", "iat", "nbf", "auth_time", "azp", "sid", "clientId", "username", "preferred_username",
		"org_id", "rh-org-id", "account_id", "is_org_admin", "realm_access",
	}
	w.Header().Set("Cache-Control", "public, max-age=60")
	op.Discover(w, d)
}

// describe is what Keycloak tells of a realm, which some of its clients ask for.
func (p *Provider) describe(w http.ResponseWriter, r *http.Request) {
	keys, err := p.Keys.PublicKeys(r.Context())
	if err != nil || len(keys) == 0 {
		unavailable(w)
		return
	}
	der, err := x509.MarshalPKIXPublicKey(keys[0].Key)
	if err != nil {
		unavailable(w)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"realm": p.Realm, "public_key": base64.StdEncoding.EncodeToString(der), "tokens-not-before": 0,
		"token-service": p.issuer + protocol, "account-service": p.issuer + "/account",
	})
}

// headed moves a client's credentials from the form, where Keycloak takes them
// too, to the header, where the library looks.
func headed(r *http.Request) *http.Request {
	if _, _, ok := r.BasicAuth(); !ok && r.ParseForm() == nil && r.PostForm.Get("client_secret") != "" {
		r.SetBasicAuth(url.QueryEscape(r.PostForm.Get("client_id")), url.QueryEscape(r.PostForm.Get("client_secret")))
	}
	return r
}

// logout ends a login: by refresh token, as programs do at Keycloak, or by the
// browser's way of the standard.
func (p *Provider) logout(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost && r.ParseForm() == nil && r.PostForm.Get("refresh_token") != "" {
		p.drop(w, r)
		return
	}
	op.EndSession(w, r, p.server)
}

func (p *Provider) drop(w http.ResponseWriter, r *http.Request) {
	s, form := &storage{p}, r.PostForm
	id, secret := form.Get("client_id"), form.Get("client_secret")
	if user, password, ok := r.BasicAuth(); ok {
		id, secret = user, password
	}
	if id != p.PublicClient {
		if _, err := s.authorized(r.Context(), id, secret); err != nil {
			op.RequestError(w, r, err, nil)
			return
		}
	}
	user, token, err := s.GetRefreshTokenInfo(r.Context(), id, form.Get("refresh_token"))
	if err != nil {
		op.RequestError(w, r, oidc.ErrInvalidGrant().WithDescription("invalid refresh token"), nil)
		return
	}
	if err := s.RevokeToken(r.Context(), token, user, id); err != nil {
		op.RequestError(w, r, err, nil)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
