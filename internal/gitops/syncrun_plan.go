package gitops

import (
	"cmp"
	"fmt"
	"time"

	"github.com/droverhq/drover/internal/operation"
	"github.com/droverhq/drover/internal/runtime"
)

// runStep is what becomes of a sync run next.
type runStep struct {
	Parent string           // the deployment that it is of, once that is known
	Phase  string           // that it is in
	Run    *runtime.SyncRun // as the agent tells it
	Error  string           // for the user
	Ended  string           // phase of the operation, where that is over
	Vanish bool             // it is to be forgotten
	Wake   bool             // the deployment is to look
	After  time.Duration    // it looks again after
}

// planSyncRun decides about a sync run and its deployment; nil: there is none of
// that name. Barred is why none is begun for its organisation. It is pure.
func planSyncRun(r SyncRun, d *Deployment, barred string) runStep {
	step := runStep{Parent: r.Parent, Phase: r.Phase, Run: r.Status.Run, Error: r.Status.Error}
	if r.over() {
		step.Vanish = r.Spec.Deleted || r.outlives(d)
		step.Error = cmp.Or(r.Spec.Invalid, step.Error)
		if r.Spec.Invalid == "" && r.Phase == Succeeded {
			step.Error = ""
		}
		return step
	}
	gone := d == nil || !d.Object.Deleted.IsZero() || d.Spec.Deleted
	switch begun := d != nil && d.Status.Run == r.ID; {
	case r.Parent != "" && gone:
		step.end(Terminated, operation.Failed, fmt.Sprintf("the deployment %s was deleted", r.Spec.Deployment))
		step.Vanish = r.Spec.Deleted || r.outlives(d)
		return step
	case r.stops() && !begun:
		step.end(Terminated, operation.Superseded, "it was ended before it began")
		step.Vanish, step.Wake = r.Spec.Deleted, d != nil
		return step
	case barred != "" && !begun:
		step.Error, step.After = barred, slowRetry
		return step
	case gone:
		step.Error, step.After = r.Spec.Invalid, slowRetry
		return step
	case d.Spec.Automated && !begun:
		step.Parent = d.ID
		step.end(RunFailed, operation.Failed, fmt.Sprintf("invalid GitOpsDeploymentSyncRun '%s'. Syncing a GitOpsDeployment with Automated sync policy is not allowed", r.Name))
		return step
	}
	step.Error = r.Spec.Invalid
	stopping := d.Status.Sync != nil && d.Status.Sync.Terminate
	step.Wake = r.Parent == "" || d.Status.Run == "" || d.Status.Run == r.ID && r.stops() != stopping
	step.Parent = d.ID
	if d.Status.Run != r.ID {
		step.After = slowRetry // those before it
		return step
	}
	step.Phase = Running
	if r.stops() {
		step.Phase = Terminating
	}
	seen := d.Status.deployed().Run
	if seen == nil || seen.ID != r.ID {
		return step
	}
	step.Run = seen
	switch seen.Phase {
	case "Succeeded":
		step.end(Succeeded, operation.Succeeded, "")
	case "Failed", "Error":
		step.end(RunFailed, operation.Failed, cmp.Or(seen.Message, "the sync failed without a reason"))
	case "Terminated":
		step.end(Terminated, operation.Failed, cmp.Or(seen.Message, "the sync was terminated"))
	case "Terminating":
		step.Phase = Terminating
	}
	step.Error = cmp.Or(r.Spec.Invalid, step.Error)
	step.Vanish = step.Ended != "" && r.Spec.Deleted
	step.Wake = step.Wake || step.Ended != ""
	return step
}

// outlives reports whether nobody has a use for a run any more: its deployment is
// gone, and no custom resource asks for it.
func (r *SyncRun) outlives(d *Deployment) bool {
	return r.Parent != "" && r.Spec.Origin == nil && (d == nil || !d.Object.Deleted.IsZero())
}

func (s *runStep) end(phase, how, why string) { s.Phase, s.Ended, s.Error = phase, how, why }

// endedRun reports whether the agent says that a sync is over.
func endedRun(r *runtime.SyncRun) bool {
	return r.Phase == "Succeeded" || r.Phase == "Failed" || r.Phase == "Error" || r.Phase == "Terminated"
}
