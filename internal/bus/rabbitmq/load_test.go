package rabbitmq_test

import (
	"context"
	"fmt"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/bus/bustest"
	broker "github.com/droverhq/drover/test/rabbitmq"
)

// BenchmarkPublish publishes events that one durable queue gets, in batches as the reader
// of the log does.
func BenchmarkPublish(b *testing.B) {
	w := open(b)
	x := w.bus(b)
	ch := broker.Channel(b, w.URL)
	if err := ch.ExchangeDeclare(w.prefix+"drover.events", "topic", true, false, false, false, nil); err != nil {
		b.Fatal(err)
	}
	if _, err := ch.QueueDeclare(w.prefix+"follower", true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
		b.Fatal(err)
	}
	if err := ch.QueueBind(w.prefix+"follower", "#", w.prefix+"drover.events", false, nil); err != nil {
		b.Fatal(err)
	}
	batch := make([]bus.Message, 500)
	for i := range batch {
		batch[i] = bus.Message{ID: fmt.Sprint(i), Topic: "acme.instance.1.updated", Body: make([]byte, 1000)}
	}
	b.ResetTimer()
	for n := 0; n < b.N; n += len(batch) {
		if err := x.Publish(b.Context(), batch[:min(len(batch), b.N-n)]...); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "confirmed/s")
}

// BenchmarkSend sends commands from as many as there are lines.
func BenchmarkSend(b *testing.B) {
	w := open(b)
	x, queue := w.bus(b), bustest.Name()
	bustest.Consume(b, x, queue, func(context.Context, bus.Delivery) error { return nil })
	b.SetParallelism(16)
	b.ResetTimer()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			if err := x.Send(b.Context(), queue, bus.Message{ID: "1", Body: make([]byte, 1000)}); err != nil {
				b.Error(err)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "confirmed/s")
}
