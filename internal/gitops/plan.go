package gitops

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/droverhq/drover/internal/operation"
	"github.com/droverhq/drover/internal/runtime"
)

// How long things wait. Each is a net: what is waited for wakes the deployment.
const (
	nameRetry    = 5 * time.Second
	engineRetry  = 30 * time.Second
	slowRetry    = 10 * time.Minute
	abandonAfter = time.Minute      // of a removal on a cluster that is not there any more
	lingerAfter  = 15 * time.Second // of a removal: what it waits for is told
)

// Facts are what Plan looks at besides the deployment.
type Facts struct {
	// Rival has the name that this one wants, empty: nobody, or it has it itself.
	// Named: it has it. Dying: the rival is being deleted.
	Rival string
	Named bool
	Dying bool
	// Barred is why nothing new is done for its organisation; empty: it is.
	Barred string
	// Workspace that it belongs to; nil: there is none.
	Workspace *Workspace
	// Engine that it is to be on, by Wanted; nil: there is no such cluster for
	// sure. Held is that of Status.Engine, where that is another.
	Wanted string
	Engine *Engine
	Held   *Engine
	// Left is the engine of Status.Leaving; nil: it is not there any more.
	Left *Engine
	// Target of the name that is asked for; nil: there is none.
	Target *Target
	// Orphaned: the target that the body has is gone.
	Orphaned bool
	// Credential for the repository, of which Status.Good is used; nil: none.
	Credential *Repository
	// Next is the oldest sync run that has not ended; nil: there is none.
	Next *SyncRun
	// Checkout is what the control plane read of the repository itself, for an
	// engine without Argo CD; nil: it was not to.
	Checkout *Checkout
	// Fleet are the engines that there are, for one with a selector; Known says
	// that this is for sure. Children are those that it has made, by cluster.
	// Missing are clusters of them that are gone for sure.
	Fleet    []Engine
	Known    bool
	Children map[string]Deployment
	Missing  map[string]bool
}

// Plan decides what is to be done. It is pure: the same deployment, facts and time
// give the same actions. No actions: there is nothing to do until something changes.
func Plan(d Deployment, f Facts, now time.Time) []Action {
	switch {
	case !d.Object.Deleted.IsZero():
		return nil
	case d.Spec.Deleted:
		return planGone(d, f, now)
	}
	var actions []Action
	if !f.Named {
		if f.Rival != "" {
			return planName(d, f)
		}
		actions = append(actions, Claim{})
	}
	if d.Spec.Invalid != "" {
		return planStop(d, f, append(actions, Hold{}, Conclude{operation.Failed, d.Spec.Invalid}))
	}
	if f.Barred != "" { // whoever lets them in again wakes it
		return planStop(d, f, append(actions, Hold{Why: f.Barred}, Conclude{operation.Failed, f.Barred}, Come{slowRetry, f.Barred}))
	}
	if len(d.Spec.To.Selector) > 0 {
		return append(actions, planFleet(d, f)...)
	}
	return planStop(d, f, append(actions, planPlaced(d, f)...))
}

func planName(d Deployment, f Facts) []Action {
	actions := []Action{Hold{Patient: true, Why: "another deployment of this name is still being removed: this one begins as soon as that is gone"}}
	if d.Spec.Origin != nil && !f.Dying {
		actions = append(actions, Oust{f.Rival})
	}
	return append(actions, Come{nameRetry, "for its name"})
}

// planGone removes what was handed over, and then forgets it.
func planGone(d Deployment, f Facts, now time.Time) []Action {
	if len(f.Children) > 0 {
		var ids []string
		for _, c := range f.Children {
			if !c.Spec.Deleted || d.keeps(c) {
				ids = append(ids, c.ID)
			}
		}
		slices.Sort(ids)
		if len(ids) == 0 {
			return []Action{Come{slowRetry, "for the deployments that it has made"}}
		}
		return []Action{Gather{ids}, Come{slowRetry, "for the deployments that it has made"}}
	}
	s := &d.Status
	late := now.Sub(s.Since) >= abandonAfter
	here := s.Issued > 0 && s.Engine != "" && s.Desired != "" && !s.removed()
	there := s.Leaving != nil // a move has it removed there, whatever is left here
	// Where the cluster is gone for sure there is nobody left to ask.
	if here && f.Held == nil && late {
		here = false
	}
	if there && f.Left == nil && late {
		there = false
	}
	come := Come{slowRetry, "for its cluster to remove it"}
	if left := lingerAfter - now.Sub(s.Since); left > 0 {
		come.After = left
	}
	if here && f.Held == nil || there && f.Left == nil {
		come = Come{abandonAfter, "for its cluster to come back"}
	}
	switch {
	case !here && !there:
		return []Action{Conclude{operation.Succeeded, ""}, Vanish{}}
	case here && d.Spec.Keep && s.Runtime != simulated && !s.Released:
		return []Action{Release{}, come}
	case here && s.Released && !s.Remove && !s.letGo(): // one that does not know how would remove everything
		return []Action{come}
	case here && f.Orphaned && !s.Detached && f.Held != nil:
		// A removal says no more than that: nobody could take anything away from a
		// cluster that cannot be reached any more.
		return []Action{Detach{}, come}
	case here && s.Detached && !s.Remove && !s.current():
		return []Action{come}
	case here && !s.Remove:
		return []Action{Withdraw{}, come}
	}
	return []Action{come}
}

