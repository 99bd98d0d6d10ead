package offering

import (
	"context"
	"encoding/json"
	"fmt"

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

// settleAll logs those that cannot be used: they keep none of the others back.
func (s *Service) settleAll(ctx context.Context, trouble string) func([]ledger.Object) {
	return func(objects []ledger.Object) {
		for _, o := range objects {
			if err := s.settle(o, nil); err != nil {
				s.Log.ErrorContext(ctx, trouble, "offering", o.ID, "error", err)
			}
		}
	}
}

// Load brings all offerings of the ledger into force. It fails only if the
// ledger cannot be read: a single bad offering is logged.
func (s *Service) Load(ctx context.Context) error {
	return s.follower.Load(ctx, s.Store, s.settleAll(ctx, "offering not loaded"))
}

// Follow keeps the registry as fresh as the log, whoever writes it, until ctx
// ends. It is one goroutine, the caller's, and starts where Load has read.
func (s *Service) Follow(ctx context.Context, feed *ledger.Feed) error {
	return s.follower.Keep(ctx, s.Store, feed, s.settleAll(ctx, "offering not updated"))
}
