package cluster

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/offering"
)

// Terraformer applies steps to clusters that the control plane reaches.
type Terraformer interface {
	// Inventory names what a step would apply there, without applying it.
	Inventory(ctx context.Context, kubeconfig []byte, step StepItem) ([]string, error)
	// Apply makes the cluster have what the step says, takes away what the
	// inventory has besides, and tells what has become of it. What is so already
	// is not written. The result is of use beside an error too. A step that is
	// Unwatched is ready once it is applied.
	Apply(ctx context.Context, kubeconfig []byte, step StepItem, inventory []string) (StepResult, error)
	// Missing tells what of an inventory is not there.
	Missing(ctx context.Context, kubeconfig []byte, inventory []string) ([]string, error)
	// Remove takes away what a step applied. A fault.Unavailable says that it is
	// on its way.
	Remove(ctx context.Context, kubeconfig []byte, step StepItem, inventory []string) error
}

// StepResult is what has become of a step.
type StepResult struct {
	Ready     bool
	Message   string   // why it is not ready, or what is still to come
	Inventory []string // what is there of it
}

// settle writes down which steps are wanted. Their bodies are kept with them:
// their source may be gone when they are wanted again.
func (r *run) settle(ctx context.Context, steps []Step) error {
	if !r.facts.Reach && r.c.Phase != Deprovisioning { // who removes a cluster has said so of what is on it
		if err := r.hold(ctx, steps); err != nil {
			return err
		}
	}
	known := map[string]string{}
	for _, s := range r.c.Status.Steps {
		known[s.Name] = s.Digest
	}
	for i, s := range steps {
		if body, wanted := r.bodies[s.Name]; wanted && known[s.Name] != s.Digest {
			if r.Keeper == nil {
				return fault.New(fault.Internal, "there is nobody to keep the steps of clusters")
			}
			if _, err := r.Keeper.PutBlob(ctx, body); err != nil {
				return err
			}
		}
		if s.Token == 0 {
			steps[i].Token = r.task.Token
		}
	}
	r.c.Status.Steps, r.op = steps, "steps"
	return nil
}

// apply carries steps out, one after the other. What they will consist of is
// written down before.
func (r *run) apply(ctx context.Context, names []string) error {
	kubeconfig, err := r.unseal(ctx, cmp.Or(r.c.Status.Kubeconfig, r.c.Spec.Kubeconfig))
	if err != nil {
		return err
	}
	items := map[string]StepItem{}
	planned, going := map[string][]string{}, map[string][]string{}
	failed := map[string]error{}
	for _, s := range r.c.Status.Steps {
		if !slices.Contains(names, s.Name) {
			continue
		}
		var item StepItem
		if s.Name == joinStep {
			item, err = r.bare(ctx, s) // a token is made where one is needed
		} else {
			item, err = r.item(ctx, r.c, s)
		}
		if err != nil {
			return err
		}
		items[s.Name] = item
		if s.State == StepReady {
			going[s.Name] = s.Held
			continue // the same as last time: it is known what it consists of
		}
		inventory, err := r.Terraformer.Inventory(ctx, kubeconfig, item)
		if err != nil {
			failed[s.Name] = err
			continue
		}
		going[s.Name] = apart(s.Inventory, inventory)
		if all := union(s.Inventory, inventory); len(all) > len(s.Inventory) {
			planned[s.Name] = all
		}
	}
	if len(planned) > 0 {
		err := r.record(ctx, "steps", func(s *Status) {
			s.Steps = slices.Clone(s.Steps)
			for i := range s.Steps {
				if all, ok := planned[s.Steps[i].Name]; ok {
					s.Steps[i].Inventory, s.Steps[i].State = all, StepApplying
				}
			}
		})
		if err != nil || r.stale {
			return err
		}
	}
	again := false
	steps := slices.Clone(r.c.Status.Steps)
	for i := range steps {
		s := &steps[i]
		item, ok := items[s.Name]
		if !ok {
			continue
		}
		result, err := StepResult{}, failed[s.Name]
		switch {
		case err != nil:
		case s.Name == joinStep:
			result, err = r.bring(ctx, kubeconfig, *s)
		default:
			result, err = r.prune(ctx, kubeconfig, s, item, going[s.Name])
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.take(result, err)
		again = again || s.State != StepReady
	}
	if r.c.Phase == Ready && r.Tenants != nil && fitter(r.c.Status.Steps, steps) {
		if r.set.Wakes, err = r.Tenants.Waiting(ctx, r.c.Spec.Provider, r.c.Spec.Region, wakeLimit); err != nil {
			return err
		}
	}
	r.c.Status.Steps, r.op = steps, "steps"
	r.saw(r.c.ID, func(l *looks) { l.steps = r.now() })
	if again {
		ready, all, trouble := progress(steps)
		r.next = &Come{After: stepRetry, Why: says(ready, all, "they are being applied"+trouble)}
	}
	if r.c.Phase == Provisioned {
		ready, all, trouble := progress(steps)
		r.c.Status.Message = says(ready, all, "they are being applied"+trouble)
	}
	return nil
}

// take notes what has become of a step.
func (s *Step) take(result StepResult, err error) {
	if result.Inventory != nil {
		s.Inventory, s.Objects = result.Inventory, len(result.Inventory)
	}
	switch {
	case err != nil:
		s.State, s.Message = StepError, err.Error()
	case result.Ready:
		if s.State = StepReady; s.Message != kept(s.source()) {
			s.Message = result.Message
		}
	default:
		s.State, s.Message = StepApplying, result.Message
	}
}

func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// drop takes steps back that are not wanted any more.
func (r *run) drop(ctx context.Context, names []string) error {
	kubeconfig, err := r.unseal(ctx, cmp.Or(r.c.Status.Kubeconfig, r.c.Spec.Kubeconfig))
	if err != nil {
		return err
	}
	var left []Step
	for _, s := range r.c.Status.Steps {
		if !slices.Contains(names, s.Name) {
			left = append(left, s)
			continue
		}
		if len(s.Inventory) == 0 {
			continue
		}
		why, err := r.mayGo(ctx, &s, s.Inventory)
		if err != nil {
			return err
		}
		if why != "" {
			s.Message = why
			left = append(left, s)
			continue
		}
		err = r.Terraformer.Remove(ctx, kubeconfig, StepItem{ID: stepID(s.Name), Generation: s.Generation, Token: s.Token, Delete: true}, s.Inventory)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			s.Message = err.Error()
			left = append(left, s)
			r.next = &Come{After: stepRetry, Why: s.Name + " is being removed: " + s.Message}
		}
	}
	r.c.Status.Steps, r.op = left, "steps"
	return nil
}

