package offering

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/droverhq/drover/internal/ledger"
)

// settle brings the registry to an object's state, unless it has seen a later
// one. The caller may pass what it has compiled already. An offering that this
// binary cannot compile leaves the last good one in force.
func (s *Service) settle(object ledger.Object, compiled *Offering) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if object.Version <= s.seen[object.ID] {
		return nil
	}
	if !object.Deleted.IsZero() {
		s.seen[object.ID] = object.Version
		s.registry.drop(object.ID)
		return nil
	}
	if compiled == nil {
		var status Status
		_ = json.Unmarshal(object.Status, &status) // only the name of the source is lost
		o, err := Parse(status.Source, object.Spec)
		if err != nil {
			s.seen[object.ID] = object.Version
			return fmt.Errorf("cannot use version %d of offering %s, the last good one stays in force: %w", object.Version, object.ID, err)
		}
		compiled = o
	}
	s.seen[object.ID] = object.Version
	s.registry.put(compiled)
	return nil
}

const page = 1000

// Load brings all offerings of the ledger into force. It fails only if the
// ledger cannot be read: a single bad offering is logged.
func (s *Service) Load(ctx context.Context) error {
	head, err := s.Store.Head(ctx)
	if err != nil {
		return fmt.Errorf("cannot read the head of the log: %w", err)
	}
	query := ledger.Query{Kind: Kind.Name, Limit: page, Deleted: true}
	for {
		objects, err := s.Store.List(ctx, query)
		if err != nil {
			return fmt.Errorf("cannot list offerings: %w", err)
		}
		for _, o := range objects {
			if err := s.settle(o, nil); err != nil {
				s.Log.ErrorContext(ctx, "offering not loaded", "offering", o.ID, "error", err)
			}
			query.AfterID = o.ID
		}
		if len(objects) < page {
			break
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.after = max(s.after, head.Seq)
	return nil
}

// Follow keeps the registry as fresh as the log, whoever writes it, until ctx
// ends. It is one goroutine, the caller's, and starts where Load has read.
func (s *Service) Follow(ctx context.Context, feed *ledger.Feed) error {
	s.mu.Lock()
	after := s.after
	s.mu.Unlock()
	for ctx.Err() == nil {
		changes, err := feed.Next(ctx, after)
		if err != nil {
			select { // the store is away; nothing is lost meanwhile
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
			continue
		}
		for _, c := range changes {
			after = c.Seq
			if c.Object.Kind != Kind.Name {
				continue
			}
			if err := s.settle(c.Object, nil); err != nil {
				s.Log.ErrorContext(ctx, "offering not updated", "offering", c.Object.ID, "error", err)
			}
		}
	}
	return nil
}
