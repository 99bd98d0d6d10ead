package app

import (
	"slices"

	"github.com/droverhq/drover/internal/access"
)

// authenticator knows whose tokens are good: the server's own, those of its
// identity provider, and those of other issuers by name.
func (s *Server) authenticator() (*access.Authenticator, error) {
	var err error
	if s.issuer, err = access.NewIssuer(access.IssuerConfig{Store: s.ledger}); err != nil {
		return nil, err
	}
	var issuers []access.OIDC
	for _, url := range s.cfg.Issuers {
		issuers = append(issuers, access.OIDC{
			Issuer: url, Audience: s.cfg.Audience,
			Admins: slices.Contains(s.cfg.Trust, "admins"), Agents: slices.Contains(s.cfg.Trust, "agents"),
		})
	}
	at := s.outside.sso.Endpoints()
	if s.outside.realm == nil && !slices.Contains(s.cfg.Issuers, at.Issuer) {
		// The accounts of agents are there, made by this server.
		issuers = append(issuers, access.OIDC{Issuer: at.Issuer, JWKSURL: at.JWKSURL, Audience: s.cfg.Audience, Agents: true,
			Admins: slices.Contains(s.cfg.Trust, "admins")})
	}
	return access.NewAuthenticator(access.AuthenticatorConfig{OIDC: issuers, Builtin: s.issuer, Realm: s.outside.realm, Client: issuerClient(s.calls)})
}
