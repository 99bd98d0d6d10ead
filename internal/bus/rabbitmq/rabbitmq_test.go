package rabbitmq_test

import (
	"crypto/rand"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/bus/bustest"
	"github.com/droverhq/drover/internal/bus/rabbitmq"
	broker "github.com/droverhq/drover/test/rabbitmq"
)

// world is a bus on the node of this test process, with names of its own.
type world struct {
	*broker.Server
	prefix string
}

func open(t testing.TB) world {
	t.Helper()
	return world{broker.Own(t), strings.ToLower(rand.Text()) + "."}
}

// bus opens one, with further settings.
func (w world) bus(t testing.TB, more ...string) *rabbitmq.Bus {
	t.Helper()
	o := bus.Options{"url": w.URL, "prefix": w.prefix}
	for i := 0; i < len(more); i += 2 {
		o[more[i]] = more[i+1]
	}
	b, err := rabbitmq.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// events follows as an outsider does, once the exchange is there.
func (w world) events(t testing.TB, pattern string) <-chan bus.Message {
	t.Helper()
	ch := broker.Channel(t, w.URL)
	if err := ch.ExchangeDeclare(w.prefix+"drover.events", "topic", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	in, out := broker.Follow(t, w.URL, w.prefix+"drover.events", pattern), make(chan bus.Message, 1)
	ended := t.Context().Done()
	go func() { // ends with its connection
		defer close(out)
		for d := range in {
			select {
			case out <- plain(d):
			case <-ended:
			}
		}
	}()
	return out
}

// plain reads a message by what AMQP says, and not by what the bus makes of it.
func plain(d amqp.Delivery) bus.Message {
	m := bus.Message{
		ID: d.MessageId, Topic: d.RoutingKey, Type: d.Type, ContentType: d.ContentType, Time: d.Timestamp.UTC(),
		ReplyTo: d.ReplyTo, Correlation: d.CorrelationId, Body: d.Body,
	}
	if d.Timestamp.IsZero() {
		m.Time = time.Time{}
	}
	for name, value := range d.Headers {
		if m.Headers == nil {
			m.Headers = map[string]string{}
		}
		m.Headers[name] = value.(string)
	}
	return m
}

func TestContract(t *testing.T) {
	bustest.Run(t, func(t *testing.T) bustest.World {
		w := open(t)
		return bustest.World{
			Bus: w.bus(t), Follow: w.events,
			Another: func(t testing.TB) bus.Bus { return w.bus(t) },
		}
	})
}
