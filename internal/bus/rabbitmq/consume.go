package rabbitmq

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/fault"
)

// mentioning is how long the sender of a message that is too large may take to be told.
const mentioning = 5 * time.Second

// consumer is one call of Consume.
type consumer struct {
	bus    *Bus
	queue  string // on the broker
	tag    string // by which the broker knows it
	handle func(context.Context, bus.Delivery) error
	ctx    context.Context // ends with the call, and with the bus
	free   chan struct{}   // bounds the calls of handle, over all connections of this call
	busy   sync.WaitGroup
	closed <-chan struct{} // ends once the broker has closed the last channel; nil: there was none
	made   bool            // the queue was there
	gone   []string        // queues that were deleted, until they are there again
}

// Consume hands messages over until ctx ends.
func (b *Bus) Consume(ctx context.Context, queue string, handle func(context.Context, bus.Delivery) error) error {
	if b.life.Err() != nil {
		return errClosed
	}
	c := &consumer{bus: b, queue: place(b.settings.prefix, queue), tag: rand.Text(), handle: handle, free: make(chan struct{}, hands)}
	if most := 255 - max(len(laterEnding), len(untoldEnding)); len(c.queue) > most {
		return fault.New(fault.Invalid, "the name of a queue has %d bytes: at most %d are taken", len(c.queue), most)
	}
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(b.life, cancel)()
	c.ctx = inner
	b.consumers.enter()
	defer b.consumers.leave()
	defer c.quit()
	defer c.busy.Wait()
	defer cancel() // before the wait
	defer b.note(c, nil)
	for pause := firstPause; ; {
		began, err := c.round()
		switch {
		case ctx.Err() != nil:
			return nil
		case b.life.Err() != nil:
			return errClosed
		}
		if began {
			pause = firstPause
		} else {
			b.note(c, fault.New(fault.Unavailable, "cannot consume %s: %s", queue, reason(err)))
		}
		bus.Rest(inner, pause) // a broker that refuses is asked again, for others may mend it
		pause = min(2*pause, lastPause)
	}
}

// quit waits until the broker sends nothing more, so that what comes now goes to whoever
// is next; not for long, for it may not listen.
func (c *consumer) quit() {
	if c.closed == nil {
		return
	}
	timer := time.NewTimer(closeTime)
	defer timer.Stop()
	select {
	case <-c.closed:
	case <-timer.C:
	}
}

// round consumes over one channel until that ends, and tells whether it began to.
func (c *consumer) round() (began bool, err error) {
	s, err := c.bus.in.get(c.ctx)
	if err != nil {
		return false, err
	}
	defer func() {
		if !began {
			s.users.leave()
		}
	}()
	type opened struct {
		ch  *amqp.Channel
		in  <-chan amqp.Delivery
		err error
	}
	done := make(chan opened)
	// The library waits without an end; one goroutine per round, which ends with the
	// connection at the latest.
	c.bus.running.Go(func() {
		ch, in, err := c.open(s)
		if ch != nil && err != nil {
			ch.Close() //nolint:errcheck // nobody uses it
		}
		select {
		case done <- opened{ch, in, err}:
		case <-c.ctx.Done():
			if ch != nil && err == nil {
				ch.Close() //nolint:errcheck // as above
			}
		}
	})
	var o opened
	select {
	case o = <-done:
	case <-c.ctx.Done():
		return false, c.ctx.Err()
	}
	if o.err != nil {
		return false, o.err
	}
	c.bus.note(c, nil)
	c.bus.takes(c, true)
	defer c.bus.takes(c, false)
	// What was not acknowledged comes again once the channel is closed: after those
	// who handle it have ended.
	alive, over := context.WithCancel(c.ctx)
	c.bus.running.Go(func() { c.patrol(alive, s) })
	if c.bus.outside.Dead != nil {
		c.bus.running.Go(func() { c.tell(alive, s) })
	}
	var working sync.WaitGroup
	closed := make(chan struct{})
	c.closed = closed
	replaced, err := c.intake(alive, o.in, &working, s.retired, func() {
		c.bus.running.Go(func() { o.ch.Cancel(c.tag, false) }) //nolint:errcheck // as below
	})
	if !replaced {
		over()
	}
	c.bus.running.Go(func() {
		defer s.users.leave()
		o.ch.Cancel(c.tag, false) //nolint:errcheck // it may be closed; a queue hears of that later than we do
		if replaced {
			// What came over it is done over it, unless it is lost before.
			lost := make(chan struct{})
			go func() { // ends with the connection, or with the work
				select {
				case <-s.ended:
					over()
				case <-lost:
				}
			}()
			working.Wait()
			close(lost)
			over()
		}
		working.Wait()
		o.ch.Close() //nolint:errcheck // as above
		close(closed)
	})
	return true, err
}

