package rabbitmq

import (
	"context"
	"errors"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/fault"
)

const (
	lines  = 16   // calls that publish at a time; others wait
	window = 1000 // messages of one call that the broker has not confirmed yet
	// nacks is how often in a row the broker may refuse to keep a message before the call
	// gives up: some seconds. A broker with much to do refuses at times what it takes a
	// moment later.
	nacks = 8
	// maxFull bounds the queues that are known to be full.
	maxFull = 10_000
)

// line is a channel for one call at a time, so that what the broker returns is
// known to be that call's.
type line struct {
	session *session
	ch      *amqp.Channel
	returns <-chan amqp.Return
	closes  <-chan *amqp.Error
}

// parcel is a message on its way.
type parcel struct {
	exchange, key string
	must          bool // somebody must get it
	amqp.Publishing
}

var (
	errNobody = errors.New("nobody listens")
	errNack   = errors.New("the broker could not keep a message")
)

// publish returns when the broker has all parcels, in order. Whatever fails is
// tried again until ctx ends, unless the broker has said no.
func (b *Bus) publish(ctx context.Context, parcels []parcel) error {
	pause, nacked, last := firstPause, 0, parcels[len(parcels)-1]
	for {
		n, err := b.once(ctx, parcels)
		if parcels = parcels[n:]; n > 0 {
			pause, nacked = firstPause, 0
		}
		if nacked++; !errors.Is(err, errNack) {
			nacked = 0
		}
		switch refused := new(amqp.Error); {
		case err == nil:
			b.forget(last)
			return nil
		case errors.Is(err, errNobody):
			return err
		case fault.Of(err) != fault.Internal:
			return err // ours, and final
		case nacked == nacks || nacked > 0 && b.known(parcels[0]):
			return b.full(parcels[0])
		case errors.As(err, &refused) && refused.Code == amqp.AccessRefused:
			return fault.New(fault.Unavailable, "the broker refuses: %s: give the account the right to write there", refused.Reason).Because("broker-refuses")
		}
		if !bus.Rest(ctx, pause) {
			return fault.New(fault.Unavailable, "the broker did not take it: %w: %w", err, ctx.Err()).Because(reasonAway)
		}
		pause = min(2*pause, lastPause)
	}
}

// known tells whether the queue that a parcel is for was full the last time: nobody waits
// for it again and again.
func (b *Bus) known(p parcel) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return p.must && b.fulls[p.key]
}

// forget that the queue of a parcel was full.
func (b *Bus) forget(p parcel) {
	if p.must {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.fulls, p.key)
	}
}

// full tells what the broker does not keep, and keeps it in mind of a queue.
func (b *Bus) full(p parcel) error {
	if p.must {
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(b.fulls) >= maxFull {
			clear(b.fulls)
		}
		b.fulls[p.key] = true
		return fault.New(fault.Unavailable, "the queue %s is full: somebody has to read what is in it", p.key).Because(bus.ReasonFull)
	}
	return fault.New(fault.Unavailable, "the broker refuses the event %s: a queue that follows it is full, and is told to refuse more (x-overflow): somebody has to read it, or take its binding away", p.key).Because(bus.ReasonFull)
}

// once tries once, and tells how many of the first parcels have arrived.
func (b *Bus) once(ctx context.Context, parcels []parcel) (int, error) {
	var l *line
	select {
	case l = <-b.lines:
	case <-b.life.Done():
		return 0, errClosed
	case <-ctx.Done():
		return 0, b.late(ctx)
	}
	s, err := b.out.get(ctx)
	if err == nil {
		if err = b.unblocked(ctx, s); err != nil {
			s.users.leave()
		}
	}
	if err != nil {
		b.lines <- l
		return 0, err
	}
	type outcome struct {
		n   int
		err error
	}
	done := make(chan outcome, 1)
	// The library waits for the network without an end: one goroutine per line does
	// it, and ends with the connection at the latest.
	b.running.Go(func() {
		l, n, err := b.carry(ctx, s, l, parcels)
		s.users.leave()
		b.lines <- l
		done <- outcome{n, err}
	})
	select {
	case o := <-done:
		if o.err != nil && ctx.Err() != nil && !errors.Is(o.err, errNobody) {
			return o.n, b.late(ctx)
		}
		return o.n, o.err
	case <-b.life.Done():
		return 0, errClosed
	case <-ctx.Done():
		return 0, b.late(ctx)
	}
}

