// Package sso is the port to the identity provider: the clients (accounts of
// programs) that instances, clusters' agents and tenants have there.
//
// It owns the contract and nothing of any provider. It must not know what the
// accounts are for.
package sso

import "context"

// Client is an account of a program at the identity provider. The caller picks
// its id and its secret, and keeps the secret: what was lost there can be made
// anew with Apply, and doing it twice changes nothing.
type Client struct {
	ID     string // "srvc-acct-<uuid>"
	Secret string // never empty in Apply; empty where a provider does not tell
	Name   string
	// Description is for people who look at the provider.
	Description string
	// Claims are put into every token of the client, besides clientId:
	// "rh-org-id", "rh-user-id", "username", "fleetshard-operator-cluster-id", ...
	Claims map[string]string
	// Roles of the realm (realm_access.roles) that its tokens carry.
	Roles []string
	// Redirects make it an application that people log in to: the URLs they may
	// be sent back to.
	Redirects []string
}

// Endpoints are where an identity provider is found.
type Endpoints struct {
	Name     string // "builtin", "keycloak"
	BaseURL  string
	Realm    string
	Issuer   string
	TokenURL string
	JWKSURL  string
}

// Provider is an identity provider. Faults: NotFound where a client is not
// there (never because it could not be asked), Unavailable where it cannot be
// asked, Invalid where it refuses what it was given. Implementations put a
// deadline on every call and never return a secret in an error.
type Provider interface {
	// Apply makes the client as it is described, whether it was there or not.
	Apply(ctx context.Context, c Client) error
	// Get tells what is there. Secret is filled in where the provider tells.
	Get(ctx context.Context, id string) (Client, error)
	// Delete removes a client; one that is not there is fine.
	Delete(ctx context.Context, id string) error
	// Endpoints for users of the accounts.
	Endpoints() Endpoints
}
