package document

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// Store is what is needed of the ledger to begin with.
type Store interface {
	List(ctx context.Context, query ledger.Query) ([]ledger.Object, error)
	Head(ctx context.Context) (ledger.Head, error)
}

// Follower keeps what is in force as fresh as the log, whoever writes it. What
// settles the objects must know those that it has seen: they come again.
type Follower struct {
	Kinds []string // of the ledger
	Noun  string   // what people call them: "offerings"

	mu    sync.Mutex
	after int64 // sequence up to which the log is followed
}

const (
	page        = 1000
	followRetry = time.Second // after the store was away
)

// Load settles all objects of the ledger, deleted ones too, at once.
func (f *Follower) Load(ctx context.Context, store Store, settle func([]ledger.Object)) error {
	head, err := store.Head(ctx)
	if err != nil {
		return fmt.Errorf("cannot read the head of the log: %w", err)
	}
	var all []ledger.Object
	for _, kind := range f.Kinds {
		query := ledger.Query{Kind: kind, Limit: page, Deleted: true}
		for {
			objects, err := store.List(ctx, query)
			if err != nil {
				return fmt.Errorf("cannot list %s: %w", f.Noun, err)
			}
			all = append(all, objects...)
			if len(objects) < page {
				break
			}
			query.AfterID = objects[len(objects)-1].ID
		}
	}
	settle(all)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.after = max(f.after, head.Seq)
	return nil
}

// Follow settles what changes, until ctx ends. It is one goroutine, the
// caller's, and starts where Load has read. Where the log does not reach back to
// there any more it is Load's turn: it returns (NotFound, reason "truncated").
func (f *Follower) Follow(ctx context.Context, feed *ledger.Feed, settle func([]ledger.Object)) error {
	f.mu.Lock()
	after := f.after
	f.mu.Unlock()
	for ctx.Err() == nil {
		changes, err := feed.Next(ctx, after)
		if fault.Reason(err) == "truncated" {
			return err
		}
		if err != nil {
			select { // the store is away; nothing is lost meanwhile
			case <-ctx.Done():
			case <-time.After(followRetry):
			}
			continue
		}
		var mine []ledger.Object
		for i := range changes {
			after = changes[i].Seq
			if slices.Contains(f.Kinds, changes[i].Object.Kind) {
				mine = append(mine, changes[i].Object)
			}
		}
		settle(mine)
	}
	return nil
}

// Keep follows, and loads again where the log was truncated meanwhile.
func (f *Follower) Keep(ctx context.Context, store Store, feed *ledger.Feed, settle func([]ledger.Object)) error {
	for {
		err := f.Follow(ctx, feed, settle)
		if fault.Reason(err) != "truncated" {
			return err
		}
		for err = f.Load(ctx, store, settle); err != nil && ctx.Err() == nil; err = f.Load(ctx, store, settle) {
			select {
			case <-ctx.Done():
			case <-time.After(followRetry):
			}
		}
	}
}
