// Package inprocess is the bus of a control plane that has no broker: messages
// stay in the memory of the process, and end with it.
//
// It owns queues of bounded size. It must not know what messages say.
package inprocess

import (
	"context"
	"crypto/rand"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/fault"
)

// Defaults of Config.
const (
	limit = 10_000
	room  = 64 << 20
	hands = 32
)

// Config of a bus; the zero value is fine.
type Config struct {
	Limit int              // messages per queue, follower, and put aside; default 10,000
	Room  int              // bytes per queue, and put aside; default 64 MiB
	Hands int              // messages that a Consume handles at a time; default 32
	Now   func() time.Time // default time.Now
}

// Bus is a bus in memory.
type Bus struct {
	config Config
	closed chan struct{}

	mu        sync.Mutex
	shut      bool
	queues    map[string]*queue
	followers map[*follower]bool
	away      []bus.Rejected
	awayBytes int
	running   sync.WaitGroup // of Consume
}

// New makes an empty bus.
func New(c Config) *Bus {
	if c.Limit <= 0 {
		c.Limit = limit
	}
	if c.Room <= 0 {
		c.Room = room
	}
	if c.Hands <= 0 {
		c.Hands = hands
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Bus{config: c, closed: make(chan struct{}), queues: map[string]*queue{}, followers: map[*follower]bool{}}
}

// Open makes a bus out of settings, of which there are none.
func Open(o bus.Options) (bus.Bus, error) {
	for name := range o {
		return nil, fault.New(fault.Invalid, "the bus inprocess has no setting %q", name).Because("bus-setting")
	}
	return New(Config{}), nil
}

var errClosed = fault.New(fault.Unavailable, "the bus is closed").Because("bus-closed")

// alive returns why a call must not begin.
func (b *Bus) alive(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fault.New(fault.Unavailable, "the call ended before the bus was asked: %w", err)
	}
	select {
	case <-b.closed:
		return errClosed
	default:
		return nil
	}
}

// Publish hands events to those who follow them. A follower who is slow is
// waited for.
func (b *Bus) Publish(ctx context.Context, messages ...bus.Message) error {
	for _, m := range messages {
		if err := m.Check(); err != nil {
			return err
		}
	}
	if err := b.alive(ctx); err != nil {
		return err
	}
	for _, m := range messages {
		b.mu.Lock()
		followers := slices.Collect(maps.Keys(b.followers))
		b.mu.Unlock()
		for _, f := range followers {
			if !match(f.pattern, strings.Split(m.Topic, ".")) {
				continue
			}
			select {
			case f.events <- clone(m):
			case <-f.left:
			case <-b.closed:
				return errClosed
			case <-ctx.Done():
				return fault.New(fault.Unavailable, "whoever follows the topic %s does not keep up: %w", m.Topic, ctx.Err())
			}
		}
	}
	return nil
}

type follower struct {
	pattern []string
	events  chan bus.Message
	left    chan struct{}
}

// Follow returns the events with topics that match a pattern, from now on until
// stop. In it, * stands for one word, and # for any number of them.
func (b *Bus) Follow(pattern string) (events <-chan bus.Message, stop func()) {
	f := &follower{pattern: strings.Split(pattern, "."), events: make(chan bus.Message, b.config.Limit), left: make(chan struct{})}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.followers[f] = true
	return f.events, sync.OnceFunc(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.followers, f)
		close(f.left)
	})
}

// match tells whether a topic is one of a pattern's.
func match(pattern, topic []string) bool {
	// reach[i] tells whether the words so far match the first i of the pattern:
	// no order of # and * takes longer than another.
	reach := make([]bool, len(pattern)+1)
	reach[0] = true
	skip := func() {
		for i, p := range pattern {
			if p == "#" && reach[i] {
				reach[i+1] = true
			}
		}
	}
	skip()
	for _, word := range topic {
		next := make([]bool, len(reach))
		for i, p := range pattern {
			switch {
			case !reach[i] && !(p == "#" && reach[i+1]):
			case p == "#" || p == "*" || p == word:
				next[i+1] = true
			}
		}
		reach = next
		skip()
	}
	return reach[len(pattern)]
}