// planPlaced decides for a deployment to one place.
func planPlaced(d Deployment, f Facts) []Action {
	s := &d.Status
	hold := func(after time.Duration, patient bool, format string, args ...any) []Action {
		why := fmt.Sprintf(format, args...)
		actions := []Action{Hold{Why: why, Patient: patient}}
		if !patient {
			actions = append(actions, Conclude{operation.Failed, why})
		}
		return append(actions, Come{after, why})
	}
	switch {
	case f.Workspace == nil:
		return hold(slowRetry, false, "the workspace of this deployment is gone: delete it")
	case f.Wanted == "" && d.Spec.Origin != nil:
		return hold(slowRetry, true, "no cluster carries out what custom resources ask for: the operator has to name one when the server is started (--gitops-options engines=CLUSTER); this goes on by itself then")
	case f.Wanted == "":
		return hold(slowRetry, true, "no cluster carries out the deployments of workspace %s: ask your operator to name one (drover deploy workspace put %s --engine CLUSTER)", f.Workspace.Name, f.Workspace.Name)
	case f.Engine == nil && s.Issued == 0:
		return hold(engineRetry, true, "there is no cluster %s: register it (drover cluster register %s), or name another one", f.Wanted, f.Wanted)
	case f.Engine == nil:
		return hold(engineRetry, true, "cluster %s is not there: what was deployed is left as it is until it is back", f.Wanted)
	case f.Engine.Leaving:
		return planRetreat(d, f, hold)
	case f.Engine.Runtime == "":
		return hold(engineRetry, true, "%s", f.Engine.cannot())
	case !deploys(f.Engine.Runtime):
		return hold(slowRetry, false, "%s", f.Engine.cannot())
	}
	if to := d.Spec.To; f.Engine.Runtime == kubernetes && to.Target == "" && !d.Spec.Operator && !f.Workspace.reaches(*f.Engine, to.Namespace) {
		return hold(slowRetry, false, "this workspace may not deploy into namespace %s of cluster %s any more: what was deployed is left as it is", to.Namespace, f.Wanted)
	}
	var actions []Action
	switch {
	case s.Remove && s.Engine != "" && !s.removed(): // it came back while it went
		return hold(engineRetry, true, "waiting until cluster %s has removed what was deployed before", s.Engine)
	case s.Engine != f.Wanted && s.Leaving != nil && f.Left != nil: // one that is gone for sure tells nothing any more
		return hold(engineRetry, true, "waiting until cluster %s has removed what was deployed before", s.Leaving.Engine)
	case s.Engine != f.Wanted || s.Runtime != f.Engine.Runtime || s.Remove:
		actions = append(actions, Place{*f.Engine})
	}
	detached := false
	if name := d.Spec.To.Target; name != "" {
		switch t := f.Target; {
		case (t == nil || t.Spec.Deleted) && (s.Target == "" || s.Named != name):
			return append(actions, unusable(hold(slowRetry, false, "there is no managed environment %s: create it, or name another", name))...)
		case t == nil || t.Spec.Deleted:
			detached = true
		case t.Status.Access == nil:
			after := slowRetry
			if t.Status.Seen != t.Generation && t.Status.Unreached == 0 {
				after = nameRetry // it is looked at just now, and who wakes its users may have listed them before
			}
			return append(actions, unusable(hold(after, true, "waiting for the managed environment %s to be reached%s", name, behind(t.Status.Condition)))...)
		case len(t.Status.Access.Namespaces) > 0 && !slices.Contains(t.Status.Access.Namespaces, d.Spec.To.Namespace):
			return append(actions, hold(slowRetry, false, "the managed environment %s does not include the namespace %s", name, d.Spec.To.Namespace)...)
		}
		if f.Engine.Runtime == kubernetes {
			return append(actions, hold(slowRetry, false, "cluster %s has no Argo CD, which is needed to deploy to a managed environment", f.Wanted)...)
		}
	}
	if detached { // Argo CD only says that it does not know where to
		why := fmt.Sprintf("there is no managed environment %s any more: what was deployed there is left as it is; create it again, or name another", d.Spec.To.Target)
		actions = append(actions, Hold{Why: why}, Conclude{operation.Failed, why}, Come{slowRetry, why})
	}
	actions = append(actions, planRun(d, f)...)
	if c := f.Checkout; c != nil && c.Trouble != "" {
		actions = append(actions, Unread{c.Trouble, !c.Passing})
		if !c.Passing {
			actions = append(actions, Conclude{operation.Failed, c.Trouble})
		}
		return append(actions, Come{c.Again, "for the repository"})
	}
	actions = append(actions, Render{Detached: detached})
	if c := f.Checkout; c != nil {
		actions = append(actions, Come{c.Again, "for the repository"})
	}
	return actions
}

