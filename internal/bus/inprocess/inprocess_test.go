package inprocess_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/bus/bustest"
	"github.com/droverhq/drover/internal/bus/inprocess"
	"github.com/droverhq/drover/internal/fault"
)

func TestContract(t *testing.T) {
	bustest.Run(t, func(t *testing.T) bustest.World {
		b := inprocess.New(inprocess.Config{})
		t.Cleanup(func() { b.Close() })
		return bustest.World{Bus: b, Follow: func(t testing.TB, pattern string) <-chan bus.Message {
			events, stop := b.Follow(pattern)
			t.Cleanup(stop)
			return events
		}}
	})
}

func TestMemoryIsBounded(t *testing.T) {
	for _, tc := range []struct {
		reason string
		config inprocess.Config
		fits   int
	}{
		{"by number", inprocess.Config{Limit: 3}, 3},
		{"by size", inprocess.Config{Room: 250}, 2},
		{"one always fits", inprocess.Config{Room: 1}, 1},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := inprocess.New(tc.config)
				defer b.Close()
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				if err := b.Consume(ctx, "q", nil); err != nil {
					t.Fatal(err)
				}
				for range tc.fits {
					if err := b.Send(t.Context(), "q", bus.Message{Body: make([]byte, 100)}); err != nil {
						t.Fatal(err)
					}
				}
				ctx, cancel = context.WithCancel(t.Context())
				full := make(chan error, 1)
				go func() { full <- b.Send(ctx, "q", bus.Message{Body: make([]byte, 100)}) }()
				synctest.Wait()
				if len(full) > 0 {
					t.Fatalf("a full queue took one more: %v", <-full)
				}
				cancel()
				if err := <-full; !fault.Is(err, fault.Unavailable) {
					t.Errorf("got %v", err)
				}
				// Once somebody consumes, there is room again.
				got, stop := bustest.Collect(t, b, "q")
				bustest.Receive(t, got)
				if err := b.Send(t.Context(), "q", bus.Message{}); err != nil {
					t.Error(err)
				}
				stop()
			})
		})
	}
}

func TestWhatWasPutAsideIsBounded(t *testing.T) {
	b := inprocess.New(inprocess.Config{Limit: 5, Hands: 1})
	defer b.Close()
	done := make(chan string, 20)
	stop := bustest.Consume(t, b, "q", func(_ context.Context, d bus.Delivery) error {
		done <- d.ID
		return bus.Reject(errors.New("no"))
	})
	for i := range 12 {
		bustest.Send(t, b, "q", bus.Message{ID: fmt.Sprint(i)})
	}
	for range 12 {
		bustest.Receive(t, done)
	}
	stop()
	for {
		list, err := b.Aside().List(t.Context(), 100)
		if err != nil || len(list) > 5 {
			t.Fatalf("got %d, %v", len(list), err)
		}
		if len(list) == 5 && list[4].ID == "11" {
			break
		}
	}
}

// An outage holds its message back, tried less and less often, and never puts it
// aside; an error of its own does after a minute.
func TestFailuresAreForgivenForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := inprocess.New(inprocess.Config{})
		tries, err := 0, error(fault.New(fault.Unavailable, "away"))
		stop := bustest.Consume(t, b, "q", func(context.Context, bus.Delivery) error {
			tries++
			if tries == 100 {
				err = errors.New("broken")
			}
			return err
		})
		bustest.Send(t, b, "q", bus.Message{ID: "1"})
		for {
			list, err := b.Aside().List(t.Context(), 1)
			if err != nil {
				t.Fatal(err)
			}
			if len(list) == 1 {
				break
			}
			time.Sleep(time.Second) // of the bubble
		}
		stop()
		if tries < 100 {
			t.Errorf("it was put aside after %d tries of an outage", tries)
		}
		b.Close()
	})
}

func TestSettings(t *testing.T) {
	if _, err := inprocess.Open(bus.Options{"url": "x"}); !fault.Is(err, fault.Invalid) {
		t.Errorf("got %v", err)
	}
	b, err := inprocess.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	b.Close()
}

// Patterns mean what the simplest reading of them says.
func TestPatterns(t *testing.T) {
	word := rapid.SampledFrom([]string{"a", "b", "*", "#"})
	rapid.Check(t, func(r *rapid.T) {
		pattern := rapid.SliceOfN(word, 1, 6).Draw(r, "pattern")
		topic := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b"}), 1, 6).Draw(r, "topic")
		b := inprocess.New(inprocess.Config{})
		defer b.Close()
		events, stop := b.Follow(strings.Join(pattern, "."))
		defer stop()
		if err := b.Publish(context.Background(), bus.Message{Topic: strings.Join(topic, ".")}); err != nil {
			r.Fatal(err)
		}
		if got, want := len(events) == 1, plain(pattern, topic); got != want {
			r.Fatalf("%v matches %v: %v, want %v", pattern, topic, got, want)
		}
	})
}

func plain(pattern, topic []string) bool {
	if len(pattern) == 0 {
		return len(topic) == 0
	}
	if pattern[0] == "#" {
		return plain(pattern[1:], topic) || len(topic) > 0 && plain(pattern, topic[1:])
	}
	return len(topic) > 0 && (pattern[0] == "*" || pattern[0] == topic[0]) && plain(pattern[1:], topic[1:])
}
