package rabbitmq_test

import (
	"context"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/bus/bustest"
	"github.com/droverhq/drover/internal/bus/rabbitmq"
	"github.com/droverhq/drover/internal/fault"
	broker "github.com/droverhq/drover/test/rabbitmq"
)

// Whatever the broker puts aside by itself is told of: what is too large, what has expired
// while nobody was there, and what ended whoever took it. While its senders cannot be told
// they wait, across the end of whoever was to tell, and hold up nobody. It lies aside all the
// same.
func TestSendersAreToldOfWhatTheBrokerPutsAside(t *testing.T) {
	w, queue := open(t), bustest.Name()
	type dead struct {
		queue string
		bus.Delivery
	}
	away := make(chan struct{}) // until it is closed nobody can be told
	heard := make(chan dead, 10)
	begin := func() (b bus.Bus, got <-chan bus.Delivery, stop func()) {
		t.Helper()
		b, err := rabbitmq.Connect(bus.Options{"url": w.URL, "prefix": w.prefix}, rabbitmq.Outside{Dead: func(ctx context.Context, queue string, d bus.Delivery) error {
			select {
			case <-away:
				heard <- dead{queue, d}
				return nil
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(10 * time.Millisecond):
				return fault.New(fault.Unavailable, "answers cannot be sent")
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		got, stop = bustest.Collect(t, b, queue)
		return b, got, stop
	}
	b, got, stop := begin()
	w.foreign(t, queue, amqp.Publishing{MessageId: "huge", ReplyTo: "me", Body: make([]byte, 20<<20)})
	bustest.Send(t, b, queue, bus.Message{ID: "next"})
	if d := bustest.Receive(t, got); d.ID != "next" {
		t.Errorf("%s is handed over", d.ID)
	}
	bustest.List(t, b, 1)
	stop()
	b.Close()
	w.foreign(t, queue, amqp.Publishing{MessageId: "late", ReplyTo: "me", Expiration: "1", Body: []byte("late"), Headers: amqp.Table{"authorization": "x"}})
	time.Sleep(50 * time.Millisecond) // nothing tells when a message expires
	w.foreign(t, queue, amqp.Publishing{MessageId: "deadly", ReplyTo: "me"})
	ch := broker.Channel(t, w.URL)
	for range 60 { // whoever takes it ends
		d, ok, err := ch.Get(w.prefix+queue, false)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			break
		}
		if err := d.Nack(false, true); err != nil {
			t.Fatal(err)
		}
	}
	b, got, stop = begin()
	defer b.Close()
	defer stop()
	bustest.List(t, b, 3)
	bustest.Send(t, b, queue, bus.Message{ID: "last"})
	if d := bustest.Receive(t, got); d.ID != "last" {
		t.Errorf("%s is handed over", d.ID)
	}
	close(away)
	why := map[string]string{"huge": "20971520 bytes", "late": "expired", "deadly": "again and again"}
	for range 3 {
		select {
		case d := <-heard:
			if want, ok := why[d.ID]; !ok || d.queue != queue || d.ReplyTo != "me" || !strings.Contains(d.Dead, want) || (d.Large == 20<<20) != (d.ID == "huge") || len(d.Body) > 10 {
				t.Errorf("of %s, %s is told with %d of %d bytes: %s", d.queue, d.ID, len(d.Body), d.Large, d.Dead)
			}
			delete(why, d.ID)
		case <-time.After(30 * time.Second):
			t.Fatalf("nobody is told of %v", why)
		}
	}
	bustest.List(t, b, 3)
	for _, r := range bustest.List(t, b, 3) {
		if err := b.Aside().Drop(t.Context(), r.Key); err != nil {
			t.Fatal(err)
		}
	}
}
