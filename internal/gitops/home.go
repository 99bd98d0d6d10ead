package gitops

import (
	"context"
	"encoding/json"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// KindHome declares the Kubernetes APIs whose custom resources are followed, by
// the name that the server was given for each.
var KindHome = ledger.Kind{Name: "home", Totals: [][]string{{}}}

// HomeSpec tells one API from another.
type HomeSpec struct {
	Identity string `json:"identity"` // of its first namespace, which no other API has
}

// AdmitHome remembers which API a home is, and refuses another one under its name:
// all that the first one had would seem to be gone there.
func (s *Service) AdmitHome(ctx context.Context, home, identity string) error {
	ref := ledger.Ref{Kind: KindHome.Name, ID: home}
	o, err := s.Store.Get(ctx, ref)
	if fault.Is(err, fault.NotFound) {
		spec, _ := json.Marshal(HomeSpec{Identity: identity}) // of one text; cannot fail
		_, err = s.Store.Commit(ctx, ledger.Set{Actor: "system", Cause: ledger.CauseOf(ctx), Puts: []ledger.Put{
			{Object: ledger.Object{Ref: ref, Name: home, Spec: spec}, Op: "create"}}})
		if fault.Reason(err) == "exists" { // another replica was faster
			return s.AdmitHome(ctx, home, identity)
		}
		return err
	}
	if err != nil {
		return err
	}
	var spec HomeSpec
	if err := json.Unmarshal(o.Spec, &spec); err != nil {
		return fault.New(fault.Internal, "cannot read %s: %w", ref, err)
	}
	if spec.Identity != identity {
		return fault.New(fault.Conflict, "the kubeconfig leads to another Kubernetes API than the one that this server knows as %q: give that one another name (--gitops-options home=NAME), or the right kubeconfig", home)
	}
	return nil
}
