package app

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"time"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/bus/rabbitmq"
	"github.com/droverhq/drover/internal/command"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/hook"
	"github.com/droverhq/drover/internal/httpapi"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/reconcile"
	"github.com/droverhq/drover/internal/subscription"
)

// inProcess is the bus that nobody outside can follow.
const inProcess = "inprocess"

// messageRooms puts commands and subscriptions together. The API, which carries
// commands out, is made later.
func (s *Server) messageRooms(authenticator *access.Authenticator, calls *hook.Caller) error {
	open, ok := buses[s.cfg.Bus]
	if !ok {
		return fault.New(fault.Invalid, "--bus: there is no %q; there are inprocess and rabbitmq", s.cfg.Bus)
	}
	var err error
	if s.bus, err = open(s, bus.Options(pairs(s.cfg.BusOptions))); err != nil {
		return err
	}
	s.commands = command.NewService(command.Config{Store: s.ledger, Bus: s.bus, Authenticator: authenticator, Feed: s.feed, Observer: newHeard(s.told, s.log, s.ledger), Tracer: s.tracer, Key: s.keys.digests})
	s.subscriptions = subscription.NewService(subscription.Config{
		Store: s.ledger, Keeper: s.ledger, Log: s.ledger, Feed: s.feed, Observer: s.told,
		Encoder: httpapi.Events{Offerings: s.offering.Registry()}, Kinds: httpapi.EventKinds(),
		Sinks: s.sinks(calls),
	})
	newConsumerMetrics(s.metrics, s.bus)
	return nil
}

// rabbit is the broker, wherever it is and whoever opens it.
func (s *Server) rabbit(o bus.Options) (bus.Bus, error) {
	who, err := s.own.broker("bus-options", o)
	if err != nil {
		return nil, err
	}
	with := rabbitmq.Outside{Observer: s.calls, Dial: s.own.names.DialContext, Guard: s.keys,
		Had: func(ctx context.Context, queue string) bool { return queue == command.Queue && s.commands.Heard(ctx) },
		Dead: func(ctx context.Context, queue string, d bus.Delivery) error {
			if queue != command.Queue {
				return nil
			}
			return s.commands.Bury(ctx, d)
		},
		Lost: func(queue string) {
			s.log.Warn("a queue of the broker is not there any more, and what was in it is lost: those who have sent commands of late are told to send again, with the same ids, what they have heard neither accepted nor rejected of", "queue", queue)
			s.commands.Miss()
		},
		Away: awayOn(s.log), Back: backOn(s.log)}
	if who != nil {
		with.Login = who
	}
	return unsettled(rabbitmq.Connect(o, with))
}

// awayOn and backOn say once each that a broker is away, and that it is back.
func awayOn(log *slog.Logger) func(broker string, why error) {
	return func(broker string, why error) {
		log.Warn("the broker is away: what comes and goes by it waits until it is back, and nothing else is affected", "broker", broker, "error", why)
	}
}

func backOn(log *slog.Logger) func(broker string, after time.Duration) {
	return func(broker string, after time.Duration) {
		log.Info("the broker is back", "broker", broker, "after", after.Round(time.Millisecond))
	}
}

// unsettled says which setting is wrong.
func unsettled(b bus.Bus, err error) (bus.Bus, error) {
	if err != nil {
		return nil, fault.New(fault.Invalid, "--bus-options: %w", err)
	}
	return b, nil
}

// sinks are where this replica can tell of changes.
func (s *Server) sinks(calls *hook.Caller) map[string]subscription.Sink {
	sinks := map[string]subscription.Sink{subscription.ToWebhook: &subscription.Webhook{Poster: calls, Keeper: s.ledger, Tracer: s.tracer}}
	if s.cfg.Bus != inProcess { // which would take everything, and bring it to nobody
		sinks[subscription.ToBus] = &subscription.Bus{Publisher: s.bus, Tracer: s.tracer}
		sinks[subscription.ToAnswers] = subscription.Answers(s.answer)
	}
	return sinks
}

// telling carries subscriptions forward, the broker's where there is one.
func (s *Server) telling(next reconcile.Reconciler) reconcile.Reconciler {
	if s.cfg.Bus == inProcess {
		return brokerless{next}
	}
	return next
}

// brokerless leaves the broker's subscriptions to replicas that have one, which may be
// all others, or those that come after: what it would tell stays to be told.
type brokerless struct{ reconcile.Reconciler }

