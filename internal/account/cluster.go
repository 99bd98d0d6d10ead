package account

import (
	"context"
	"fmt"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// EnsureAgent returns the account of a cluster's agent, the same each time, and
// makes it where there is none. Faults: Unavailable where the identity provider
// cannot be asked; the account is then made by the loop.
func (s *Service) EnsureAgent(ctx context.Context, clusterID string) (clientID, secret string, err error) {
	return s.ensure(ctx, agentSpace, "agent-"+clusterID, Spec{Use: agent, Cluster: clusterID, Description: "agent of cluster " + clusterID})
}

// EnsureLogin returns the client through which people log in to a cluster.
// Another redirect than before takes the place of that.
func (s *Service) EnsureLogin(ctx context.Context, clusterID, redirectURL string) (clientID, secret string, err error) {
	return s.ensure(ctx, loginSpace, "login-"+clusterID, Spec{Use: login, Cluster: clusterID, Redirect: redirectURL, Description: "login to cluster " + clusterID})
}

// RemoveAgent ends the account of a cluster's agent. One that is not there is fine.
func (s *Service) RemoveAgent(ctx context.Context, clusterID string) error {
	return s.remove(ctx, ledger.Name{Space: agentSpace, Name: clusterID})
}

// RemoveLogin ends a cluster's login. One that is not there is fine.
func (s *Service) RemoveLogin(ctx context.Context, clusterID string) error {
	return s.remove(ctx, ledger.Name{Space: loginSpace, Name: clusterID})
}

func (s *Service) ensure(ctx context.Context, space, name string, want Spec) (string, string, error) {
	if want.Cluster == "" {
		return "", "", fault.New(fault.Invalid, "an account of a cluster needs the cluster's id")
	}
	o, spec, err := s.holder(ctx, ledger.Name{Space: space, Name: want.Cluster})
	if fault.Is(err, fault.NotFound) {
		o, spec, err = s.begin(ctx, name, want)
		if fault.Reason(err) == "name-taken" { // another replica was first
			o, spec, err = s.holder(ctx, ledger.Name{Space: space, Name: want.Cluster})
		}
	}
	if err != nil {
		return "", "", fmt.Errorf("cannot prepare the account %s: %w", name, err)
	}
	plain, err := s.store.Unseal(ctx, spec.Secret)
	if err != nil {
		return "", "", fmt.Errorf("cannot open the secret of %s: %w", name, err)
	}
	if o.Phase == Ready && spec.Redirect == want.Redirect {
		return spec.Client, string(plain), nil
	}
	// Written down before the identity provider has it: the loop goes on where
	// this does not come to its end.
	if spec.Redirect != want.Redirect {
		spec.Redirect = want.Redirect
		put, err := enter(o, spec, Creating, "update")
		if err != nil {
			return "", "", err
		}
		r, err := s.commit(ctx, ledger.Set{Puts: []ledger.Put{put}, Wakes: []ledger.Wake{{Ref: o.Ref}}})
		if err != nil {
			return "", "", err
		}
		o = r.Objects[0]
	}
	if err := s.cfg.Provider.Apply(ctx, client(o, spec, string(plain))); err != nil {
		return "", "", culprit(err, "account-create", "cannot make the account %s", name)
	}
	if _, err := s.settle(ctx, o, spec); err != nil && fault.Reason(err) != "version" {
		return "", "", err
	}
	return spec.Client, string(plain), nil
}

// begin writes the account of a cluster down.
func (s *Service) begin(ctx context.Context, name string, want Spec) (ledger.Object, Spec, error) {
	f, err := s.prepare(ctx, ledger.Object{Name: name, Parent: want.Cluster}, want)
	if err != nil {
		return ledger.Object{}, Spec{}, err
	}
	r, err := s.commit(ctx, ledger.Set{
		Puts:   []ledger.Put{{Object: f.object, Op: "create"}},
		Claims: names(f.object, f.spec),
		Wakes:  []ledger.Wake{{Ref: f.object.Ref, After: s.cfg.Patience}},
	})
	if err != nil {
		ledger.Discard(ctx, s.store, err, f.spec.Secret)
		return ledger.Object{}, Spec{}, err
	}
	return r.Objects[0], f.spec, nil
}

// holder returns the account that holds a name.
func (s *Service) holder(ctx context.Context, name ledger.Name) (ledger.Object, Spec, error) {
	ref, err := s.store.Lookup(ctx, name)
	if err != nil {
		return ledger.Object{}, Spec{}, err
	}
	o, err := s.store.Get(ctx, ref)
	if err != nil {
		return o, Spec{}, err
	}
	spec, err := decode(o)
	return o, spec, err
}

func (s *Service) remove(ctx context.Context, name ledger.Name) error {
	for {
		o, spec, err := s.holder(ctx, name)
		if fault.Is(err, fault.NotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		set, err := leave(o, spec, "")
		if err != nil {
			return err
		}
		if _, err = s.commit(ctx, set); fault.Reason(err) != "version" {
			return err
		}
	}
}
