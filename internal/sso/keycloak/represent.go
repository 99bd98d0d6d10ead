package keycloak

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/Nerzal/gocloak/v13"

	"github.com/droverhq/drover/internal/sso"
)

// mark is the attribute that says whose a client is.
const mark = "drover.owner"

// ours begins the names of the mappers that we made.
const ours = "drover claim "

const (
	hardcoded = "oidc-hardcoded-claim-mapper"
	audience  = "oidc-audience-mapper"
)

// represent says how the client looks there, mappers and roles aside.
func (p *Provider) represent(c sso.Client) gocloak.Client {
	yes, no := true, false
	protocol, authenticator := "openid-connect", "client-secret"
	login := len(c.Redirects) > 0
	redirects := append([]string{}, c.Redirects...)
	return gocloak.Client{
		ClientID: &c.ID, Secret: &c.Secret, Name: &c.Name, Description: &c.Description,
		Protocol: &protocol, ClientAuthenticatorType: &authenticator,
		Enabled: &yes, ServiceAccountsEnabled: &yes, FullScopeAllowed: &yes, StandardFlowEnabled: &login,
		PublicClient: &no, BearerOnly: &no, ConsentRequired: &no, ImplicitFlowEnabled: &no, DirectAccessGrantsEnabled: &no,
		RedirectURIs: &redirects,
		Attributes:   &map[string]string{mark: p.cfg.Owner},
	}
}

// differs tells whether the server's client is other than wanted, in what
// represent says.
func differs(have *gocloak.Client, want gocloak.Client) bool {
	for _, pair := range [][2]*string{
		{have.Secret, want.Secret}, {have.Name, want.Name}, {have.Description, want.Description},
		{have.Protocol, want.Protocol}, {have.ClientAuthenticatorType, want.ClientAuthenticatorType},
	} {
		if text(pair[0]) != text(pair[1]) {
			return true
		}
	}
	for _, pair := range [][2]*bool{
		{have.Enabled, want.Enabled}, {have.ServiceAccountsEnabled, want.ServiceAccountsEnabled},
		{have.FullScopeAllowed, want.FullScopeAllowed}, {have.StandardFlowEnabled, want.StandardFlowEnabled},
		{have.PublicClient, want.PublicClient}, {have.BearerOnly, want.BearerOnly}, {have.ConsentRequired, want.ConsentRequired},
		{have.ImplicitFlowEnabled, want.ImplicitFlowEnabled}, {have.DirectAccessGrantsEnabled, want.DirectAccessGrantsEnabled},
	} {
		if (pair[0] != nil && *pair[0]) != *pair[1] {
			return true
		}
	}
	a, b := slices.Sorted(slices.Values(list(have.RedirectURIs))), slices.Sorted(slices.Values(list(want.RedirectURIs)))
	return !slices.Equal(a, b)
}

// mappersOf are the mappers that put the claims, and clientId, into tokens.
func (p *Provider) mappersOf(c sso.Client) []gocloak.ProtocolMapperRepresentation {
	claims := map[string]string{"clientId": c.ID}
	maps.Copy(claims, c.Claims)
	var out []gocloak.ProtocolMapperRepresentation
	if p.cfg.Audience != "" {
		name, protocol, mapper := ours+"aud", "openid-connect", audience
		out = append(out, gocloak.ProtocolMapperRepresentation{
			Name: &name, Protocol: &protocol, ProtocolMapper: &mapper,
			Config: &map[string]string{
				"claim.name":               "aud", // nothing to the server; it tells mappers of other claims apart from this one
				"included.custom.audience": p.cfg.Audience, "access.token.claim": "true", "id.token.claim": "false",
			},
		})
	}
	for _, claim := range slices.Sorted(maps.Keys(claims)) {
		if claims[claim] == "" {
			continue // the server keeps no empty values
		}
		name, protocol, mapper := ours+claim, "openid-connect", hardcoded
		out = append(out, gocloak.ProtocolMapperRepresentation{
			Name: &name, Protocol: &protocol, ProtocolMapper: &mapper,
			Config: &map[string]string{
				"claim.name":  strings.ReplaceAll(claim, ".", `\.`), // a dot would nest
				"claim.value": claims[claim], "jsonType.label": "String",
				"access.token.claim": "true", "id.token.claim": "true", "userinfo.token.claim": "true",
				"access.tokenResponse.claim": "false",
			},
		})
	}
	return out
}

// compare says which mappers go and which come. One that somebody else added
// stays, unless it writes a claim of ours.
func compare(have, want []gocloak.ProtocolMapperRepresentation) (remove, add []gocloak.ProtocolMapperRepresentation) {
	matched := map[string]bool{}
	for _, h := range have {
		i := slices.IndexFunc(want, func(w gocloak.ProtocolMapperRepresentation) bool {
			return text(w.Name) == text(h.Name) || config(w, "claim.name") == config(h, "claim.name")
		})
		switch {
		case i < 0 && strings.HasPrefix(text(h.Name), ours):
			remove = append(remove, h)
		case i < 0:
		case equal(h, want[i]) && !matched[text(h.Name)]:
			matched[text(h.Name)] = true
		default:
			remove = append(remove, h)
		}
	}
	for _, w := range want {
		if !matched[text(w.Name)] {
			add = append(add, w)
		}
	}
	slices.SortFunc(remove, func(a, b gocloak.ProtocolMapperRepresentation) int { return cmp.Compare(text(a.ID), text(b.ID)) })
	return remove, add
}

func equal(have, want gocloak.ProtocolMapperRepresentation) bool {
	if text(have.Name) != text(want.Name) || text(have.ProtocolMapper) != text(want.ProtocolMapper) {
		return false
	}
	for key, v := range *want.Config {
		if config(have, key) != v {
			return false
		}
	}
	return true
}

// claims reads the mappers back.
func claims(rep *gocloak.Client) map[string]string {
	out := map[string]string{}
	if rep.ProtocolMappers == nil {
		return out
	}
	for _, m := range *rep.ProtocolMappers {
		claim, mine := strings.CutPrefix(text(m.Name), ours)
		if mine && claim != "clientId" && text(m.ProtocolMapper) == hardcoded {
			out[claim] = config(m, "claim.value")
		}
	}
	return out
}

func config(m gocloak.ProtocolMapperRepresentation, key string) string {
	if m.Config == nil {
		return ""
	}
	return (*m.Config)[key]
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func list(l *[]string) []string {
	if l == nil {
		return nil
	}
	return *l
}
