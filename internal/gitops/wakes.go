package gitops

import (
	"context"
	"encoding/json"
	"maps"

	"github.com/droverhq/drover/internal/ledger"
)

const wakesPage = 1000

// wakesOf wakes the deployments that a scope of Lookup columns has: those of a
// workspace with a repository, those with a target.
func (s *Service) wakesOf(ctx context.Context, scope map[string]any) ([]ledger.Wake, error) {
	return s.wakesOfThose(ctx, scope, func(ledger.Object) bool { return true })
}

// wakesOfThose wakes those of a scope that are chosen by what lists show of them.
func (s *Service) wakesOfThose(ctx context.Context, scope map[string]any, chosen func(ledger.Object) bool) ([]ledger.Wake, error) {
	var out []ledger.Wake
	for after := ""; ; {
		page, err := s.Store.List(ctx, ledger.Query{Kind: KindDeployment.Name, Scope: scope, AfterID: after, Limit: wakesPage, Brief: true})
		if err != nil {
			return nil, err
		}
		for _, o := range page {
			if chosen(o) {
				out = append(out, ledger.Wake{Ref: o.Ref, Org: o.Org})
			}
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
	for i, scope := range scopes {
		if i > 0 && maps.Equal(scope, scopes[i-1]) {
			continue
		}
		wakes, err := s.wakesOf(ctx, scope)
		if err != nil {
			return nil, err
		}
		out = append(out, wakes...)
	}
	return once(out), nil
}

// targetUsers are the deployments that have the target, and those of its workspace
// that ask for one of its name: they may have none, or one that had the name before.
func (s *Service) targetUsers(ctx context.Context, t Target) ([]ledger.Wake, error) {
	has, err := s.wakesOf(ctx, map[string]any{"target": t.ID})
	if err != nil {
		return nil, err
	}
	ask, err := s.targetAsked(ctx, t)
	return once(append(has, ask...)), err
}

// targetAsked are the deployments that ask for a target of this name. No column has
// that, so all of the workspace are looked at; targets change seldom.
func (s *Service) targetAsked(ctx context.Context, t Target) ([]ledger.Wake, error) {
	return s.wakesOfThose(ctx, map[string]any{"workspace": t.Parent}, func(o ledger.Object) bool {
		var b struct{ To To }
		return json.Unmarshal(o.View, &b) != nil || b.To.Target == t.Name
	})
}

// once leaves out what is woken already.
func once(wakes []ledger.Wake) (out []ledger.Wake) {
	seen := map[ledger.Ref]bool{}
	for _, w := range wakes {
		if !seen[w.Ref] {
			seen[w.Ref] = true
			out = append(out, w)
		}
	}
	return out
}