// Reconcile implements reconcile.Reconciler.
func (b brokerless) Reconcile(ctx context.Context, task reconcile.Task) (reconcile.Result, error) {
	if task.Ref.ID == subscription.BusID || task.Ref.ID == subscription.AnswersID {
		return reconcile.Wait(ledger.Set{}, 5*time.Second, "this replica has no broker (--bus): one that has is waited for"), nil
	}
	return b.Reconciler.Reconcile(ctx, task)
}

// answer sends what an event tells of a command to whoever sent that. What cannot be told
// holds up nobody else.
func (s *Server) answer(ctx context.Context, e *subscription.Event) error {
	what, ours := strings.CutPrefix(e.Type, command.TypePrefix)
	if !ours || what == command.Deleted {
		return nil
	}
	var told struct{ Object v1.Object }
	err := json.Unmarshal(e.Data, &told)
	o := told.Object
	if err == nil && len(o.Spec) == 0 {
		return nil // it was erased, and where its answers go with it; its last change never is
	}
	var c command.Command
	if err == nil {
		c, err = command.Decode(ledger.Object{Ref: ledger.Ref{Kind: o.Kind, ID: o.ID}, Org: o.Org, Owner: o.Owner, Name: o.Name, Phase: o.Phase, Fields: o.Fields, Spec: o.Spec, Status: o.Status, Updated: o.Updated})
	}
	if err != nil { // another try reads the same, and all others would wait for it
		s.log.WarnContext(ctx, "a command cannot be read, and its sender is not answered: verify the ledger", "command", e.Subject, "sequence", e.Sequence, "error", err)
		return nil
	}
	c.Spec.Trace = cmp.Or(e.Trace, c.Spec.Trace)
	return s.commands.Reply(ctx, c, e.ID, what)
}

// converse takes commands and tells of changes until ctx ends.
func (s *Server) converse() []func(context.Context) error {
	tasks := []func(context.Context) error{s.subscriptions.Follow, func(ctx context.Context) error { return s.commands.Follow(ctx, s.ledger) }}
	if s.cfg.Bus == inProcess {
		return append(tasks, s.commands.Run) // whoever is in the process has the feed
	}
	return append(tasks, func(ctx context.Context) error {
		for s.subscriptions.EnsureBus(ctx) != nil && ctx.Err() == nil { // answers are told from there on
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
		return s.commands.Run(ctx)
	}, s.commands.Warn)
}

// once is the ledger that writes the record of a command with what it does.
type once struct {
	store
	command.Committer
}

// Commit implements ledger.Committer.
func (o once) Commit(ctx context.Context, set ledger.Set) (ledger.Result, error) {
	return o.Committer.Commit(ctx, set)
}

func recorded(l store) store { return once{l, command.Committer{Committer: l, Reader: l}} }

// putAside shows the API what was put aside.
type putAside struct{ bus.Aside }

// List implements httpapi.Rejected.
func (p putAside) List(ctx context.Context, limit int) ([]httpapi.RejectedMessage, error) {
	all, err := p.Aside.List(ctx, limit)
	out := make([]httpapi.RejectedMessage, 0, len(all))
	for i := range all {
		out = append(out, rejected(&all[i]))
	}
	return out, err
}

// Show implements httpapi.Rejected.
func (p putAside) Show(ctx context.Context, key string) (httpapi.RejectedMessage, error) {
	m, err := p.Aside.Show(ctx, key)
	return rejected(&m), err
}

func rejected(m *bus.Rejected) httpapi.RejectedMessage {
	id, kind := m.ID, m.Type
	if id == "" || kind == "" {
		inside, of := envelope(m.Body)
		id, kind = cmp.Or(id, inside), cmp.Or(kind, of)
	}
	return httpapi.RejectedMessage{Content: m.Body, RejectedMessage: v1.RejectedMessage{
		Key: m.Key, ID: id, Queue: m.Queue, Reason: m.Reason, Type: kind, At: m.At, Size: m.Size}}
}

// envelope finds the id and the type of a CloudEvent in JSON, of which there may be the
// beginning alone. What is none has neither.
func envelope(body []byte) (id, kind string) {
	d := json.NewDecoder(bytes.NewReader(body))
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return "", ""
	}
	for {
		name, err := d.Token()
		if err != nil {
			return id, kind
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return id, kind
		}
		var text string
		if json.Unmarshal(value, &text) != nil || len(text) > maxWord {
			continue
		}
		switch name {
		case "id":
			id = text
		case "type":
			kind = text
		}
	}
}

// maxWord is how long an id and a type may be in order to be shown beside their message.
const maxWord = 256
