package account

import (
	"context"

	"github.com/droverhq/drover/internal/ledger"
)

// Update changes the words of an account; nil leaves one as it is. The loop
// tells the identity provider.
func (s *Service) Update(ctx context.Context, idOrClient string, name, description *string) (Account, error) {
	o, spec, err := s.change(ctx, idOrClient)
	if err != nil {
		return Account{}, err
	}
	before := o.Name
	if name != nil {
		o.Name = *name
	}
	if description == nil {
		description = &spec.Description
	}
	if err := checkNew(o.Name, *description); err != nil {
		return Account{}, err
	}
	if o.Name == before && *description == spec.Description {
		return present(o, spec), nil
	}
	spec.Description = *description
	put, err := enter(o, spec, Ready, "update")
	if err != nil {
		return Account{}, err
	}
	r, err := s.commit(ctx, ledger.Set{Puts: []ledger.Put{put}, Wakes: []ledger.Wake{{Ref: o.Ref, Org: o.Org}}})
	if err != nil {
		return Account{}, err
	}
	return present(r.Objects[0], spec), nil
}
