package operation

import (
	"context"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// Store is what retention needs of the ledger.
type Store interface {
	List(ctx context.Context, query ledger.Query) ([]ledger.Object, error)
	Commit(ctx context.Context, set ledger.Set) (ledger.Result, error)
}

// Retain takes operations that ended before a time off the lists, the oldest first,
// and tells how many. What they were stays in the log. Several may do so at once.
func Retain(ctx context.Context, store Store, before, now time.Time) (int, error) {
	for n := 0; ; {
		found, err := store.List(ctx, ledger.Query{
			Kind: Kind.Name, Limit: ledger.MaxGone, Order: []ledger.Order{{Column: "updated"}},
			Where: ledger.And{
				ledger.Compare{Column: "updated", Op: ledger.Lt, Values: []any{before.UTC()}},
				ledger.Compare{Column: "phase", Op: ledger.In, Values: []any{Succeeded, Failed, Superseded}},
			},
		})
		if err != nil || len(found) == 0 {
			return n, err
		}
		set := ledger.Set{Actor: "system", Cause: ledger.BySchedule("retention")}
		for _, o := range found {
			o.Deleted = now.UTC()
			set.Puts = append(set.Puts, ledger.Put{Object: o, Expect: o.Version, Op: "delete"})
		}
		_, err = store.Commit(ctx, set)
		if fault.Is(err, fault.Conflict) {
			return n, nil // another replica does it
		}
		if err != nil {
			return n, err
		}
		n += len(found)
	}
}
