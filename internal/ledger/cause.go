package ledger

import "context"

type causeKey struct{}

// WithCause returns a context whose writes have this cause.
func WithCause(ctx context.Context, c Cause) context.Context {
	return context.WithValue(ctx, causeKey{}, c)
}

// CauseOf returns the cause that the context carries, "schedule:unknown" if none.
func CauseOf(ctx context.Context) Cause {
	if c, ok := ctx.Value(causeKey{}).(Cause); ok {
		return c
	}
	return BySchedule("unknown")
}
