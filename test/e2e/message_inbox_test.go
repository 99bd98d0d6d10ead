package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/droverhq/drover/test/drover"
	"github.com/droverhq/drover/test/rabbitmq"
)

// inbox is a queue that outlives broker and server, and all that was answered there.
type inbox struct {
	queue string
	holds func(body []byte) error // nil: it is as published

	mu    sync.Mutex
	seen  map[string]bool     // ids of answers
	heard map[string][]string // what was said of each command, in order
	last  map[string]answer
	odd   []string // answers that are not as published
	came  chan struct{}
}

// inbox makes one and listens. By the end of the test everything that came was as the
// server publishes it.
func (b *broker) inbox(t *testing.T, queue string) *inbox {
	t.Helper()
	in := &inbox{queue: queue, holds: b.answerHolds(t), seen: map[string]bool{}, heard: map[string][]string{}, last: map[string]answer{}, came: make(chan struct{}, 1)}
	if _, err := rabbitmq.Channel(t, b.URL).QueueDeclare(queue, true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.mu.Lock()
		defer in.mu.Unlock()
		for _, odd := range in.odd[:min(len(in.odd), 10)] {
			t.Error(odd)
		}
	})
	in.listen(t, b.URL)
	return in
}

// listen takes what comes until the connection ends: once more after the broker was
// killed.
func (in *inbox) listen(t *testing.T, url string) {
	t.Helper()
	ch := rabbitmq.Channel(t, url)
	if err := ch.Qos(500, 0, false); err != nil {
		t.Fatal(err)
	}
	all, err := ch.Consume(in.queue, "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	go func() { // ends with the connection
		for d := range all {
			in.take(d)
			_ = d.Ack(false) // else it comes again, and is known
		}
	}()
}

func (in *inbox) take(d amqp.Delivery) {
	odd := in.holds(d.Body)
	in.mu.Lock()
	defer in.mu.Unlock()
	if odd != nil {
		in.odd = append(in.odd, fmt.Sprintf("an answer is not as published: %v\n%s", odd, d.Body))
	}
	var e struct {
		ID, Type string
		Data     answer
	}
	if json.Unmarshal(d.Body, &e) != nil {
		return // whoever waits for it says that it is missing
	}
	if in.seen[e.ID] {
		return
	}
	in.seen[e.ID] = true
	in.heard[e.Data.Message] = append(in.heard[e.Data.Message], e.Type[strings.LastIndexByte(e.Type, '.')+1:])
	in.last[e.Data.Message] = e.Data
	select {
	case in.came <- struct{}{}:
	default:
	}
}

// said are the words that were said of a command, in order.
func (in *inbox) said(id string) []string {
	in.mu.Lock()
	defer in.mu.Unlock()
	return slices.Clone(in.heard[id])
}

// missing are those of some commands of which nobody said a word.
func (in *inbox) missing(ids []string, word string) (out []string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, id := range ids {
		if !slices.Contains(in.heard[id], word) {
			out = append(out, id)
		}
	}
	return out
}

// some waits until a word was said of so many of some commands.
func (in *inbox) some(t *testing.T, word string, ids []string, n int) {
	t.Helper()
	for deadline := time.After(3 * drover.Patience); len(ids)-len(in.missing(ids, word)) < n; {
		select {
		case <-in.came:
		case <-deadline:
			t.Fatalf("%s is said of %d commands only", word, len(ids)-len(in.missing(ids, word)))
		}
	}
}

// hear waits until a word was said of each of some commands, and returns what was said
// last of the last.
func (in *inbox) hear(t *testing.T, word string, ids ...string) answer {
	t.Helper()
	open := ids
	for deadline := time.After(3 * drover.Patience); ; {
		if open = in.missing(open, word); len(open) == 0 {
			in.mu.Lock()
			defer in.mu.Unlock()
			return in.last[ids[len(ids)-1]]
		}
		select {
		case <-in.came:
		case <-deadline:
			t.Fatalf("nobody says %s of %d of %d commands, such as %s, of which is said %v", word, len(open), len(ids), open[0], in.said(open[0]))
		}
	}
}
