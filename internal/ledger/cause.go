package ledger

import (
	"context"
	"strings"
)

type (
	causeKey  struct{}
	originKey struct{}
	orgKey    struct{}
)

// WithCause returns a context whose writes have this cause.
func WithCause(ctx context.Context, c Cause) context.Context {
	return context.WithValue(ctx, causeKey{}, c)
}

// CauseOf returns the cause that the context carries, "schedule:unknown" if none.
func CauseOf(ctx context.Context) Cause {
	if c, ok := KnownCause(ctx); ok {
		return c
	}
	return BySchedule("unknown")
}

// KnownCause returns the cause that the context carries, if it does.
func KnownCause(ctx context.Context) (Cause, bool) {
	c, ok := ctx.Value(causeKey{}).(Cause)
	return c, ok
}

// Request returns the id of the request that the cause is.
func (c Cause) Request() (id string, ok bool) {
	if id, ok = strings.CutPrefix(string(c), "request:"); !ok {
		return "", false
	}
	return id, true
}

// WithOrg returns a context of work for an organisation; what is logged in it says so.
func WithOrg(ctx context.Context, org string) context.Context {
	if org == "" {
		return ctx
	}
	return context.WithValue(ctx, orgKey{}, org)
}

// OrgOf returns whom the context's work is for, empty if nobody in particular.
func OrgOf(ctx context.Context) string {
	org, _ := ctx.Value(orgKey{}).(string)
	return org
}

// MaxOrigin bounds what is kept of where a write came from.
const MaxOrigin = 64

// WithOrigin returns a context whose writes came from an address. What is no plain,
// short text is left out.
func WithOrigin(ctx context.Context, from string) context.Context {
	if !plain(from) || len(from) > MaxOrigin {
		return ctx
	}
	return context.WithValue(ctx, originKey{}, from)
}

// OriginOf returns where the context's writes came from, empty if from here.
func OriginOf(ctx context.Context) string {
	from, _ := ctx.Value(originKey{}).(string)
	return from
}
