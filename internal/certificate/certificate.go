// Package certificate is the port to the certificates of instances' hosts.
//
// It owns the contract. It must not know instances, nor where certificates come
// from.
package certificate

import "context"

// Certificate with its key, both PEM. The key is a secret: it is given to
// agents and never written down by the control plane outside of its vault.
type Certificate struct {
	Cert, Key string
}

// Source of certificates. Faults: NotFound where there is none for the host
// yet (whoever asked waits), Unavailable where it cannot be asked.
type Source interface {
	// For returns the certificate for a host of an instance.
	For(ctx context.Context, host string) (Certificate, error)
	// Revoke ends a certificate for a reason of RFC 5280. Invalid where the
	// source cannot, or the host's certificate is not its to end.
	Revoke(ctx context.Context, host string, reason int) error
}
