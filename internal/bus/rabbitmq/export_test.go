package rabbitmq

import (
	"context"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/droverhq/drover/internal/bus"
)

// Read shows what becomes of a message that was put aside.
func (b *Bus) Read(d amqp.Delivery) bus.Rejected { return aside{b}.read(d, map[string]int{}) }

// Unpack shows what is handed over.
func Unpack(d amqp.Delivery) bus.Message { return UnpackAt("", d) }

// UnpackAt is Unpack with a prefix.
func UnpackAt(prefix string, d amqp.Delivery) bus.Message { return unpack(d, prefix, d.RoutingKey) }

// Lines is how many messages may be on their way to the broker at once.
const Lines = lines

// Place and Name are inverse to each other.
var Place, Name = place, name

// Intake hands over what comes, as a consumer does, and returns when all of it is done.
func Intake(ctx context.Context, in <-chan amqp.Delivery, handle func(context.Context, bus.Delivery) error) {
	b := &Bus{}
	c := &consumer{bus: b, queue: "commands", handle: handle, ctx: ctx, free: make(chan struct{}, hands)}
	alive, over := context.WithCancel(ctx)
	var working sync.WaitGroup
	_, _ = c.intake(alive, in, &working, nil, nil)
	over()
	c.busy.Wait()
}
