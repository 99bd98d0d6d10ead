package command

import (
	"context"
	"time"

	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/ledger"
)

// Lost is what the senders of commands hear when somebody has deleted a queue with what lay
// in it. Which commands these were nobody knows.
const Lost = "lost"

const (
	lately  = 24 * time.Hour // whoever has sent a command since is told
	callers = 10_000         // of how many of the newest commands the senders are told
)

// Heard reports whether a command ever came: the queue was there then.
func (s *Service) Heard(ctx context.Context) bool {
	some, err := s.Store.List(ctx, ledger.Query{Kind: Kind.Name, Limit: 1, Brief: true})
	return err == nil && len(some) > 0
}

// Miss has the senders be told that a queue was deleted; Warn does it.
func (s *Service) Miss() {
	select {
	case s.missed <- s.Now().UTC():
	default: // they are about to be told
	}
}

// Warn tells senders of queues that were deleted until ctx ends.
func (s *Service) Warn(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case at := <-s.missed:
			for wait := time.Second; s.warn(ctx, at) != nil && bus.Rest(ctx, wait); wait = min(2*wait, time.Minute) {
			}
		}
	}
}

// warn tells each address that commands of late wanted their answers at, once. After an
// error some were told, and are told again.
func (s *Service) warn(ctx context.Context, at time.Time) error {
	recent, err := s.Store.List(ctx, ledger.Query{Kind: Kind.Name, Limit: callers, Order: []ledger.Order{{Column: "created", Desc: true}}})
	if err != nil {
		return err
	}
	a := Answer{Phase: Lost, Code: "queue-deleted", At: at,
		Reason: "somebody has deleted the queue of commands, with what lay in it: send again, with the same ids, those of which you have heard neither accepted nor rejected; what was done is not done twice"}
	told := map[string]bool{}
	for _, o := range recent {
		if at.Sub(o.Created) > lately {
			break
		}
		c, err := Decode(o)
		if err != nil || c.Spec.ReplyTo == "" || told[c.Spec.ReplyTo] {
			continue
		}
		told[c.Spec.ReplyTo] = true
		if err := s.send(ctx, c.Spec.ReplyTo, "", "", envelopeOf(ledger.NewID(), Lost, a)); err != nil {
			return err
		}
	}
	return nil
}
