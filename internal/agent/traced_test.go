package agent_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/agent"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/simulated"
	"github.com/droverhq/drover/internal/trace"
)

const wanted = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// told are the traces in which the states of an item were told, in order.
func (s *server) told(id string) (out []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.messages {
		for _, o := range m.Items {
			if o.ID == id {
				out = append(out, o.State+" "+o.Trace)
			}
		}
	}
	return out
}

// What is applied, and how long it takes to come to rest, is part of the trace in which
// it was wanted; the control plane hears so until it has heard the end, and not again
// when it asks or the agent starts anew.
func TestAnItemIsAppliedInItsTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spans := tracetest.NewSpanRecorder()
		tracer := trace.New(sdk.NewTracerProvider(sdk.WithSpanProcessor(spans)))
		s, dir := newServer(), t.TempDir()
		rt := simulated.New(simulated.Config{Delay: func(runtime.Item) time.Duration { return 3 * time.Second }})
		begin := func() func() {
			return start(t, s, rt, dir, func(c *agent.Config) { c.Tracer = tracer })
		}
		stop := begin()
		a, b := item("a", 1), item("b", 1)
		a.Trace = wanted
		s.say(1, a, b)
		settle(time.Minute)
		ended := spans.Ended()
		if len(ended) != 2 || ended[0].Name() != "agent apply" || ended[1].Name() != "agent settle" {
			t.Fatalf("spans: %v", ended)
		}
		apply, rest := ended[0], ended[1]
		if apply.Parent().SpanID().String() != wanted[36:52] || rest.Parent().SpanID() != apply.SpanContext().SpanID() {
			t.Errorf("it is below %s, and its rest below %s", apply.Parent().SpanID(), rest.Parent().SpanID())
		}
		if d := rest.EndTime().Sub(rest.StartTime()); d < 3*time.Second || d > 4*time.Second {
			t.Errorf("it took %v", d)
		}
		last := "ready 00-" + wanted[3:35] + "-" + rest.SpanContext().SpanID().String() + "-01"
		got := s.told("a")
		for _, state := range got[:len(got)-1] {
			if !strings.HasPrefix(state, "installing 00-"+wanted[3:35]+"-"+apply.SpanContext().SpanID().String()) {
				t.Errorf("told on the way: %s", state)
			}
		}
		if got[len(got)-1] != last {
			t.Errorf("told at the end: %s, not %s", got[len(got)-1], last)
		}
		if got := s.told("b"); strings.TrimSpace(strings.Join(got, "")) == "" || strings.Contains(strings.Join(got, ""), "00-") {
			t.Errorf("of what nobody follows is told %v", got)
		}

		// Another life, and a server that has forgotten: the trace is over.
		stop()
		kept, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil || len(kept) == 0 {
			t.Fatal(err, kept)
		}
		for _, name := range kept {
			if text, err := os.ReadFile(name); err != nil || strings.Contains(string(text), wanted[3:35]) {
				t.Errorf("%s keeps the trace, or %v", name, err)
			}
		}
		s.do(func() { s.observed, s.messages = map[string]v1.ObservedItem{}, nil })
		stop = begin()
		defer stop()
		settle(time.Minute)
		if got := strings.Join(s.told("a"), ""); len(spans.Ended()) != 2 || strings.Contains(got, "00-") || got == "" {
			t.Errorf("%d spans, and told is %q", len(spans.Ended()), got)
		}
	})
}

// failing cannot apply anything.
type failing struct{ runtime.Runtime }

func (failing) Apply(context.Context, runtime.Item) error {
	return fault.New(fault.Unavailable, "it quotes a secret")
}

// What fails for days is not told for days, and says nothing of why but its kind. An
// agent that follows nothing hands on what it was given.
func TestTracesOfWhatFailsAndOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spans := tracetest.NewSpanRecorder()
		s := newServer()
		stop := start(t, s, failing{simulated.New(simulated.Config{})}, t.TempDir(), func(c *agent.Config) {
			c.Tracer = trace.New(sdk.NewTracerProvider(sdk.WithSpanProcessor(spans)))
		})
		a := item("a", 1)
		a.Trace = wanted
		s.say(1, a)
		settle(time.Hour)
		stop()
		if n := len(spans.Ended()); n != 5 {
			t.Errorf("%d spans of an hour of failures", n)
		}
		if why := spans.Ended()[0].Status().Description; why != "unavailable" {
			t.Errorf("it failed because %q", why)
		}

		s = newServer()
		stop = start(t, s, simulated.New(simulated.Config{}), t.TempDir())
		defer stop()
		s.say(1, a)
		settle(time.Minute)
		if got := s.told("a"); len(got) == 0 || !strings.HasSuffix(got[len(got)-1], wanted) {
			t.Errorf("told: %v", got)
		}
	})
}
