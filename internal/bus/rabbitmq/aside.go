package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/fault"
)

// aside looks at what was put aside. Each call has a connection of its own, which
// gives back to the queue what it has looked at, however it ends.
type aside struct{ bus *Bus }

// Aside gives what was put aside, by us or by the broker.
func (b *Bus) Aside() bus.Aside { return aside{b} }

// look is how many are looked at in order to find the oldest: what was looked at
// and given back does not keep its place in the queue. Bodies come along, one at a
// time: of large ones fewer are looked at, so that a list has an end.
const look, lookBytes = 1000, 256 << 20

// settling is how often the broker is asked whether it has them again.
const settling = 1000

// patience is how long a broker that is away is waited for, and one of several tried:
// somebody sits there and waits for the answer.
const patience = 3 * time.Second

var errHeld = errors.New("somebody else looks at what was put aside")

// errand does something over a connection of its own, for which it tries each broker for a
// while. One that cannot be reached is Unavailable, of the reason broker-away.
func (b *Bus) errand(ctx context.Context, each time.Duration, do func(*amqp.Channel) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(b.life, cancel)()
	s, err := b.dial(ctx, "aside", each)
	if err != nil {
		return fault.New(fault.Unavailable, "the broker cannot be reached: %w", err).Because(reasonAway)
	}
	defer s.end()
	defer context.AfterFunc(ctx, func() { s.wire.Close() })() // ends what hangs
	ch, err := s.conn.Channel()
	if err != nil {
		return err
	}
	return do(ch)
}

// visit does something while nobody else looks, trying again until ctx ends. A broker that
// cannot be reached is waited for only for a moment, and not at all where that is known.
func (a aside) visit(ctx context.Context, do func(*amqp.Channel) error) error {
	b, began := a.bus, time.Now()
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		if err := b.alive(ctx); err != nil {
			return err
		}
		err := b.errand(ctx, patience, func(ch *amqp.Channel) error {
			if err := declareDead(ch, b.dead); err != nil {
				return conflict(err, b.dead)
			}
			// A queue that only one connection may have is a lock that ends with its holder.
			if _, err := ch.QueueDeclare(b.dead+".lock", false, true, true, false, nil); err != nil {
				if code(err) == amqp.ResourceLocked {
					return errHeld
				}
				return err
			}
			return do(ch)
		})
		away := fault.Reason(err) == reasonAway
		switch {
		case err == nil || fault.Of(err) != fault.Internal && !away:
			return err
		case b.life.Err() != nil:
			return errClosed
		case ctx.Err() != nil: // which has ended the connection
			return fault.New(fault.Unavailable, "the broker has not answered in time: %w", ctx.Err()).Because(reasonAway)
		case away && (time.Since(began)+pause > patience || b.away()):
			return err
		}
		if errors.Is(err, errHeld) {
			pause = firstPause
		}
		if !bus.Rest(ctx, pause) {
			return fault.New(fault.Unavailable, "the broker cannot be asked: %w: %w", err, ctx.Err()).Because(reasonAway)
		}
	}
}

// walk shows what was put aside until see has seen enough. What it
// does not take is there again when walk returns.
func (a aside) walk(ch *amqp.Channel, see func(bus.Rejected, amqp.Delivery) (enough, taken bool, err error)) error {
	same, held := map[string]int{}, 0
	var last uint64
	for enough := false; !enough; {
		d, ok, err := ch.Get(a.bus.dead, false)
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		var taken bool
		if enough, taken, err = see(a.read(d, same), d); err != nil {
			return err
		}
		if taken {
			if err := d.Ack(false); err != nil {
				return err
			}
			continue
		}
		last = d.DeliveryTag
		held++
	}
	if held == 0 {
		return nil
	}
	if err := ch.Nack(last, true, true); err != nil {
		return err
	}
	// They are given back a moment later: whoever looks next must see them.
	for range settling {
		q, err := ch.QueueDeclarePassive(a.bus.dead, true, false, false, false, nil)
		if err != nil || q.Messages >= held {
			return err
		}
	}
	return nil // somebody else has taken some
}

// Count tells how many there are, without reading them, and whoever looks at them
// meanwhile.
func (a aside) Count(ctx context.Context) (n int, err error) {
	err = a.bus.errand(ctx, patience, func(ch *amqp.Channel) error {
		if err := declareDead(ch, a.bus.dead); err != nil {
			return conflict(err, a.bus.dead)
		}
		q, err := ch.QueueDeclarePassive(a.bus.dead, true, false, false, false, nil)
		n = q.Messages
		return err
	})
	return n, err
}

