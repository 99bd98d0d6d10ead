package cluster

import (
	"context"
	"errors"
	"slices"

	"github.com/droverhq/drover/internal/breaker"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// What a file has no longer is taken off all clusters that it concerns. A file
// may be wrong, so that passes the breaker: beyond a handful of objects of a
// cluster nothing goes until somebody has approved, and the rest of the step is
// applied meanwhile.

// StepKind is what objects of steps are called in approvals.
const StepKind = "step"

// mayGo asks whether objects may go that a step has no longer, and notes in the
// step what came of it; the answer is why not.
func (r *run) mayGo(ctx context.Context, step *Step, going []string) (why string, err error) {
	step.Held, step.Approval = nil, ""
	if r.Guard == nil {
		return "", nil
	}
	var total int64
	for _, s := range r.c.Status.Steps {
		total += int64(len(s.Inventory))
	}
	for _, object := range apart(going, step.Cleared) {
		counts, err := r.Guard.Take(ctx, breaker.Removal{
			Scope: "steps/" + r.c.ID, Total: total, Rule: "a change of the steps of " + step.source(), Version: step.Generation,
			Object: ledger.Ref{Kind: StepKind, ID: r.c.ID + "/" + object},
		})
		if w := (*breaker.Waiting)(nil); errors.As(err, &w) {
			step.Held, step.Approval = going, w.Approval
			return "what it has no longer is kept: " + err.Error(), nil
		}
		if err != nil {
			return "", err
		}
		set := ledger.Set{Actor: "system", Cause: ledger.ByChange(r.c.Ref, r.c.Version), Counts: counts}
		if r.task.Token != 0 {
			set.Lease = &ledger.Lease{Ref: r.c.Ref, Token: r.task.Token}
		}
		if _, err := r.store.Commit(ctx, set); err != nil {
			return "", err
		}
	}
	step.Cleared = union(step.Cleared, going)
	return "", nil
}

// apart are those of a list that another lacks.
func apart(list, other []string) []string {
	var out []string
	for _, s := range list {
		if !slices.Contains(other, s) {
			out = append(out, s)
		}
	}
	return out
}

// prune applies a step, and takes away what it has no longer where that may go.
func (r *run) prune(ctx context.Context, kubeconfig []byte, step *Step, item StepItem, going []string) (StepResult, error) {
	why, err := r.mayGo(ctx, step, going)
	if err != nil {
		return StepResult{}, err
	}
	if why == "" {
		return r.Terraformer.Apply(ctx, kubeconfig, item, step.Inventory)
	}
	result, err := r.Terraformer.Apply(ctx, kubeconfig, item, apart(step.Inventory, going))
	if result.Inventory != nil {
		result.Inventory = union(result.Inventory, going)
	}
	if result.Ready {
		result.Message = why
	}
	return result, err
}

// decided lists the steps whose removals wait for an approval that is no longer
// open: they are worth another question.
func (s *Service) decided(ctx context.Context, steps []Step) (map[string]bool, error) {
	var out map[string]bool
	for _, step := range steps {
		if step.Approval == "" {
			continue
		}
		o, err := s.store.Get(ctx, ledger.Ref{Kind: breaker.KindApproval.Name, ID: step.Approval})
		if err != nil && !fault.Is(err, fault.NotFound) {
			return nil, err
		}
		// Refused ones stay until their file changes, which is another question.
		if err != nil || o.Phase == breaker.Approved || o.Phase == breaker.Expired {
			if out == nil {
				out = map[string]bool{}
			}
			out[step.Name] = true
		}
	}
	return out, nil
}

// Awaiting implements breaker.Waiters. Clusters are few: all are looked at.
func (s *Service) Awaiting(ctx context.Context, approval, _ string, _ int) ([]ledger.Wake, string, error) {
	wakes, err := s.wakes(ctx, func(c Cluster) bool { return c.Status.awaits(approval) > 0 })
	return wakes, "", err
}

// CountAwaiting implements breaker.Waiters: objects that wait, not clusters.
func (s *Service) CountAwaiting(ctx context.Context, approval string) (int64, error) {
	var n int64
	_, err := s.wakes(ctx, func(c Cluster) bool {
		n += c.Status.awaits(approval)
		return false
	})
	return n, err
}

func (s *Status) awaits(approval string) (n int64) {
	for _, step := range s.Steps {
		if step.Approval == approval {
			n += int64(len(step.Held))
		}
	}
	return n
}
