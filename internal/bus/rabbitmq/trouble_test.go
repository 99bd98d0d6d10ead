package rabbitmq_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/bus/bustest"
	"github.com/droverhq/drover/internal/fault"
	broker "github.com/droverhq/drover/test/rabbitmq"
)

// foreign sends what the bus itself never would, as another program.
func (w world) foreign(t testing.TB, queue string, p amqp.Publishing) {
	t.Helper()
	ch := broker.Channel(t, w.URL)
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	sure, err := ch.PublishWithDeferredConfirm("", w.prefix+queue, true, false, p)
	if err != nil || !sure.Wait() {
		t.Fatalf("not sent: %v", err)
	}
}

// await waits until a queue is there, with so many messages.
func (w world) await(t testing.TB, queue string, messages int) {
	t.Helper()
	c, err := amqp.Dial(w.URL)
	if err != nil {
		t.Fatal("the broker cannot be reached")
	}
	defer c.Close()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		ch, err := c.Channel()
		if err != nil {
			t.Fatal(err)
		}
		if q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil); err == nil && q.Messages == messages {
			return
		}
		ch.Close() //nolint:errcheck // the broker has, if there is no queue
	}
	t.Fatalf("there is no queue %s with %d messages", queue, messages)
}

// The broker dies after it has confirmed a message and handed it over, and before it
// hears that it is done: the message comes again, and says so.
func TestBrokerKilledBeforeItHearsOfTheEnd(t *testing.T) {
	w := open(t)
	b, queue := w.bus(t), bustest.Name()
	got, proceed := make(chan bus.Delivery, 10), make(chan struct{})
	bustest.Consume(t, b, queue, func(_ context.Context, d bus.Delivery) error {
		got <- d
		<-proceed
		return nil
	})
	bustest.Send(t, b, queue, bus.Message{ID: "1"})
	if d := bustest.Receive(t, got); d.Again {
		t.Error("the first time is not the second")
	}
	w.Kill(t)
	close(proceed) // done, and nobody there to hear it
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	err := b.Send(ctx, queue, bus.Message{ID: "lost"})
	if !fault.Is(err, fault.Unavailable) {
		t.Errorf("sending to nobody: %v", err)
	}
	// A call that began while the broker was away ends once it is back.
	sent := make(chan error, 1)
	go func() { sent <- b.Send(t.Context(), queue, bus.Message{ID: "2"}) }()
	w.Start(t)
	if err := bustest.Receive(t, sent); err != nil {
		t.Fatalf("sending over the restart: %v", err)
	}
	seen := map[string]bool{}
	for !seen["1"] || !seen["2"] {
		d := bustest.Receive(t, got)
		if d.ID == "1" && !d.Again {
			t.Error("it comes again, and does not say so")
		}
		seen[d.ID] = true
	}
	if err := b.Trouble(); err != nil {
		t.Errorf("trouble is over, but: %v", err)
	}
}

func TestDiskAlarm(t *testing.T) {
	w := open(t)
	b, queue := w.bus(t), bustest.Name()
	got, _ := bustest.Collect(t, b, queue)
	bustest.Send(t, b, queue, bus.Message{ID: "before"})
	w.Alarm(t)
	t.Cleanup(func() { w.Calm(t) })
	large := make([]bus.Message, 100) // more than what the network holds
	for i := range large {
		large[i] = bus.Message{ID: fmt.Sprint(i), Body: make([]byte, bus.MaxBody)}
	}
	const patience = 2 * time.Second
	other := w.bus(t)
	for _, tc := range []struct {
		reason string
		call   func(context.Context) error
	}{
		{"the first ones find out", func(ctx context.Context) error {
			for { // the broker takes what it has begun to read, and may take longer to tell than one waits
				one, cancel := context.WithTimeout(ctx, patience)
				err := b.Send(one, queue, bus.Message{ID: "first"})
				cancel()
				if ctx.Err() != nil || err != nil && fault.Reason(err) != "broker-away" {
					return err
				}
			}
		}},
		{"the next ones know", func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			return b.Send(ctx, queue, bus.Message{ID: "next"})
		}},
		{"a large batch does not hang", func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			return b.Publish(ctx, large...)
		}},
		{"nor does another bus's, which does not know", func(ctx context.Context) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			go func() {
				troubled(ctx, other, "low on disk")
				cancel()
			}()
			return other.Publish(ctx, large...)
		}},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		err := tc.call(ctx)
		cancel()
		if !fault.Is(err, fault.Unavailable) || fault.Reason(err) != "broker-blocked" || !strings.Contains(err.Error(), "low on disk") {
			t.Errorf("%s: got %v", tc.reason, err)
		}
	}
	if err := b.Trouble(); fault.Reason(err) != "broker-blocked" {
		t.Errorf("trouble is %v", err)
	}
	waiting := make(chan error, 1)
	go func() { waiting <- b.Send(t.Context(), queue, bus.Message{ID: "after"}) }()
	w.Calm(t)
	if err := bustest.Receive(t, waiting); err != nil {
		t.Fatal(err)
	}
	for id := ""; id != "after"; {
		// Who knows that nothing is taken sends nothing: it would wait in the network,
		// and arrive once for each try.
		if id = bustest.Receive(t, got).ID; id == "next" {
			t.Error("what was refused arrives later")
		}
	}
	if err := b.Publish(t.Context(), large[0]); err != nil {
		t.Fatal(err)
	}
}

