package cluster

import (
	"context"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
)

// Scaled is the fleet as scaling changes it.
type Scaled struct{ *Service }

var _ Fleet = Scaled{}

func bySchedule(ctx context.Context) context.Context {
	return ledger.WithCause(ctx, ledger.BySchedule("scaling"))
}

// Make implements Fleet.
func (s Scaled) Make(ctx context.Context, id string, spec Spec) error {
	ctx = bySchedule(ctx)
	c := s.fresh(ctx, id, spec)
	c.Status.Since = s.now().UTC()
	start := operation.Start("create", c.Object, ledger.CauseOf(ctx))
	c.Status.Operation = start.Object.ID
	put, err := c.put("create")
	if err != nil {
		return err
	}
	_, err = s.store.Commit(ctx, ledger.Set{
		Actor: "system", Cause: ledger.CauseOf(ctx), Puts: []ledger.Put{put, start}, Wakes: []ledger.Wake{{Ref: c.Ref}},
	})
	if fault.Reason(err) == "exists" { // whoever began this before has done it
		return nil
	}
	return err
}

// Remove implements Fleet.
func (s Scaled) Remove(ctx context.Context, id string) error {
	_, err := s.Delete(bySchedule(ctx), id)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}
