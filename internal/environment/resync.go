package environment

import (
	"context"

	"github.com/droverhq/drover/internal/ledger"
)

// Unsettled lists, for the slow resync, environments that have something before
// them. Their resources are theirs to wake.
func (r *Environments) Unsettled(ctx context.Context, after string, limit int) ([]ledger.Wake, string, error) {
	return r.unsettled(ctx, Kind.Name, after, limit, func(o ledger.Object) bool {
		e, err := Decode(o)
		return err == nil && (e.Spec.Next != nil || e.Status.Operation != "" || e.Status.Laid < e.Spec.Turn || e.Phase == Deploying || e.Phase == Waiting)
	})
}

// Unsettled lists plans that are not made yet.
func (r *Plans) Unsettled(ctx context.Context, after string, limit int) ([]ledger.Wake, string, error) {
	return r.unsettled(ctx, KindPlan.Name, after, limit, func(o ledger.Object) bool { return o.Phase == Planning || o.Phase == Asking })
}

func (s *Service) unsettled(ctx context.Context, kind, after string, limit int, is func(ledger.Object) bool) ([]ledger.Wake, string, error) {
	found, err := s.Store.List(ctx, ledger.Query{Kind: kind, AfterID: after, Limit: limit})
	if err != nil || len(found) == 0 {
		return nil, "", err
	}
	var wakes []ledger.Wake
	for _, o := range found {
		if is(o) {
			wakes = append(wakes, ledger.Wake{Ref: o.Ref, Org: o.Org})
		}
	}
	return wakes, found[len(found)-1].ID, nil
}
