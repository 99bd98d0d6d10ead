package rabbitmq_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/bus/bustest"
	"github.com/droverhq/drover/internal/bus/rabbitmq"
	"github.com/droverhq/drover/internal/fault"
	broker "github.com/droverhq/drover/test/rabbitmq"
)

// parked sends a message whose handling fails until it waits elsewhere; nobody consumes its
// queue any more.
func (w world) parked(t *testing.T, p amqp.Publishing) (b bus.Bus, queue string) {
	t.Helper()
	b, queue = w.bus(t), bustest.Name()
	stop := bustest.Consume(t, b, queue, func(context.Context, bus.Delivery) error {
		return fault.New(fault.Unavailable, "away")
	})
	w.foreign(t, queue, p)
	w.await(t, w.prefix+queue+".later", 1)
	stop()
	return b, queue
}

// To wait is no delivery that the broker would count: an outage of any length puts nothing
// aside. It is the message that was sent, but for what was tried with it.
func TestWaitingIsNoDelivery(t *testing.T) {
	w := open(t)
	b, queue := w.parked(t, amqp.Publishing{MessageId: "1", ReplyTo: "me", Body: []byte("x"), Headers: amqp.Table{"a": "b", "x-drover-later-tries": int64(-7)}})
	w.await(t, w.prefix+queue, 1)
	w.await(t, w.prefix+queue+".later", 0)
	d, ok, err := broker.Channel(t, w.URL).Get(w.prefix+queue, false)
	if err != nil || !ok {
		t.Fatalf("it is not there: %v", err)
	}
	if n := d.Headers["x-delivery-count"]; n != nil && n != int64(0) || d.Redelivered || d.Expiration != "" {
		t.Errorf("the broker has counted %v deliveries (%v), and forgets it after %q", n, d.Redelivered, d.Expiration)
	}
	if err := d.Nack(false, true); err != nil {
		t.Fatal(err)
	}
	got, _ := bustest.Collect(t, b, queue)
	again := bustest.Receive(t, got)
	if again.ID != "1" || again.ReplyTo != "me" || string(again.Body) != "x" || len(again.Headers) != 1 || again.Headers["a"] != "b" || again.Try < 4 || again.Failed != 0 || !again.Again || again.Topic != queue {
		t.Errorf("it comes again as %+v", again)
	}
}

// Who stops while the broker has not yet confirmed the copy that is to wait does not leave
// the message there twice.
func TestStoppedWhileACopyIsOnItsWay(t *testing.T) {
	w := open(t)
	p, queue := newProxy(t, w.Addr), bustest.Name()
	b, held := w.bus(t, "url", w.through(p.addr)), make(chan func(), 1)
	got, stop := bustest.Collect(t, b, queue)
	for range rabbitmq.Lines { // which are open from then on: to open one takes an answer
		bustest.Send(t, b, queue, bus.Message{ID: "before"})
		bustest.Receive(t, got)
	}
	stop()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- b.Consume(ctx, queue, func(context.Context, bus.Delivery) error {
			held <- p.hold() // it is put where it waits, and nobody hears that
			return fault.New(fault.Unavailable, "away")
		})
	}()
	w.foreign(t, queue, amqp.Publishing{MessageId: "1", Headers: amqp.Table{"x-drover-later-tries": int64(8)}}) // waits for longer than this takes
	release := bustest.Receive(t, held)
	defer release()
	w.await(t, w.prefix+queue+".later", 1)
	cancel()
	release()
	if err := bustest.Receive(t, ended); err != nil {
		t.Errorf("consuming ended with %v", err)
	}
	q, err := broker.Channel(t, w.URL).QueueDeclarePassive(w.prefix+queue, true, false, false, false, nil)
	if err != nil || q.Messages != 0 {
		t.Errorf("it is there %d times more: %v", q.Messages, err)
	}
	w.await(t, w.prefix+queue+".later", 1)
}

// What waits is on the broker's disk, and comes again although the broker was killed.
func TestWhatWaitsOutlivesTheBroker(t *testing.T) {
	w := open(t)
	// After so many tries it waits for longer than it takes to kill a broker.
	b, queue := w.parked(t, amqp.Publishing{MessageId: "1", Headers: amqp.Table{"x-drover-later-tries": int64(8)}})
	w.Kill(t)
	w.Start(t)
	got, _ := bustest.Collect(t, b, queue)
	if d := bustest.Receive(t, got); d.ID != "1" || d.Try != 10 {
		t.Errorf("got %s at try %d", d.ID, d.Try)
	}
}

