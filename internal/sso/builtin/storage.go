package builtin

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// storage answers the library's questions from the ledger. What cannot be asked
// is noted in the context: the library would tell a program that its login is
// bad when only the ledger is away.
type storage struct{ p *Provider }

// pending carries the login that a code is about to be made for.
type pending struct{}

func (s *storage) CreateAuthRequest(_ context.Context, r *oidc.AuthRequest, _ string) (op.AuthRequest, error) {
	req := request{
		Client: r.ClientID, Redirect: r.RedirectURI, Scopes: r.Scopes, State: r.State, Nonce: r.Nonce,
		Challenge: r.CodeChallenge, Mode: string(r.ResponseMode), Hint: r.LoginHint, Until: s.p.Clock().Add(loginTime),
	}
	data, err := json.Marshal(req)
	if err != nil {
		return nil, oidc.ErrServerError().WithParent(err)
	}
	return &session{id: s.p.box.seal(forLogin, data), spec: sessionSpec{Request: req}}, nil
}

func (s *storage) AuthRequestByID(context.Context, string) (op.AuthRequest, error) {
	return nil, oidc.ErrInvalidRequest() // the login page answers by itself
}

func (s *storage) SaveAuthCode(ctx context.Context, id, code string) error {
	login, ok := ctx.Value(pending{}).(*session)
	if !ok || login.id != id {
		return oidc.ErrServerError()
	}
	login.phase, login.spec.Code = coded, digest(code)
	login.expires = s.p.Clock().Add(s.p.CodeTTL)
	return note(ctx, s.p.save(ctx, login, "login"))
}

// AuthRequestByCode finds the login of a code. A code that was used is in two
// hands: the login ends.
func (s *storage) AuthRequestByCode(ctx context.Context, code string) (op.AuthRequest, error) {
	id, ok := s.p.box.open(forCode, code)
	if !ok {
		return nil, fault.New(fault.Denied, "not a code of this provider")
	}
	login, err := s.p.session(ctx, string(id))
	if err != nil {
		return nil, note(ctx, err)
	}
	if subtle.ConstantTimeCompare([]byte(login.spec.Code), []byte(digest(code))) != 1 {
		return nil, fault.New(fault.Denied, "not the code of this login")
	}
	if login.phase != coded {
		if err := s.p.end(ctx, login.id, "code-reuse"); err != nil {
			return nil, note(ctx, err)
		}
		return nil, fault.New(fault.Denied, "the code was used before")
	}
	return login, nil
}

func (s *storage) DeleteAuthRequest(context.Context, string) error { return nil }

func (s *storage) CreateAccessToken(_ context.Context, r op.TokenRequest) (string, time.Time, error) {
	now := s.p.Clock()
	if _, ok := r.(*program); !ok {
		return "", time.Time{}, oidc.ErrUnsupportedGrantType()
	}
	return tokenID(ofProgram, now), now.Add(s.p.AccessTTL), nil
}

// CreateAccessAndRefreshTokens moves the login on. The ledger's guard on its
// version lets one of several exchanges win; whoever loses was late with
// something that was used before.
func (s *storage) CreateAccessAndRefreshTokens(ctx context.Context, r op.TokenRequest, _ string) (string, string, time.Time, error) {
	login, ok := r.(*session)
	if !ok {
		return "", "", time.Time{}, oidc.ErrUnsupportedGrantType()
	}
	now := s.p.Clock()
	login.phase, login.expires = active, now.Add(s.p.RefreshTTL)
	login.spec.Serial++
	token, err := s.p.refreshToken(s.p.box.seal(forRefresh, []byte(login.id)), login.GetClientID(), now, login.expires)
	if err != nil {
		return "", "", time.Time{}, note(ctx, err)
	}
	login.spec.Refresh = digest(token)
	err = s.p.save(ctx, login, "refresh")
	if fault.Is(err, fault.Conflict) {
		if err := s.p.end(ctx, login.id, "reuse"); err != nil {
			return "", "", time.Time{}, note(ctx, err)
		}
		return "", "", time.Time{}, oidc.ErrInvalidGrant().WithDescription("it was used before")
	}
	if err != nil {
		return "", "", time.Time{}, note(ctx, err)
	}
	return tokenID(login.id, now), token, now.Add(s.p.AccessTTL), nil
}

// TokenRequestByRefreshToken finds the login of a refresh token. One that was
// exchanged already is in two hands: the login ends.
func (s *storage) TokenRequestByRefreshToken(ctx context.Context, token string) (op.RefreshTokenRequest, error) {
	login, err := s.refresh(ctx, token)
	if err != nil {
		return nil, note(ctx, err)
	}
	if subtle.ConstantTimeCompare([]byte(login.spec.Refresh), []byte(digest(token))) != 1 {
		if err := s.p.end(ctx, login.id, "refresh-reuse"); err != nil {
			return nil, note(ctx, err)
		}
		return nil, fault.New(fault.Denied, "the refresh token was used before")
	}
	return login, nil
}

// refresh opens a refresh token that this provider made, good or used.
func (s *storage) refresh(ctx context.Context, token string) (*session, error) {
	sealed, ok := s.p.sealedIn(token)
	var id []byte
	if ok {
		id, ok = s.p.box.open(forRefresh, sealed)
	}
	if !ok {
		return nil, fault.New(fault.Denied, "not a refresh token of this provider")
	}
	login, err := s.p.session(ctx, string(id))
	if err == nil && login.phase != active {
		err = fault.New(fault.NotFound, "the login is over")
	}
	return login, err
}

