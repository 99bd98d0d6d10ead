package rabbitmq

import (
	"context"
	"math"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/droverhq/drover/internal/bus"
)

// untoldEnding is that of the queue of what the broker itself has put aside, until its sender
// is told: the broker puts a copy into it, so that nobody has to look through what lies aside.
const untoldEnding = ".untold"

func untold(queue string) string { return queue + untoldEnding }

// stale is after how long no sender waits to be told any more.
const stale = 24 * time.Hour

// declareUntold makes that queue. Only the broker sends by the exchange: what we put aside is
// told of before.
func declareUntold(ch *amqp.Channel, queue, dead string) error {
	if _, err := ch.QueueDeclare(untold(queue), true, false, false, false, amqp.Table{
		"x-queue-type": "quorum", "x-message-ttl": stale.Milliseconds(), "x-delivery-limit": int32(math.MaxInt32), // its age is its bound
	}); err != nil {
		return err
	}
	return ch.QueueBind(untold(queue), "", dead, false, nil)
}

// tell has the senders told of what the broker has put aside, one after the other, until alive
// ends. It is one goroutine per round, and nobody else waits for it: while answers cannot be
// sent, what is to be told waits in its queue.
func (c *consumer) tell(alive context.Context, s *session) {
	for pause := firstPause; alive.Err() == nil; pause = min(2*pause, lastPause) {
		if ch, err := s.conn.Channel(); err == nil {
			c.tellOver(alive, s, ch)
			ch.Close() //nolint:errcheck // what was not acknowledged comes again
		}
		select {
		case <-s.ended:
			return
		default:
			bus.Rest(alive, pause)
		}
	}
}

func (c *consumer) tellOver(alive context.Context, s *session, ch *amqp.Channel) {
	if declareUntold(ch, c.queue, c.bus.dead) != nil || ch.Qos(1, 0, false) != nil { // bodies may be of any size
		return
	}
	in, err := ch.Consume(untold(c.queue), "", false, false, false, false, nil)
	if err != nil {
		return
	}
	for {
		select {
		case <-alive.Done():
			return
		case <-s.ended:
			return
		case d, ok := <-in:
			if !ok || !c.told(alive, d) {
				return
			}
			d.Ack(false) //nolint:errcheck // else it comes again, and is told again
		}
	}
}

// told has the sender of one told; false if there was no time to.
func (c *consumer) told(alive context.Context, d amqp.Delivery) bool {
	note := death(d.Headers)
	if queue, _ := note["queue"].(string); queue != c.queue {
		return true // another one's
	}
	topic := c.bus.topic(d.Exchange, d.RoutingKey)
	if exchange, _ := note["exchange"].(string); exchange == "" {
		topic = name(c.bus.settings.prefix, c.queue)
	}
	m := bus.Delivery{Again: true, Try: 1, Dead: because(note, len(d.Body))}
	if len(d.Body) > bus.MaxBody {
		m.Large, d.Body = len(d.Body), nil
	}
	for {
		m.Message, m.KeyLost = c.bus.unseal(unpack(d, c.bus.settings.prefix, topic), d.ReplyTo)
		err := c.run(alive, m, func(ctx context.Context, m bus.Delivery) error {
			return c.bus.outside.Dead(ctx, name(c.bus.settings.prefix, c.queue), m)
		})
		if alive.Err() != nil {
			return false
		}
		if err == nil {
			return true
		}
		verdict, wait := bus.Later(err, m)
		if verdict == bus.PutAway {
			return true // it lies aside already
		}
		if m = m.Retried(err); !bus.Rest(alive, wait) {
			return false
		}
	}
}
