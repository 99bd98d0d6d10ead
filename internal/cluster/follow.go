package cluster

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/offering"
)

const (
	// followRetry is when the log is read again after the store was away.
	followRetry = time.Second
	// spread is how long every replica may take to know a new offering: whoever
	// works on a cluster then makes its steps from it.
	spread = 2 * time.Second
	// scaleSoon is how long news of the fleet are gathered before it is scaled.
	scaleSoon = time.Second
)

// Follow wakes the clusters that an offering's steps concern when it changes, and
// the profiles that scale where a cluster has come, gone or been emptied, until
// ctx ends. It is one goroutine, the caller's. What happens before it
// begins, or is lost, is found when the steps are next looked at.
func (s *Service) Follow(ctx context.Context, feed *ledger.Feed) error {
	log, ok := s.store.(ledger.Log)
	if !ok {
		return nil
	}
	after := int64(-1)
	f := follower{Service: s, ready: map[string]bool{}, woken: map[string]time.Time{}}
	for ctx.Err() == nil {
		var err error
		var changes []ledger.Change
		if after < 0 {
			var head ledger.Head
			if head, err = log.Head(ctx); err == nil {
				after = head.Seq
			}
		} else if changes, err = feed.Next(ctx, after); err == nil {
			err = f.tell(ctx, changes)
		}
		if fault.Reason(err) == "truncated" { // it was away for days: steps are looked at by themselves
			after = -1
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

// follower is what one who follows the log remembers.
type follower struct {
	*Service
	ready map[string]bool      // clusters, by id, as far as they were seen
	woken map[string]time.Time // profiles, when they are to run
}

// tell wakes whom the changes concern.
func (f *follower) tell(ctx context.Context, changes []ledger.Change) error {
	if err := f.refit(ctx, changes); err != nil {
		return err
	}
	return f.rescale(ctx, changes)
}

// refit wakes the clusters that are to be made fit anew.
func (f *follower) refit(ctx context.Context, changes []ledger.Change) error {
	s := f.Service
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

// rescale wakes the profiles that scale where something has changed. News of one
// moment are one wake: thousands of agents may come back at once.
func (f *follower) rescale(ctx context.Context, changes []ledger.Change) error {
	places, err := f.unsettled(ctx, changes)
	if err != nil || len(places) == 0 {
		return err
	}
	profiles, err := f.Profiles(ctx)
	if err != nil {
		return err
	}
	now := f.now()
	var wakes []ledger.Wake
	for _, w := range scalers(profiles) {
		if now.Before(f.woken[w.Ref.ID]) {
			continue // it has yet to run, and sees this too
		}
		p, err := f.profile(ctx, w.Ref.ID)
		if err != nil || !slices.ContainsFunc(p.spots(p.name), func(at spot) bool { return places[place{at.spec.Provider, at.spec.Region}] }) {
			continue // one that cannot be read scales nothing
		}
		w.After = scaleSoon
		wakes = append(wakes, w)
		f.woken[w.Ref.ID] = now.Add(scaleSoon)
	}
	if len(wakes) == 0 {
		return nil
	}
	_, err = f.store.Commit(ctx, ledger.Set{Actor: "system", Cause: ledger.BySchedule("the fleet changed"), Wakes: wakes})
	return err
}

// unsettled are the places where a cluster has come, gone or been emptied.
func (f *follower) unsettled(ctx context.Context, changes []ledger.Change) (map[place]bool, error) {
	places, left := map[place]bool{}, map[string]bool{}
	for _, c := range changes {
		o := c.Object
		if o.Kind != Kind.Name {
			if f.Left != nil {
				if id := f.Left(c); id != "" {
					left[id] = true
				}
			}
			continue
		}
		ready := o.Phase == Ready && o.Deleted.IsZero()
		if was, known := f.ready[o.ID]; known && was == ready && o.Deleted.IsZero() {
			continue
		}
		if f.ready[o.ID] = ready; !o.Deleted.IsZero() {
			delete(f.ready, o.ID)
		}
		provider, _ := o.Fields["provider"].(string)
		region, _ := o.Fields["region"].(string)
		places[place{provider, region}] = true
	}
	if len(left) == 0 {
		return places, nil
	}
	known, err := f.view.look(ctx, f.store)
	if err != nil {
		return nil, err
	}
	for id := range left {
		k := known.byID[id]
		if k == nil || places[place{k.Spec.Provider, k.Spec.Region}] {
			continue
		}
		used, err := f.store.Counter(ctx, CapacityCounter(id))
		if err != nil {
			return nil, err
		}
		if used == 0 {
			places[place{k.Spec.Provider, k.Spec.Region}] = true
		}
	}
	return places, nil
}
