package subscription

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/reconcile"
)

// Sink takes events to where they go, in their order, and tells how many it has
// delivered for good: those are not sent again. Fewer than all without an error says
// that its time was over. An error of reason ReasonGone says that the receiver wants
// no more.
type Sink interface {
	Deliver(ctx context.Context, s Subscription, events []Event) (int, error)
}

// Log is what is read of the ledger's log.
type Log interface {
	Head(ctx context.Context) (ledger.Head, error)
	Changes(ctx context.Context, query ledger.ChangeQuery) ([]ledger.Change, error)
}

const (
	// stretch is how long one round delivers before it writes how far it got: what a
	// killed process told in it is told again.
	stretch = time.Second
	// linger is how long a round that has caught up waits for more: under load one
	// run goes on, and nobody has to be woken.
	linger = 500 * time.Millisecond
	// gather is the least time between two pages of a reader of the broker, unless it is
	// far behind: to wake one costs as much as some events do, and under load each commit
	// would. A change that comes alone does not wait for it.
	gather = 20 * time.Millisecond
	// atOnce is how many changes are looked at, and events delivered, in one go.
	atOnce = 500
	// yield is after how many events the processor is offered to others: hundreds are
	// encoded in one go, and whoever commits would wait for it.
	yield = 8
	// skipped is how many changes of no interest move a cursor that has caught up:
	// otherwise they would be read again after each restart. One that has not is moved by
	// any: the next round goes on from there.
	skipped = 5000
	// rested is the time after which fewer do, too: retention, which is a day at least,
	// would take what nobody was to be told for what was never told.
	rested = time.Hour
)

