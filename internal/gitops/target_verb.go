package gitops

import (
	"context"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// TargetOrder is a cluster that Drover's API is asked to take in.
type TargetOrder struct {
	Name, Workspace, URL string
	Kubeconfig           []byte
	Insecure, NewAccount bool
	Namespaces           []string
	ClusterResources     bool
}

// check refuses at once what a check of the cluster would find wrong later.
func (o TargetOrder) check() error {
	if err := checkOrderName(o.Name); err != nil {
		return err
	}
	if len(o.Kubeconfig) == 0 || len(o.Kubeconfig) > maxKubeconfig {
		return fault.New(fault.Invalid, "a kubeconfig of up to %d KiB is needed", maxKubeconfig>>10).Because("kubeconfig")
	}
	if bad := obviousFlaw(TargetSpec{URL: o.URL, Namespaces: o.Namespaces}); bad != nil {
		return fault.New(fault.Invalid, "%s", bad.message).Because(bad.reason)
	}
	if _, bad := readKubeconfig(o.Kubeconfig, o.URL, !o.NewAccount); bad != nil {
		return fault.New(fault.Invalid, "%s", bad.message).Because(bad.reason)
	}
	return nil
}

func targetName(workspace, name string) ledger.Name {
	return ledger.Name{Space: "target/" + workspace, Name: name}
}

// PutTarget makes a target or replaces its secrets. Faults: Invalid, Denied,
// NotFound (workspace).
func (s *Service) PutTarget(ctx context.Context, o TargetOrder) (Target, error) {
	if err := o.check(); err != nil {
		return Target{}, err
	}
	for attempt := 0; ; attempt++ {
		t, err := s.putTarget(ctx, o)
		if !again(err, attempt) {
			return t, err
		}
	}
}

func (s *Service) putTarget(ctx context.Context, o TargetOrder) (Target, error) {
	ws, puts, claims, err := s.ownWorkspace(ctx, o.Workspace)
	if err != nil {
		return Target{}, err
	}
	var t Target
	name := targetName(ws.ID, o.Name)
	switch held, err := s.Store.Lookup(ctx, name); {
	case err == nil:
		found, err := s.Store.Get(ctx, held)
		if err != nil {
			return t, err
		}
		if t, err = sound(ctx, s, found, DecodeTarget); err != nil {
			return t, err
		}
		if err := mayChange(ctx, t.Object, t.Spec.Origin); err != nil {
			return t, err
		}
		if t.Spec.Deleted {
			return t, fault.New(fault.Conflict, "the target %q is being deleted: try again in a moment", o.Name).Because("deleting")
		}
	case fault.Is(err, fault.NotFound):
		t.Object = ledger.Object{
			Ref: ledger.Ref{Kind: KindTarget.Name, ID: ledger.NewID()}, Org: ws.Org, Owner: access.From(ctx).User,
			Name: o.Name, Phase: Pending, Parent: ws.ID,
		}
		claims = append(claims, ledger.Claim{Name: name, Holder: t.Ref})
	default:
		return t, err
	}
	spec := TargetSpec{URL: o.URL, Insecure: o.Insecure, NewAccount: o.NewAccount, Namespaces: o.Namespaces, ClusterResources: o.ClusterResources}
	if err := s.writeTarget(ctx, t, spec, o.Kubeconfig, ledger.Set{Actor: writer(ctx), Puts: puts, Claims: claims}); err != nil {
		return Target{}, err
	}
	now, err := s.Store.Get(ctx, t.Ref)
	if err != nil {
		return Target{}, err
	}
	return DecodeTarget(now)
}

// DeleteTarget takes a target away; deployments there are left as they are, detached.
func (s *Service) DeleteTarget(ctx context.Context, ref string) error {
	for attempt := 0; ; attempt++ {
		err := s.deleteTarget(ctx, ref)
		if !again(err, attempt) {
			return err
		}
	}
}

func (s *Service) deleteTarget(ctx context.Context, ref string) error {
	o, err := s.findOwn(ctx, KindTarget.Name, ref)
	if err != nil {
		return err
	}
	t, err := sound(ctx, s, o, DecodeTarget)
	if err != nil {
		return err
	}
	if err := mayChange(ctx, o, t.Spec.Origin); err != nil || t.Spec.Deleted {
		return err
	}
	return s.dropTarget(ctx, t, writer(ctx))
}
