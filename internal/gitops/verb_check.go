package gitops

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
)

const maxSelector = 16

// check refuses what cannot be carried out, and what the caller may not have.
func (s *Service) check(ctx context.Context, d Deployment, ws Workspace) error {
	spec := &d.Spec
	why := cmp.Or(checkRepository(spec.Repository), checkPath(spec.Path), checkRevision(spec.Revision), checkOptions(spec.SyncOptions))
	if why != "" {
		return fault.New(fault.Invalid, "%s", strings.ReplaceAll(why, "spec.source.path", "the path")).Because("spec")
	}
	to := spec.To
	named := 0
	for _, given := range []bool{to.Target != "", len(to.Selector) > 0} {
		if given {
			named++
		}
	}
	switch {
	case !label.MatchString(to.Namespace):
		return fault.New(fault.Invalid, "%.80q is no namespace: say into which one to deploy (--to cluster/namespace)", to.Namespace).Because("namespace")
	case named > 1 || to.Cluster != "" && len(to.Selector) > 0:
		return fault.New(fault.Invalid, "a deployment goes to a target, to a cluster, or to all that a selector fits: name one of them").Because("to")
	case len(to.Selector) > maxSelector:
		return fault.New(fault.Invalid, "a selector has at most %d labels", maxSelector).Because("to")
	}
	for k, v := range to.Selector {
		if k == "" || v == "" || len(k) > 253 || len(v) > 253 || hidden(k) || hidden(v) {
			return fault.New(fault.Invalid, "a selector needs labels with values (region=eu)").Because("to")
		}
	}
	if len(to.Selector) > 0 {
		return nil // each cluster is asked about when it is deployed to
	}
	return s.place(ctx, to, ws)
}

// place refuses places that the caller may not deploy to. A cluster that is of
// somebody else is not told apart from one that there is not.
func (s *Service) place(ctx context.Context, to To, ws Workspace) error {
	who := access.From(ctx)
	id := cmp.Or(to.Cluster, ws.Spec.Engine)
	if id == "" {
		return fault.New(fault.Invalid, "say to which cluster to deploy (--to cluster/namespace): workspace %s has none of its own", ws.Name).Because("to")
	}
	e, err := s.Engines.Engine(ctx, id)
	if fault.Is(err, fault.NotFound) || err == nil && e.Org != "" && e.Org != ws.Org && !who.Admin {
		return fault.New(fault.NotFound, "there is no cluster %.80q", id).Because("cluster")
	}
	if err != nil {
		return fmt.Errorf("cannot look at cluster %s: %w", id, err)
	}
	if to.Target != "" {
		_, ok, err := s.targetNamed(ctx, ws.ID, to.Target)
		switch {
		case err != nil:
			return err
		case !ok:
			return fault.New(fault.NotFound, "workspace %s has no target %.80q", ws.Name, to.Target).Because("target")
		case who.Admin || id == ws.Spec.Engine || e.Org != "" && e.Org == ws.Org:
			return nil
		}
		return fault.New(fault.Denied, "workspace %s may not use the Argo CD of cluster %s: ask your operator", ws.Name, id).Because("reach")
	}
	if who.Admin || ws.reaches(e, to.Namespace) {
		return nil
	}
	return fault.New(fault.Denied, "workspace %s may not deploy into namespace %s of cluster %s: ask your operator to add it to its reach", ws.Name, to.Namespace, id).Because("reach")
}
