package resilience_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/resilience"
	"github.com/droverhq/drover/internal/trace"
)

// A call in a trace is a span of it, one for all tries, which says what became of it
// and nothing of what the other side said.
func TestCallsAreFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		recorder := tracetest.NewSpanRecorder()
		ctx, top := trace.New(sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder))).Start(t.Context(), "", "request", trace.Server)
		p := resilience.New(resilience.Config{Name: "the oracle", Failures: 4, Timeout: time.Second})
		away := fault.New(fault.Unavailable, "it quotes a secret")
		answers := []error{nil, fault.New(fault.NotFound, "no such thing: a secret"), away, away, away, away}
		inside, n := "", 0
		for range 6 {
			_ = p.Do(ctx, func(ctx context.Context) error {
				inside = trace.Parent(ctx)
				n++
				return answers[n-1]
			})
		}
		_ = resilience.New(resilience.Config{Name: "another"}).Once(ctx, func(context.Context) error { return context.Canceled })
		_ = resilience.New(resilience.Config{Name: "somebody slow", Timeout: time.Second, Retries: -1}).Do(ctx, func(ctx context.Context) error {
			<-ctx.Done()
			return errors.New("a secret")
		})
		if err := p.Do(t.Context(), func(context.Context) error { return nil }); !fault.Is(err, fault.Unavailable) { // in no trace
			t.Error(err)
		}
		top.End("")

		type told struct {
			Name, Outcome, Failed string
			Tries                 int64
		}
		var got []told
		for _, s := range recorder.Ended() {
			if s.Name() == "request" {
				continue
			}
			g := told{Name: s.Name(), Failed: s.Status().Description}
			for _, a := range s.Attributes() {
				switch a.Key {
				case "drover.outcome":
					g.Outcome = a.Value.AsString()
				case "drover.tries":
					g.Tries = a.Value.AsInt64()
				}
			}
			if s.Parent().SpanID().String() != trace.Parent(ctx)[36:52] || (s.Status().Code == codes.Error) != (g.Failed != "") {
				t.Errorf("%s is below %s, status %v", s.Name(), s.Parent().SpanID(), s.Status())
			}
			got = append(got, g)
		}
		const oracle = "call the oracle"
		want := []told{
			{oracle, "ok", "", 1}, {oracle, "refused", "", 1}, {oracle, "failed", "unavailable", 3},
			{oracle, "open", "unavailable", 1}, {oracle, "open", "unavailable", 0}, {oracle, "open", "unavailable", 0},
			{"call another", "canceled", "", 1}, {"call somebody slow", "failed", "unavailable", 1},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("what is told of calls (-want +got):\n%s", diff)
		}
		if inside == "" || inside == trace.Parent(ctx) {
			t.Errorf("what is called goes on from %q", inside)
		}
	})
}
