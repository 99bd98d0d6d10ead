package operation

import (
	"context"
	"slices"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// Store is what retention needs of the ledger.
type Store interface {
	List(ctx context.Context, query ledger.Query) ([]ledger.Object, error)
	Commit(ctx context.Context, set ledger.Set) (ledger.Result, error)
}

// Retain takes operations that ended before a time off the lists, and tells how many.
func Retain(ctx context.Context, store Store, before, now time.Time) (int, error) {
	return TakeOff(ctx, store, Retention{Kind: Kind.Name, Ended: []string{Succeeded, Failed, Superseded}, Before: before, Now: now})
}

// Retention says what is taken off the lists: objects of a kind that are in one of some
// phases since before a time.
type Retention struct {
	Kind        string
	Ended       []string
	Before, Now time.Time
}

// looked is how many objects are read at once.
const looked = 1000

// TakeOff takes objects that ended long ago off the lists, and tells how many. What they were
// stays in the log, and who knows the id of one still finds it. Several may do so at once. It
// reads no more than what is that old, by the index of when objects were made: the price of it
// does not depend on how many there are.
func TakeOff(ctx context.Context, store Store, r Retention) (n int, err error) {
	for kept := 0; ; {
		found, err := store.List(ctx, ledger.Query{Kind: r.Kind, Order: []ledger.Order{{Column: "created"}}, Offset: kept, Limit: looked})
		if err != nil {
			return n, err
		}
		read := len(found)
		found = slices.DeleteFunc(found, func(o ledger.Object) bool { return !o.Created.Before(r.Before) })
		old := len(found)
		found = slices.DeleteFunc(found, func(o ledger.Object) bool { return !slices.Contains(r.Ended, o.Phase) || !o.Updated.Before(r.Before) })
		kept += old - len(found)
		for some := range slices.Chunk(found, ledger.MaxGone) {
			set := ledger.Set{Actor: "system", Cause: ledger.BySchedule("retention")}
			for _, o := range some {
				o.Deleted = r.Now.UTC()
				set.Puts = append(set.Puts, ledger.Put{Object: o, Expect: o.Version, Op: "delete"})
			}
			_, err := store.Commit(ctx, set)
			if fault.Is(err, fault.Conflict) {
				return n, nil // another replica does it
			}
			if err != nil {
				return n, err
			}
			n += len(some)
		}
		if read < looked || old < read {
			return n, nil
		}
	}
}
