package rabbitmq_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/bus/rabbitmq"
	"github.com/droverhq/drover/internal/fault"
)

// Whoever looks at what was put aside is told within seconds that the broker is away, and at
// once where that is known.
func TestWhoLooksIsToldThatTheBrokerIsAway(t *testing.T) {
	refuses := func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("refused") }
	hangs := func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	for _, c := range []struct {
		reason string
		dial   func(context.Context, string, string) (net.Conn, error)
		known  bool
		within time.Duration
	}{
		{"it may be back in a moment", refuses, false, 6 * time.Second},
		{"it is known to be away", refuses, true, 0},
		{"it does not answer", hangs, false, 6 * time.Second},
		{"it does not answer, which is known", hangs, true, 3 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			b, err := rabbitmq.Connect(bus.Options{"url": "amqp://broker.example"}, rabbitmq.Outside{Dial: c.dial})
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			if c.known {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				_ = b.Send(ctx, "drover.commands", bus.Message{})
				cancel()
			}
			for name, call := range map[string]func() error{
				"List":  func() error { _, err := b.Aside().List(t.Context(), 1); return err },
				"Show":  func() error { _, err := b.Aside().Show(t.Context(), "k"); return err },
				"Count": func() error { _, err := b.Aside().Count(t.Context()); return err },
				"Drop":  func() error { return b.Aside().Drop(t.Context(), "k") },
			} {
				began := time.Now()
				err := call()
				if took := time.Since(began); took > c.within || fault.Of(err) != fault.Unavailable || fault.Reason(err) != "broker-away" {
					t.Errorf("%s: %s took %v: %v", c.reason, name, took, err)
				}
			}
		})
	}
}

// news is what a bus tells of its broker.
type news struct {
	mu   sync.Mutex
	told []string
	more chan struct{} // one for each
}

func newNews() *news { return &news{more: make(chan struct{}, 100)} }

func (n *news) tell(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.told = append(n.told, text)
	n.more <- struct{}{}
}

func (n *news) all() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.told)
}

func (n *news) outside() rabbitmq.Outside {
	return rabbitmq.Outside{
		Away: func(broker string, why error) { n.tell(fmt.Sprintf("away %s: %v", broker, why)) },
		Back: func(broker string, _ time.Duration) { n.tell("back " + broker) },
	}
}

// A broker that cannot be reached is told of once, by its host, however often it is tried.
func TestAnAbsenceIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNews()
		with := n.outside()
		tries := atomic.Int64{}
		with.Dial = func(context.Context, string, string) (net.Conn, error) {
			tries.Add(1)
			return nil, errors.New("refused, s3cr3t")
		}
		b, err := rabbitmq.Connect(bus.Options{"url": "amqp://drover:s3cr3t@broker.example/v"}, with)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var calls sync.WaitGroup
		calls.Go(func() { _ = b.Send(ctx, "drover.commands", bus.Message{}) })
		calls.Go(func() {
			_ = b.Consume(ctx, "drover.commands", func(context.Context, bus.Delivery) error { return nil })
		})
		calls.Wait()
		b.Close()
		want := []string{"away broker.example:5672: refused, ***"}
		if got := n.all(); !slices.Equal(got, want) || tries.Load() < 10 {
			t.Errorf("after %d tries it was told %q", tries.Load(), got)
		}
	})
}

// A connection that is lost is told of, and that there is another, whoever uses it; Close is
// no loss. What came last is known, be it a heartbeat.
func TestALossIsToldAndItsEnd(t *testing.T) {
	w := open(t)
	u, err := url.Parse(w.URL)
	if err != nil {
		t.Fatal(err)
	}
	p := newProxy(t, u.Host)
	u.Host = p.addr
	n := newNews()
	opened, err := rabbitmq.Connect(bus.Options{"url": u.String(), "prefix": w.prefix}, n.outside())
	if err != nil {
		t.Fatal(err)
	}
	b := opened.(*rabbitmq.Bus)
	began := time.Now()
	if at := b.Heard(); !at.IsZero() {
		t.Errorf("before anything came it was %v", at)
	}
	if err := b.Publish(t.Context(), bus.Message{Topic: "a"}); err != nil {
		t.Fatal(err)
	}
	first := b.Heard()
	if first.Before(began) || len(n.all()) != 0 {
		t.Errorf("it was heard at %v, told is %q", first, n.all())
	}
	if err := b.Publish(t.Context(), bus.Message{Topic: "a"}); err != nil {
		t.Fatal(err)
	}
	if !b.Heard().After(first) {
		t.Error("a confirmation is not an answer")
	}
	p.cut()
	for range 2 {
		select {
		case <-n.more:
		case <-time.After(30 * time.Second):
			t.Fatalf("told is %q", n.all())
		}
	}
	b.Close()
	got := n.all()
	if len(got) != 2 || !strings.HasPrefix(got[0], "away "+p.addr) || got[1] != "back "+p.addr || strings.Contains(strings.Join(got, " "), "amqp://") {
		t.Errorf("told is %q", got)
	}
}
