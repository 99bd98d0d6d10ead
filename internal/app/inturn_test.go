package app_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/droverhq/drover/internal/app"
	"github.com/droverhq/drover/internal/fault"
)

// An agent waits for a cluster that will let it work again, and ends where it never will.
func TestInTurn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason string
		err    error
		waits  bool
	}{
		"away":   {"An API server comes back.", fault.New(fault.Unavailable, "away"), true},
		"full":   {"Somebody makes room.", fault.New(fault.Exhausted, "full"), true},
		"fenced": {"The other replica ends.", fault.New(fault.Conflict, "fenced").Because("fenced"), true},
		"wrong":  {"A name that is none stays none.", fault.New(fault.Invalid, "wrong"), false},
		"other":  {"Whoever starts the agent again is told.", errors.New("broken"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			turns := 0
			err := app.InTurn(t.Context(), func(context.Context, func(context.Context) error) error {
				if turns++; turns == 1 {
					return c.err
				}
				return errors.New("the end")
			}, nil, slog.New(slog.DiscardHandler))
			if waited := turns == 2; waited != c.waits || err == nil {
				t.Errorf("%s It had %d turns and ended with %v", c.reason, turns, err)
			}
		})
	}
}
