package rabbitmq_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/bus/rabbitmq"
)

// Replicas that have lost their broker at one moment do not all call it at one: each goes on
// at moments of its own.
func TestReplicasDoNotComeBackInStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, calls := time.Now(), map[time.Duration]int{}
		dialed, over := make(chan time.Duration), make(chan struct{})
		const replicas = 5
		for range replicas {
			b, err := rabbitmq.Connect(bus.Options{"url": "amqp://broker.example"}, rabbitmq.Outside{Dial: func(context.Context, string, string) (net.Conn, error) {
				select {
				case dialed <- time.Since(began):
				case <-over:
				}
				return nil, errors.New("refused")
			}})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			sent := make(chan struct{})
			go func() {
				defer close(sent)
				_ = b.Send(ctx, "drover.commands", bus.Message{})
			}()
			defer func() { cancel(); <-sent; _ = b.Close() }()
		}
		together := 0
		for range 10 * replicas {
			if at := <-dialed; at > 0 { // the first time all come at once
				if calls[at]++; calls[at] > 1 {
					together++
				}
			}
		}
		if together > replicas {
			t.Errorf("%d of %d calls came with another: %v", together, 10*replicas, calls)
		}
		close(over)
	})
}
