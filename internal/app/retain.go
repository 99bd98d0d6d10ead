package app

import (
	"context"
	"time"

	"github.com/droverhq/drover/internal/command"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
)

const (
	retainEach = time.Hour
	// youngBlobs is how long a blob may be there before somebody names it.
	youngBlobs = 24 * time.Hour
)

// retain takes away what is kept no longer, once an hour, until ctx ends. Replicas do
// so beside each other, which is once too often and does no harm.
func (s *Server) retain(ctx context.Context) error {
	timer := time.NewTicker(retainEach)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
			s.retainOnce(ctx, time.Now())
		}
	}
}

func (s *Server) retainOnce(ctx context.Context, now time.Time) {
	ctx = ledger.WithCause(ctx, ledger.BySchedule("retention"))
	before := now.Add(-s.cfg.Retention)
	operations, err := operation.Retain(ctx, s.ledger, before, now)
	if err != nil && ctx.Err() == nil {
		s.log.WarnContext(ctx, "cannot take old operations off the lists; it is tried again in an hour", "error", err)
	}
	commands, err := command.Retain(ctx, s.ledger, before, now)
	if err != nil && ctx.Err() == nil {
		s.log.WarnContext(ctx, "cannot take old commands off the lists; it is tried again in an hour", "error", err)
	}
	swept, err := s.ledger.Sweep(ctx, ledger.Sweep{Young: youngBlobs, Keep: s.cfg.Retention})
	if err != nil && ctx.Err() == nil {
		s.log.WarnContext(ctx, "cannot sweep; it is tried again in an hour", "error", err)
	}
	if operations+commands+swept.Erased > 0 {
		s.log.Info("what is kept no longer is gone", "operations", operations, "commands", commands, "blobs", swept.Erased)
	}
}
