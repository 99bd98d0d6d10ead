package app

import (
	"context"
	"log/slog"
	"time"

	"golang.org/x/time/rate"

	"github.com/droverhq/drover/internal/command"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
)

// heard is what is told of commands: numbers, and a line and an entry of the audit for
// each that the API never saw. Those that it saw it has told of itself.
type heard struct {
	*messageMetrics
	log   *slog.Logger
	store ledger.Committer
	// pace bounds the entries: whoever may send could fill the ledger with them.
	pace *rate.Limiter
}

func newHeard(m *messageMetrics, log *slog.Logger, store ledger.Committer) heard {
	return heard{m, log, store, rate.NewLimiter(1, 100)}
}

// Refused implements command.Observer.
func (h heard) Refused(ctx context.Context, r command.Refusal) {
	level := slog.LevelInfo
	if r.Outcome == "failed" || r.Outcome == "key-lost" {
		level = slog.LevelError
	}
	attrs := []slog.Attr{slog.String("outcome", r.Outcome), slog.String("message", r.Message), slog.String("source", r.Source)}
	if r.Command != "" {
		attrs = append(attrs, slog.String("command", r.Command))
	}
	h.log.LogAttrs(ctx, level, "message refused", attrs...)
	if status := refusedAs[r.Outcome]; status != 0 && h.pace.Allow() {
		if err := h.keep(ctx, r, status); err != nil {
			h.log.ErrorContext(ctx, "a refused message is not on record", "error", err)
		}
	}
}

// refusedAs is what a request that is refused in the same way is answered with.
// Commands that failed each time, or whose key is lost, lie in the queue of those that were put aside besides.
var refusedAs = map[string]int{"malformed": 400, "denied": 401, "reused": 409, "failed": 500, "key-lost": 503}

// keep writes the entry of a message. Whose it is nobody knows; what it says of itself
// is told as that.
func (h heard) keep(ctx context.Context, r command.Refusal, status int) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	cause, path := ledger.CauseOf(ctx), r.Command
	request, _ := cause.Request()
	if path == "" {
		path = "unknown"
	}
	entry, err := operation.Audit{User: "bus", Method: "COMMAND", Path: path, Remote: "bus", Request: request}.Entry(operation.AuditStarted, 0, time.Now())
	if err != nil {
		return err
	}
	about := "message " + r.Message
	if r.Source != "" {
		about += ", which says that it is of " + r.Source
	}
	put, err := operation.Conclude(entry.Object, operation.AuditPhase(status), operation.AuditStatus{Status: status, About: about, Finished: time.Now()})
	if err == nil {
		_, err = h.store.Commit(ctx, ledger.Set{Actor: "bus", Cause: cause, Puts: []ledger.Put{put}})
	}
	return err
}
