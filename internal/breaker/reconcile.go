package breaker

import (
	"context"
	"fmt"
	"time"

	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/reconcile"
)

// Waiters knows the objects of a kind that wait for an approval.
type Waiters interface {
	// Awaiting returns the wakes of those that wait for an approval, after an
	// id, and the id to go on after: empty when that was all.
	Awaiting(ctx context.Context, approval, after string, limit int) (wakes []ledger.Wake, next string, err error)
	// CountAwaiting tells how many there are.
	CountAwaiting(ctx context.Context, approval string) (int64, error)
}

// Reconciler of approvals: it wakes those who wait when something was decided,
// counts them while nothing is, and ends what nobody waits for.
type Reconciler struct{ *Service }

const (
	countSoon  = 2 * time.Second  // after it was opened, most have come to wait
	countEvery = 5 * time.Minute  // it changes rarely
	settled    = 10 * time.Minute // whoever was to wait has written that it does
	// wakesAtOnce bounds one commit.
	wakesAtOnce = 500
)

// Reconcile may stop and start again anywhere: to be woken twice does no harm.
func (r *Reconciler) Reconcile(ctx context.Context, task reconcile.Task) (reconcile.Result, error) {
	o, err := r.Store.Get(ctx, task.Ref)
	if err != nil {
		return reconcile.Result{}, err
	}
	a, err := Decode(o)
	if err != nil {
		return reconcile.Result{}, reconcile.Terminal(err)
	}
	if a.Phase == Expired {
		return reconcile.Done(ledger.Set{}), nil
	}
	now := r.Now().UTC()
	if (a.Phase == Approved || a.Phase == Refused) && !a.Status.Told {
		if err := r.tell(ctx, &a); err != nil {
			return reconcile.Result{}, fmt.Errorf("cannot wake those who wait for approval %s: %w", a.ID, err)
		}
		a.Status.Told = true
		return r.write(&a, "told", reconcile.Again)
	}
	before := a.Status.Waiting
	waiters, known := r.Waiters[a.Spec.Of]
	if known {
		if a.Status.Waiting, err = waiters.CountAwaiting(ctx, a.ID); err != nil {
			return reconcile.Result{}, err
		}
	}
	none := known && a.Status.Waiting == 0
	later := func(d time.Duration, why string) func(ledger.Set) reconcile.Result {
		return func(set ledger.Set) reconcile.Result { return reconcile.Wait(set, d, why) }
	}
	next := later(countEvery, "an operator is to decide")
	switch {
	case a.Phase == Approved && now.Before(a.Spec.Until):
		next = later(a.Spec.Until.Sub(now), "it holds until "+a.Spec.Until.Format(time.RFC3339))
	case a.Phase == Approved && none || !known && a.Phase == Approved || none && now.Sub(a.since()) >= settled:
		a.Phase, a.Status.Message = Expired, a.expiredMessage()
		return r.write(&a, Expired, reconcile.Done)
	case a.Phase == Approved: // its time is over, and not all have gone
		a.Phase, a.Status.Since = Open, now
		a.Status.Message = a.lapsedMessage()
		return r.write(&a, Open, next)
	}
	if a.Status.Waiting == before {
		return next(ledger.Set{}), nil
	}
	return r.write(&a, "counted", next)
}

// since is when something was last asked or decided.
func (a *Approval) since() time.Time {
	if a.Spec.At.After(a.Status.Since) {
		return a.Spec.At
	}
	return a.Status.Since
}

func (r *Reconciler) write(a *Approval, op string, next func(ledger.Set) reconcile.Result) (reconcile.Result, error) {
	put, err := a.put(op)
	if err != nil {
		return reconcile.Result{}, reconcile.Terminal(err)
	}
	return next(ledger.Set{Actor: "system", Cause: ledger.ByChange(a.Ref, a.Version), Puts: []ledger.Put{put}}), nil
}

// tell wakes all that wait: they ask again.
func (r *Reconciler) tell(ctx context.Context, a *Approval) error {
	waiters, known := r.Waiters[a.Spec.Of]
	if !known {
		return nil
	}
	for after := ""; ; {
		wakes, next, err := waiters.Awaiting(ctx, a.ID, after, wakesAtOnce)
		if err != nil {
			return err
		}
		if len(wakes) > 0 {
			if _, err := r.Store.Commit(ctx, ledger.Set{Actor: "system", Cause: ledger.ByChange(a.Ref, a.Version), Wakes: wakes}); err != nil {
				return err
			}
		}
		if next == "" || next <= after {
			return nil
		}
		after = next
	}
}
