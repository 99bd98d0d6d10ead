package app

import (
	"context"
	"log/slog"

	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/command"
	"github.com/droverhq/drover/internal/hook"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/reconcile"
	"github.com/droverhq/drover/internal/subscription"
)

// Messages is how a server with this bus tells of changes.
func Messages(name string, next reconcile.Reconciler) (map[string]subscription.Sink, reconcile.Reconciler) {
	s := &Server{}
	s.cfg.Bus = name
	return s.sinks(&hook.Caller{}), s.telling(next)
}

// Refuser tells a log and a ledger of messages that were refused.
func Refuser(log *slog.Logger, store ledger.Committer) func(ctx context.Context, r command.Refusal) {
	return newHeard(nil, log, store).Refused
}

// OpenRabbit opens a broker by the options of --bus-options.
func OpenRabbit(set ...string) error {
	s := &Server{}
	s.cfg.BusOptions = set
	s.own = &own{cfg: &s.cfg, names: &names{}}
	_, err := s.rabbit(bus.Options(pairs(set)))
	return err
}

// OpenSignals opens the broker that both sites reach.
func (x Keeper) OpenSignals() error { return x.k.openSignals() }
