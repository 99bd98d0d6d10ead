package command

import (
	"context"

	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/ledger"
)

// Refusal is a message that was refused, as far as it may be told: what it says of
// itself, which nobody has verified, and nothing of its token or its data.
type Refusal struct {
	Command string // empty: none that there is
	Outcome string // denied, reused, malformed, key-lost, failed
	Message string // the sender's id of it, and ...
	Source  string // ... who it says that it is from; empty: not fit for a log
}

// refused tells the observer, in the context of the message's request.
func (s *Service) refused(ctx context.Context, m *bus.Message, e envelope, outcome string) {
	r := Refusal{Command: e.name, Outcome: outcome, Message: e.ID, Source: fit(e.Source)}
	if r.Message = fit(r.Message); r.Message == "" {
		r.Message = fit(m.ID)
	}
	if e.ID != "" || nameable(header(m, "x-request-id")) {
		ctx = ledger.WithCause(ctx, ledger.ByRequest(requestID(m, e)))
	}
	s.Observer.Refused(ctx, r)
}

// fit returns a text that may be told as it is, else nothing.
func fit(text string) string {
	if len(text) > maxText || !plain(text) {
		return ""
	}
	return text
}

// nameable tells whether an id is one that the API takes for that of a request.
func nameable(id string) bool {
	for _, c := range []byte(id) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '.':
		default:
			return false
		}
	}
	return len(id) >= 8 && len(id) <= 64
}
