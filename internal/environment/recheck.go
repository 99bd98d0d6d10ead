package environment

import (
	"context"
	"fmt"
	"time"

	"github.com/droverhq/drover/internal/fault"
)

// check makes the plan once more: what somebody looked at must be what is done.
func (t *turn) check(ctx context.Context) error {
	p := *t.seen.Plan
	again := fmt.Sprintf("Nothing was touched; plan again (drover env plan %s).", t.e.Name)
	if p.Status.Basis != t.e.Spec.Turn {
		return t.reject(ctx, "something else was asked of the environment since it was made. "+again, Superseded)
	}
	found, err := t.survey(ctx, p)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case fault.Is(err, fault.Unavailable) && t.e.Status.Tries < maxTries:
		t.e.Status.Tries++
		t.e.Status.Message = "The plan is being checked again: " + err.Error()
		t.next = &Come{After: time.Second << t.e.Status.Tries, Why: t.e.Status.Message}
		return nil
	case err != nil:
		return t.reject(ctx, fmt.Sprintf("it could not be checked again: %s. Apply it again, or plan again.", err), "")
	case found.hash == p.Status.Hash:
		// An approval was given before; what is denied by now, is.
		if phase, why := conclude(found.verdicts); phase == Forbidden {
			return t.reject(ctx, why, Forbidden)
		}
		return t.take(ctx)
	}
	before, err := t.Changes(ctx, p.Object)
	if err != nil {
		return err
	}
	return t.reject(ctx, fmt.Sprintf("something has moved since it was made: %s. %s", moved(before, found.changes), again), Superseded)
}
