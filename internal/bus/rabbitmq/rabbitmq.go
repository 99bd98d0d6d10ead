// Package rabbitmq is the bus on RabbitMQ, by AMQP 0-9-1.
//
// Events go to one topic exchange. Each queue that is consumed is a quorum queue;
// what nobody can take ends up in one more, from which it can be brought back. Nothing
// counts as sent before the broker has confirmed it, and nothing as done
// before it was handled.
//
// It owns names, connections and what AMQP is about. It must not know what
// messages say.
package rabbitmq

import (
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/fault"
)

// hands is how many messages a Consume handles at a time, and how many the broker
// sends ahead.
const hands = 32

// Bus is a bus on a broker. It connects when it is first used, and again
// whenever the connection was lost.
type Bus struct {
	settings     settings
	outside      Outside
	events, dead string // names on the broker

	life    context.Context // ends with Close
	end     context.CancelFunc
	running tasks

	consumers tasks // calls of Consume
	mu        sync.Mutex
	consuming map[*consumer]error  // of those that do not get on
	taking    map[*consumer]bool   // those that do
	fulls     map[string]bool      // queues that took nothing the last time
	losses    map[string]time.Time // queues that were deleted under us, and when that was seen
	stuck     int                  // messages that cannot be put aside, because there is no room
	absent    time.Time            // since when the broker is away, as Outside was told; zero: it is not
	heard     atomic.Int64         // when something came from the broker, in nanoseconds since 1970; 0: nothing did

	// A broker that is full stops reading from connections that publish: those that
	// acknowledge must be others.
	out, in *link
	lines   chan *line // as many as may be in use; nil: not open
}

// New makes a bus out of settings, which are checked; the broker may be away.
//
//	url            amqp://host:5672, amqps://host:5671; several with spaces between
//	vhost          default: the one in the URL, or /
//	prefix         comes before the names of all that is Drover's own; default none
//	ca             file with the certificates that the broker's is signed by; default: the system's
//	certificate    file with a client's certificate, and key the one with its key
//	username       or username-file, username-env: where it is
//	password-file  or password-env: where it is. Both are read for each connection
//
// With a certificate and without a username, the certificate says who we are.
func New(o bus.Options) (*Bus, error) {
	s, err := parse(o)
	if err != nil {
		return nil, err
	}
	b := &Bus{settings: s, events: place(s.prefix, "drover.events"), dead: place(s.prefix, "drover.dead"), lines: make(chan *line, lines), consuming: map[*consumer]error{}, taking: map[*consumer]bool{}, losses: map[string]time.Time{}, fulls: map[string]bool{}}
	b.life, b.end = context.WithCancel(context.Background())
	b.out, b.in = newLink(b, "out", nil), newLink(b, "in", nil)
	for range lines {
		b.lines <- nil
	}
	return b, nil
}

// Open is New, as a port's user knows it.
func Open(o bus.Options) (bus.Bus, error) { return Connect(o, Outside{}) }

var errClosed = fault.New(fault.Unavailable, "the bus is closed").Because("bus-closed")

// alive returns why a call must not go on.
func (b *Bus) alive(ctx context.Context) error {
	if b.life.Err() != nil {
		return errClosed
	}
	if err := ctx.Err(); err != nil {
		return fault.New(fault.Unavailable, "the call ended before the broker was asked: %w", err)
	}
	return nil
}

// Publish sends events.
func (b *Bus) Publish(ctx context.Context, messages ...bus.Message) error {
	if err := b.alive(ctx); err != nil {
		return err
	}
	parcels := make([]parcel, 0, len(messages))
	for _, m := range messages {
		p, err := pack(m)
		if err != nil {
			return err
		}
		parcels = append(parcels, parcel{exchange: b.events, key: m.Topic, Publishing: p})
	}
	if len(parcels) == 0 {
		return nil
	}
	return b.publish(ctx, parcels)
}

// Send brings a message to a queue.
func (b *Bus) Send(ctx context.Context, queue string, m bus.Message) error {
	if err := b.alive(ctx); err != nil {
		return err
	}
	m.Topic = place(b.settings.prefix, queue)
	p, err := pack(m)
	if err != nil {
		return err
	}
	err = b.publish(ctx, []parcel{{key: m.Topic, must: true, Publishing: p}})
	if errors.Is(err, errNobody) {
		return fault.New(fault.NotFound, "nobody listens at %q", queue).Because("no-queue")
	}
	return err
}

// Close ends all calls and connections.
func (b *Bus) Close() error {
	b.end()
	b.consumers.wait() // what was handled is acknowledged before the connection ends
	b.out.end()
	b.in.end()
	b.running.wait()
	return nil
}

// AsideFull reports whether messages wait here that are to be put aside, because where
// they go is full: somebody has given it a bound.
func (b *Bus) AsideFull() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stuck > 0
}

func (b *Bus) sticks(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stuck += n
}

// Losses are the queues that somebody has deleted, with what was in them, and when that was
// seen last.
func (b *Bus) Losses() map[string]time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.losses)
}

// lostOnce is for how long those who find the same queue gone have found the same thing.
const lostOnce = 10 * time.Second

// lostToo is lost where many may find the same.
func (b *Bus) lostToo(queue string) {
	b.mu.Lock()
	told := time.Since(b.losses[queue]) < lostOnce
	b.mu.Unlock()
	if !told {
		b.lost(queue)
	}
}

func (b *Bus) lost(queue string) {
	b.mu.Lock()
	b.losses[queue] = time.Now()
	b.mu.Unlock()
	if b.outside.Lost != nil {
		b.outside.Lost(queue)
	}
}

func (b *Bus) had(ctx context.Context, queue string) bool {
	return b.outside.Had != nil && b.outside.Had(ctx, queue)
}

// note keeps what is wrong with a consumer.
func (b *Bus) note(c *consumer, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if delete(b.consuming, c); err != nil {
		b.consuming[c] = err
	}
}

// takes keeps whether messages come to a consumer.
func (b *Bus) takes(c *consumer, does bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if delete(b.taking, c); does {
		b.taking[c] = true
	}
}

// Taking tells whether messages of a queue come here, as far as that is known.
func (b *Bus) Taking(queue string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.taking {
		if c.queue == place(b.settings.prefix, queue) {
			return true
		}
	}
	return false
}

// tasks are goroutines that Close waits for. Unlike those of a WaitGroup, some may
// begin while it waits.
type tasks struct {
	mu   sync.Mutex
	n    int
	none chan struct{} // set by who waits
}

func (t *tasks) Go(f func()) {
	t.enter()
	go func() {
		defer t.leave()
		f()
	}()
}

func (t *tasks) enter() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n++
}

func (t *tasks) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n--; t.n == 0 && t.none != nil {
		close(t.none)
		t.none = nil
	}
}

func (t *tasks) wait() {
	t.mu.Lock()
	if t.n == 0 {
		t.mu.Unlock()
		return
	}
	if t.none == nil {
		t.none = make(chan struct{})
	}
	none := t.none
	t.mu.Unlock()
	<-none
}
