// Package access knows who is calling and what they may do: principals, tokens
// of any OIDC issuer and of the built-in one, and the keys of the latter.
//
// It must not know HTTP routes or any other domain.
package access

import (
	"context"
	"strings"
	"time"
)

// Principal is an authenticated caller.
type Principal struct {
	User     string   // username claim
	Org      string   // organisation; empty: the caller sees only what it owns
	Account  string   // account_id claim
	OrgAdmin bool     // is_org_admin claim
	Roles    []string // realm_access.roles claim, of an issuer that may name admins
	Cluster  string   // set for an agent: the only cluster it may speak for
	Admin    bool     // operator of this control plane: sees and may do everything
	// Client is the id of the program whose own account this is, empty for a
	// person. It means something only together with Issuer: any issuer may
	// have a client of that name.
	Client string
	Issuer string // iss claim of the token
	// Issued is when an agent's token was made; zero: it does not say.
	Issued time.Time
}

// Actor is how the log names the principal.
func (p Principal) Actor() string {
	if p.Cluster != "" {
		return "agent:" + p.Cluster
	}
	if p.User == "system" || strings.HasPrefix(p.User, "agent:") {
		return "user:" + p.User // nobody may sign as the loop or as an agent
	}
	return p.User
}

// Scope is the columns that limit what the principal sees; nil = everything.
func (p Principal) Scope() map[string]any {
	switch {
	case p.Admin:
		return nil
	case p.Org != "":
		return map[string]any{"org": p.Org}
	}
	return map[string]any{"org": "", "owner": p.User}
}

// Sees reports whether an object of this organisation and owner is visible.
// Without an organisation a caller sees its own objects outside of all
// organisations: a user's name alone says nothing across issuers.
func (p Principal) Sees(org, owner string) bool {
	return p.Admin || (p.Org != "" && p.Org == org) || (p.Org == "" && org == "" && p.User != "" && p.User == owner)
}

// MayChange tells whether it may be updated and deleted: the admin any, the org
// admin its organisation's, everybody their own.
func (p Principal) MayChange(org, owner string) bool {
	return p.Admin || p.Sees(org, owner) && (p.OrgAdmin || p.User == owner)
}

type key struct{}

// With returns a context that carries the principal.
func With(ctx context.Context, p Principal) context.Context { return context.WithValue(ctx, key{}, p) }

// From returns the principal of the context; the zero Principal sees nothing.
func From(ctx context.Context) Principal {
	p, _ := ctx.Value(key{}).(Principal)
	return p
}
