package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/droverhq/drover/internal/ledger"
)

// RetainOnce takes away what is kept no longer, of a server with this ledger.
func RetainOnce(ctx context.Context, l ledger.Ledger, log *slog.Logger, retention time.Duration, now time.Time) {
	s := &Server{ledger: unclosed{l}, log: log}
	s.cfg.Retention = retention
	s.retainOnce(ctx, now)
}

// Retain does so again and again.
func Retain(ctx context.Context, l ledger.Ledger) error {
	return (&Server{ledger: unclosed{l}}).retain(ctx)
}