// A queue that is deleted under its consumer is there again, and so is all else that
// somebody deletes.
func TestDeleted(t *testing.T) {
	w := open(t)
	b, queue := w.bus(t), bustest.Name()
	got, _ := bustest.Collect(t, b, queue)
	bustest.Send(t, b, queue, bus.Message{ID: "before"})
	bustest.Receive(t, got)
	if n := len(b.Losses()); n != 0 {
		t.Errorf("%d queues are said to be lost", n)
	}
	w.DeleteQueue(t, w.prefix+queue)
	for {
		err := b.Send(t.Context(), queue, bus.Message{ID: "after"})
		if err == nil {
			break
		}
		// It is not there yet, or not ready to take anything.
		if !fault.Is(err, fault.NotFound) && fault.Reason(err) != bus.ReasonFull {
			t.Fatal(err)
		}
	}
	if d := bustest.Receive(t, got); d.ID != "after" {
		t.Errorf("got %s", d.ID)
	}
	if at, said := b.Losses()[queue]; !said || time.Since(at) > time.Hour || len(b.Losses()) != 1 {
		t.Errorf("of the queue that was deleted it says %v", b.Losses())
	}
	events := w.events(t, "#")
	if err := b.Publish(t.Context(), bus.Message{ID: "1"}); err != nil {
		t.Fatal(err)
	}
	bustest.Receive(t, events)
	if err := broker.Channel(t, w.URL).ExchangeDelete(w.prefix+"drover.events", false, false); err != nil {
		t.Fatal(err)
	}
	if err := b.Publish(t.Context(), bus.Message{ID: "2"}); err != nil {
		t.Errorf("the exchange does not come back: %v", err)
	}
	w.DeleteQueue(t, w.prefix+"drover.dead")
	other := bustest.Name()
	bustest.Consume(t, b, other, func(context.Context, bus.Delivery) error { return bus.Reject(errors.New("no")) })
	bustest.Send(t, b, other, bus.Message{ID: "bad"})
	bustest.List(t, b, 1)
	w.DeleteQueue(t, w.prefix+"drover.dead")
	bustest.Send(t, b, other, bus.Message{ID: "worse"})
	w.await(t, w.prefix+"drover.dead", 1) // a look at it would make it
	if list := bustest.List(t, b, 1); list[0].ID != "worse" {
		t.Errorf("put aside is %s", list[0].ID)
	}
}

// What the broker itself puts aside is listed like what we do, and goes back where it
// came from.
func TestPutAsideByTheBroker(t *testing.T) {
	w := open(t)
	b, queue := w.bus(t), bustest.Name()
	_, stop := bustest.Collect(t, b, queue)
	stop()
	for range 2 {
		w.foreign(t, queue, amqp.Publishing{MessageId: "late", Expiration: "1", Headers: amqp.Table{
			"x-drover-aside-key": "mine", "x-drover-aside-queue": "elsewhere", "n": int32(7), "list": []any{"a"},
		}, Body: []byte("x")})
	}
	list := bustest.List(t, b, 2)
	for _, r := range list {
		if r.ID != "late" || r.Queue != queue || r.Topic != queue || r.Reason != "it expired before anybody took it" || r.At.IsZero() || r.Key == "mine" {
			t.Errorf("got %+v", r)
		}
		if whole, err := b.Aside().Show(t.Context(), r.Key); err != nil || len(whole.Headers) != 1 || whole.Headers["n"] != "7" {
			t.Errorf("headers are %v: %v", whole.Headers, err)
		}
	}
	if list[0].Key == list[1].Key {
		t.Error("two have one key")
	}
	if err := b.Aside().Retry(t.Context(), list[1].Key); err != nil {
		t.Fatal(err)
	}
	if err := b.Aside().Drop(t.Context(), list[0].Key); err != nil {
		t.Fatal(err)
	}
	bustest.List(t, b, 0)
	got, _ := bustest.Collect(t, b, queue)
	if d := bustest.Receive(t, got); d.ID != "late" || string(d.Body) != "x" {
		t.Errorf("got %+v", d)
	}
}

