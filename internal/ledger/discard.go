package ledger

import (
	"context"
	"errors"
	"time"

	"github.com/droverhq/drover/internal/fault"
)

// ReasonUnknown is that of a commit which may yet have been written.
const ReasonUnknown = "outcome-unknown"

// Discard destroys what was sealed for a commit that failed for sure, also where its
// caller has left. What was sealed for one that may have been written stays: an object
// may name it. What cannot be destroyed stays sealed, and nobody's.
func Discard(ctx context.Context, keeper interface {
	Shred(ctx context.Context, ref string) error
}, failed error, refs ...string) {
	if failed == nil || unknown(failed) {
		return
	}
	late, stop := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer stop()
	for _, ref := range refs {
		if ref != "" {
			_ = keeper.Shred(late, ref)
		}
	}
}

// unknown tells whether an error is that of a commit which may yet have been written,
// whatever others have said around it.
func unknown(err error) bool {
	for e := (*fault.Error)(nil); errors.As(err, &e); err = e.Unwrap() {
		if e.Reason == ReasonUnknown {
			return true
		}
	}
	return false
}
