package rabbitmq_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/bus/bustest"
	"github.com/droverhq/drover/internal/bus/rabbitmq"
	broker "github.com/droverhq/drover/test/rabbitmq"
)

// reversing is a guard for tests: what it seals says what it belongs to.
type reversing struct{}

func (reversing) Seal(text, to string) string {
	var out strings.Builder
	for i := len(text) - 1; i >= 0; i-- {
		out.WriteByte(text[i])
	}
	return to + "/" + out.String()
}

func (r reversing) Open(sealed, to string) (string, bool) {
	text, ok := strings.CutPrefix(sealed, to+"/")
	return strings.TrimPrefix(r.Seal(text, ""), "/"), ok
}

// Mine knows what it has sealed by its shape.
func (reversing) Mine(sealed string) bool { return strings.Contains(sealed, "/") }

// Whoever reads what was put aside finds no token there. Brought back, the message has it
// again, as often as it takes; beside another message it is none.
func TestTokensAreNotPutAside(t *testing.T) {
	w := open(t)
	b, err := rabbitmq.Connect(bus.Options{"url": w.URL, "prefix": w.prefix}, rabbitmq.Outside{Guard: reversing{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	queue, got := bustest.Name(), make(chan bus.Delivery, 10)
	var healthy atomic.Bool
	bustest.Consume(t, b, queue, func(_ context.Context, d bus.Delivery) error {
		got <- d
		if healthy.Load() {
			return nil
		}
		return bus.Reject(errors.New("no"))
	})
	const token = "Bearer of-alice"
	w.foreign(t, queue, amqp.Publishing{MessageId: "1", ReplyTo: "drover.me", Body: []byte("x"), Headers: amqp.Table{"Authorization": token, "a": "b"}})
	var sealed any
	for round := range 2 {
		if d := bustest.Receive(t, got); len(d.Headers) != 2 || d.Headers["authorization"]+d.Headers["Authorization"] != token || d.Headers["a"] != "b" {
			t.Fatalf("round %d: it came with %v", round, d.Headers)
		}
		w.await(t, w.prefix+"drover.dead", 1)
		ch := broker.Channel(t, w.URL)
		lies, _, err := ch.Get(w.prefix+"drover.dead", false)
		if err != nil {
			t.Fatal(err)
		}
		if all := fmt.Sprint(lies.Headers); strings.Contains(all, "alice") || lies.Headers["a"] != "b" {
			t.Errorf("round %d: there lies %s", round, all)
		}
		sealed = lies.Headers["x-drover-sealed-authorization"]
		if err := lies.Nack(false, true); err != nil {
			t.Fatal(err)
		}
		list := bustest.List(t, b, 1)
		if whole, err := b.Aside().Show(t.Context(), list[0].Key); err != nil || len(whole.Headers) != 1 {
			t.Errorf("round %d: shown are %v, %v", round, whole.Headers, err)
		}
		healthy.Store(round == 1) // the next time it is done
		if err := b.Aside().Retry(t.Context(), list[0].Key); err != nil {
			t.Fatal(err)
		}
	}
	if d := bustest.Receive(t, got); d.Headers["authorization"] != token {
		t.Errorf("it came back with %v", d.Headers)
	}
	w.foreign(t, queue, amqp.Publishing{MessageId: "2", ReplyTo: "drover.me", Body: []byte("another"), Headers: amqp.Table{"x-drover-sealed-authorization": sealed}})
	if d := bustest.Receive(t, got); d.ID != "2" || len(d.Headers) != 0 || d.KeyLost {
		t.Errorf("beside another message it is %v", d.Headers)
	}
	w.foreign(t, queue, amqp.Publishing{MessageId: "3", Headers: amqp.Table{"x-drover-sealed-authorization": "of another key"}})
	if d := bustest.Receive(t, got); d.ID != "3" || len(d.Headers) != 0 || !d.KeyLost {
		t.Errorf("sealed with another key it is %v, %v", d.Headers, d.KeyLost)
	}
	for _, header := range []string{"authorization", "Authorization"} { // as senders write it
		w.foreign(t, queue, amqp.Publishing{MessageId: "4", Headers: amqp.Table{"x-drover-sealed-authorization": "of another key", header: token}})
		if d := bustest.Receive(t, got); d.ID != "4" || len(d.Headers) != 1 || d.Headers[header] != token || d.KeyLost {
			t.Errorf("beside %s it is %v, %v", header, d.Headers, d.KeyLost)
		}
	}
}
