package command_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/command"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/trace"
)

const theirTrace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// asked keeps the trace that requests name.
type asked struct {
	http.Handler
	mu     sync.Mutex
	traces []string
}

func (a *asked) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.traces = append(a.traces, r.Header.Get("traceparent"))
	a.mu.Unlock()
	a.Handler.ServeHTTP(w, r)
}

// A command continues the trace that it came in, as a header or an attribute, and the
// request that it stands for, its record and its answers continue it.
func TestACommandContinuesItsTrace(t *testing.T) {
	for _, c := range []struct {
		reason string
		edit   func(m *bus.Message)
		off    bool
		within string // a trace; empty: one of its own
	}{
		{reason: "a header", within: theirTrace, edit: func(m *bus.Message) { m.Headers["traceparent"] = theirTrace }},
		{reason: "an attribute", within: theirTrace, edit: func(m *bus.Message) {
			m.Body = []byte(strings.Replace(string(m.Body), `{`, `{"traceparent":"`+theirTrace+`",`, 1))
		}},
		{reason: "nonsense is none", edit: func(m *bus.Message) { m.Headers["traceparent"] = "00-\nnonsense" }},
		{reason: "none", edit: func(*bus.Message) {}},
		{reason: "nobody follows it here, but its sender does", off: true, within: theirTrace, edit: func(m *bus.Message) { m.Headers["traceparent"] = theirTrace }},
	} {
		t.Run(c.reason, func(t *testing.T) {
			w, told := newWorld(t), tracetest.NewSpanRecorder()
			api := &asked{Handler: w}
			w.s.API = api
			if !c.off {
				w.s.Tracer = trace.New(sdk.NewTracerProvider(sdk.WithSpanProcessor(told)))
			}
			w.run(t)
			m := message("alice", "m1", "instance.create", "things", `{"name":"rex"}`)
			c.edit(&m)
			w.send(t, command.Queue, m)
			until(t, "a record", func() bool { return len(w.list(t, "command")) == 1 })
			api.mu.Lock()
			sent := api.traces[0]
			api.mu.Unlock()
			o := w.list(t, "command")[0]
			record, err := command.Decode(o)
			if err != nil || record.Spec.Trace != sent {
				t.Errorf("the record has %q, the request %q, %v", record.Spec.Trace, sent, err)
			}
			if c.off {
				if sent != theirTrace {
					t.Errorf("it goes on as %q", sent)
				}
				return
			}
			var span sdk.ReadOnlySpan
			until(t, "the span", func() bool { span = named(told, "command instance.create"); return span != nil })
			if steps := span.Events(); len(steps) == 0 || steps[0].Name != "ledger commit" {
				t.Errorf("its commit is told as %v", steps)
			}
			if sent != "00-"+span.SpanContext().TraceID().String()+"-"+span.SpanContext().SpanID().String()+"-01" {
				t.Errorf("it goes on as %q", sent)
			}
			if c.within != "" && (sent[3:35] != c.within[3:35] || span.Parent().SpanID().String() != c.within[36:52]) || c.within == "" && span.Parent().IsValid() {
				t.Errorf("it is below %s in %s", span.Parent().SpanID(), sent)
			}
			changes, err := w.store.Changes(t.Context(), ledger.ChangeQuery{Kind: "thing"})
			if err != nil || len(changes) != 1 || changes[0].Trace != sent {
				t.Errorf("what it did is in the log as %+v, %v", changes, err)
			}
		})
	}
}

// Answers carry the trace both ways: brokers' clients look at headers, others at the event.
func TestAnswersCarryTheTrace(t *testing.T) {
	w, told := newWorld(t), tracetest.NewSpanRecorder()
	w.s.Tracer = trace.New(sdk.NewTracerProvider(sdk.WithSpanProcessor(told)))
	got := make(chan bus.Message, 1)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = w.bus.Consume(ctx, "answers", func(_ context.Context, d bus.Delivery) error { got <- d.Message; return nil })
	}()
	t.Cleanup(func() { cancel(); <-done })
	w.send(t, "answers", bus.Message{Body: []byte("{}")})
	<-got // it listens
	c := command.Command{Object: ledger.Object{Phase: command.Accepted}, Spec: command.Spec{ReplyTo: "answers", Message: "m1", Trace: theirTrace}}
	if err := w.s.Reply(t.Context(), c, "e1", command.Accepted); err != nil {
		t.Fatal(err)
	}
	m := <-got
	var e struct{ Traceparent string }
	if err := json.Unmarshal(m.Body, &e); err != nil || e.Traceparent != theirTrace || m.Headers["traceparent"] != theirTrace {
		t.Errorf("header %q, attribute %q, %v", m.Headers["traceparent"], e.Traceparent, err)
	}
	if span := named(told, "answer accepted"); span == nil || span.Parent().SpanID().String() != theirTrace[36:52] || span.Status().Description != "" {
		t.Errorf("it is told as %v", span)
	}
	c.Spec.ReplyTo = "nowhere"
	if err := w.s.Reply(t.Context(), c, "e2", "done"); err != nil {
		t.Fatal(err)
	}
	if span := named(told, "answer done"); span == nil || span.Status().Description != "not found" {
		t.Errorf("an answer that nobody waits for is told as %v", span)
	}
}

// named is the first span of a name, nil if there is none yet.
func named(told *tracetest.SpanRecorder, name string) sdk.ReadOnlySpan {
	for _, s := range told.Ended() {
		if s.Name() == name {
			return s
		}
	}
	return nil
}
