package rabbitmq_test

import (
	"fmt"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/fault"
	broker "github.com/droverhq/drover/test/rabbitmq"
)

// A queue that is full, and is told to refuse more then, holds up nobody who sends to it
// or publishes what it follows: they are told. Once somebody has read it, it is as before.
func TestAFullQueueHoldsNobodyUp(t *testing.T) {
	w := open(t)
	b := w.bus(t)
	if err := b.Publish(t.Context(), bus.Message{ID: "0", Topic: "a.b.c.d"}); err != nil { // the exchange is there
		t.Fatal(err)
	}
	ch := broker.Channel(t, w.URL)
	answers := w.prefix + "answers"
	if _, err := ch.QueueDeclare(answers, true, false, false, false, amqp.Table{"x-max-length": 1, "x-overflow": "reject-publish"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = ch.QueueDelete(answers, false, false, false) })
	if err := ch.QueueBind(answers, "#", w.prefix+"drover.events", false, nil); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		reason string
		call   func(id string) error
	}{
		{"an answer", func(id string) error { return b.Send(t.Context(), answers, bus.Message{ID: id}) }},
		{"an event", func(id string) error { return b.Publish(t.Context(), bus.Message{ID: id, Topic: "a.b.c.d"}) }},
		{"some events", func(id string) error {
			return b.Publish(t.Context(), bus.Message{ID: id, Topic: "a.b.c.d"}, bus.Message{ID: id + "b", Topic: "a.b.c.d"}, bus.Message{ID: id + "c", Topic: "a.b.c.d"})
		}},
	} {
		var err error
		for i := 0; i < 10 && err == nil; i++ { // the broker may take one more than it is told to
			err = c.call(fmt.Sprint(i))
		}
		if !fault.Is(err, fault.Unavailable) || fault.Reason(err) != bus.ReasonFull {
			t.Errorf("%s: %v", c.reason, err)
		}
		if _, err := ch.QueuePurge(answers, false); err != nil {
			t.Fatal(err)
		}
		if err := b.Send(t.Context(), answers, bus.Message{ID: "after"}); err != nil {
			t.Errorf("%s, after somebody has read: %v", c.reason, err)
		}
		if _, err := ch.QueuePurge(answers, false); err != nil {
			t.Fatal(err)
		}
	}
}
