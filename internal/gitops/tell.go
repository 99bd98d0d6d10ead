package gitops

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/runtime"
)

// How long a custom resource waits for news that are on their way: for the agent's
// answer to what it is handed, and for the first word of the engine. Each wakes the
// deployment, and is told at once.
const (
	tellAfter = 250 * time.Millisecond
	wordAfter = time.Second
)

// report tells the custom resource, but not before the agent has what this run has
// for it, and not that nothing is known yet: each call of the Kubernetes API takes
// its time, and deployments come by the hundred.
func (r *run) report(ctx context.Context, issued int64) error {
	wait := r.d.Status.Since.Add(wordAfter).Sub(r.now)
	switch {
	case r.Mirror == nil || r.d.Spec.Origin == nil || r.oust != "":
		wait = 0
	case r.d.Status.Issued != issued:
		wait = tellAfter
	case r.d.Phase != Deploying || !r.d.Status.wordless():
		wait = 0
	}
	if wait <= 0 {
		return r.tell(ctx)
	}
	return r.step(ctx, Come{min(wait, wordAfter), "to tell the custom resource"})
}

// wordless reports whether nothing was told of it, and there is nothing to tell yet.
func (s *Status) wordless() bool {
	seen := s.deployed()
	silent := func(word string) bool { return word == "" || word == unknown }
	return s.Mirrored == "" && len(s.Conditions) == 0 && silent(seen.Sync.Status) && silent(seen.Health.Status)
}

// tell writes what became of it into the custom resource, if that would change
// anything there. A resource that is not there any more is a question for whoever
// watches it, and no order to delete.
func (r *run) tell(ctx context.Context) error {
	of := r.d.Spec.Origin
	if of == nil || r.Mirror == nil || !r.d.Object.Deleted.IsZero() {
		return nil
	}
	view, err := r.View(ctx, r.d)
	if err != nil {
		return err
	}
	view.Diff, view.NoDiff = nil, "" // nothing there shows them, and they change on their own
	digest, err := digestOfView(view)
	if err != nil || digest == r.d.Status.Mirrored && r.oust == "" {
		return err
	}
	err = r.Mirror.Tell(ctx, KindDeployment.Name, r.d.ID, *of, view)
	switch {
	case fault.Is(err, fault.NotFound):
		r.d.Status.Mirrored = digest
		return nil
	case err != nil:
		return fmt.Errorf("cannot write the status of the custom resource: %w", err)
	}
	r.d.Status.Mirrored = digest
	return r.ousted(ctx)
}

// ousted wants the deployment gone that holds the name. The resource of this one
// was just written to, by its UID: so no other of that name is there any more, and
// the word of its end was missed.
func (r *run) ousted(ctx context.Context) error {
	if r.oust == "" {
		return nil
	}
	o, err := r.Store.Get(ctx, ledger.Ref{Kind: KindDeployment.Name, ID: r.oust})
	if err != nil {
		return err
	}
	rival, err := sound(ctx, r.Service, o, Decode)
	if err != nil {
		return err
	}
	is, was := r.d.Spec.Origin, rival.Spec.Origin
	if was == nil || was.Home != is.Home || was.Namespace != is.Namespace || was.Name != is.Name || rival.Spec.Deleted || !o.Deleted.IsZero() {
		return nil
	}
	var set ledger.Set
	set.Cause = r.set.Cause
	if err := r.dropping(ctx, &rival, &set); err != nil {
		return err
	}
	r.set.Puts, r.set.Wakes = append(r.set.Puts, set.Puts...), append(r.set.Wakes, set.Wakes...)
	return nil
}

func digestOfView(view any) (string, error) {
	raw, err := json.Marshal(view)
	if err != nil {
		return "", err
	}
	return ledger.Digest(raw), nil
}

// View is what users see of a deployment; resources that are kept aside are read.
func (s *Service) View(ctx context.Context, d Deployment) (DeploymentView, error) {
	seen := d.Status.deployed()
	if o := d.Status.Observed; o != nil && o.Blob != "" && o.Engine == d.Status.Engine {
		raw, err := s.Keeper.Blob(ctx, o.Blob)
		if err != nil {
			return DeploymentView{}, fmt.Errorf("cannot read what was seen of it: %w", err)
		}
		var whole runtime.Deployed
		if err := json.Unmarshal(raw, &whole); err != nil {
			return DeploymentView{}, fault.New(fault.Internal, "what was seen of %s cannot be read: %w", d.Ref, err)
		}
		d.Status.complete(&whole)
		seen = whole
	}
	if d.Status.Runtime == kubernetes && d.Status.Desired != "" && seen.Resources == nil {
		if err := s.handed(ctx, d, &seen); err != nil {
			return DeploymentView{}, err
		}
	}
	v := DeploymentView{
		Conditions: d.Status.Conditions, Sync: seen.Sync, Health: seen.Health, Resources: seen.Resources, More: seen.More,
		Operation: seen.Operation, History: d.Status.History, Diff: seen.Diff, NoDiff: seen.NoDiff, Healed: seen.Healed,
	}
	if c := seen.Compared; c != nil {
		named := *c
		if named.Target != "" {
			named.Target = s.targetName(ctx, d, c.Target)
		}
		v.Compared = &named
	}
	return v, nil
}

// targetName is the workspace's name for a target; empty where that is not known.
func (s *Service) targetName(ctx context.Context, d Deployment, id string) string {
	if id == d.Status.Target && d.Spec.To.Target != "" {
		return d.Spec.To.Target
	}
	o, err := s.Store.Get(ctx, ledger.Ref{Kind: KindTarget.Name, ID: id})
	if err != nil || o.Fields["workspace"] != d.workspace() {
		return ""
	}
	return o.Name
}
