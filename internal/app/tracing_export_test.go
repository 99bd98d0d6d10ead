package app

import (
	"context"
	"log/slog"

	"github.com/droverhq/drover/internal/resilience"
	"github.com/droverhq/drover/internal/trace"
)

// Elsewhere is a collector as agents on clusters are told of it.
var Elsewhere = elsewhere

// OpenTracing sets up a collector; flush ends it.
func OpenTracing(ctx context.Context, endpoint string, sample float64, log *slog.Logger, seen ...resilience.Observer) (tracer *trace.Tracer, flush func(), err error) {
	var observer resilience.Observer
	for _, observer = range seen {
	}
	t, err := openTracing(ctx, endpoint, "test", "1.0.0", sample, log, observer)
	return t.tracer, t.flush, err
}
