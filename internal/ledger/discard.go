package ledger

import (
	"context"
	"slices"
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
	if e, ok := err.(*fault.Error); ok && e.Reason == ReasonUnknown { //nolint:errorlint // each link is looked at
		return true
	}
	switch e := err.(type) { //nolint:errorlint // as above
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(e.Unwrap(), unknown)
	case interface{ Unwrap() error }:
		return unknown(e.Unwrap())
	}
	return false
}