// cannot says why a cluster carries no deployments out, and what to do; empty: it does.
func (e Engine) cannot() string {
	switch {
	case e.Runtime == "":
		return fmt.Sprintf("waiting for the agent of cluster %s, of which nothing was ever heard: `drover cluster join %s` prints the line that installs it", e.ID, e.ID)
	case !deploys(e.Runtime):
		return fmt.Sprintf("cluster %s runs %s, which cannot deploy from Git: choose one with Argo CD or Kubernetes", e.ID, e.Runtime)
	}
	return ""
}

// targetUnusable is what custom resources say of a managed environment that is not
// there or was never reached, as their users know it. Why that is says the
// environment's own condition.
const targetUnusable = "Unable to reconcile the ManagedEnvironment. Verify that the ManagedEnvironment and Secret are correctly defined, and have valid credentials"

func unusable(held []Action) []Action {
	if h, ok := held[0].(Hold); ok {
		h.Told = targetUnusable
		held[0] = h
	}
	return held
}

func behind(c *Condition) string {
	if c == nil || c.Message == "" {
		return ""
	}
	return ": " + c.Message
}

// letGo reports whether the agent has said that it has let go of it.
func (s *Status) letGo() bool { return s.current() && s.deployed().Kept }

// removed reports whether the agent has said that nothing is left of it.
func (s *Status) removed() bool {
	return s.Remove && s.Observed != nil && s.Observed.Engine == s.Engine && runtime.State(s.Observed.State) == runtime.Deleted
}

// planRetreat leaves a cluster that is being removed, with what a selector has
// brought there: that comes and goes with clusters. Whatever was deployed there by
// name stays: nobody has wished it away.
func planRetreat(d Deployment, f Facts, hold func(time.Duration, bool, string, ...any) []Action) []Action {
	s := &d.Status
	actions := hold(engineRetry, true, "cluster %s is being removed: nothing is deployed to it", f.Wanted)
	switch {
	case s.Engine != f.Wanted || d.Parent == d.workspace():
		return actions
	case s.removed():
		return append([]Action{Unplace{}}, actions...)
	case s.Issued > 0 && !s.Remove:
		return append([]Action{Retreat{}}, actions...)
	}
	return actions
}

// planRun decides which sync run is carried out. One that has begun is seen to its
// end; an automated deployment begins none.
func planRun(d Deployment, f Facts) []Action {
	switch next := f.Next; {
	case next == nil && d.Status.Run != "":
		return []Action{End{}}
	case next == nil, next.ID == d.Status.Run && d.Status.Sync != nil && d.Status.Sync.Terminate == next.stops():
		return nil
	case next.ID != d.Status.Run && (d.Spec.Automated || next.stops()):
		return nil // its own reconciler ends it
	default:
		return []Action{Begin{*next}}
	}
}

// conclude tells how the running operation ended, as far as it has.
func (d *Deployment) conclude() (Conclude, bool) {
	s := &d.Status
	if s.Operation == "" || d.Spec.Deleted || !s.current() || s.Error != "" || s.Unread != "" || s.Pushed {
		return Conclude{}, false
	}
	switch runtime.State(s.Observed.State) {
	case runtime.Error, runtime.Rejected:
		return Conclude{operation.Failed, cmp.Or(s.Observed.Message, "the agent reports a failure without a reason")}, true
	case runtime.Ready, runtime.Suspended:
		return Conclude{operation.Succeeded, ""}, true
	}
	return Conclude{}, false
}