// List returns some of what was put aside.
func (a aside) List(ctx context.Context, limit int) (list []bus.Rejected, err error) {
	err = a.visit(ctx, func(ch *amqp.Channel) error {
		list = nil
		if limit <= 0 {
			return nil
		}
		seen, size := 0, 0
		err := a.walk(ch, func(r bus.Rejected, _ amqp.Delivery) (bool, bool, error) {
			if list = append(list, r.Short()); len(list) >= 2*limit {
				list = oldest(list, limit)
			}
			seen, size = seen+1, size+r.Size
			return seen >= max(limit, look) || size >= lookBytes, false, nil
		})
		list = oldest(list, limit)
		return err
	})
	return list, err
}

func oldest(list []bus.Rejected, limit int) []bus.Rejected {
	slices.SortStableFunc(list, func(a, b bus.Rejected) int { return a.At.Compare(b.At) })
	n := min(limit, len(list))
	clear(list[n:])
	return list[:n]
}

// Show finds one and leaves it there.
func (a aside) Show(ctx context.Context, key string) (out bus.Rejected, err error) {
	err = a.one(ctx, key, func(r bus.Rejected, _ amqp.Delivery) (bool, error) {
		out = r
		return false, nil
	})
	return out, err
}

// Retry brings one back to its queue before it goes from here.
func (a aside) Retry(ctx context.Context, key string) error {
	return a.one(ctx, key, func(r bus.Rejected, d amqp.Delivery) (bool, error) {
		if r.Queue == "" {
			return false, fault.New(fault.NotFound, "the message %s came from no queue: drop it", key).Because("no-queue")
		}
		err := a.bus.publish(ctx, []parcel{{key: place(a.bus.settings.prefix, r.Queue), must: true, Publishing: copied(d)}})
		if errors.Is(err, errNobody) {
			err = fault.New(fault.NotFound, "the queue %q that the message came from is gone", r.Queue).Because("no-queue")
		}
		return err == nil, err
	})
}

// Drop removes one.
func (a aside) Drop(ctx context.Context, key string) error {
	return a.one(ctx, key, func(bus.Rejected, amqp.Delivery) (bool, error) { return true, nil })
}

// one does something with a message that was put aside, and takes it away if told so.
func (a aside) one(ctx context.Context, key string, do func(bus.Rejected, amqp.Delivery) (taken bool, err error)) error {
	return a.visit(ctx, func(ch *amqp.Channel) error {
		found := false
		err := a.walk(ch, func(r bus.Rejected, d amqp.Delivery) (bool, bool, error) {
			if found = r.Key == key; !found {
				return false, false, nil
			}
			taken, err := do(r, d)
			return true, taken, err
		})
		if err == nil && !found {
			err = fault.New(fault.NotFound, "no message with the key %q was put aside", key).Because("no-message")
		}
		return err
	})
}

// read turns what is in the queue into what the port knows. Same counts messages
// that nothing tells apart.
func (a aside) read(d amqp.Delivery, same map[string]int) bus.Rejected {
	b := a.bus
	r := bus.Rejected{Reason: "nobody said why"}
	topic := b.topic(d.Exchange, d.RoutingKey)
	// Only we send straight to the queue: marks on what the broker put aside are its sender's.
	if text := a.marked(d); text != nil {
		r.Key, r.Queue, r.Reason, topic = text(markKey), name(b.settings.prefix, text(markQueue)), text(markReason), text(markTopic)
		r.At, _ = time.Parse(time.RFC3339Nano, text(markAt))
	} else if death := death(d.Headers); death != nil {
		queue, _ := death["queue"].(string)
		r.Queue, r.Reason = name(b.settings.prefix, queue), because(death, len(d.Body))
		r.At, _ = death["time"].(time.Time)
		if exchange, _ := death["exchange"].(string); exchange == "" {
			topic = r.Queue
		}
	}
	if r.Key == "" {
		r.Key = fingerprint(d, r)
		same[r.Key]++
		r.Key = fmt.Sprintf("%s-%d", r.Key, same[r.Key])
	}
	r.At = r.At.UTC()
	r.Message, r.Size = unpack(d, b.settings.prefix, topic), len(d.Body)
	delete(r.Headers, sealedHeader)
	return r
}
