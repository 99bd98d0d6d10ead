package gitops

import (
	"bytes"
	"context"
	"fmt"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
	"github.com/droverhq/drover/internal/reconcile"
)

// SyncRuns sees sync runs to their ends. What they ask for is carried out with
// their deployment, one after the other.
type SyncRuns struct{ *Service }

// Reconcile looks at the deployment, decides, tells the custom resource and writes.
func (r *SyncRuns) Reconcile(ctx context.Context, task reconcile.Task) (reconcile.Result, error) {
	o, err := r.Store.Get(ctx, task.Ref)
	if err != nil {
		return reconcile.Result{}, err
	}
	run, err := sound(ctx, r.Service, o, DecodeSyncRun)
	if err != nil {
		return reconcile.Result{}, gaveUp(err)
	}
	if o = run.Object; !o.Deleted.IsZero() {
		return reconcile.Done(ledger.Set{}), nil
	}
	d, err := r.parent(ctx, run)
	if err != nil {
		return reconcile.Result{}, err
	}
	barred := r.barred(run.Org)
	if d != nil && d.Spec.Operator { // an operator's, which goes on
		barred = ""
	}
	step := planSyncRun(run, d, barred)
	now := r.Now().UTC()
	set := ledger.Set{Actor: "system", Cause: ledger.ByChange(o.Ref, o.Version)}
	op := "update"
	if step.Phase != run.Phase {
		run.Status.Since, op = now, step.Phase
	}
	run.Parent, run.Phase, run.Status.Run, run.Status.Error = step.Parent, step.Phase, step.Run, step.Error
	if step.Ended != "" {
		if set.Puts, err = r.ended(ctx, run.Status.Operation, engineOf(d), step.Ended, step.Error); err != nil {
			return reconcile.Result{}, err
		}
		run.Status.Operation = ""
		old, err := r.surplus(ctx, run)
		if err != nil {
			return reconcile.Result{}, err
		}
		set.Puts = append(set.Puts, old...)
	}
	told := r.tell(ctx, &run)
	if step.Vanish {
		run.Object.Deleted, op, told = now, "delete", nil
		if puts, err := r.ended(ctx, run.Status.Operation, engineOf(d), operation.Superseded, "it was deleted"); err != nil {
			return reconcile.Result{}, err
		} else if run.Status.Operation != "" {
			set.Puts = append(set.Puts, puts...)
			run.Status.Operation = ""
		}
	}
	if step.Wake && d != nil {
		set.Wakes = append(set.Wakes, ledger.Wake{Ref: d.Ref, Org: d.Org})
	}
	put, err := run.put(op)
	if err != nil {
		return reconcile.Result{}, err
	}
	if p := put.Object; !bytes.Equal(p.Status, o.Status) || p.Phase != o.Phase || p.Parent != o.Parent || !p.Deleted.IsZero() {
		set.Puts = append([]ledger.Put{put}, set.Puts...)
	}
	switch {
	case told != nil:
		return reconcile.Result{Write: set}, told
	case step.After > 0:
		return reconcile.Wait(set, step.After, "for its deployment"), nil
	}
	return reconcile.Done(set), nil
}

// engineOf is the cluster that has a deployment; empty: none has.
func engineOf(d *Deployment) string {
	if d == nil {
		return ""
	}
	return d.Status.Engine
}

// parent is the deployment of the run; nil: there is none yet.
func (r *SyncRuns) parent(ctx context.Context, run SyncRun) (*Deployment, error) {
	ref := ledger.Ref{Kind: KindDeployment.Name, ID: run.Parent}
	if run.Parent == "" {
		var err error
		ref, err = r.Store.Lookup(ctx, nameOf(run.workspace(), run.Spec.Deployment))
		if fault.Is(err, fault.NotFound) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
	}
	o, err := r.Store.Get(ctx, ref)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	d, err := sound(ctx, r.Service, o, Decode)
	return &d, err
}

// ViewRun is what users see of a sync run.
func ViewRun(r SyncRun) SyncRunView {
	v := SyncRunView{Run: r.Status.Run, Message: r.Status.Error}
	v.Phase = map[string]string{
		Waiting: "Waiting", Running: "Running", Succeeded: "Succeeded", RunFailed: "Failed", Terminating: "Terminating", Terminated: "Terminated",
	}[r.Phase]
	switch {
	case v.Message != "":
	case r.Phase == Waiting:
		v.Message = "waiting for the deployment " + r.Spec.Deployment + ", or for sync runs of it that were asked for before"
	case r.Status.Run != nil:
		v.Message = r.Status.Run.Message
	}
	switch {
	case r.Status.Error != "":
		v.Conditions = []Condition{{Type: errorOccurred, Status: isTrue, Reason: errorOccurred, Message: r.Status.Error, Changed: r.Status.Since}}
	case r.Phase == Succeeded:
		v.Conditions = []Condition{{Type: errorOccurred, Status: isFalse, Changed: r.Status.Since}}
	}
	return v
}

// tell writes how it goes into the custom resource, if that would change anything.
func (s *SyncRuns) tell(ctx context.Context, r *SyncRun) error {
	of := r.Spec.Origin
	if of == nil || s.Mirror == nil || r.Spec.Deleted {
		return nil
	}
	view := ViewRun(*r)
	digest, err := digestOfView(view)
	if err != nil || digest == r.Status.Mirrored {
		return err
	}
	if err := s.Mirror.Tell(ctx, KindSyncRun.Name, r.ID, *of, view); err != nil && !fault.Is(err, fault.NotFound) {
		return fmt.Errorf("cannot write the status of the custom resource: %w", err)
	}
	r.Status.Mirrored = digest
	return nil
}

// Unsettled lists, for the slow resync, sync runs that have not ended.
func (r *SyncRuns) Unsettled(ctx context.Context, after string, limit int) ([]ledger.Wake, string, error) {
	return r.unsettledOf(ctx, KindSyncRun.Name, []any{Waiting, Running, Terminating}, after, limit)
}
