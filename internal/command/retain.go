package command

import (
	"context"
	"time"

	"github.com/droverhq/drover/internal/operation"
)

// Retain takes the records of commands that ended before a time off the lists, and tells how
// many. A command that comes again is known by its record all the same.
func Retain(ctx context.Context, store operation.Store, before, now time.Time) (int, error) {
	return operation.TakeOff(ctx, store, operation.Retention{Kind: Kind.Name, Ended: []string{Rejected, Done, Failed}, Before: before, Now: now})
}
