package rabbitmq

import (
	"context"
	"crypto/rand"
	"errors"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/fault"
)

// The marks on a message that we have put aside.
const (
	marks      = "x-drover-aside-"
	markKey    = marks + "key"
	markQueue  = marks + "queue"
	markReason = marks + "reason"
	markTopic  = marks + "topic"
	markAt     = marks + "at"
	maxReason  = 2000
)

// The marks on a message that waits to come again: what was tried with it before.
const (
	laterMarks = "x-drover-later-"
	markTries  = laterMarks + "tries"
	markFailed = laterMarks + "failed"
	maxTries   = 1 << 20 // beyond, nothing depends on it
)

// putAway sends the message to where those are that were put aside, with the reason,
// and only then acknowledges it.
func (c *consumer) putAway(alive context.Context, d amqp.Delivery, why error) {
	text := why.Error()
	if len(text) > maxReason {
		text = text[:maxReason] + "..."
	}
	p := fitting(c.bus.seal(copied(d)), amqp.Table{
		markKey: rand.Text(), markReason: strings.ToValidUTF8(text, "?"), markQueue: c.queue,
		markTopic: c.bus.topic(d.Exchange, d.RoutingKey), markAt: time.Now().UTC().Format(time.RFC3339Nano),
	})
	sticks := false
	for wait := firstPause; ; wait = min(2*wait, lastPause) {
		err := c.move(alive, d, c.bus.dead, p, func(ch *amqp.Channel) error { return declareDead(ch, c.bus.dead) })
		if err == nil {
			return
		}
		if fault.Reason(err) == bus.ReasonFull && !sticks {
			sticks = true
			c.bus.sticks(1)
			defer c.bus.sticks(-1)
		}
		if alive.Err() != nil || !bus.Rest(alive, wait) {
			return // the channel's end gives it back
		}
	}
}

// park has the broker keep the message for a while, out of the way of others, and tells
// whether it need not be tried here any more. The broker counts how often a message comes
// without a word; the copy is a new one to it, so that waiting never puts one aside.
func (c *consumer) park(alive context.Context, d amqp.Delivery, m bus.Delivery, wait time.Duration) bool {
	p := fitting(copied(d), amqp.Table{markTries: int64(m.Try - 1), markFailed: int64(m.Failed)})
	p.Expiration = strconv.FormatInt(bus.Spread(wait).Milliseconds(), 10)
	for wait := firstPause; ; wait = min(2*wait, lastPause) {
		err := c.move(alive, d, later(c.queue), p, func(ch *amqp.Channel) error {
			c.bus.lostToo(name(c.bus.settings.prefix, later(c.queue)))
			return declareLater(ch, c.queue)
		})
		switch {
		case err == nil:
			return true
		case fault.Reason(err) == bus.ReasonFull:
			return false // somebody has given it a bound: it waits here
		case alive.Err() != nil || !bus.Rest(alive, wait):
			return true // the channel's end gives it back
		}
	}
}

// move brings a copy of a message to another queue of ours, and then acknowledges the
// message: were the end of the process between the two, it would be there twice, and never
// not at all. Who stops waits a moment for what the broker says of a copy that is on its
// way, for the same reason. A queue that somebody has deleted is made anew.
func (c *consumer) move(alive context.Context, d amqp.Delivery, to string, p amqp.Publishing, declare func(*amqp.Channel) error) error {
	if alive.Err() != nil {
		return alive.Err()
	}
	sending, cancel := context.WithCancel(context.WithoutCancel(alive))
	defer cancel()
	defer context.AfterFunc(alive, func() {
		if c.ctx.Err() == nil { // the channel is lost, over which it would be acknowledged
			cancel()
			return
		}
		time.AfterFunc(closeTime, cancel)
	})()
	err := c.bus.publish(sending, []parcel{{key: to, must: true, Publishing: p}})
	if errors.Is(err, errNobody) {
		if err = c.bus.errand(alive, dialTime, declare); err == nil {
			err = errNobody
		}
	}
	if err == nil {
		d.Ack(false) //nolint:errcheck // else it comes again, and is moved again
	}
	return err
}

// tried is what a delivery says of the tries before, this one included.
func tried(d amqp.Delivery) bus.Delivery {
	number := func(name string) int {
		n, _ := d.Headers[name].(int64)
		return int(min(max(n, 0), maxTries))
	}
	tries := number(markTries)
	return bus.Delivery{Again: d.Redelivered || tries > 0, Try: tries + 1, Failed: number(markFailed)}
}

// fitting adds marks to a message. Where its headers are then more than can be sent, the
// largest of them go: what is left of it is worth more than nothing.
func fitting(p amqp.Publishing, marks amqp.Table) amqp.Publishing {
	if p.Headers == nil {
		p.Headers = amqp.Table{}
	}
	for name, value := range p.Headers {
		if (amqp.Table{name: value}).Validate() != nil {
			delete(p.Headers, name)
		}
	}
	room := maxTable - weigh(marks)
	for weigh(p.Headers) > room {
		largest, size := "", -1
		for name, value := range p.Headers {
			if n := len(name) + weigh(value); n > size {
				largest, size = name, n
			}
		}
		delete(p.Headers, largest)
	}
	for name, value := range marks {
		p.Headers[name] = value
	}
	return p
}
