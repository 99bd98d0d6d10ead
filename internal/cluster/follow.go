package cluster

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/offering"
)

const (
	// followRetry is when the log is read again after the store was away.
	followRetry = time.Second
	// spread is how long every replica may take to know a new offering: whoever
	// works on a cluster then makes its steps from it.
	spread = 2 * time.Second
)

// Follow wakes the clusters that an offering's steps concern when it changes,
// until ctx ends. It is one goroutine, the caller's. What happens before it
// begins, or is lost, is found when the steps are next looked at.
func (s *Service) Follow(ctx context.Context, feed *ledger.Feed) error {
	log, ok := s.store.(ledger.Log)
	if !ok {
		return nil
	}
	after := int64(-1)
	for ctx.Err() == nil {
		var err error
		var changes []ledger.Change
		if after < 0 {
			var head ledger.Head
			if head, err = log.Head(ctx); err == nil {
				after = head.Seq
			}
		} else if changes, err = feed.Next(ctx, after); err == nil {
			err = s.tell(ctx, changes)
		}
		if err != nil {
			select {
			case <-ctx.Done():
			case <-time.After(followRetry):
			}
			continue
		}
		if len(changes) > 0 {
			after = changes[len(changes)-1].Seq
		}
	}
	return nil
}

// tell wakes whom the changes concern.
func (s *Service) tell(ctx context.Context, changes []ledger.Change) error {
	changed := map[string]bool{} // by name: the file has steps
	for _, c := range changes {
		if c.Object.Kind == offering.Kind.Name {
			changed[c.Object.ID] = bytes.Contains(c.Object.Spec, []byte(`"steps":`))
		}
	}
	if len(changed) == 0 {
		return nil
	}
	wakes, err := s.wakes(ctx, func(c Cluster) bool {
		for name, steps := range changed {
			mine := c.Spec.Offering == "" || c.Spec.Offering == name
			steps = steps || s.Installs != nil && s.reaches(c) // its agent's rights follow the offerings
			if mine && (steps || slices.ContainsFunc(c.Status.Steps, func(s Step) bool { return s.source() == name })) {
				return true
			}
		}
		return false
	})
	if err != nil || len(wakes) == 0 {
		return err
	}
	for i := range wakes {
		wakes[i].After = spread
	}
	_, err = s.store.Commit(ctx, ledger.Set{Actor: "system", Cause: ledger.BySchedule("an offering changed"), Wakes: wakes})
	return err
}
