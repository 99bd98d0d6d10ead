package reconcile_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/reconcile"
	"github.com/droverhq/drover/internal/trace"
)

const (
	someTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	someSpan  = "00f067aa0ba902b7"
)

// followed is a store whose commits are spans: something below the run.
type followed struct{ *store }

func (f followed) Commit(ctx context.Context, set ledger.Set) (ledger.Result, error) {
	_, span := trace.Child(ctx, "commit", trace.Client)
	defer span.End("")
	return f.store.Commit(ctx, set)
}

// A run continues the trace of what woke it, what it writes and wakes goes on in it, and
// what nobody asked for begins none. One that only waits is not told.
func TestARunContinuesTheTraceThatWokeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := tracetest.NewSpanRecorder()
		tracer := trace.New(sdk.NewTracerProvider(sdk.WithSpanProcessor(told)))
		var mu sync.Mutex
		s, within, n := newStore(), map[string]string{}, 0
		stop := start(t, reconcile.Config{Ledger: followed{s}, Resync: -1, Tracer: tracer}, func(ctx context.Context, task reconcile.Task) (reconcile.Result, error) {
			mu.Lock()
			defer mu.Unlock()
			within[task.ID] = trace.ID(ctx)
			_, call := trace.Child(ctx, "call "+task.ID, trace.Client)
			call.End("")
			switch task.ID {
			case "a":
				set := put(s.object("a"), "a", "ready")
				set.Wakes = []ledger.Wake{{Ref: thing("b")}}
				return reconcile.Done(set), nil
			case "b":
				if n++; n < 4 {
					return reconcile.Wait(ledger.Set{}, time.Second, "for rain"), nil
				}
				return reconcile.Result{}, reconcile.Terminal(errors.New("it quotes a secret"))
			}
			return reconcile.Result{}, nil
		})
		set := ledger.Set{Actor: "alice", Cause: ledger.ByRequest("r1"), Wakes: []ledger.Wake{
			{Ref: thing("a"), Org: "acme", Trace: "00-" + someTrace + "-" + someSpan + "-01"}, {Ref: thing("c"), Org: "acme"}}}
		if _, err := s.Commit(t.Context(), set); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		stop()
		if diff := cmp.Diff(map[string]string{"a": someTrace, "b": someTrace, "c": ""}, within); diff != "" {
			t.Errorf("traces that runs are in (-want +got):\n%s", diff)
		}
		spans := told.Ended()
		var names []string
		for _, s := range spans {
			names = append(names, s.Name())
		}
		// The calls and the ends of the three runs that only waited are not among them.
		if diff := cmp.Diff([]string{"reconcile thing", "call a", "commit", "reconcile thing", "call b", "commit"}, names); diff != "" {
			t.Fatalf("what is told (-want +got):\n%s", diff)
		}
		first, second := spans[0], spans[3]
		for i, s := range spans {
			if top := spans[i/3*3]; i%3 != 0 && s.Parent().SpanID() != top.SpanContext().SpanID() {
				t.Errorf("%s is below %s", s.Name(), s.Parent().SpanID())
			}
		}
		if first.Name() != "reconcile thing" || first.Parent().SpanID().String() != someSpan || second.Parent().SpanID() != first.SpanContext().SpanID() {
			t.Errorf("%s is below %s, and what it woke below %s", first.Name(), first.Parent().SpanID(), second.Parent().SpanID())
		}
		if why := second.Status().Description; why != "terminal: internal" {
			t.Errorf("a failure is told as %q", why)
		}
		about := map[string]string{}
		for _, a := range first.Attributes() {
			about[string(a.Key)] = a.Value.String()
		}
		want := map[string]string{"drover.kind": "thing", "drover.id": "a", "drover.org": "acme", "drover.cause": "request:r1",
			"drover.attempts": "0", "drover.outcome": "succeeded", "drover.rounds": "1"}
		if diff := cmp.Diff(want, about); diff != "" {
			t.Errorf("what is said of a run (-want +got):\n%s", diff)
		}
	})
}
