package app

import (
	"context"
	"log/slog"

	"github.com/droverhq/drover/internal/command"
)

// heard is what is told of commands: numbers, and a line for each that the API never
// saw. Those that it saw it has told of itself.
type heard struct {
	*messageMetrics
	log *slog.Logger
}

// Refused implements command.Observer.
func (h heard) Refused(ctx context.Context, r command.Refusal) {
	level := slog.LevelInfo
	if r.Outcome == "failed" {
		level = slog.LevelError
	}
	attrs := []slog.Attr{slog.String("outcome", r.Outcome), slog.String("message", r.Message), slog.String("source", r.Source)}
	if r.Command != "" {
		attrs = append(attrs, slog.String("command", r.Command))
	}
	h.log.LogAttrs(ctx, level, "message refused", attrs...)
}