// Where messages wait somebody may delete the queue, and somebody may give it a bound: it is
// made anew, and what does not fit into it is tried all the same.
func TestWhereMessagesWait(t *testing.T) {
	w := open(t)
	for _, c := range []struct {
		reason string
		lost   int
		spoil  func(t *testing.T, queue string)
	}{
		{"it is deleted", 1, func(t *testing.T, queue string) { w.DeleteQueue(t, queue) }},
		{"it is full", 0, func(t *testing.T, queue string) {
			w.Bound(t, queue, 1)
			ch := broker.Channel(t, w.URL)
			if err := ch.Confirm(false); err != nil {
				t.Fatal(err)
			}
			for taken := true; taken; { // it stays for a minute
				sure, err := ch.PublishWithDeferredConfirm("", queue, true, false, amqp.Publishing{})
				if err != nil {
					t.Fatal(err)
				}
				taken = sure.Wait()
			}
		}},
	} {
		t.Run(c.reason, func(t *testing.T) {
			b, queue := w.bus(t), bustest.Name()
			got := make(chan bus.Delivery, 10)
			bustest.Consume(t, b, queue, func(_ context.Context, d bus.Delivery) error {
				if d.ID == "1" && d.Try < 5 {
					return fault.New(fault.Unavailable, "away")
				}
				got <- d // what fills it comes, too, a minute after it was sent
				return nil
			})
			c.spoil(t, w.prefix+queue+".later")
			bustest.Send(t, b, queue, bus.Message{ID: "1"})
			if d := bustest.Receive(t, got); d.ID != "1" || d.Try != 5 {
				t.Errorf("got %s at try %d", d.ID, d.Try)
			}
			if _, said := b.Losses()[queue+".later"]; said != (c.lost == 1) || len(b.Losses()) != c.lost {
				t.Errorf("of queues that were deleted it says %v", b.Losses())
			}
		})
	}
}

// telling is a bus that says what was lost.
func (w world) telling(t *testing.T) (bus.Bus, chan string) {
	t.Helper()
	told := make(chan string, 100)
	b, err := rabbitmq.Connect(bus.Options{"url": w.URL, "prefix": w.prefix}, rabbitmq.Outside{Lost: func(queue string) { told <- queue },
		Had: func(_ context.Context, queue string) bool { return strings.HasPrefix(queue, "had-") }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b, told
}

// That the queue is gone in which messages wait is told, and it is made anew, although
// nobody has anything to put there: what lay in it is lost.
func TestWhereMessagesWaitIsLookedAfter(t *testing.T) {
	w := open(t)
	b, told := w.telling(t)
	queue := bustest.Name()
	got, _ := bustest.Collect(t, b, queue)
	bustest.Send(t, b, queue, bus.Message{ID: "1"})
	bustest.Receive(t, got)
	w.DeleteQueue(t, w.prefix+queue+".later")
	if lost := bustest.Receive(t, told); lost != queue+".later" {
		t.Errorf("lost is %s", lost)
	}
	w.await(t, w.prefix+queue+".later", 0)
	// Gone together with the queue that its messages come from, it is told with that.
	queue = bustest.Name()
	got, _ = bustest.Collect(t, b, queue)
	bustest.Send(t, b, queue, bus.Message{ID: "1"})
	bustest.Receive(t, got)
	w.DeleteQueue(t, w.prefix+queue+".later")
	w.DeleteQueue(t, w.prefix+queue)
	lost := []string{bustest.Receive(t, told), bustest.Receive(t, told)}
	if slices.Sort(lost); !slices.Equal(lost, []string{queue, queue + ".later"}) {
		t.Errorf("lost are %v", lost)
	}
}

// However many find it gone at once, it is told once.
func TestWhereMessagesWaitIsToldOnce(t *testing.T) {
	w := open(t)
	b, told := w.telling(t)
	queue, got := bustest.Name(), make(chan bus.Delivery, 100)
	var away atomic.Bool
	bustest.Consume(t, b, queue, func(_ context.Context, d bus.Delivery) error {
		if away.Load() && d.Try < 4 {
			return fault.New(fault.Unavailable, "away")
		}
		got <- d
		return nil
	})
	bustest.Send(t, b, queue, bus.Message{ID: "first"})
	bustest.Receive(t, got)
	away.Store(true)
	w.DeleteQueue(t, w.prefix+queue+".later")
	const n = 20
	for range n {
		bustest.Send(t, b, queue, bus.Message{ID: "one"})
	}
	for range n {
		bustest.Receive(t, got)
	}
	if lost := bustest.Receive(t, told); lost != queue+".later" || len(told) > 0 {
		t.Errorf("lost is %s, and told is %d times more", lost, len(told))
	}
}

// A message whose headers can hardly be sent once more waits, too, without the largest.
func TestLargeHeadersWait(t *testing.T) {
	w := open(t)
	b, queue := w.parked(t, amqp.Publishing{MessageId: "1", Headers: amqp.Table{"large": strings.Repeat("x", 100<<10), "small": "kept"}})
	got, _ := bustest.Collect(t, b, queue)
	if d := bustest.Receive(t, got); d.ID != "1" || d.Headers["small"] != "kept" || d.Headers["large"] != "" {
		t.Errorf("got %s with %d headers", d.ID, len(d.Headers))
	}
}

// A queue that was there before this process began, and is not there any more, is told of
// once, when it is there again; one that is new is not, nor is the one in which messages
// wait, which older versions had not.
func TestDeletedBefore(t *testing.T) {
	w := open(t)
	b, told := w.telling(t)
	bustest.Collect(t, b, bustest.Name())
	queue := "had-" + bustest.Name()
	_, stop := bustest.Collect(t, b, queue)
	if got := bustest.Receive(t, told); got != queue {
		t.Errorf("%s is told of", got)
	}
	if err := b.Send(t.Context(), queue, bus.Message{ID: "at once"}); err != nil {
		t.Errorf("it is not there again when that is told: %v", err)
	}
	stop()
	next, again := w.telling(t)
	bustest.Collect(t, next, queue) // which has looked when it consumes
	if len(told)+len(again) > 0 {
		t.Error("it is told once more")
	}
}
