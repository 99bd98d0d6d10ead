package command

import (
	"context"
	"errors"
	"strings"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// Bury tells the sender of a message that the broker has put aside by itself. One that was
// carried out all the same, and only the news of that was lost, is answered with what became
// of it. An error says that it could not be told yet.
func (s *Service) Bury(ctx context.Context, d bus.Delivery) error {
	began := s.Now()
	e, wrong := Parse(&d.Message)
	outcome, why := "failed", error(fault.New(fault.Unavailable, "the broker has put it aside (%s), and nothing was done: send it again, with the same id", d.Dead).Because("put-aside"))
	switch {
	case d.Large > 0:
		outcome, why = "malformed", tooLarge(d.Large)
	case wrong != nil:
		outcome, why = "malformed", wrong
	default:
		o, digest, err := s.record(ctx, &d.Message, e)
		switch {
		case errors.Is(err, access.ErrIssuerAway) || fault.Is(err, fault.Denied): // those behind it do not wait for that, and an expired token may have been good when it was done
			why = fault.New(fault.Unavailable, "the broker has put it aside (%s), and whether it was done before cannot be looked up: send it again, with the same id", d.Dead).Because("put-aside")
		case err != nil:
			return err
		case o != nil:
			_, err := s.repeat(ctx, &d.Message, e, digest, *o)
			return err
		}
	}
	if untold := s.refuse(ctx, &d.Message, e, why); untold != nil {
		return untold
	}
	s.Observer.Taken(e.name, outcome, s.Now().Sub(began))
	s.refused(ctx, &d.Message, e, outcome)
	return nil
}

// record finds that of a command; nil: there is none. Whose it would be must be known.
func (s *Service) record(ctx context.Context, m *bus.Message, e envelope) (*ledger.Object, string, error) {
	if tokenOf(m) == "" { // nothing was ever done for nobody
		return nil, "", nil
	}
	who, err := s.Authenticator.Authenticate(ctx, tokenOf(m))
	if err != nil {
		return nil, "", err
	}
	o, err := s.Store.Get(ctx, ledger.Ref{Kind: Kind.Name, ID: ID(who.Org, who.User, e.Source, e.ID)})
	if fault.Is(err, fault.NotFound) {
		return nil, "", nil
	}
	return &o, e.digest(s.Key), err
}

// tokenOf is the one in a message, empty if there is none.
func tokenOf(m *bus.Message) string {
	return strings.TrimPrefix(header(m, "authorization"), "Bearer ")
}
