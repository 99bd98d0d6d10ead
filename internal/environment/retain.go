package environment

import (
	"context"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/reconcile"
)

// How much of the past is kept. The log has all of it; what is beyond this is in no
// list any more.
const (
	// keptPlans is how many plans of one environment there are, the newest ones,
	// besides those that are carried out, wait, or were approved and still hold.
	keptPlans = 20
	// keptRuns is how many ended runs of actions of one environment there are.
	keptRuns = 50
	// keptFor is how long records of drift are there after they have ended, and plans
	// and runs of an environment that is gone.
	keptFor = 90 * 24 * time.Hour
	// dropAtOnce is how many are removed in one go.
	dropAtOnce = 50
)

// drop removes an object from lists.
func drop(o ledger.Object, now time.Time) ledger.Put {
	o.Deleted = now
	return ledger.Put{Object: o, Expect: o.Version, Op: "delete"}
}

// tidy removes the oldest plans of an environment of a name, whether that came to be
// or not. What it does not remove now the next plan does.
func (r *Plans) tidy(ctx context.Context, newest Plan) error {
	scope := map[string]any{"org": newest.Org}
	if newest.Org == "" {
		scope["owner"] = newest.Owner
	}
	found, err := r.Store.List(ctx, ledger.Query{Kind: KindPlan.Name, Scope: scope, Where: equals("environment", newest.Spec.Environment),
		Order: []ledger.Order{{Column: "created", Desc: true}}, Offset: keptPlans, Limit: dropAtOnce})
	if err != nil || len(found) == 0 {
		return err
	}
	var e Environment
	ref, err := r.Store.Lookup(ctx, named(newest.Org, newest.Owner, newest.Spec.Environment))
	if err == nil {
		var o ledger.Object
		if o, err = r.Store.Get(ctx, ref); err == nil {
			e, err = Decode(o)
		}
	}
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	set := ledger.Set{Actor: "system", Cause: ledger.ByChange(newest.Ref, newest.Version)}
	for _, o := range found {
		p, err := DecodePlan(o)
		if err != nil {
			return err
		}
		if !Kept(p, e) {
			set.Puts = append(set.Puts, drop(o, r.Now().UTC()))
		}
	}
	if len(set.Puts) == 0 {
		return nil
	}
	_, err = r.Store.Commit(ctx, set)
	return err
}

// Kept reports whether a plan stays however many came after it. It is pure. E is the
// environment that has its name now, if any.
func Kept(p Plan, e Environment) bool {
	switch {
	case p.Phase == Planning || p.Phase == Asking:
		return true
	case p.ID == e.Spec.Plan || e.Spec.Next != nil && p.ID == e.Spec.Next.Plan || p.ID == e.Status.EndPlan:
		return true
	}
	return p.Phase == Planned && p.Status.Approval != "" && p.Spec.ID == e.ID && p.Status.Basis == e.Spec.Turn
}

// outlived reports whether what belonged to an environment has been there for long
// enough without it.
func (s *Service) outlived(ctx context.Context, o ledger.Object, environment string) (bool, error) {
	before := s.Now().Add(-keptFor)
	if !o.Deleted.IsZero() || o.Updated.After(before) {
		return false, nil
	}
	e, err := s.Store.Get(ctx, ledger.Ref{Kind: Kind.Name, ID: environment})
	if fault.Is(err, fault.NotFound) {
		return true, nil
	}
	return err == nil && !e.Deleted.IsZero() && e.Deleted.Before(before), err
}

// leaves removes a plan or a run that its environment is not there for any more.
func (s *Service) leaves(ctx context.Context, o ledger.Object) (ledger.Set, error) {
	gone, err := s.outlived(ctx, o, o.Parent)
	if err != nil || !gone {
		return ledger.Set{}, err
	}
	return ledger.Set{Actor: "system", Cause: ledger.BySchedule("retention"), Puts: []ledger.Put{drop(o, s.Now().UTC())}}, nil
}

