package subscription_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/hook"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/subscription"
	"github.com/droverhq/drover/internal/trace"
)

const (
	oneTrace   = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	otherTrace = "00-5bf92f3577b34da6a3ce929d0e0e4736-10f067aa0ba902b7-01"
)

// receiver takes messages and requests, or does not.
type receiver struct{ err error }

func (r *receiver) Publish(context.Context, ...bus.Message) error  { return r.err }
func (r *receiver) Post(context.Context, hook.Post) error          { return r.err }
func (r *receiver) Unseal(context.Context, string) ([]byte, error) { return []byte("secret"), nil }

// Events on their way are part of the traces that their changes were made in, each of its
// own. A receiver that is away makes no trace grow.
func TestEventsOnTheirWayAreFollowed(t *testing.T) {
	events := []subscription.Event{
		{ID: "1", Type: "dev.drover.instance.created", Subject: "instance/a", Trace: oneTrace},
		{ID: "2", Type: "dev.drover.instance.moved", Subject: "instance/b"},
		{ID: "3", Type: "dev.drover.instance.moved", Subject: "instance/a", Trace: otherTrace},
	}
	away := fault.New(fault.Unavailable, "it quotes a secret")
	for _, c := range []struct {
		reason string
		sink   func(r *receiver, t *trace.Tracer) subscription.Sink
		tries  int
		err    error
		want   []string // parent, name, failure
	}{
		{"to the bus", onBus, 0, nil, []string{oneTrace[36:52] + " publish instance.created ", otherTrace[36:52] + " publish instance.moved "}},
		{"the broker is away", onBus, 0, away, nil},
		{"to a URL", byWebhook, 0, nil, []string{oneTrace[36:52] + " webhook instance.created ", otherTrace[36:52] + " webhook instance.moved "}},
		{"its receiver is away", byWebhook, 0, away, []string{oneTrace[36:52] + " webhook instance.created unavailable"}},
		{"and still is", byWebhook, 3, away, nil},
		{"nobody follows", func(r *receiver, _ *trace.Tracer) subscription.Sink { return onBus(r, nil) }, 0, nil, nil},
	} {
		t.Run(c.reason, func(t *testing.T) {
			told := tracetest.NewSpanRecorder()
			sub := subscription.Subscription{Object: ledger.Object{Ref: ledger.Ref{Kind: "subscription", ID: "s"}}, Status: subscription.Status{Tries: c.tries}}
			_, err := c.sink(&receiver{c.err}, trace.New(sdk.NewTracerProvider(sdk.WithSpanProcessor(told)))).Deliver(t.Context(), sub, events)
			if (err != nil) != (c.err != nil) {
				t.Error(err)
			}
			var got []string
			for _, s := range told.Ended() {
				got = append(got, s.Parent().SpanID().String()+" "+s.Name()+" "+s.Status().Description)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("what is told (-want +got):\n%s", diff)
			}
		})
	}
}

func onBus(r *receiver, t *trace.Tracer) subscription.Sink {
	return &subscription.Bus{Publisher: r, Tracer: t}
}

func byWebhook(r *receiver, t *trace.Tracer) subscription.Sink {
	return &subscription.Webhook{Poster: r, Keeper: r, Tracer: t}
}
