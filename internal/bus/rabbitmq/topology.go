package rabbitmq

import (
	"errors"
	"math"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// deliveries is how often a message may come without a word of whoever took it
// before the broker puts it aside: one that ends the process that handles it would
// come for ever. Connections that break count too, so it is not small.
const deliveries = 50

// Names that begin with it are Drover's own, and the prefix comes before them.
const own = "drover."

// place turns a name of the port into one of the broker.
func place(prefix, name string) string {
	if strings.HasPrefix(name, own) {
		return prefix + name
	}
	return name
}

// name turns a name of the broker into one of the port.
func name(prefix, place string) string {
	if rest, ok := strings.CutPrefix(place, prefix); ok && strings.HasPrefix(rest, own) {
		return rest
	}
	return place
}

func declareEvents(ch *amqp.Channel, exchange string) error {
	return ch.ExchangeDeclare(exchange, amqp.ExchangeTopic, true, false, false, false, nil)
}

// declareDead makes where messages are put aside: by us into the queue, by the
// broker through the exchange.
func declareDead(ch *amqp.Channel, dead string) error {
	if err := ch.ExchangeDeclare(dead, amqp.ExchangeFanout, true, false, false, false, nil); err != nil {
		return err
	}
	// Newer brokers drop what was looked at twenty times, unless they are told otherwise.
	args := amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": int32(math.MaxInt32)}
	if _, err := ch.QueueDeclare(dead, true, false, false, false, args); err != nil {
		return err
	}
	return ch.QueueBind(dead, "", dead, false, nil)
}

func declareQueue(ch *amqp.Channel, queue, dead string) error {
	_, err := ch.QueueDeclare(queue, true, false, false, false, amqp.Table{
		"x-queue-type": "quorum", "x-delivery-limit": int32(deliveries), "x-dead-letter-exchange": dead,
		// What is put aside is not gone from here before it is there; that needs the overflow.
		"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
	})
	return err
}

// laterEnding is that of the queue where messages of another wait to come again.
const laterEnding = ".later"

func later(queue string) string { return queue + laterEnding }

// longest is how long one waits there at most, whatever it says itself.
const longest = time.Minute

// declareLater makes where messages wait to come again to a queue: each says for how long,
// and the broker brings it back, whoever lives then. It looks at the first one alone, so
// that one which would come sooner may wait as long as the longest.
func declareLater(ch *amqp.Channel, queue string) error {
	_, err := ch.QueueDeclare(later(queue), true, false, false, false, amqp.Table{
		"x-queue-type": "quorum", "x-message-ttl": longest.Milliseconds(),
		"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue,
		"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
	})
	return err
}

// code is the broker's reason, or 0.
func code(err error) int {
	if e := new(amqp.Error); errors.As(err, &e) {
		return e.Code
	}
	return 0
}
