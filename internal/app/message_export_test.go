package app

import (
	"context"
	"log/slog"

	"github.com/droverhq/drover/internal/command"
	"github.com/droverhq/drover/internal/hook"
	"github.com/droverhq/drover/internal/reconcile"
	"github.com/droverhq/drover/internal/subscription"
)

// Messages is how a server with this bus tells of changes.
func Messages(bus string, next reconcile.Reconciler) (map[string]subscription.Sink, reconcile.Reconciler) {
	s := &Server{}
	s.cfg.Bus = bus
	return s.sinks(&hook.Caller{}), s.telling(next)
}

// Refuse tells a log of a message that was refused.
func Refuse(ctx context.Context, log *slog.Logger, r command.Refusal) {
	heard{log: log}.Refused(ctx, r)
}
