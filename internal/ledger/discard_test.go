package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// shredder remembers what it was to destroy, and refuses whoever has left.
type shredder []string

func (s *shredder) Shred(ctx context.Context, ref string) error {
	if ctx.Err() == nil {
		*s = append(*s, ref)
	}
	return ctx.Err()
}

// What was sealed for a commit goes only where nothing can name it.
func TestDiscard(t *testing.T) {
	unknown := fault.New(fault.Unavailable, "the answer was lost").Because(ledger.ReasonUnknown)
	left, leave := context.WithCancel(t.Context())
	leave()
	for _, tc := range []struct {
		reason string
		ctx    context.Context
		err    error
		want   []string
	}{
		{"it was written", t.Context(), nil, nil},
		{"it was refused", t.Context(), fault.New(fault.Conflict, "no").Because("version"), []string{"a", "b"}},
		{"the database is away, and nothing was written", t.Context(), fault.New(fault.Unavailable, "away").Because("database-away"), []string{"a", "b"}},
		{"it failed before it was tried", t.Context(), errors.New("no"), []string{"a", "b"}},
		{"the caller has left", left, fault.New(fault.Unavailable, "busy").Because("database-busy"), []string{"a", "b"}},
		{"it may have been written", t.Context(), unknown, nil},
		{"somebody has wrapped that", t.Context(), fmt.Errorf("cannot: %w", unknown), nil},
		{"it is the second of two", t.Context(), fmt.Errorf("%w: %w", fault.New(fault.Conflict, "no"), unknown), nil},
		{"somebody has given it another reason", t.Context(), fault.New(fault.Internal, "no: %w", unknown).Because("other"), nil},
	} {
		var gone shredder
		ledger.Discard(tc.ctx, &gone, tc.err, "a", "", "b")
		if !slices.Equal(gone, tc.want) {
			t.Errorf("%s: %q are gone, want %q", tc.reason, gone, tc.want)
		}
	}
}
