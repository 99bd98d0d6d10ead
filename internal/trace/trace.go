package trace

import (
	"context"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	otel "go.opentelemetry.io/otel/trace"

	"github.com/droverhq/drover/internal/fault"
)

// Tracer begins spans; nil: none.
type Tracer struct{ tracer otel.Tracer }

// New makes a tracer whose spans go to the provider.
func New(provider otel.TracerProvider) *Tracer {
	return &Tracer{provider.Tracer("github.com/droverhq/drover")}
}

// Role is on which side of what kind of call a span is.
type Role = otel.SpanKind

// Roles.
const (
	Inside   = otel.SpanKindInternal
	Server   = otel.SpanKindServer
	Client   = otel.SpanKindClient
	Consumer = otel.SpanKindConsumer
	Producer = otel.SpanKindProducer
)

// Start begins a span: the continuation of the trace in parent, a traceparent that came
// from elsewhere; without a good one of the trace in ctx; without that, a new trace.
func (t *Tracer) Start(ctx context.Context, parent, name string, role Role) (context.Context, *Span) {
	if t == nil {
		return ctx, nil
	}
	if from, ok := parse(parent); ok {
		ctx = otel.ContextWithRemoteSpanContext(ctx, from)
	}
	ctx, span := t.tracer.Start(ctx, name, otel.WithSpanKind(role))
	return ctx, &Span{span: span}
}

// Continue begins a span in the trace of parent, a traceparent from elsewhere, and
// nothing where that is none: what nobody asked for begins no trace.
func (t *Tracer) Continue(ctx context.Context, parent, name string) (context.Context, *Span) {
	if t == nil || parent == "" {
		return ctx, nil
	}
	from, ok := parse(parent)
	if !ok {
		return ctx, nil
	}
	ctx, span := t.tracer.Start(otel.ContextWithRemoteSpanContext(ctx, from), name)
	return ctx, &Span{span: span}
}

// Past is a span that began at a time and ends now. It returns how it is continued.
func (t *Tracer) Past(ctx context.Context, parent, name string, since time.Time, attrs ...Attr) string {
	from, ok := parse(parent)
	if t == nil || !ok {
		return parent
	}
	ctx, span := t.tracer.Start(otel.ContextWithRemoteSpanContext(ctx, from), name, otel.WithTimestamp(since), otel.WithAttributes(attrs...))
	span.End()
	return Parent(ctx)
}

type tracerKey struct{}

// With returns a context in which From finds the tracer.
func With(ctx context.Context, t *Tracer) context.Context {
	if t == nil {
		return ctx
	}
	return context.WithValue(ctx, tracerKey{}, t)
}

// From returns the tracer of the context, nil if there is none.
func From(ctx context.Context) *Tracer {
	t, _ := ctx.Value(tracerKey{}).(*Tracer)
	return t
}

// Child begins a span within the one that ctx has, and nothing where it has none.
func Child(ctx context.Context, name string, role Role) (context.Context, *Span) {
	of := otel.SpanFromContext(ctx)
	if !of.IsRecording() {
		return ctx, nil
	}
	within, _ := ctx.Value(partsKey{}).(*parts)
	ctx, span := of.TracerProvider().Tracer("github.com/droverhq/drover").Start(ctx, name, otel.WithSpanKind(role))
	return ctx, &Span{span: span, within: within}
}

// Took is the attribute of a step that tells how long it took, in microseconds, and Why
// the one that tells of which kind its failure was.
const (
	Took = "drover.took"
	Why  = "drover.failed"
)

// Step says of the span that ctx has what was done within it, from a time until now. It
// is an event of that span, for what happens in every one and leads nowhere else: a span of
// its own costs several times as much. One that has ended takes none.
func Step(ctx context.Context, name string, began time.Time, err error, attrs ...Attr) {
	of := otel.SpanFromContext(ctx)
	if !of.IsRecording() {
		return
	}
	attrs = append(attrs, Number(Took, time.Since(began).Microseconds()))
	if err != nil {
		attrs = append(attrs, Text(Why, fault.Of(err).String()))
	}
	of.AddEvent(name, otel.WithTimestamp(began), otel.WithAttributes(attrs...))
}

// Attr is something that is said of a span.
type Attr = attribute.KeyValue

// Text says a word of a span. What is too long for one is cut, and what is no text left
// out: one such word would keep all spans from being sent that go with it.
func Text(key, value string) Attr {
	return attribute.String(key, strings.ToValidUTF8(value[:min(len(value), maxWord)], ""))
}

// Number says a number of a span.
func Number(key string, value int64) Attr { return attribute.Int64(key, value) }

// maxWord bounds what strangers can have us say of a span.
const maxWord = 256

// Span is one piece of what was done; nil: it is not followed.
type Span struct {
	span   otel.Span
	within *parts // that it is told with; nil: it is told when it ends
	parts  *parts // that are told with it; nil: it holds none
}

// Set says something of the span. Whoever has to compute it looks first whether the
// span is nil.
func (s *Span) Set(attrs ...Attr) {
	if s != nil {
		s.span.SetAttributes(attrs...)
	}
}

// Name gives it another name, once more is known.
func (s *Span) Name(name string) {
	if s != nil {
		s.span.SetName(name)
	}
}

// End ends the span. A span that is never ended is never told of. Why is a word for
// what went wrong, empty if nothing did: an error's own text may quote anything.
func (s *Span) End(why string) {
	if s == nil {
		return
	}
	if why != "" {
		s.span.SetStatus(codes.Error, why)
	}
	if s.within.hold(s.span) {
		return
	}
	s.span.End()
	s.parts.release()
}

// Done ends the span of what went well, or failed with the error: of that, its kind.
func (s *Span) Done(err error) {
	why := ""
	if err != nil {
		why = fault.Of(err).String()
	}
	s.End(why)
}
