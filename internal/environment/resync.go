package environment

import (
	"context"

	"github.com/droverhq/drover/internal/ledger"
)

// Unsettled lists, for the slow resync, environments that have something before
// them. Their resources are theirs to wake.
func (r *Environments) Unsettled(ctx context.Context, after string, limit int) ([]ledger.Wake, string, error) {
	return r.aged(ctx, Kind.Name, after, limit, func(o ledger.Object) (bool, error) {
		e, err := Decode(o)
		return err == nil && (e.Spec.Next != nil || e.Status.Operation != "" || e.Status.Laid < e.Spec.Turn || e.Phase == Deploying || e.Phase == Waiting), nil
	})
}

// Unsettled lists plans that are not made yet, and those that are to be removed.
func (r *Plans) Unsettled(ctx context.Context, after string, limit int) ([]ledger.Wake, string, error) {
	return r.aged(ctx, KindPlan.Name, after, limit, func(o ledger.Object) (bool, error) {
		if o.Phase == Planning || o.Phase == Asking {
			return true, nil
		}
		return r.outlived(ctx, o, o.Parent)
	})
}
