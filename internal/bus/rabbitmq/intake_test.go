package rabbitmq_test

import (
	"context"
	"sync"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/bus/rabbitmq"
)

// settled is a broker that hears what became of messages.
type settled struct {
	acked  chan uint64
	nacked chan uint64
}

func (s settled) Ack(tag uint64, _ bool) error           { s.acked <- tag; return nil }
func (s settled) Nack(tag uint64, _, requeue bool) error { s.nacked <- tag; return nil }
func (s settled) Reject(tag uint64, _ bool) error        { s.nacked <- tag; return nil }

// While everybody is busy with what came before, messages that are too large are put
// aside all the same, after their senders could be told: their bodies do not pile up behind
// those that wait. The others wait for a hand, and none is lost.
func TestWhatIsTooLargeWaitsForNobody(t *testing.T) {
	const hands, waiting, large = 32, 5, 27
	s := settled{make(chan uint64, 100), make(chan uint64, 100)}
	in := make(chan amqp.Delivery)
	began, goOn := make(chan struct{}, 100), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var ended sync.WaitGroup
	told := make(chan bus.Delivery, 100)
	ended.Go(func() {
		rabbitmq.Intake(ctx, in, func(_ context.Context, d bus.Delivery) error {
			if d.Large > 0 {
				told <- d
				return nil // it is put aside all the same
			}
			began <- struct{}{}
			<-goOn
			return nil
		})
	})
	tag := uint64(0)
	send := func(n, size int) {
		for range n {
			tag++
			in <- amqp.Delivery{Acknowledger: s, DeliveryTag: tag, ReplyTo: "sender", Body: make([]byte, size)}
		}
	}
	send(hands, 10)
	for range hands {
		<-began
	}
	send(waiting, bus.MaxBody)
	send(large, bus.MaxBody+1)
	for range large {
		if tag := <-s.nacked; tag <= hands+waiting {
			t.Errorf("number %d, which is not too large, was put aside", tag)
		}
		if d := <-told; d.Large != bus.MaxBody+1 || len(d.Body) > 0 || d.ReplyTo != "sender" {
			t.Errorf("%d bytes of %d for %q were handed over", len(d.Body), d.Large, d.ReplyTo)
		}
	}
	if n := len(began); n != 0 || len(s.acked) != 0 {
		t.Errorf("%d more were handed over, and %d are done", n, len(s.acked))
	}
	close(goOn)
	for range hands + waiting {
		<-s.acked
	}
	close(in)
	ended.Wait()
	if n := len(began); n != waiting {
		t.Errorf("%d of those that waited were handed over", n)
	}
}

// What waits for a hand when the connection ends is not handed over: it comes again.
func TestWhatWaitsForAHandComesAgain(t *testing.T) {
	const hands = 32
	s := settled{make(chan uint64, 100), make(chan uint64, 100)}
	in := make(chan amqp.Delivery)
	began, goOn := make(chan struct{}, 100), make(chan struct{})
	var ended sync.WaitGroup
	ended.Go(func() {
		rabbitmq.Intake(t.Context(), in, func(context.Context, bus.Delivery) error {
			began <- struct{}{}
			<-goOn
			return nil
		})
	})
	for i := range hands {
		in <- amqp.Delivery{Acknowledger: s, DeliveryTag: uint64(i + 1)}
	}
	for range hands {
		<-began
	}
	in <- amqp.Delivery{Acknowledger: s, DeliveryTag: hands + 1}
	close(in) // the connection is gone while it waits
	close(goOn)
	ended.Wait()
	if done := len(s.acked); done < hands || done > hands+1 || len(s.nacked) != 0 || len(began)+hands != done {
		t.Errorf("%d are done, %d were given back, %d were handed over late", done, len(s.nacked), len(began))
	}
}
