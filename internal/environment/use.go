package environment

import (
	"context"

	"github.com/droverhq/drover/internal/ledger"
)

// Used implements template.Users: how many environments a template has.
func (s *Service) Used(ctx context.Context, template string) (int64, error) {
	return s.Store.Total(ctx, ledger.Query{Kind: Kind.Name, Scope: map[string]any{"template": template}})
}
