package subscription

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/trace"
)

// ContentType of an event in JSON.
const ContentType = "application/cloudevents+json"

// Publisher is the part of a bus that events go to.
type Publisher interface {
	Publish(ctx context.Context, messages ...bus.Message) error
}

// Bus is the sink of the broker.
type Bus struct {
	Publisher
	Tracer *trace.Tracer // default: nobody follows events on their way
}

// Deliver implements Sink. Of a call that fails nothing counts as delivered: what the
// broker has of it comes twice, and its readers know it by its ids.
func (b *Bus) Deliver(ctx context.Context, _ Subscription, events []Event) (int, error) {
	messages := make([]bus.Message, 0, len(events))
	for i := range events {
		m, err := Message(&events[i])
		if err != nil {
			return 0, err
		}
		messages = append(messages, m)
	}
	spans := follow(ctx, b.Tracer, events, "publish ", trace.Producer)
	if err := b.Publish(ctx, messages...); err != nil {
		return 0, err // and nothing is told: it is made again for as long as the broker is away
	}
	for _, span := range spans {
		span.End("")
	}
	return len(events), nil
}

// Answers is the sink of those who sent commands. It is not that of the broker: a
// follower's queue that takes no event holds up nobody who waits for an answer.
type Answers func(ctx context.Context, e *Event) error

// Deliver implements Sink.
func (a Answers) Deliver(ctx context.Context, _ Subscription, events []Event) (int, error) {
	for i := range events {
		if err := a(ctx, &events[i]); err != nil {
			return i, err
		}
	}
	return len(events), nil
}

// Message is an event on its way. One that no message can hold goes without its data,
// which the API has: an event that could not be sent would stop all that come after it.
func Message(e *Event) (bus.Message, error) {
	body, err := e.encode()
	if err == nil && len(body) > bus.MaxBody {
		bare := *e
		bare.Data = nil
		bare = bare.whole()
		body, err = bare.encode()
	}
	m := bus.Message{ID: e.ID, Topic: short(e.Topic()), Type: e.Type, ContentType: ContentType, Time: e.Time, Body: body}
	if e.Trace != "" {
		m.Headers = map[string]string{trace.Header: e.Trace}
	}
	return m, err
}

// maxWord is the longest word of a topic that is sent as it is: four of them, with the
// dots between, are what brokers take.
const maxWord = 63

// short writes words that are too long as a hash of them, behind what no other word
// begins with.
func short(topic string) string {
	words := strings.Split(topic, ".")
	for i, word := range words {
		if len(word) > maxWord {
			sum := sha256.Sum256([]byte(word))
			words[i] = "%~" + hex.EncodeToString(sum[:16])
		}
	}
	return strings.Join(words, ".")
}
