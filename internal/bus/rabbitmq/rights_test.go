package rabbitmq_test

import (
	"context"
	"errors"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/bus/bustest"
	"github.com/droverhq/drover/internal/fault"
	broker "github.com/droverhq/drover/test/rabbitmq"
)

// The rights that docs/add/bus.md names are enough, and what they do not allow is told
// at once.
func TestRights(t *testing.T) {
	w := open(t)
	ours := "^" + regexp.QuoteMeta(w.prefix) + `drover[.].*`
	ours = strings.ReplaceAll(ours, `\.`, "[.]")
	w.Grant(t, "clerk", "pass", ours, "^("+ours[1:]+"|amq[.]default)$", ours)
	as := (&url.URL{Scheme: "amqp", User: url.UserPassword("clerk", "pass"), Host: w.Addr, Path: "/"}).String()
	b, queue := w.bus(t, "url", as), bustest.Name()
	var healthy atomic.Bool
	done := make(chan bus.Delivery, 1)
	bustest.Consume(t, b, queue, func(_ context.Context, d bus.Delivery) error {
		if !healthy.Load() {
			return bus.Reject(errors.New("no"))
		}
		done <- d
		return nil
	})
	events := w.events(t, "#")
	if err := b.Publish(t.Context(), bus.Message{ID: "event"}); err != nil {
		t.Fatal(err)
	}
	bustest.Receive(t, events)
	bustest.Send(t, b, queue, bus.Message{ID: "1"})
	key := bustest.List(t, b, 1)[0].Key
	healthy.Store(true)
	if err := b.Aside().Retry(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	bustest.Receive(t, done)
	answers, err := broker.Channel(t, w.URL).QueueDeclare("", false, true, true, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	bustest.Send(t, b, answers.Name, bus.Message{ID: "answer"})

	w.Grant(t, "reader", "pass", ours, "^$", ours)
	as = strings.Replace(as, "clerk", "reader", 1)
	limited := w.bus(t, "url", as)
	for name, err := range map[string]error{
		"an event":  limited.Publish(t.Context(), bus.Message{ID: "event"}),
		"an answer": limited.Send(t.Context(), answers.Name, bus.Message{ID: "answer"}),
	} {
		if !fault.Is(err, fault.Unavailable) || fault.Reason(err) != "broker-refuses" {
			t.Errorf("%s without the right: %v", name, err)
		}
	}
	ended := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() { ended <- limited.Consume(ctx, queue, nil) }()
	troubled(ctx, limited, "ACCESS_REFUSED")
	if limited.Taking(queue) || !b.Taking(queue) || b.Taking("drover.other") {
		t.Errorf("who takes what is told wrongly: %v, %v, %v", limited.Taking(queue), b.Taking(queue), b.Taking("drover.other"))
	}
	if err := limited.Trouble(); err == nil || !strings.Contains(err.Error(), "ACCESS_REFUSED") {
		t.Errorf("trouble is %v", err)
	}
	cancel()
	if err := bustest.Receive(t, ended); err != nil {
		t.Errorf("consuming without the right ended with %v", err)
	}
}
