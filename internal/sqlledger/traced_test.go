package sqlledger_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/sqlledger"
	"github.com/droverhq/drover/internal/trace"
)

// A commit of somebody who is followed is told with its span, if it writes objects; its
// changes, and what they wake, go on from whoever made it.
func TestCommitsAreFollowed(t *testing.T) {
	for name, where := range engines {
		t.Run(name, func(t *testing.T) {
			l := open(t, sqlledger.Config{URL: where(t), Kinds: things})
			recorder := tracetest.NewSpanRecorder()
			ctx, top := trace.New(sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder))).Start(t.Context(), "", "request", trace.Server)
			for _, c := range []struct {
				reason string
				set    ledger.Set
				want   fault.Kind
			}{
				{"an object", put("a", "acme", "new", 0), 0},
				{"somebody was faster", put("a", "acme", "new", 7), fault.Conflict},
				{"no object", ledger.Set{Actor: "tester", Cause: "test", Wakes: []ledger.Wake{{Ref: ledger.Ref{Kind: "thing", ID: "a"}}}}, 0},
			} {
				if _, err := l.Commit(ctx, c.set); c.want != 0 && !fault.Is(err, c.want) || c.want == 0 && err != nil {
					t.Errorf("%s: %v", c.reason, err)
				}
			}
			commit(t, l, put("b", "acme", "new", 0)) // nobody follows it
			top.End("")
			var got []string
			for _, s := range recorder.Ended() {
				for _, e := range s.Events() {
					text := s.Name() + ": " + e.Name
					for _, a := range e.Attributes {
						if a.Key == trace.Took {
							if e.Time.Before(s.StartTime()) || e.Time.Add(time.Duration(a.Value.AsInt64())*time.Microsecond).After(s.EndTime()) {
								t.Errorf("it began at %s and took %d µs", e.Time, a.Value.AsInt64())
							}
							continue
						}
						text += fmt.Sprintf(" %s=%s", a.Key, a.Value.String())
					}
					got = append(got, text)
				}
			}
			if diff := cmp.Diff([]string{"request: ledger commit drover.changes=1 drover.seq=1", "request: ledger commit drover.changes=0 drover.seq=0 drover.failed=conflict"}, got); diff != "" {
				t.Errorf("what is told (-want +got):\n%s", diff)
			}
			changes, err := l.Changes(t.Context(), ledger.ChangeQuery{})
			if err != nil || len(changes) != 2 || changes[0].Trace != trace.Parent(ctx) || changes[1].Trace != "" {
				t.Errorf("the log has %+v, %v", changes, err)
			}
		})
	}
}