func (s *storage) GetRefreshTokenInfo(ctx context.Context, _, token string) (string, string, error) {
	login, err := s.refresh(ctx, token)
	if fault.Is(err, fault.Denied) || fault.Is(err, fault.NotFound) {
		return "", "", op.ErrInvalidRefreshToken
	}
	if err != nil {
		return "", "", note(ctx, err)
	}
	return login.who.ID, tokenID(login.id, s.p.Clock()), nil
}

// RevokeToken ends the login that a token belongs to. A text that is no token is
// fine: it opens nothing.
func (s *storage) RevokeToken(ctx context.Context, id, user, client string) *oidc.Error {
	login, at, ok := parseTokenID(id)
	if !ok || user == "" {
		return nil
	}
	foreign := oidc.ErrInvalidClient().WithDescription("the token is another client's")
	if login == ofProgram {
		if user != "service-account-"+client {
			return foreign
		}
		o := ledger.Object{
			Ref: ledger.Ref{Kind: KindSession.Name, ID: id}, Name: client, Phase: ended,
			Fields: ledger.Fields{"expires": at.Add(s.p.AccessTTL)},
		}
		if err := s.p.write(ctx, o, "revoke"); err != nil && !fault.Is(err, fault.Conflict) {
			return s.away(ctx, err)
		}
		return nil
	}
	found, err := s.p.session(ctx, login)
	switch {
	case fault.Is(err, fault.NotFound):
		return nil
	case err != nil:
		return s.away(ctx, err)
	case found.spec.Request.Client != client:
		return foreign
	}
	if err := s.p.end(ctx, login, "revoke"); err != nil {
		return s.away(ctx, err)
	}
	return nil
}

func (s *storage) away(ctx context.Context, err error) *oidc.Error {
	_ = note(ctx, err)
	return oidc.ErrServerError()
}

func (s *storage) TerminateSession(context.Context, string, string) error { return nil }

// TerminateSessionFromRequest ends the login that the id token is of. Without
// one nobody is known: there is no cookie that keeps people logged in.
func (s *storage) TerminateSessionFromRequest(ctx context.Context, r *op.EndSessionRequest) (string, error) {
	if r.IDTokenHintClaims == nil || r.IDTokenHintClaims.SessionID == "" {
		return r.RedirectURI, nil
	}
	return r.RedirectURI, note(ctx, s.p.end(ctx, r.IDTokenHintClaims.SessionID, "logout"))
}

func (s *storage) GetClientByClientID(ctx context.Context, id string) (op.Client, error) {
	if id == s.p.PublicClient {
		return s.p.commandLine(), nil
	}
	_, spec, err := s.p.client(ctx, id)
	if err != nil {
		_ = note(ctx, err)
		return nil, oidc.ErrInvalidClient().WithDescription("there is no such client")
	}
	return &application{p: s.p, id: id, spec: spec}, nil
}

func (s *storage) AuthorizeClientIDSecret(ctx context.Context, id, secret string) error {
	_, err := s.authorized(ctx, id, secret)
	return err
}

func (s *storage) authorized(ctx context.Context, id, secret string) (clientSpec, error) {
	_, spec, err := s.p.client(ctx, id)
	if err == nil {
		err = s.p.holds(ctx, spec, secret)
	}
	if err != nil {
		_ = note(ctx, err)
		// The same words whether the id or the secret is wrong.
		return clientSpec{}, oidc.ErrInvalidClient().WithDescription("invalid client or client credentials")
	}
	return spec, nil
}

func (s *storage) ClientCredentials(ctx context.Context, id, secret string) (op.Client, error) {
	spec, err := s.authorized(ctx, id, secret)
	if err != nil {
		return nil, err
	}
	return &application{p: s.p, id: id, spec: spec}, nil
}

func (s *storage) ClientCredentialsTokenRequest(ctx context.Context, id string, scopes []string) (op.TokenRequest, error) {
	_, spec, err := s.p.client(ctx, id)
	if err != nil {
		_ = note(ctx, err)
		return nil, oidc.ErrInvalidClient()
	}
	known := slices.DeleteFunc(slices.Clone(scopes), func(scope string) bool { return !slices.Contains(scopesKnown, scope) })
	return &program{client: id, spec: spec, scopes: known, aud: s.p.audience(id)}, nil
}

func (s *storage) GetPrivateClaimsFromRequest(_ context.Context, r op.TokenRequest, _ []string) (map[string]any, error) {
	switch r := r.(type) {
	case *program:
		return r.claims(), nil
	case *session:
		return r.claims(), nil
	}
	return nil, oidc.ErrUnsupportedGrantType()
}

// SetUserinfoFromRequest fills an id token. Its typ keeps it from being taken
// for an access token.
func (s *storage) SetUserinfoFromRequest(_ context.Context, u *oidc.UserInfo, r op.IDTokenRequest, _ []string) error {
	if login, ok := r.(*session); ok {
		info(u, login.who)
		u.AppendClaims("sid", login.id)
	}
	u.AppendClaims("typ", "ID")
	return nil
}

// What this provider does not offer.

func (s *storage) SetUserinfoFromScopes(context.Context, *oidc.UserInfo, string, string, []string) error {
	return nil
}

func (s *storage) GetPrivateClaimsFromScopes(context.Context, string, string, []string) (map[string]any, error) {
	return nil, oidc.ErrUnsupportedGrantType()
}

func (s *storage) GetKeyByIDAndClientID(context.Context, string, string) (*jose.JSONWebKey, error) {
	return nil, oidc.ErrInvalidClient().WithDescription("clients have no keys here")
}

func (s *storage) ValidateJWTProfileScopes(context.Context, string, []string) ([]string, error) {
	return nil, oidc.ErrUnsupportedGrantType()
}

func (s *storage) Health(context.Context) error { return nil }
