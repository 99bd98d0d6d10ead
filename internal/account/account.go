// Package account owns the service accounts of tenants: programs that log in at
// the identity provider. Their secrets are shown once.
//
// It must not know instances, clusters or any identity provider.
package account

import (
	"context"
	"time"
)

// Account is a service account as its tenant sees it.
type Account struct {
	ID          string // of the object
	ClientID    string // "srvc-acct-<uuid>"
	Name        string
	Description string
	Owner       string
	Org         string
	Created     time.Time
	Secret      string // only in the answers of Create and Reset
}

// Verbs are what the API offers; the caller comes with the context. *Service
// implements it. Faults beyond the usual: Invalid, reasons "account-name",
// "account-description", "account-id"; NotFound, reason "account"; Denied,
// reason "account-limit" (50 in an organisation, configurable); Unavailable,
// reasons "account-create", "account-get", "account-delete" where the identity
// provider cannot be reached.
type Verbs interface {
	Create(ctx context.Context, name, description string) (Account, error)
	List(ctx context.Context, clientID string, page, size int) ([]Account, int64, error)
	Get(ctx context.Context, idOrClient string) (Account, error)
	Delete(ctx context.Context, idOrClient string) error
	Reset(ctx context.Context, idOrClient string) (Account, error)
}
