package gitops

import (
	"context"
	"maps"

	"github.com/droverhq/drover/internal/ledger"
)

const wakesPage = 1000

// wakesOf wakes the deployments that a scope of Lookup columns has: those of a
// workspace with a repository, those with a target.
func (s *Service) wakesOf(ctx context.Context, scope map[string]any) ([]ledger.Wake, error) {
	var out []ledger.Wake
	for after := ""; ; {
		page, err := s.Store.List(ctx, ledger.Query{Kind: KindDeployment.Name, Scope: scope, AfterID: after, Limit: wakesPage, Brief: true})
		if err != nil {
			return nil, err
		}
		for _, o := range page {
			out = append(out, ledger.Wake{Ref: o.Ref, Org: o.Org})
		}
		if len(page) < wakesPage {
			return out, nil
		}
		after = page[len(page)-1].ID
	}
}

// wakesOfAll wakes what any of the scopes has, each once.
func (s *Service) wakesOfAll(ctx context.Context, scopes ...map[string]any) ([]ledger.Wake, error) {
	var out []ledger.Wake
	seen := map[ledger.Ref]bool{}
	for i, scope := range scopes {
		if i > 0 && maps.Equal(scope, scopes[i-1]) {
			continue
		}
		wakes, err := s.wakesOf(ctx, scope)
		if err != nil {
			return nil, err
		}
		for _, w := range wakes {
			if !seen[w.Ref] {
				seen[w.Ref] = true
				out = append(out, w)
			}
		}
	}
	return out, nil
}
