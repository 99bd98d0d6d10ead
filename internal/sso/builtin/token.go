package builtin

import (
	"context"
	"strings"
	"time"

	"github.com/zitadel/oidc/v3/pkg/oidc"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

func (s *storage) SetUserinfoFromToken(ctx context.Context, u *oidc.UserInfo, id, subject, _ string) error {
	t, err := s.token(ctx, id, subject)
	if err != nil {
		return oidc.ErrAccessDenied().WithDescription("the token is not good any more")
	}
	t.info(u)
	return nil
}

func (s *storage) SetIntrospectionFromToken(ctx context.Context, r *oidc.IntrospectionResponse, id, subject, _ string) error {
	t, err := s.token(ctx, id, subject)
	if err != nil {
		return err
	}
	var u oidc.UserInfo
	t.info(&u)
	r.SetUserInfo(&u)
	r.Subject, r.ClientID, r.TokenType, r.JWTID, r.Issuer = subject, t.client, oidc.BearerToken, id, s.p.issuer
	r.Audience, r.Scope = t.aud, t.scopes
	r.IssuedAt, r.NotBefore, r.Expiration = oidc.FromTime(t.at), oidc.FromTime(t.at), oidc.FromTime(t.at.Add(s.p.AccessTTL))
	return nil
}

// issued is an access token whose signature and time the library has checked.
type issued struct {
	client      string
	at          time.Time
	aud, scopes []string
	info        func(*oidc.UserInfo)
}

// token looks whether an access token still counts.
func (s *storage) token(ctx context.Context, id, subject string) (issued, error) {
	login, at, ok := parseTokenID(id)
	if !ok {
		return issued{}, fault.New(fault.Denied, "no access token")
	}
	if login != ofProgram {
		found, err := s.p.session(ctx, login)
		if err == nil && (found.phase != active || found.who.ID != subject) {
			err = fault.New(fault.Denied, "the login is over")
		}
		if err != nil {
			return issued{}, note(ctx, err)
		}
		return issued{found.spec.Request.Client, at, found.aud, found.GetScopes(), func(u *oidc.UserInfo) { info(u, found.who) }}, nil
	}
	client := strings.TrimPrefix(subject, "service-account-")
	_, spec, err := s.p.client(ctx, client)
	if err != nil {
		return issued{}, note(ctx, err)
	}
	_, err = s.p.Store.Get(ctx, ledger.Ref{Kind: KindSession.Name, ID: id})
	if err == nil {
		return issued{}, fault.New(fault.Denied, "the token was revoked")
	}
	if !fault.Is(err, fault.NotFound) {
		return issued{}, note(ctx, err)
	}
	r := &program{client: client, spec: spec}
	return issued{client, at, s.p.audience(client), nil, func(u *oidc.UserInfo) {
		u.Subject = subject
		for k, v := range r.claims() {
			if k == "preferred_username" {
				u.PreferredUsername, _ = v.(string)
			} else if k != "typ" && k != "scope" {
				u.AppendClaims(k, v)
			}
		}
	}}, nil
}
