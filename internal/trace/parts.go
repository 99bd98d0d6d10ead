package trace

import (
	"context"
	"sync"
	"time"

	otel "go.opentelemetry.io/otel/trace"
)

// parts are spans that have ended below one of which nobody knows yet whether it is
// told: told alone, they would be below nothing.
type parts struct {
	mu    sync.Mutex
	told  bool // the one above them is
	ended []part
}

type part struct {
	span otel.Span
	at   time.Time
}

type partsKey struct{}

// Hold has the children that begin in the context wait for the end of the span: if
// that never comes, none of them is told either.
func (s *Span) Hold(ctx context.Context) context.Context {
	if s == nil {
		return ctx
	}
	if s.parts == nil {
		s.parts = &parts{}
	}
	return context.WithValue(ctx, partsKey{}, s.parts)
}

// Around makes what is begun in another context a part of the span, as in the one that
// came with it.
func (s *Span) Around(ctx context.Context) context.Context {
	if s == nil {
		return ctx
	}
	ctx = otel.ContextWithSpan(ctx, s.span)
	if s.parts != nil {
		ctx = context.WithValue(ctx, partsKey{}, s.parts)
	}
	return ctx
}

// hold keeps a span that ends now, and tells whether it does.
func (p *parts) hold(span otel.Span) bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.told {
		p.ended = append(p.ended, part{span, time.Now()})
	}
	return !p.told
}

// release tells of those that have ended; those that are late are told when they end.
func (p *parts) release() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.told = true
	for _, e := range p.ended {
		e.span.End(otel.WithTimestamp(e.at))
	}
	p.ended = nil
}