// intake takes what comes as soon as it comes, until no more does, and hands it over as
// hands are free. What is too large is never kept waiting for one: it is handed over, and
// given back, without its body, so that no more is held of what strangers send than a
// message of the largest size for each that the broker sends ahead.
//
// When the connection is replaced, the broker is told to send no more, and what it has
// sent ahead is taken: replaced tells that.
func (c *consumer) intake(alive context.Context, in <-chan amqp.Delivery, working *sync.WaitGroup, retired <-chan struct{}, cancel func()) (replaced bool, err error) {
	for {
		select {
		case <-retired:
			retired, replaced = nil, true
			cancel()
		case d, ok := <-in:
			if !ok { // the connection, the channel or the queue is gone
				return replaced, amqp.ErrClosed
			}
			large := 0
			if len(d.Body) > bus.MaxBody {
				large, d.Body = len(d.Body), nil // the broker may take a while to hear of it
			}
			working.Add(1)
			c.busy.Go(func() {
				defer working.Done()
				if large > 0 {
					if c.bus.outside.Dead == nil { // else that is told of it
						c.mention(alive, d, large)
					}
					d.Nack(false, false) //nolint:errcheck // the broker puts it aside, without the body travelling once more
					return
				}
				select {
				case c.free <- struct{}{}:
				case <-alive.Done():
					return // the channel's end gives it back
				}
				defer func() { <-c.free }()
				if alive.Err() == nil {
					c.work(alive, d)
				}
			})
		case <-c.ctx.Done():
			return false, c.ctx.Err()
		}
	}
}

// mention has the sender of what is too large told, if that can be done soon: who cannot
// be told keeps nobody waiting.
func (c *consumer) mention(alive context.Context, d amqp.Delivery, size int) {
	ctx, cancel := context.WithTimeout(alive, mentioning)
	defer cancel()
	_ = c.run(ctx, bus.Delivery{Message: unpack(d, c.bus.settings.prefix, c.bus.topic(d.Exchange, d.RoutingKey)), Again: d.Redelivered, Try: 1, Large: size}, c.handle) // it is put aside, whatever it is
}

func (c *consumer) open(s *session) (*amqp.Channel, <-chan amqp.Delivery, error) {
	if err := c.miss(s); err != nil {
		return nil, nil, err
	}
	ch, err := s.conn.Channel()
	if err != nil {
		return nil, nil, err
	}
	if err := declareDead(ch, c.bus.dead); err != nil {
		return ch, nil, conflict(err, c.bus.dead)
	}
	if err := declareQueue(ch, c.queue, c.bus.dead); err != nil {
		return ch, nil, conflict(err, c.queue)
	}
	if err := declareLater(ch, c.queue); err != nil {
		return ch, nil, conflict(err, later(c.queue))
	}
	if c.bus.outside.Dead != nil {
		if err := declareUntold(ch, c.queue, c.bus.dead); err != nil {
			return ch, nil, conflict(err, untold(c.queue))
		}
	}
	c.made = true
	for _, queue := range c.gone { // who hears of it may send at once
		c.bus.lost(queue)
	}
	c.gone = nil
	if err := ch.Qos(hands, 0, false); err != nil {
		return ch, nil, err
	}
	in, err := ch.Consume(c.queue, c.tag, false, false, false, false, nil)
	return ch, in, err
}

