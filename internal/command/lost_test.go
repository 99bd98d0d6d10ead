package command_test

import (
	"context"
	"encoding/json"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/command"
	"github.com/droverhq/drover/internal/fault"
)

// post passes on what is sent, but for the second.
type post struct {
	desk
	calls atomic.Int32
	out   chan bus.Message
}

func (p *post) Send(_ context.Context, to string, m bus.Message) error {
	if p.calls.Add(1) == 2 {
		return fault.New(fault.Unavailable, "the broker is away")
	}
	m.Topic = to
	p.out <- m
	return nil
}

// Somebody deletes the queue of commands: whoever has sent one of late is told once where
// answers go, also if the broker is away for a moment. Who was there before that is not.
func TestSendersAreToldOfADeletedQueue(t *testing.T) {
	w, p := newWorld(t), &post{out: make(chan bus.Message, 10)}
	now := time.Now()
	w.s.Bus, w.s.Now = p, func() time.Time { return now }
	if err := w.s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if w.s.Heard(t.Context()) {
		t.Error("a new control plane has heard a command")
	}
	for id, to := range map[string]string{"m1": "one", "m2": "one", "m3": "two", "m4": ""} {
		m := message("alice", id, "instance.create", "things", `{"name":"rex"}`)
		m.ReplyTo = to
		if err := p.handle(t.Context(), bus.Delivery{Message: m, Try: 1}); err != nil {
			t.Fatal(err)
		}
	}
	if !w.s.Heard(t.Context()) {
		t.Error("it does not know that it has heard commands")
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = w.s.Warn(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	w.s.Miss()
	w.s.Miss() // of two queues
	var told []string
	for range 2 {
		var m bus.Message
		select {
		case m = <-p.out:
		case <-time.After(time.Minute):
			t.Fatalf("told are only %v", told)
		}
		told = append(told, m.Topic)
		var e struct {
			Type string
			Data command.Answer
		}
		if err := json.Unmarshal(m.Body, &e); err != nil || e.Type != "dev.drover.command.lost" || e.Data.Phase != command.Lost || e.Data.Code != "queue-deleted" || e.Data.Reason == "" {
			t.Errorf("%s hears %s", m.Topic, m.Body)
		}
	}
	if slices.Sort(told); !slices.Equal(told, []string{"one", "two"}) {
		t.Errorf("told were %v", told)
	}
	cancel()
	<-ended
	if len(p.out) > 0 {
		t.Errorf("told was also %s", (<-p.out).Topic)
	}

	now = now.Add(25 * time.Hour)
	if err := w.s.TellLost(t.Context()); err != nil || len(p.out) > 0 {
		t.Errorf("a day later %d are told: %v", len(p.out), err)
	}
}
