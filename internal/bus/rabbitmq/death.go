package rabbitmq

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/droverhq/drover/internal/bus"
)

// marked returns the marks of a message that we have put aside, nil for any other.
func (a aside) marked(d amqp.Delivery) func(name string) string {
	if d.Exchange != "" || d.RoutingKey != a.bus.dead || d.Headers[markKey] == nil {
		return nil
	}
	return func(name string) string {
		text, _ := word(d.Headers[name])
		return text
	}
}

// death is the broker's own note of why it put a message aside, the latest one.
func death(headers amqp.Table) amqp.Table {
	list, _ := headers["x-death"].([]any)
	if len(list) == 0 {
		return nil
	}
	note, _ := list[0].(amqp.Table)
	return note
}

// because says what the broker's note means.
func because(note amqp.Table, size int) string {
	why, _ := note["reason"].(string)
	switch {
	case why == "rejected" && size > bus.MaxBody:
		return fmt.Sprintf("it has %d bytes: at most %d are taken; name what is large instead of sending it", size, bus.MaxBody)
	case why == "rejected":
		return "it was refused"
	case why == "expired":
		return "it expired before anybody took it"
	case why == "maxlen":
		return "its queue was full"
	case why == "delivery_limit":
		return "whoever took it ended before it was done, again and again"
	}
	return "the broker put it aside: " + why
}

// fingerprint tells messages apart that have no key. It is the same each time that
// one is looked at.
func fingerprint(d amqp.Delivery, r bus.Rejected) string {
	h := sha256.New()
	for _, part := range []string{
		r.Queue, r.Reason, r.At.UTC().String(), d.Exchange, d.RoutingKey, d.MessageId, d.CorrelationId, d.ReplyTo, d.Type, d.Timestamp.UTC().String(),
	} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	h.Write(d.Body)
	return hex.EncodeToString(h.Sum(nil)[:16])
}
