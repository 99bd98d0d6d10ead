package instance

import (
	"context"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/offering"
)

// MayBringClusters reports whether the caller has quota for instances on
// clusters of its own.
func (s *Service) MayBringClusters(ctx context.Context, off *offering.Offering) (bool, error) {
	who := access.From(ctx)
	for _, t := range off.Spec.Types {
		for _, m := range off.Models(t) {
			if !m.OwnCluster {
				continue
			}
			g, err := s.grant(ctx, asker(who), product(off, t.Name, m))
			if err != nil || g.Active(s.Now()) {
				return err == nil, err
			}
		}
	}
	return false, nil
}
