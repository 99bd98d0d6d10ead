package app

import (
	"context"
	"log/slog"

	"github.com/droverhq/drover/internal/command"
	"github.com/droverhq/drover/internal/hook"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/reconcile"
	"github.com/droverhq/drover/internal/subscription"
)

// Messages is how a server with this bus tells of changes.
func Messages(bus string, next reconcile.Reconciler) (map[string]subscription.Sink, reconcile.Reconciler) {
	s := &Server{}
	s.cfg.Bus = bus
	return s.sinks(&hook.Caller{}), s.telling(next)
}

// Refuser tells a log and a ledger of messages that were refused.
func Refuser(log *slog.Logger, store ledger.Committer) func(ctx context.Context, r command.Refusal) {
	return newHeard(nil, log, store).Refused
}
