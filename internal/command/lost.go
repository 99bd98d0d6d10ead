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
	lately   = 24 * time.Hour // whoever has sent a command since is told
	together = 200 * time.Millisecond
)

// Heard reports whether a command ever came, however long ago: the queue was there then. Where
// that cannot be told it may have been.
func (s *Service) Heard(ctx context.Context) bool {
	some, err := s.Store.List(ctx, ledger.Query{Kind: Kind.Name, Limit: 1, Brief: true, Deleted: true})
	return err != nil || len(some) > 0
}

// Miss has the senders be told that a queue was deleted; Warn does it.
func (s *Service) Miss() {
	select {
	case s.missed <- s.Now().UTC():
	default: // they are about to be told
	}
}

// Warn tells senders of queues that were deleted until ctx ends. Queues that were deleted
// together are one thing to them.
func (s *Service) Warn(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case at := <-s.missed:
			if !bus.Rest(ctx, together) {
				return nil
			}
			select {
			case at = <-s.missed:
			default:
			}
			told := map[string]bool{}
			for wait := time.Second; s.warn(ctx, at, told) != nil && bus.Rest(ctx, wait); wait = min(2*wait, time.Minute) {
			}
		}
	}
}

// warn tells each address that commands of late wanted their answers at and that was not
// told yet.
func (s *Service) warn(ctx context.Context, at time.Time, told map[string]bool) error {
	recent, err := s.Store.List(ctx, ledger.Query{Kind: Kind.Name, Limit: ledger.MaxPage, Order: []ledger.Order{{Column: "created", Desc: true}},
		Where: ledger.Compare{Column: "created", Op: ledger.Ge, Values: []any{at.Add(-lately)}}})
	if err != nil {
		return err
	}
	a := Answer{Phase: Lost, Code: "queue-deleted", At: at,
		Reason: "the queue of commands is not there any more, with what lay in it: send again, with the same ids, those of which you have heard neither accepted nor rejected; what was done is not done twice"}
	for _, o := range recent {
		c, err := Decode(o)
		if err != nil || c.Spec.ReplyTo == "" || told[c.Spec.ReplyTo] {
			continue
		}
		if err := s.send(ctx, c.Spec.ReplyTo, "", "", envelopeOf(ledger.NewID(), Lost, a)); err != nil {
			return err
		}
		told[c.Spec.ReplyTo] = true
	}
	return nil
}
