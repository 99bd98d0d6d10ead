package account

import (
	"context"
	"fmt"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/reconcile"
)

var (
	_ reconcile.Reconciler = (*Service)(nil)
	_ reconcile.Resyncer   = (*Service)(nil)
)

// action is what an account needs next.
type action int

const (
	nothing  action = iota
	wait            // somebody is at it, for a while yet
	takeBack        // its creation never came to an end
	unreset         // its reset never came to an end
	apply           // the identity provider is to have it
	remove          // the identity provider is to have it no more
	sweep           // ... and once more after the end, for what came late
)

// plan decides from the state of an account alone.
func plan(o ledger.Object, spec Spec, now time.Time, patience time.Duration) (action, time.Duration) {
	left := o.Updated.Add(patience).Sub(now)
	switch {
	case o.Phase == Deleted:
		return sweep, 0
	case o.Phase == Deleting:
		return remove, 0
	case o.Phase == Creating && spec.Use == tenant && left > 0, spec.Next != "" && left > 0:
		return wait, left
	case o.Phase == Creating && spec.Use == tenant:
		// Nobody has seen its secret: it is of no use to anybody.
		return takeBack, 0
	case spec.Next != "":
		return unreset, 0
	case o.Phase == Creating, o.Phase == Ready:
		return apply, 0
	}
	return nothing, 0
}

// Reconcile finishes what a crash left, removes what was deleted, and makes the
// identity provider have the others, again and again.
func (s *Service) Reconcile(ctx context.Context, task reconcile.Task) (reconcile.Result, error) {
	o, err := s.store.Get(ctx, task.Ref)
	if fault.Is(err, fault.NotFound) {
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	spec, err := decode(o)
	if err != nil {
		return reconcile.Result{}, reconcile.Terminal(err)
	}
	set := ledger.Set{Actor: "system", Cause: ledger.ByChange(o.Ref, o.Version)}
	act, left := plan(o, spec, s.now(), s.cfg.Patience)
	switch act {
	case wait:
		return reconcile.Wait(set, left, "for the request that is at it"), nil
	case takeBack:
		end, err := leave(o, spec, "its creation was interrupted")
		set.Puts, set.Frees, set.Counts = end.Puts, end.Frees, end.Counts
		return reconcile.Again(set), err
	case unreset:
		s.shred(ctx, spec.Next)
		spec.Next = ""
		put, err := enter(o, spec, Ready, Ready)
		set.Puts = []ledger.Put{put}
		return reconcile.Again(set), err
	case apply:
		return s.apply(ctx, o, spec, set)
	case remove, sweep:
		return s.takeAway(ctx, o, spec, set)
	}
	return reconcile.Done(set), nil
}

func (s *Service) apply(ctx context.Context, o ledger.Object, spec Spec, set ledger.Set) (reconcile.Result, error) {
	const why = "until it is looked at again"
	plain, err := s.store.Unseal(ctx, spec.Secret)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("cannot open the secret of the account: %w", err)
	}
	if err := s.cfg.Provider.Apply(ctx, client(o, spec, string(plain))); err != nil {
		return reconcile.Result{Why: "for the identity provider"}, fmt.Errorf("cannot keep the account at the identity provider: %w", err)
	}
	if o.Phase == Ready {
		return reconcile.Wait(set, s.cfg.Recheck, why), nil
	}
	put, err := enter(o, spec, Ready, Ready)
	set.Puts = []ledger.Put{put}
	return reconcile.Wait(set, s.cfg.Recheck, why), err
}

// takeAway takes the account from the identity provider, and looks once more
// when everything that was on its way there must have arrived.
func (s *Service) takeAway(ctx context.Context, o ledger.Object, spec Spec, set ledger.Set) (reconcile.Result, error) {
	// A client that is not ours took the id: nothing of ours is left there.
	if err := s.cfg.Provider.Delete(ctx, spec.Client); err != nil && !fault.Is(err, fault.Conflict) {
		return reconcile.Result{Why: "for the identity provider"}, fmt.Errorf("cannot remove the account from the identity provider: %w", err)
	}
	if o.Phase == Deleted {
		return reconcile.Done(set), nil
	}
	s.shred(ctx, spec.Secret, spec.Next)
	version := o.Version
	o.Phase, o.Deleted = Deleted, s.now().UTC()
	set.Puts = []ledger.Put{{Object: o, Expect: version, Op: Deleted}}
	set.Frees = names(o, spec)
	return reconcile.Wait(set, 2*s.cfg.Patience, "for what may come late"), nil
}

// Unsettled implements reconcile.Resyncer: every account is looked at again and
// again, so one without work has lost it.
func (s *Service) Unsettled(ctx context.Context, place string, limit int) ([]ledger.Wake, string, error) {
	objects, err := s.store.List(ctx, ledger.Query{Kind: Kind.Name, AfterID: place, Limit: limit})
	if err != nil || len(objects) == 0 {
		return nil, "", err
	}
	wakes := make([]ledger.Wake, len(objects))
	for i, o := range objects {
		wakes[i] = ledger.Wake{Ref: o.Ref, Org: o.Org}
	}
	return wakes, objects[len(objects)-1].ID, nil
}
