package instance

import (
	"context"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/offering"
)

// Allowance is what the caller may have of a type under a billing model.
type Allowance struct {
	Type     string
	Model    offering.BillingModel
	Trial    bool  // everybody without another one has it
	Allowed  int64 // units; negative: no limit
	Consumed int64
}

// Allowances tell what of an offering the caller could order, for clients that
// look before they ask.
func (s *Service) Allowances(ctx context.Context, off *offering.Offering) ([]Allowance, error) {
	who := access.From(ctx)
	var out []Allowance
	for _, t := range off.Spec.Types {
		for _, m := range off.Models(t) {
			a := Allowance{Type: t.Name, Model: m, Trial: t.Quota == offering.QuotaTrial, Allowed: -1}
			if a.Trial {
				a.Allowed = max(t.PerOwner, 1)
			}
			if t.Quota == offering.QuotaGranted {
				p := product(off, t.Name, m)
				g, err := s.grant(ctx, asker(who), p)
				if err != nil {
					return nil, err
				}
				if !g.Active(s.Now()) {
					continue
				}
				a.Allowed = g.Units
				if a.Consumed, err = s.Store.Counter(ctx, quotaCounts(p, g, 0)[0].Name); err != nil {
					return nil, err
				}
			}
			out = append(out, a)
		}
	}
	return out, nil
}
