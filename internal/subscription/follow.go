package subscription

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// Follower gives the changes after a sequence, waiting until there is one.
type Follower interface {
	Next(ctx context.Context, after int64) ([]ledger.Change, error)
}

// again is the least time between two wakes of one subscription: those that carry it
// stay for longer than that after the last event.
const again = linger / 2

// Follow wakes the subscriptions that changes are about, until ctx ends. It is one
// goroutine, the caller's. Any number of replicas may. Without it, changes are told
// when the loop looks for what is unsettled.
func (s *Service) Follow(ctx context.Context) error {
	var after int64 = -1
	for ctx.Err() == nil {
		if after < 0 {
			head, err := s.Log.Head(ctx)
			if err == nil {
				err = s.load(ctx)
			}
			if err != nil {
				pause(ctx, time.Second)
				continue
			}
			after = head.Seq
			s.rouse(ctx, s.all()) // what was missed while nobody looked
		}
		changes, err := s.Feed.Next(ctx, after)
		if err != nil {
			if fault.Reason(err) == "truncated" {
				after = -1 // all are looked at anew
			}
			pause(ctx, time.Second)
			continue
		}
		after = changes[len(changes)-1].Seq
		s.rouse(ctx, s.touched(changes))
		pause(ctx, again)
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// load reads all subscriptions that can tell.
func (s *Service) load(ctx context.Context) error {
	known := map[string]Subscription{}
	for after := ""; ; {
		const page = 1000
		found, err := s.Store.List(ctx, ledger.Query{Kind: Kind.Name, AfterID: after, Limit: page})
		if err != nil {
			return err
		}
		for _, o := range found {
			after = o.ID
			if sub, err := Decode(o); err == nil {
				known[o.ID] = sub
			}
		}
		if len(found) < page {
			break
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known = known
	return nil
}

func (s *Service) all() (out []Subscription) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sub := range s.known {
		out = append(out, sub)
	}
	return out
}

// Lost are the subscriptions for which retention has removed changes before they were
// told, after a time, in the order of their ids: as far as this replica follows them.
func (s *Service) Lost(after time.Time) (out []Subscription) {
	for _, sub := range s.all() {
		if sub.Status.Lost > 0 && sub.Status.LostAt.After(after) {
			out = append(out, sub)
		}
	}
	slices.SortFunc(out, func(a, b Subscription) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// touched are the subscriptions that some changes are about; those that are
// themselves changed are known as they are from now on.
func (s *Service) touched(changes []ledger.Change) (out []Subscription) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := map[string]bool{}
	for i := range changes {
		c := &changes[i]
		if c.Object.Kind == Kind.Name {
			if sub, err := Decode(c.Object); err == nil {
				s.known[sub.ID] = sub
			}
			if !c.Object.Deleted.IsZero() {
				delete(s.known, c.Object.ID)
			}
		}
		for id, sub := range s.known {
			if !seen[id] && sub.Wants(c) {
				seen[id] = true
				out = append(out, sub)
			}
		}
	}
	return out
}

// rouse wakes those that tell, however often that takes: the ledger may be away for a
// moment, and nobody else would notice before the loop looks by itself.
func (s *Service) rouse(ctx context.Context, subs []Subscription) {
	for s.wake(ctx, subs) != nil && ctx.Err() == nil {
		pause(ctx, time.Second)
	}
}

// wake leaves work for those that tell. One that runs, and has perhaps just seen that
// there is no more, runs again; one that waits for its receiver goes on waiting.
func (s *Service) wake(ctx context.Context, subs []Subscription) error {
	set := ledger.Set{Actor: "system", Cause: ledger.BySchedule("subscriptions")}
	for _, sub := range subs {
		if sub.Phase != Disabled && !sub.Spec.Off && s.Sinks[sub.Spec.To] != nil {
			set.Wakes = append(set.Wakes, ledger.Wake{Ref: sub.Ref, Org: sub.Org, IfIdle: sub.Phase == Failing})
		}
	}
	if len(set.Wakes) == 0 {
		return nil
	}
	_, err := s.Store.Commit(ctx, set)
	return err
}