// strip takes all steps off a cluster that stays where it is, the last ones
// first. On the last attempt what cannot be removed is left there.
func (r *run) strip(ctx context.Context, last bool) error {
	kubeconfig, err := r.unseal(ctx, cmp.Or(r.c.Status.Kubeconfig, r.c.Spec.Kubeconfig))
	if err != nil {
		return err
	}
	steps := slices.Clone(r.c.Status.Steps)
	var stuck []Step
	for len(steps) > 0 {
		s := steps[len(steps)-1]
		if len(s.Inventory) > 0 {
			err := r.Terraformer.Remove(ctx, kubeconfig, StepItem{ID: stepID(s.Name), Generation: s.Generation, Token: s.Token, Delete: true}, s.Inventory)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil && !last {
				r.c.Status.Message = "What was put there is being removed: " + err.Error()
				r.next = &Come{After: stepRetry, Why: r.c.Status.Message}
				break
			}
			if err != nil {
				stuck = append(stuck, s)
			}
		}
		steps = steps[:len(steps)-1]
	}
	if len(stuck) > 0 {
		r.abandon(stuck)
	}
	r.c.Status.Steps, r.op = steps, "steps"
	return nil
}

// abandon writes down what is left on a cluster that leaves the fleet, for
// whoever looks at how that went.
func (r *run) abandon(steps []Step) {
	var names []string
	for _, s := range steps {
		names = append(names, s.Name)
	}
	r.c.Status.Reason = "What these steps have put there could not be removed and is left on the cluster: " + strings.Join(names, ", ")
}

// bare is a step without its secrets, which have marks in their places.
func (s *Service) bare(ctx context.Context, step Step) (out StepItem, err error) {
	if out = head(step); !out.Delete {
		out.Body, err = s.body(ctx, step.Digest)
	}
	return out, err
}

// item is a step as whoever applies it gets it: with its secrets.
func (s *Service) item(ctx context.Context, c Cluster, step Step) (StepItem, error) {
	out, err := s.bare(ctx, step)
	if err != nil || out.Delete {
		return out, err
	}
	out.Body, err = offering.FillSecrets(out.Body, func(name string) (string, error) { return s.secret(ctx, c, name) })
	return out, err
}

// secret of a cluster, on its way there.
func (s *Service) secret(ctx context.Context, c Cluster, name string) (string, error) {
	switch {
	case name == secretJoin && s.Installs != nil:
		return s.Installs.Token(ctx, c.ID)
	case name == offering.SecretAgent && s.Accounts != nil:
		_, secret, err := s.Accounts.EnsureAgent(ctx, c.ID)
		return secret, err
	case name == offering.SecretLogin && s.Logins != nil && c.Spec.Domain != "" && c.Spec.Org == "":
		_, secret, err := s.Logins.EnsureLogin(ctx, c.ID, loginURL(c.Spec.Domain))
		return secret, err
	case name == offering.SecretAgent || name == offering.SecretLogin:
		return "", nil // there are no such accounts here
	}
	return "", fault.New(fault.Internal, "there is no secret %q", name)
}
