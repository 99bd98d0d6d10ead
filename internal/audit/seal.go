package audit

import (
	"context"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/reconcile"
)

// work is the one piece of work of the room: no object, but a place in the queue,
// so that one replica at a time seals. It writes no object either: a run that left
// a change would have to seal that one, too, and never rest.
var work = ledger.Ref{Kind: Kind.Name, ID: "log"}

const (
	// sealEvery is how long a change waits at most until it is sealed.
	sealEvery = time.Minute
	// sealAt is how many are sealed without waiting.
	sealAt = ledger.MaxBlock / 2
	// blocksAtOnce is how many one run seals.
	blocksAtOnce = 8
	// blockBytes bounds what is held of a block while it is sealed.
	blockBytes = 16 << 20
	blockRead  = 256
	// prunedAtOnce is how many pieces one run drops.
	prunedAtOnce = 64
)

// Reconcile seals what is new, and drops what is old.
func (s *Service) Reconcile(ctx context.Context, _ reconcile.Task) (reconcile.Result, error) {
	more, err := s.Seal(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	old, err := s.retain(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	if more || old {
		return reconcile.Again(ledger.Set{}), nil
	}
	return reconcile.Wait(ledger.Set{}, sealEvery, "the next changes"), nil
}

// Unsettled has the log sealed even if nobody has woken it.
func (s *Service) Unsettled(context.Context, string, int) ([]ledger.Wake, string, error) {
	return []ledger.Wake{{Ref: work}}, "", nil
}

// Follow begins, and has the log sealed whenever enough was written, until ctx
// ends. It is one goroutine, the caller's; in every replica: what is woken twice is
// run once.
func (s *Service) Follow(ctx context.Context, feed *ledger.Feed) error {
	after, fresh, looked := int64(-1), sealAt, time.Time{}
	for ctx.Err() == nil {
		if now := s.Now(); now.Sub(looked) >= sealEvery {
			looked = now
			s.glance(ctx)
		}
		err := s.wake(ctx, &fresh)
		if after < 0 && err == nil {
			var head ledger.Head
			if head, err = s.Store.Head(ctx); err == nil {
				after = head.Seq
			}
		} else if err == nil {
			var changes []ledger.Change
			if changes, err = feed.Next(ctx, after); err == nil {
				after, fresh = changes[len(changes)-1].Seq, fresh+len(changes)
			}
		}
		switch {
		case fault.Reason(err) == "truncated": // it was away for very long; the run finds what is new by itself
			after = -1
		case err != nil:
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	}
	return nil
}

func (s *Service) wake(ctx context.Context, fresh *int) error {
	if *fresh < sealAt {
		return nil
	}
	_, err := s.Store.Commit(ctx, ledger.Set{Actor: "system", Cause: ledger.BySchedule("sealing"), Wakes: []ledger.Wake{{Ref: work}}})
	if err == nil {
		*fresh = 0
	}
	return err
}

// Seal seals what is new, a bounded number of blocks, and tells whether there may
// be more. It may be stopped anywhere: a block is there as a whole or not at all.
func (s *Service) Seal(ctx context.Context) (more bool, err error) {
	signer, err := s.signer(ctx)
	if err != nil {
		return false, err
	}
	head, err := s.Store.Head(ctx)
	if err != nil {
		return false, err
	}
	for range blocksAtOnce {
		before, err := s.look(ctx, head)
		if err != nil {
			return false, err
		}
		after := int64(0)
		if before != nil {
			after = before.Last
		}
		entries, err := s.gather(ctx, after)
		if err != nil || len(entries) == 0 {
			return false, err
		}
		b := ledger.NewBlock(head, before, entries, s.Now())
		b.Sign(head.Ledger, signer)
		switch err := s.Store.AppendBlock(ctx, b); {
		case err == nil:
			s.remember(head, &b)
			s.Sealed(head.Ledger, sealedHead(head.Ledger, &b))
		case fault.Reason(err) != "sealed":
			return false, err
		}
	}
	return true, nil
}

// gather reads what the next block is about.
func (s *Service) gather(ctx context.Context, after int64) ([]ledger.Entry, error) {
	var out []ledger.Entry
	for size := 0; len(out) < ledger.MaxBlock && size < blockBytes; {
		found, err := s.Store.Entries(ctx, after, min(blockRead, ledger.MaxBlock-len(out)))
		if err != nil {
			return nil, err
		}
		for i := range found {
			if after++; found[i].Seq != after {
				// What is not there must not be sealed as if it had never been.
				return nil, fault.New(fault.Conflict, "change %d is missing from the log: it is not sealed any further; run `drover ledger verify`", after).Because("flaw")
			}
			size += len(found[i].State)
		}
		if out = append(out, found...); len(found) < blockRead {
			break
		}
	}
	return out, nil
}
