package instance

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
)

// A cluster that an operator gives up for good takes its instances along. Each
// is failed with the reason, holds no room any more, and goes without its data
// plane's word once somebody deletes it. What is deleted stays a tombstone: an
// agent that returns after all is told to remove it. What nobody has deleted is
// not touched there, and what such an agent says of it is not listened to.

// Lose marks all instances on a cluster as lost, and wakes them. It can be done
// again: what is marked is left alone.
func (s *Service) Lose(ctx context.Context, clusterID, why string) error {
	for after := ""; ; {
		found, err := s.Store.List(ctx, ledger.Query{
			Kind: Kind.Name, Scope: map[string]any{"cluster": clusterID}, AfterID: after, Limit: losePage, Brief: true,
		})
		if err != nil {
			return err
		}
		var group errgroup.Group
		group.SetLimit(loseWriters)
		for _, o := range found {
			group.Go(func() error { return s.lose(ctx, o.Ref, clusterID, why) })
			after = o.ID
		}
		if err := group.Wait(); err != nil || len(found) < losePage {
			return err
		}
	}
}

const (
	losePage    = 500
	loseWriters = 16
)

func (s *Service) lose(ctx context.Context, ref ledger.Ref, clusterID, why string) error {
	for attempt := 0; ; attempt++ {
		o, err := s.Store.Get(ctx, ref)
		if err != nil {
			return err
		}
		in, err := Decode(o)
		if err != nil {
			return err
		}
		if !o.Deleted.IsZero() || in.Status.Cluster != clusterID || in.Status.Lost != "" {
			return nil
		}
		off, ok := s.Offerings.Get(in.Spec.Offering)
		if !ok {
			return fault.New(fault.Unavailable, "offering %q is not loaded", in.Spec.Offering).Because(noOffering)
		}
		in.Status.Lost = why
		put, err := encode(ctx, off, &in, "lost")
		if err != nil {
			return err
		}
		_, err = s.Store.Commit(ctx, ledger.Set{
			Actor: "system", Cause: ledger.CauseOf(ctx), Puts: []ledger.Put{put}, Wakes: []ledger.Wake{{Ref: o.Ref, Org: o.Org}},
		})
		if fault.Reason(err) != "version" || attempt >= maxConflicts {
			return err
		}
	}
}

// lostReason is what its owner reads. It names no cluster.
func (in *Instance) lostReason() string {
	return fmt.Sprintf("Its data plane is lost for good: %s. Delete it and order anew.", in.Status.Lost)
}

// planLost is what is left to do for an instance whose data plane is lost, as
// long as nobody deletes it.
func planLost(in Instance, facts Facts, now time.Time) []Action {
	end, reason := alarm(in, facts, nil, now), in.lostReason()
	if copies := planCopy(in, facts, now); in.Phase == Failed && len(copies) > 0 {
		if _, waits := copies[0].(Come); !waits {
			return copies
		}
		end = copies
	}
	switch {
	case in.Phase == Failed && in.Status.Reason == reason && len(in.Status.Room) == 0 && in.Status.Units == 0:
		if in.Status.Promotion == Promoting {
			return []Action{Demote{Why: reason}}
		}
		if left := conclude(in, Finish{Phase: operation.Failed, Reason: reason}); len(left) > 0 {
			return left
		}
		return end
	case in.Phase == Failed:
		return []Action{Vacate{Reason: reason}}
	}
	return []Action{Vacate{Reason: reason}, Move{To: Failed, Reason: reason}}
}

// vacate gives the room back that is lost. Where it was is remembered.
func (r *run) vacate(a Vacate) {
	s := &r.in.Status
	for _, h := range r.in.room() {
		r.set.Counts = append(r.set.Counts, ledger.Count{Name: h.Counter, Delta: -h.Units})
	}
	s.Units, s.Room, s.Reason, s.Message = 0, nil, a.Reason, ""
	r.op = "lost"
}

// gone reports whether a lost instance was deleted, so that its data plane is to
// remove it if it ever returns.
func gone(phase string) bool { return slices.Contains([]string{Deprovision, Deleting}, phase) }

// buried takes the word of an agent that has returned on an instance that is
// lost: that it has removed what was deleted.
func (s *Service) buried(ctx context.Context, in Instance, item Observation) (Written, error) {
	var none Written
	if !gone(in.Phase) {
		return none, fault.New(fault.Invalid, "it was given up as lost").Because(stranger)
	}
	if item.State != stateDeleted || in.Status.Observed != nil && in.Status.Observed.State == stateDeleted {
		return none, nil
	}
	off, ok := s.Offerings.Get(in.Spec.Offering)
	if !ok {
		return none, fault.New(fault.Unavailable, "offering %q is not loaded", in.Spec.Offering).Because(noOffering)
	}
	in.Status.Observed = &Observed{Generation: item.Generation, State: item.State, Placement: in.Status.Placement, Leaf: item.Leaf}
	put, err := encode(ctx, off, &in, "report")
	if err != nil {
		return none, err
	}
	r, err := s.Store.Commit(ctx, ledger.Set{Actor: "agent:" + in.Status.Cluster, Cause: ledger.CauseOf(ctx), Puts: []ledger.Put{put}})
	if err != nil {
		return none, err
	}
	return Written{r.Objects[0], r.Seq}, nil
}

// Lister is what Tombstones needs of the ledger.
type Lister interface {
	List(ctx context.Context, query ledger.Query) ([]ledger.Object, error)
}

// Tombstones are instances that were lost with a cluster and deleted since, and
// of which its agent has not said that they are removed.
func Tombstones(ctx context.Context, store Lister, clusterID, after string, limit int) ([]ledger.Object, string, error) {
	found, err := store.List(ctx, ledger.Query{
		Kind: Kind.Name, Scope: map[string]any{"cluster": clusterID}, AfterID: after, Limit: limit, Deleted: true,
	})
	if err != nil {
		return nil, "", err
	}
	var out []ledger.Object
	for _, o := range found {
		if _, ok := DesiredItem(o); ok && !o.Deleted.IsZero() {
			out = append(out, o)
		}
	}
	if len(found) < limit {
		return out, "", nil
	}
	return out, found[len(found)-1].ID, nil
}
