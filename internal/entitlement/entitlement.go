// Package entitlement is the port to what tenants are entitled to: how many
// units of which instance type, under which billing model, until when.
//
// It owns the contract and nothing of any source. It must not know instances.
package entitlement

import (
	"context"
	"time"
)

// Who asks.
type Who struct {
	User    string
	Org     string
	Account string
}

// Product is what is asked for.
type Product struct {
	Offering string
	Type     string
	Billing  string // model; empty where the offering has none
	// Resource, Name and Models are the product's names at a remote source.
	Resource string
	Name     string
	Models   []string
}

// Grant is an answer. The zero Grant grants nothing.
type Grant struct {
	Units int64 // in all; negative: no limit
	// Holder is who shares the units: "org/acme" or "owner/alice". Whoever
	// counts, counts under this name. Empty: the source says nothing of it,
	// which grants nothing, and takes nothing away from who has it.
	Holder  string
	Expires time.Time // zero: never
	// MaxInstances bounds the instances of the holder over all types of the
	// offering; negative or 0: no such bound.
	MaxInstances int64
}

// Active reports whether the grant grants anything at that time.
func (g Grant) Active(now time.Time) bool {
	return g.Units != 0 && (g.Expires.IsZero() || now.Before(g.Expires))
}

// Source of entitlements. Faults: Unavailable where it cannot be asked (nothing
// is taken away because of that), Denied where it refuses.
type Source interface {
	// Name is what instances remember as their quota_type.
	Name() string
	// Grant tells what somebody is entitled to; none is no error.
	Grant(ctx context.Context, who Who, p Product) (Grant, error)
	// Reserve takes units under an id of the caller's, which makes it safe to
	// ask twice, and returns the source's own number of it, if it has one.
	Reserve(ctx context.Context, who Who, p Product, id string, units int64) (ticket string, err error)
	// Release gives a reservation back; one that is not there is fine.
	Release(ctx context.Context, ticket, id string) error
}

type checkingKey struct{}

// Checking marks that only what is there already is looked at again. A source
// that is away may then answer with what it said last; for something new it
// must not.
func Checking(ctx context.Context) context.Context {
	return context.WithValue(ctx, checkingKey{}, true)
}

// IsChecking reports whether the context was marked by Checking.
func IsChecking(ctx context.Context) bool {
	checking, _ := ctx.Value(checkingKey{}).(bool)
	return checking
}
