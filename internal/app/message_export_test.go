package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/command"
	"github.com/droverhq/drover/internal/hook"
	"github.com/droverhq/drover/internal/httpapi"
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

// Answering are the subscriptions of a server that answers commands on a bus.
func Answering(l ledger.Ledger, b bus.Bus, log *slog.Logger) *subscription.Service {
	s := &Server{ledger: unclosed{l}, log: log}
	s.cfg.Bus, s.bus = "rabbitmq", b
	s.commands = command.NewService(command.Config{Store: l, Bus: b})
	return subscription.NewService(subscription.Config{Store: l, Keeper: l, Log: l, Feed: ledger.NewFeed(l),
		Encoder: httpapi.Events{}, Kinds: httpapi.EventKinds(), Sinks: s.sinks(&hook.Caller{})})
}

// TellOfBroker has a log told that a broker is away, and that it is back.
func TellOfBroker(log *slog.Logger, broker string, why error, after time.Duration) {
	awayOn(log)(broker, why)
	backOn(log)(broker, after)
}

// Shown is a message that was put aside, as the API has it.
func Shown(m bus.Rejected) (id, kind string) { s := rejected(&m); return s.ID, s.Type }

// Answered is when a side was heard last.
var Answered = answered

// DoorBroker is how calls of the broker are named.
const DoorBroker = doorBroker