// Reconcile carries one subscription forward. It implements reconcile.Reconciler.
func (s *Service) Reconcile(ctx context.Context, task reconcile.Task) (reconcile.Result, error) {
	o, err := s.Store.Get(ctx, task.Ref)
	if fault.Is(err, fault.NotFound) {
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	sub, err := Decode(o)
	if err != nil {
		return reconcile.Result{}, reconcile.Terminal(err)
	}
	sink := s.Sinks[sub.Spec.To]
	goOn := reconcile.Again
	if sub.Spec.To == ToWebhook { // receivers may be slow, and the loop has others to work for
		since, ok := s.turns.take(sub.Org)
		if !ok {
			return othersFirst(ledger.Set{}), nil
		}
		defer s.turns.leave(sub.Org)
		goOn = func(write ledger.Set) reconcile.Result {
			if s.turns.others(since) {
				return othersFirst(write)
			}
			return reconcile.Again(write)
		}
	}
	if !sub.Deleted.IsZero() || sub.Spec.Off || sub.Phase == Disabled || sink == nil {
		return reconcile.Result{}, nil // whoever changes that wakes it
	}
	head, err := s.Log.Head(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	if sub.Status.Ledger != head.Ledger || sub.Status.Epoch != head.Epoch {
		// A ledger that was restored has fewer changes than were told: those that
		// follow have numbers that were given before, and are told with the epoch.
		sub.Status.Ledger, sub.Status.Epoch, sub.Status.Cursor = head.Ledger, head.Epoch, min(sub.Status.Cursor, head.Seq)
	}
	if sub.Status.Cursor < head.Whole {
		// What was to be told is gone by retention. That is said, and never a silent gap.
		sub.Status.Lost += head.Whole - sub.Status.Cursor
		sub.Status.Cursor, sub.Status.LostAt = head.Whole, s.Now().UTC()
		put, err := sub.put("truncated")
		if err != nil {
			return reconcile.Result{}, err
		}
		return reconcile.Again(ledger.Set{Actor: "system", Puts: []ledger.Put{put}}), nil
	}
	was := sub.Status.Cursor
	d, caught := s.carry(ctx, sink, sub, head)
	if ctx.Err() != nil {
		if d.told == 0 && (d.cursor == was || !d.passed || sub.Phase != Active) {
			return reconcile.Result{}, ctx.Err()
		}
		d.err = nil // it was stopped, and did not fail: nothing is told, or read, again
	}
	if d.err == nil && d.told == 0 && sub.Phase == Active && (d.cursor == was || caught && d.cursor-was < skipped && (!d.passed || s.Now().Sub(sub.Updated) < rested)) {
		if !caught {
			return goOn(ledger.Set{}), nil
		}
		return reconcile.Result{}, nil // nothing that is worth a change
	}
	next, news := Next(sub, d, s.Now().UTC())
	op := Moved
	if news {
		op = next.Phase
	}
	put, err := next.put(op)
	if err != nil {
		return reconcile.Result{}, err
	}
	write := ledger.Set{Actor: "system", Puts: []ledger.Put{put}}
	switch {
	case next.Phase == Disabled:
		return reconcile.Done(write), nil
	case d.err != nil && sub.Spec.To == ToWebhook:
		// The receiver is a stranger's: that it fails is told in the subscription, and is
		// no news for whoever runs the server.
		return reconcile.Wait(write, bus.Spread(retry(next.Status.Tries)), next.Status.Message), nil
	case d.err != nil:
		return reconcile.Result{Write: write, Why: next.Status.Message}, d.err
	case !caught:
		return goOn(write), nil
	}
	return reconcile.Done(write), nil
}

// othersFirst has a subscription wait for a moment.
func othersFirst(write ledger.Set) reconcile.Result {
	return reconcile.Wait(write, linger, "others are told first")
}

// carry reads the log after the cursor and delivers, for a stretch. It tells whether
// it has come to the end and nothing more came.
func (s *Service) carry(ctx context.Context, sink Sink, sub Subscription, head ledger.Head) (d delivered, caught bool) {
	d.cursor = sub.Status.Cursor
	end := s.Now().Add(stretch)
	reading, leave := context.WithCancel(ctx)
	defer leave()
	next := func() page { return s.page(reading, sub.Spec.To, d.cursor) }
	for s.Now().Before(end) && ctx.Err() == nil {
		p := next()
		if p.err != nil {
			d.err = p.err
			return d, false
		}
		changes := p.changes
		if len(changes) == 0 {
			return d, true
		}
		next = s.ahead(reading, sub.Spec.To, changes)
		for len(changes) > 0 {
			part := changes[:min(len(changes), atOnce)]
			changes = changes[len(part):]
			if !s.hand(ctx, sink, sub, head, part, &d) {
				return d, false
			}
			if !s.Now().Before(end) || ctx.Err() != nil {
				return d, false
			}
		}
	}
	return d, false
}

// page is what was read of the log at once.
type page struct {
	changes []ledger.Change
	err     error
}

// ahead reads what comes after some changes while those are delivered, where there are
// so many that there will be more. Where there are few, more are gathered first.
func (s *Service) ahead(ctx context.Context, to string, changes []ledger.Change) func() page {
	after := changes[len(changes)-1].Seq
	if len(changes) < atOnce {
		gathered := time.After(gather)
		return func() page {
			if to != ToWebhook { // which would keep its turn from others
				select {
				case <-ctx.Done():
					return page{err: ctx.Err()}
				case <-gathered:
				}
			}
			return s.page(ctx, to, after)
		}
	}
	read := make(chan page, 1)
	go func() { read <- s.page(ctx, to, after) }()
	return func() page { return <-read }
}

// hand delivers the events of some changes and moves the cursor over those that are
// done.
func (s *Service) hand(ctx context.Context, sink Sink, sub Subscription, head ledger.Head, changes []ledger.Change, d *delivered) bool {
	var events []Event
	var seqs []int64
	for i := range changes {
		c := &changes[i]
		d.passed = d.passed || !moved(c)
		if !sub.Wants(c) {
			continue
		}
		if shown, ok := s.Encoder.Encode(c, sub.Org, sub.Spec.All); ok {
			events, seqs = append(events, NewEvent(head, c, shown)), append(seqs, c.Seq)
			if len(events)%yield == 0 {
				runtime.Gosched()
			}
		}
	}
	if len(events) > 0 {
		n, err := sink.Deliver(ctx, sub, events)
		d.told += int64(n)
		s.Observer.Told(sub.Spec.To, n, s.Now().Sub(events[0].Time), err)
		if d.err = err; err != nil || n < len(events) {
			if n > 0 {
				d.cursor = seqs[n-1]
			}
			return false
		}
	}
	d.cursor = changes[len(changes)-1].Seq
	return true
}

// page reads the changes after a sequence, or none if none comes for a moment. Only the
// two readers of the broker wait for it: many would take the loop's workers.
func (s *Service) page(ctx context.Context, to string, after int64) page {
	if to == ToWebhook {
		changes, err := s.Log.Changes(ctx, ledger.ChangeQuery{After: after, Limit: atOnce})
		return page{changes, err}
	}
	bounded, cancel := context.WithTimeout(ctx, linger)
	defer cancel()
	changes, err := s.Feed.Next(bounded, after)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		// Nothing came, or it took too long to read what did. The log itself knows.
		changes, err = s.Log.Changes(ctx, ledger.ChangeQuery{After: after, Limit: atOnce})
	}
	return page{changes, err}
}