// Send brings a message to a queue that was consumed before. A full one is waited
// for.
func (b *Bus) Send(ctx context.Context, name string, m bus.Message) error {
	if err := m.Check(); err != nil {
		return err
	}
	if err := b.alive(ctx); err != nil {
		return err
	}
	b.mu.Lock()
	q := b.queues[name]
	b.mu.Unlock()
	if q == nil {
		return fault.New(fault.NotFound, "nobody listens at %q", name).Because("no-queue")
	}
	m = clone(m)
	m.Topic = name
	for {
		space, ok := q.push(item{message: m})
		if ok {
			return nil
		}
		select {
		case <-space:
		case <-b.closed:
			return errClosed
		case <-ctx.Done():
			return fault.New(fault.Unavailable, "the queue %q is full: wait until those who consume it have caught up: %w", name, ctx.Err()).Because(bus.ReasonFull)
		}
	}
}

// Close ends all calls. What is in memory is gone.
func (b *Bus) Close() error {
	b.mu.Lock()
	if !b.shut {
		b.shut = true
		close(b.closed)
	}
	b.mu.Unlock()
	b.running.Wait()
	return nil
}

// Aside gives what was put aside; of too many, the oldest are gone.
func (b *Bus) Aside() bus.Aside { return (*aside)(b) }

type aside Bus

func (b *Bus) putAway(queue string, m bus.Message, why error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.away = append(b.away, bus.Rejected{Key: rand.Text(), Queue: queue, Reason: why.Error(), At: b.config.Now().UTC(), Size: len(m.Body), Message: m})
	b.awayBytes += size(m)
	for len(b.away) > b.config.Limit || b.awayBytes > b.config.Room && len(b.away) > 1 {
		b.awayBytes -= size(b.away[0].Message)
		b.away = slices.Delete(b.away, 0, 1)
	}
}

// Count tells how many there are.
func (a *aside) Count(context.Context) (int, error) {
	b := (*Bus)(a)
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.away), nil
}

func (a *aside) List(ctx context.Context, limit int) ([]bus.Rejected, error) {
	b := (*Bus)(a)
	if err := b.alive(ctx); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	out := slices.Clone(b.away[:min(max(limit, 0), len(b.away))])
	for i := range out {
		out[i] = out[i].Short()
	}
	return out, nil
}

func (a *aside) Show(ctx context.Context, key string) (bus.Rejected, error) {
	b := (*Bus)(a)
	if err := b.alive(ctx); err != nil {
		return bus.Rejected{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	i, err := b.find(key)
	if err != nil {
		return bus.Rejected{}, err
	}
	out := b.away[i]
	out.Message = clone(out.Message)
	return out, nil
}

// find tells which it is.
func (b *Bus) find(key string) (int, error) {
	i := slices.IndexFunc(b.away, func(r bus.Rejected) bool { return r.Key == key })
	if i < 0 {
		return i, fault.New(fault.NotFound, "no message with the key %q was put aside", key).Because("no-message")
	}
	return i, nil
}

func (a *aside) Retry(ctx context.Context, key string) error {
	b := (*Bus)(a)
	r, err := b.take(ctx, key)
	if err != nil {
		return err
	}
	if err := b.Send(ctx, r.Queue, r.Message); err != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.away, b.awayBytes = append(b.away, r), b.awayBytes+size(r.Message)
		slices.SortStableFunc(b.away, func(a, b bus.Rejected) int { return a.At.Compare(b.At) })
		return err
	}
	return nil
}

func (a *aside) Drop(ctx context.Context, key string) error {
	_, err := (*Bus)(a).take(ctx, key)
	return err
}

func (b *Bus) take(ctx context.Context, key string) (bus.Rejected, error) {
	if err := b.alive(ctx); err != nil {
		return bus.Rejected{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	i, err := b.find(key)
	if err != nil {
		return bus.Rejected{}, err
	}
	r := b.away[i]
	b.away, b.awayBytes = slices.Delete(b.away, i, i+1), b.awayBytes-size(r.Message)
	return r, nil
}

// clone gives everybody a message of their own.
func clone(m bus.Message) bus.Message {
	m.Headers, m.Body = maps.Clone(m.Headers), slices.Clone(m.Body)
	m.Time = m.Time.UTC().Truncate(time.Second)
	return m
}

func size(m bus.Message) int {
	n := len(m.Body) + len(m.ID) + len(m.Topic) + len(m.Type) + len(m.ReplyTo)
	for name, value := range m.Headers {
		n += len(name) + len(value)
	}
	return n
}
