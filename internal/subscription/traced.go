package subscription

import (
	"context"
	"strings"

	"github.com/droverhq/drover/internal/trace"
)

// follow begins the spans of events that are on their way, of those whose changes were
// made in a trace: each is part of its own.
func follow(ctx context.Context, tracer *trace.Tracer, events []Event, verb string, role trace.Role) (spans []*trace.Span) {
	if tracer == nil {
		return nil
	}
	for i := range events {
		e := &events[i]
		if e.Trace == "" {
			continue
		}
		_, span := tracer.Start(ctx, e.Trace, verb+strings.TrimPrefix(e.Type, TypePrefix), role)
		span.Set(trace.Text("messaging.message.id", e.ID), trace.Text("drover.subject", e.Subject), trace.Text("drover.org", e.Org))
		spans = append(spans, span)
	}
	return spans
}