// miss notes queues that are not there any more, once. Those in which messages wait are
// missing without a reason to worry at first: older versions had none.
func (c *consumer) miss(s *session) error {
	made := c.made
	for _, queue := range []string{c.queue, later(c.queue)} {
		port := name(c.bus.settings.prefix, queue)
		if !made && (len(c.gone) > 0 || queue != c.queue || !c.bus.had(c.ctx, port)) {
			continue
		}
		gone, err := missing(s, queue)
		if err != nil {
			return err
		}
		if gone {
			c.made, c.gone = false, append(c.gone, port)
		}
	}
	return nil
}

// patrols is how often it is looked whether the queue is there in which messages wait: the
// broker tells its consumers that a queue is gone, and this one has none.
const patrols = 5 * time.Second

// patrol makes it anew, and tells so, until the channel's work is over. One goroutine per
// round.
func (c *consumer) patrol(alive context.Context, s *session) {
	ticker := time.NewTicker(patrols)
	defer ticker.Stop()
	for {
		select {
		case <-alive.Done():
			return
		case <-s.ended:
			return
		case <-ticker.C:
		}
		gone, err := missing(s, later(c.queue))
		if err != nil || !gone {
			continue
		}
		c.bus.lostToo(name(c.bus.settings.prefix, later(c.queue)))
		if ch, err := s.conn.Channel(); err == nil {
			_ = declareLater(ch, c.queue) // else the next one finds it missing
			ch.Close()                    //nolint:errcheck // as below
		}
	}
}

// missing tells whether somebody has deleted a queue that was there: what lay in it is lost,
// and nobody else hears of that.
func missing(s *session, queue string) (bool, error) {
	ch, err := s.conn.Channel() // of its own: a broker that says no closes it
	if err != nil {
		return false, err
	}
	defer ch.Close() //nolint:errcheck // as above
	_, err = ch.QueueDeclarePassive(queue, true, false, false, false, nil)
	return code(err) == amqp.NotFound && strings.Contains(reason(err), "no queue"), nil // any other answer says nothing of it
}

// conflict tells that a name is taken by something that is not ours.
func conflict(err error, name string) error {
	if code(err) != amqp.PreconditionFailed && code(err) != amqp.ResourceLocked {
		return err
	}
	return fault.New(fault.Conflict, "the broker has something else called %s: delete it, or choose another prefix: %s", name, reason(err)).Because("queue-taken")
}

func reason(err error) string {
	if e := new(amqp.Error); errors.As(err, &e) {
		return e.Reason
	}
	return err.Error()
}

// work handles a message until something is decided about it. Acknowledgements
// that do not arrive need nothing done: the message comes again.
func (c *consumer) work(alive context.Context, d amqp.Delivery) {
	m := tried(d)
	for {
		m.Message, m.KeyLost = c.bus.unseal(unpack(d, c.bus.settings.prefix, c.bus.topic(d.Exchange, d.RoutingKey)), d.ReplyTo)
		err := c.run(c.ctx, m, c.handle)
		if err == nil {
			d.Ack(false) //nolint:errcheck // as above
			return
		}
		if c.ctx.Err() != nil {
			return // nothing was tried in earnest; the channel's end gives it back
		}
		verdict, wait := bus.Later(err, m)
		if verdict == bus.PutAway {
			c.putAway(alive, d, err)
			return
		}
		m = m.Retried(err)
		if verdict == bus.Park && c.park(alive, d, m, wait) || !bus.Rest(alive, wait) {
			return // else the channel's end gives it back
		}
	}
}

// run takes a panic for a failure: it must not end those who had nothing to do with
// the message.
func (c *consumer) run(ctx context.Context, d bus.Delivery, handle func(context.Context, bus.Delivery) error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	return handle(ctx, d)
}
