package environment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/droverhq/drover/internal/breaker"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/reconcile"
)

// Plans is the reconciler of plans: it makes them, and waits for approvals that
// policies demand. It touches nothing but the ledger.
type Plans struct{ *Service }

const (
	planTries  = 3               // while somebody is away
	planWithin = 2 * time.Minute // after which whoever is away has been waited for
)

// Reconcile may stop and start again anywhere: a plan is made in one go.
func (r *Plans) Reconcile(ctx context.Context, task reconcile.Task) (reconcile.Result, error) {
	o, err := r.Store.Get(ctx, task.Ref)
	if fault.Is(err, fault.NotFound) {
		return reconcile.Done(ledger.Set{}), nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	p, err := DecodePlan(o)
	if err != nil {
		return reconcile.Result{}, reconcile.Terminal(err)
	}
	switch p.Phase {
	case Planning:
		return r.make(ctx, task, p)
	case Asking:
		return r.approve(ctx, p)
	}
	set, err := r.leaves(ctx, p.Object)
	return reconcile.Done(set), err
}

func (r *Plans) make(ctx context.Context, task reconcile.Task, p Plan) (reconcile.Result, error) {
	e, err := r.Store.Get(ctx, ledger.Ref{Kind: Kind.Name, ID: p.Spec.ID})
	switch {
	case err == nil && !e.Deleted.IsZero():
		return r.fails(p, fault.New(fault.Conflict, "environment %s is gone", e.Name))
	case err == nil:
		now, err := Decode(e)
		if err != nil {
			return reconcile.Result{}, err
		}
		p.Status.Basis = now.Spec.Turn
	case !fault.Is(err, fault.NotFound):
		return reconcile.Result{}, err
	}
	found, err := r.survey(ctx, p)
	_ = r.tidy(ctx, p) // it is only about room
	switch {
	case ctx.Err() != nil:
		return reconcile.Result{}, ctx.Err()
	case fault.Is(err, fault.Unavailable) && task.Attempts < planTries && r.Now().Sub(p.Created) < planWithin:
		return reconcile.Result{Why: err.Error()}, err
	case err != nil:
		return r.fails(p, err)
	}
	if err := r.found(ctx, &p, found); err != nil {
		return reconcile.Result{}, err
	}
	if p.Spec.End && !p.Spec.Sooner {
		found.verdicts = withoutApprovals(found.verdicts)
	}
	var message string
	if p.Phase, message = conclude(found.verdicts); p.Phase != Planned {
		p.Status.Message = message
	}
	if p.Phase == Asking {
		return r.approve(ctx, p)
	}
	return r.write(p)
}

// fails says why there is no plan. An error that nobody foresaw is told as such.
func (r *Plans) fails(p Plan, err error) (reconcile.Result, error) {
	p.Phase, p.Status.Message = Unplanned, fmt.Sprintf("it could not be planned: %s", err)
	if fault.Is(err, fault.Unavailable) {
		p.Status.Message += "; plan again once that is over"
	}
	return r.write(p)
}

// approve asks for an approval, or looks whether it was given. The same changes to
// the same environment share one.
func (r *Plans) approve(ctx context.Context, p Plan) (reconcile.Result, error) {
	if r.Approvals == nil {
		p.Phase = Forbidden
		p.Status.Message += "; it would need an approval, and this server takes none"
		return r.write(p)
	}
	_, why := conclude(p.Status.Verdicts)
	counts, err := r.Approvals.Demand(ctx, breaker.Demand{
		Scope: "plan/" + p.Spec.ID, Rule: fmt.Sprintf("plan %s of environment %s", short(p.Status.Hash), p.Spec.Environment),
		Message: fmt.Sprintf("plan %s of environment %s: %s", short(p.Status.Hash), p.Spec.Environment, why), Object: p.Ref,
	})
	var waits *breaker.Waiting
	switch {
	case err == nil:
		p.Phase, p.Status.Message = Planned, "approved: "+why
	case errors.As(err, &waits) && waits.Refused:
		p.Phase, p.Status.Approval, p.Status.Message = Forbidden, waits.Approval, waits.Error()
	case errors.As(err, &waits):
		p.Phase, p.Status.Approval, p.Status.Message = Asking, waits.Approval, waits.Error()
	default:
		return reconcile.Result{}, err
	}
	result, err := r.write(p)
	result.Write.Counts = counts
	return result, err
}

// write ends a run, and wakes an environment that waits for the plan.
func (r *Plans) write(p Plan) (reconcile.Result, error) {
	put, err := p.put(p.Phase)
	if err != nil {
		return reconcile.Result{}, reconcile.Terminal(err)
	}
	set := ledger.Set{Actor: "system", Cause: ledger.ByChange(p.Ref, p.Version), Puts: []ledger.Put{put}}
	if p.Spec.Apply {
		set.Wakes = []ledger.Wake{wakeOf(Kind.Name, p.Spec.ID, p.Org)}
	}
	if p.Phase == Asking {
		return reconcile.Wait(set, 10*time.Minute, p.Status.Message), nil // whoever decides wakes it
	}
	return reconcile.Done(set), nil
}