// A message that ends whoever takes it is put aside by the broker in the end.
func TestDeliveryLimit(t *testing.T) {
	w := open(t)
	b, queue := w.bus(t), bustest.Name()
	_, stop := bustest.Collect(t, b, queue)
	stop()
	bustest.Send(t, b, queue, bus.Message{ID: "deadly"})
	ch := broker.Channel(t, w.URL)
	in, err := ch.Consume(w.prefix+queue, "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	// 50 are allowed to end, and the first one.
	for range 51 {
		d := bustest.Receive(t, in)
		if err := d.Nack(false, true); err != nil {
			t.Fatal(err)
		}
	}
	r := bustest.List(t, b, 1)[0]
	if r.ID != "deadly" || r.Queue != queue || !strings.Contains(r.Reason, "again and again") {
		t.Errorf("got %+v", r)
	}
}

func TestTooLargeToTake(t *testing.T) {
	w := open(t)
	b, queue := w.bus(t), bustest.Name()
	got, _ := bustest.Collect(t, b, queue)
	w.foreign(t, queue, amqp.Publishing{MessageId: "huge", ReplyTo: "me", Body: make([]byte, 20<<20)})
	bustest.Send(t, b, queue, bus.Message{ID: "next"})
	for seen := map[string]bool{}; len(seen) < 2; { // in any order
		d := bustest.Receive(t, got)
		if seen[d.ID] = true; d.ID != "next" && (d.ID != "huge" || d.Large != 20<<20 || d.ReplyTo != "me" || len(d.Body) > 0) {
			t.Errorf("got %s of %d bytes, with %d of them", d.ID, d.Large, len(d.Body))
		}
	}
	r := bustest.List(t, b, 1)[0]
	if r.ID != "huge" || r.ReplyTo != "me" || r.Queue != queue || len(r.Body) != bus.Excerpt || r.Size != 20<<20 || !strings.Contains(r.Reason, "20971520 bytes") {
		t.Errorf("got %s of %s with %d bytes of %d: %s", r.ID, r.Queue, len(r.Body), r.Size, r.Reason)
	}
	if whole, err := b.Aside().Show(t.Context(), r.Key); err != nil || whole.ID != "huge" || len(whole.Body) != 20<<20 {
		t.Errorf("shown are %d bytes: %v", len(whole.Body), err)
	}
	if err := b.Aside().Drop(t.Context(), r.Key); err != nil {
		t.Fatal(err)
	}
	bustest.List(t, b, 0)
}

// Whatever strangers put into a message, it is handed over or put aside, and the next
// one comes.
func TestStrangeMessages(t *testing.T) {
	w := open(t)
	b, queue := w.bus(t), bustest.Name()
	got := make(chan bus.Delivery, 100)
	bustest.Consume(t, b, queue, func(_ context.Context, d bus.Delivery) error {
		got <- d
		return bus.Reject(errors.New("it is \xff strange"))
	})
	strange := []amqp.Publishing{
		{MessageId: "\xff\xfe", Type: "\xff", ContentType: "\xff", ReplyTo: "\xff", CorrelationId: "\xff", Body: []byte("\xff\xfe\x00")},
		{Headers: amqp.Table{"\xff": "\xfe", "deep": amqp.Table{"a": amqp.Table{"b": int64(1)}}, "when": time.Unix(1, 0), "nothing": nil, "no": false, "f": 1.5, "d": amqp.Decimal{Scale: 1, Value: 2}, "b": []byte{255}}},
		{Headers: amqp.Table{"large": strings.Repeat("x", 100<<10), "small": "kept"}},
		{Timestamp: time.Unix(1<<40, 0), Priority: 9, UserId: broker.User, Expiration: "600000"},
		{Headers: amqp.Table{"CC": []any{"elsewhere"}}},
		{Headers: amqp.Table{"x-death": "none"}},
		{Headers: amqp.Table{"x-death": []any{"none"}}},
	}
	for i, p := range strange {
		w.foreign(t, queue, p)
		d := bustest.Receive(t, got)
		if i == 0 && (d.ID != "\xff\xfe" || string(d.Body) != "\xff\xfe\x00" || d.ReplyTo != "\xff") {
			t.Errorf("got %+v", d)
		}
		if i == 1 && (d.Headers["\xff"] != "\xfe" || d.Headers["no"] != "false" || d.Headers["b"] != "\xff") {
			t.Errorf("got %q", d.Headers)
		}
	}
	list := bustest.List(t, b, len(strange))
	for i, r := range list {
		whole, err := b.Aside().Show(t.Context(), r.Key)
		if err != nil {
			t.Fatal(err)
		}
		if r.Queue != queue || r.Reason != "it is ? strange" || i == 2 && (whole.Headers["small"] != "kept" || whole.Headers["large"] != "") {
			t.Errorf("%d: from %q because %q, with %d headers", i, r.Queue, r.Reason, len(whole.Headers))
		}
		if err := b.Aside().Retry(t.Context(), r.Key); err != nil {
			t.Errorf("%d: %v", i, err)
		}
		bustest.Receive(t, got)
	}
	for name := range map[string]bool{"CC": true, "BCC": true, "x-death": true} {
		if err := b.Send(t.Context(), queue, bus.Message{Headers: map[string]string{name: "x"}}); !fault.Is(err, fault.Invalid) {
			t.Errorf("header %s: %v", name, err)
		}
	}
}
