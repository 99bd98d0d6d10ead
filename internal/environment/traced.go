package environment

import (
	"context"

	"github.com/droverhq/drover/internal/trace"
)

// follow begins the span of an executor's call, where the run is followed. Neither
// inputs nor outputs are said of it: secrets may be among them.
func (n *run) follow(ctx context.Context, away bool) (context.Context, *trace.Span) {
	name := "executor apply"
	if away {
		name = "executor destroy"
	}
	ctx, span := trace.Child(ctx, name, trace.Inside)
	if span != nil {
		span.Set(trace.Text("drover.executor", n.r.Spec.Executor), trace.Text("drover.resource", n.r.Spec.Address),
			trace.Text("drover.environment", n.e.Name), trace.Text("drover.org", n.e.Org))
	}
	return ctx, span
}
