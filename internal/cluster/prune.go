package cluster

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/droverhq/drover/internal/breaker"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/offering"
)

// What a file has no longer is taken off all clusters that it concerns. A file
// may be wrong, so that passes the breaker: what goes is counted over the whole
// fleet by the profile or offering that lacks it now, and beyond the share
// nothing goes until somebody has approved. Where the control plane applies a
// step, the rest of it is applied meanwhile; where an agent does, the step stays
// as it was, because agents prune what a new body lacks.

// StepKind is what objects of steps are called in approvals.
const StepKind = "step"

// permit asks whether objects may go because a source has them no longer, all or
// none of them. What is to be counted belongs into the commit after which they
// go; a Waiting says that they may not.
func (r *run) permit(ctx context.Context, source, step string, n int) ([]ledger.Count, *breaker.Waiting, error) {
	if r.Guard == nil || n == 0 {
		return nil, nil, nil
	}
	total, err := r.objectsOver(ctx, source)
	if err != nil {
		return nil, nil, err
	}
	version, err := r.versionOf(ctx, source)
	if err != nil {
		return nil, nil, err
	}
	counts, err := r.Guard.Take(ctx, breaker.Removal{
		Scope: "steps/" + source, Total: total, Rule: "a change of the steps of " + source, Version: version,
		Object: ledger.Ref{Kind: StepKind, ID: r.c.ID + "/" + step}, Count: int64(n), Called: "objects of steps",
	})
	if w := (*breaker.Waiting)(nil); errors.As(err, &w) {
		return nil, w, nil
	}
	return counts, nil, err
}

// objectsOver counts the objects of a source's steps on all clusters, from what
// is known of them anyway.
func (s *Service) objectsOver(ctx context.Context, source string) (n int64, err error) {
	known, err := s.view.look(ctx, s.store)
	if err != nil {
		return 0, err
	}
	for _, k := range known.sorted {
		for _, step := range k.Status.Steps {
			if step.source() == source {
				n += int64(max(step.Objects, len(step.Inventory)))
			}
		}
	}
	return n, nil
}

// versionOf is that of the file of a source; 0 where it has none.
func (s *Service) versionOf(ctx context.Context, source string) (int64, error) {
	ref := ledger.Ref{Kind: offering.Kind.Name, ID: source}
	if name, is := strings.CutPrefix(source, profilePrefix); is {
		ref = ledger.Ref{Kind: KindProfile.Name, ID: name}
	}
	o, err := s.store.Get(ctx, ref)
	if fault.Is(err, fault.NotFound) {
		return 0, nil
	}
	return o.Generation, err
}

// keptFor is what a step says of which something would go.
func keptFor(w *breaker.Waiting) string { return "what it has no longer is kept: " + w.Error() }

// mayGo asks whether objects may go that a step has no longer, and notes in the
// step what came of it; the answer is why not. What was counted once is not
// asked for again.
func (r *run) mayGo(ctx context.Context, step *Step, going []string) (why string, err error) {
	step.Held, step.Approval = nil, ""
	counts, waits, err := r.permit(ctx, step.source(), step.Name, len(apart(going, step.Cleared)))
	if err != nil {
		return "", err
	}
	if waits != nil {
		step.Held, step.Approval = going, waits.Approval
		return keptFor(waits), nil
	}
	if len(counts) > 0 {
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