// late tells what a call has waited for in vain.
func (b *Bus) late(ctx context.Context) error {
	if err := b.out.state(); err != nil {
		return fault.New(fault.Unavailable, "%w: %w", err, ctx.Err()).Because(fault.Reason(err))
	}
	return fault.New(fault.Unavailable, "the broker has not confirmed in time: %w", ctx.Err()).Because(reasonAway)
}

// unblocked waits while the broker takes nothing: what is sent then waits in the
// network, and would arrive once more for each try.
func (b *Bus) unblocked(ctx context.Context, s *session) error {
	for {
		blocked, changed := s.state()
		if blocked == "" {
			return nil
		}
		select {
		case <-changed:
		case <-s.ended:
			return amqp.ErrClosed
		case <-b.life.Done():
			return errClosed
		case <-ctx.Done():
			return b.late(ctx)
		}
	}
}

// carry sends, and waits for what the broker says. A line that must not be used
// again is not returned.
func (b *Bus) carry(ctx context.Context, s *session, l *line, parcels []parcel) (*line, int, error) {
	if l == nil || l.session != s || l.ch.IsClosed() {
		var err error
		if l, err = b.open(s); err != nil {
			return nil, 0, err
		}
	}
	var waiting []*amqp.DeferredConfirmation
	arrived := 0
	confirm := func() error {
		select {
		case <-waiting[0].Done():
		case <-ctx.Done():
			return ctx.Err()
		}
		if !waiting[0].Acked() {
			if l.ch.IsClosed() {
				return amqp.ErrClosed
			}
			return errNack
		}
		select {
		case _, ok := <-l.returns: // comes before the confirmation
			if ok {
				return errNobody
			}
		default:
		}
		waiting = waiting[1:]
		arrived++
		return nil
	}
	err := func() error {
		for _, p := range parcels {
			if err := b.unblocked(ctx, s); err != nil {
				return err
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if len(waiting) == window {
				if err := confirm(); err != nil {
					return err
				}
			}
			c, err := l.ch.PublishWithDeferredConfirm(p.exchange, p.key, p.must, false, p.Publishing)
			if err != nil {
				return err
			}
			waiting = append(waiting, c)
		}
		for len(waiting) > 0 {
			if err := confirm(); err != nil {
				return err
			}
		}
		return nil
	}()
	switch {
	case err == nil, errors.Is(err, errNobody) && len(parcels) == 1:
		return l, arrived, err
	case errors.Is(err, amqp.ErrClosed):
		err = l.why(err)
	}
	l.ch.Close() //nolint:errcheck // what is still on its way must not be taken for the next call's
	if code(err) == amqp.NotFound {
		// Somebody has deleted the exchange; a new line makes it.
		if l, again := b.open(s); again == nil {
			return l, arrived, err
		}
	}
	return nil, arrived, err
}

// why finds what the broker closed the channel with.
func (l *line) why(err error) error {
	select {
	case e := <-l.closes:
		if e != nil {
			return e
		}
	default:
	}
	return err
}

// open makes a line, and what events are published to.
func (b *Bus) open(s *session) (*line, error) {
	ch, err := s.conn.Channel()
	if err != nil {
		return nil, err
	}
	l := &line{session: s, ch: ch}
	l.closes = ch.NotifyClose(make(chan *amqp.Error, 1))
	l.returns = ch.NotifyReturn(make(chan amqp.Return, 1))
	if err := ch.Confirm(false); err != nil {
		return nil, err
	}
	return l, declareEvents(ch, b.events)
}
