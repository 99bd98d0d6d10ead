// Package bus is the port to a message broker: commands come in by it, events and
// answers go out.
//
// It owns the contract: what a message is, when it counts as sent, and when as
// done. It must not know what messages say, nor the ledger that they are about.
// Package bustest checks that an implementation keeps the contract.
package bus

import (
	"bytes"
	"context"
	"errors"
	"time"
)

// MaxBody is the size beyond which a message is neither sent nor taken: larger
// things are named, not sent.
const MaxBody = 1 << 20

// Message is one message. Everything but the topic and the body may be empty.
type Message struct {
	// ID is the sender's. Two messages with one ID are one message that came twice.
	ID string
	// Topic is words with dots between: "acme.environment.7f3.updated". Events are
	// found by it; a command's is the name of its queue.
	Topic       string
	Type        string // what the body is, for whoever looks before reading
	ContentType string
	Time        time.Time // to the second
	ReplyTo     string    // where answers go
	Correlation string    // of an answer: the ID of what it answers
	// Headers travel beside the body: the trace, the token. Implementations add
	// none of their own, and show none in logs or errors.
	Headers map[string]string
	Body    []byte
}

// ReasonFull is that of what a broker refuses to keep because a queue that it would go
// to is full. For how long it is, is its owner's business.
const ReasonFull = "queue-full"

// Delivery is a message that came.
type Delivery struct {
	Message
	Again bool // it may have come before: it, or the news that it was done, was lost
	// Try is how often it was handed over since it came here, this time included, and
	// Failed how many of the times before failed by an error that has to do with the
	// message: Later goes by them.
	Try, Failed int
	Large       int // bytes of a body that is larger than MaxBody, and is not there; else 0
	// Dead is why the broker has put it aside by itself; else empty. It is not to be carried
	// out: its sender is to be told.
	Dead string
	// KeyLost: its token was sealed when it was put aside, and the key for that is gone. It
	// has none.
	KeyLost bool
}

// Bus carries messages. Implementations recover by themselves: a call waits for
// the broker to be back until its ctx ends.
type Bus interface {
	// Publish sends events to whoever follows their topics and returns when the
	// broker has all of them on disk. After an error some may be there, and
	// sending all again is right: whoever reads them knows them by their IDs.
	// Messages of one call keep their order.
	// Faults: Invalid (a message that no try would bring through, such as one that
	// is too large), Unavailable; of reason ReasonFull where the broker is there and
	// refuses to keep it.
	Publish(ctx context.Context, messages ...Message) error
	// Send brings one message to a queue: the address that a Message calls ReplyTo.
	// Faults: as Publish, and NotFound where nobody listens there (any more).
	Send(ctx context.Context, queue string, message Message) error
	// Consume hands the messages of a queue to handle, several at a time, until ctx
	// ends; then it returns nil. A queue is there from its first Consume on, also
	// while nobody consumes. A message is gone when handle has returned nil, and put aside, with the
	// reason, when it has returned an error of Reject. After any other error, or the
	// end of the process, it comes again, later: Later says when, and for how long. What
	// waits for that holds up no other message for longer than a moment.
	// A message that is larger than MaxBody is put aside whatever handle returns: it is
	// handed over without its body, so that its sender can be told.
	// Somebody else's queue with the name is waited for to go, as the broker is to come.
	// Faults: Unavailable (closed).
	Consume(ctx context.Context, queue string, handle func(ctx context.Context, d Delivery) error) error
	// Aside gives the messages that were put aside.
	Aside() Aside
	// Close ends all calls. What was not done comes again to whoever consumes next.
	Close() error
}

// Aside keeps the messages that nobody could take, until somebody decides. A broker that is
// away is waited for only for a moment, unlike by the calls of a Bus: a person asks.
type Aside interface {
	// List returns up to limit of them, oldest first, without headers and with
	// Excerpt bytes of each body at most. Of very many bytes it need not look at all.
	List(ctx context.Context, limit int) ([]Rejected, error)
	// Show returns one as a whole, or NotFound.
	Show(ctx context.Context, key string) (Rejected, error)
	// Count tells how many there are, without reading them.
	Count(ctx context.Context) (int, error)
	// Retry brings one back to its queue, or NotFound.
	Retry(ctx context.Context, key string) error
	// Drop removes one for good, or NotFound.
	Drop(ctx context.Context, key string) error
}

// Excerpt is how much of a body a list shows.
const Excerpt = 256

// Rejected is a message that was put aside.
type Rejected struct {
	Key    string // by which it is found; unique, unlike a sender's ID
	Queue  string // where it came from
	Reason string // speaks to its sender
	At     time.Time
	Size   int // of the body, in bytes, however much of it is here
	Message
}

// Short is what a list has of it. It shares nothing with the whole one, whose body
// may be large.
func (r Rejected) Short() Rejected {
	r.Headers = nil
	r.Body = bytes.Clone(r.Body[:min(len(r.Body), Excerpt)])
	return r
}

// Options are an implementation's own settings, by name.
type Options map[string]string

type rejection struct{ error }

func (r rejection) Unwrap() error { return r.error }

// Reject marks an error as one that no further delivery would mend.
func Reject(err error) error { return rejection{err} }

// IsRejected tells whether a message with this error is to be put aside.
func IsRejected(err error) bool {
	var r rejection
	return errors.As(err, &r)
}
