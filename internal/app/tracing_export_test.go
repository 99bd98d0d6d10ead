package app

import (
	"context"
	"log/slog"

	"github.com/droverhq/drover/internal/trace"
)

// Elsewhere is a collector as agents on clusters are told of it.
var Elsewhere = elsewhere

// OpenTracing sets up a collector; flush ends it.
func OpenTracing(ctx context.Context, endpoint string, sample float64, log *slog.Logger) (tracer *trace.Tracer, flush func(), err error) {
	t, err := openTracing(ctx, endpoint, "test", "1.0.0", sample, log)
	return t.tracer, t.flush, err
}