// surplus removes the oldest runs of an environment.
func (s *Runs) surplus(ctx context.Context, r Run) (ledger.Set, error) {
	found, err := s.Store.List(ctx, ledger.Query{Kind: KindRun.Name, Scope: map[string]any{"parent": r.Parent}, Where: equals("phase", RunEnded),
		Order: []ledger.Order{{Column: "created", Desc: true}}, Offset: keptRuns, Limit: dropAtOnce})
	set := ledger.Set{Actor: "system", Cause: ledger.ByChange(r.Ref, r.Version)}
	for _, o := range found {
		set.Puts = append(set.Puts, drop(o, s.Now().UTC()))
	}
	return set, err
}

// Unsettled lists runs that are to be removed.
func (s *Runs) Unsettled(ctx context.Context, after string, limit int) ([]ledger.Wake, string, error) {
	return s.aged(ctx, KindRun.Name, after, limit, func(o ledger.Object) (bool, error) {
		if o.Phase != RunEnded {
			return false, nil
		}
		return s.outlived(ctx, o, o.Parent)
	})
}

// Drifts is the reconciler of records of drift: it ends those of environments that
// are gone, and removes those that ended long ago.
type Drifts struct{ *Service }

// Reconcile does so.
func (s *Drifts) Reconcile(ctx context.Context, task reconcile.Task) (reconcile.Result, error) {
	o, err := s.Store.Get(ctx, task.Ref)
	if fault.Is(err, fault.NotFound) {
		return reconcile.Done(ledger.Set{}), nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	is, err := s.over(ctx, o)
	if err != nil || !is {
		return reconcile.Done(ledger.Set{}), err
	}
	now := s.Now().UTC()
	put := drop(o, now)
	if o.Phase == DriftOpen {
		d, err := DecodeDrift(o)
		if err != nil {
			return reconcile.Result{}, reconcile.Terminal(err)
		}
		d.ended(DriftGone, now)
		if put, err = d.put(DriftGone); err != nil {
			return reconcile.Result{}, reconcile.Terminal(err)
		}
	}
	return reconcile.Done(ledger.Set{Actor: "system", Cause: ledger.BySchedule("retention"), Puts: []ledger.Put{put}}), nil
}

// Unsettled lists records whose time is over.
func (s *Drifts) Unsettled(ctx context.Context, after string, limit int) ([]ledger.Wake, string, error) {
	return s.aged(ctx, KindDrift.Name, after, limit, func(o ledger.Object) (bool, error) { return s.over(ctx, o) })
}

// over: it has ended long ago, or nobody is left who would end it.
func (s *Drifts) over(ctx context.Context, o ledger.Object) (bool, error) {
	if !o.Deleted.IsZero() {
		return false, nil
	}
	if o.Phase != DriftOpen {
		return o.Updated.Before(s.Now().Add(-keptFor)), nil
	}
	id, _ := o.Fields["environment"].(string)
	e, err := s.Store.Get(ctx, ledger.Ref{Kind: Kind.Name, ID: id})
	if fault.Is(err, fault.NotFound) {
		return true, nil
	}
	return err == nil && !e.Deleted.IsZero(), err
}

// aged pages through a kind for those whose time is over.
func (s *Service) aged(ctx context.Context, kind, after string, limit int, is func(ledger.Object) (bool, error)) ([]ledger.Wake, string, error) {
	found, err := s.Store.List(ctx, ledger.Query{Kind: kind, AfterID: after, Limit: limit})
	if err != nil || len(found) == 0 {
		return nil, "", err
	}
	var wakes []ledger.Wake
	for _, o := range found {
		over, err := is(o)
		if err != nil {
			return nil, "", err
		}
		if over {
			wakes = append(wakes, ledger.Wake{Ref: o.Ref, Org: o.Org})
		}
	}
	return wakes, found[len(found)-1].ID, nil
}
