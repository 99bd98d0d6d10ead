package audit

import (
	"cmp"
	"context"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// truncateEvery is how often the log is truncated at most: each time it is read
// up to there, and leaves a checkpoint for ever.
const truncateEvery = 24 * time.Hour

// refusedFor is how long the log is not read again after it was found not to be what
// was written: nobody mends that in a minute, and reading all of it takes long.
const refusedFor = time.Hour

// Due reports whether the log is to be truncated. It is pure; last is the time up
// to which it was truncated, zero if it never was.
func Due(retain time.Duration, last, now time.Time) bool {
	return retain > 0 && (last.IsZero() || now.Sub(last) >= retain+truncateEvery)
}

// retain truncates the log if it is time, and drops a piece of what is to go. It
// tells whether there is more to drop.
func (s *Service) retain(ctx context.Context) (more bool, err error) {
	checkpoints, err := s.Store.Checkpoints(ctx)
	if err != nil {
		return false, err
	}
	var last ledger.Checkpoint
	if n := len(checkpoints); n > 0 {
		last = checkpoints[n-1]
	}
	now := s.Now()
	var flaw error // told once what an earlier checkpoint drops is dropped
	if Due(s.Retain, last.LastAt, now) && !s.refusal(now) {
		switch err := s.truncate(ctx, last, now); {
		case fault.Reason(err) == "flaw":
			flaw = err
			s.refuse(now)
		case err != nil:
			return false, err
		}
	}
	for range prunedAtOnce {
		if more, err = s.Store.Prune(ctx); err != nil || !more {
			return false, cmp.Or(err, flaw)
		}
	}
	return true, flaw
}

// refusal reports whether a flaw was found lately.
func (s *Service) refusal(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.refused.IsZero() && now.Sub(s.refused) < refusedFor
}

func (s *Service) refuse(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused = now
}

func (s *Service) truncate(ctx context.Context, last ledger.Checkpoint, now time.Time) error {
	block, err := s.edge(ctx, last.Block, now.Add(-s.Retain))
	if err != nil || block <= last.Block {
		return err
	}
	return s.Truncate(ctx, block)
}

// Truncate writes the checkpoint of a block: from then on only what each object was
// then is kept of what was before.
func (s *Service) Truncate(ctx context.Context, block int64) error {
	signer, err := s.signer(ctx)
	if err != nil {
		return err
	}
	head, err := s.Store.Head(ctx)
	if err != nil {
		return err
	}
	keys, err := Keys(ctx, s.Store)
	if err != nil {
		return err
	}
	c, err := ledger.Verification{Keys: keys}.Checkpoint(ctx, s.Store, block, s.Now())
	if err != nil {
		return err
	}
	c.Sign(head.Ledger, signer)
	if err := s.Store.Truncate(ctx, c); err != nil && fault.Reason(err) != "sealed" {
		return err
	}
	return nil
}

// edge finds the last block that was sealed before a time, and so holds nothing
// newer; low if there is none after that.
func (s *Service) edge(ctx context.Context, low int64, before time.Time) (int64, error) {
	next, err := s.Store.Blocks(ctx, low, 1)
	if err != nil || len(next) == 0 || !next[0].At.Before(before) {
		return low, err // as it is nearly always
	}
	newest, err := s.Store.Blocks(ctx, 0, -1)
	if err != nil || len(newest) == 0 {
		return low, err
	}
	high := newest[0].Number + 1 // the first that is too new is in (low, high]
	for low+1 < high {
		middle := low + (high-low)/2
		found, err := s.Store.Blocks(ctx, middle-1, 1)
		if err != nil {
			return 0, err
		}
		if len(found) == 1 && found[0].At.Before(before) {
			low = middle
		} else {
			high = middle
		}
	}
	return low, nil
}
