package gitops

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

const (
	workspaceSpace   = "workspace"
	defaultWorkspace = "default" // name of the one that is meant where none is named
)

// ownWorkspace returns the workspace that an order of the caller's is for, by name
// or id; empty: the organisation's own, which is made on first use.
func (s *Service) ownWorkspace(ctx context.Context, ref string) (ledger.Object, []ledger.Put, []ledger.Claim, error) {
	p := access.From(ctx)
	if p.User == "" && !p.Admin {
		return ledger.Object{}, nil, nil, fault.New(fault.Denied, "log in first").Because("denied")
	}
	mine := p.Org
	if mine == "" {
		mine = "~" + p.User
	}
	absent := fault.New(fault.NotFound, "there is no workspace %.128q", ref).Because("workspace")
	if ref == p.Org {
		ref = ""
	}
	name := ledger.Name{Space: workspaceSpace, Name: mine + "/" + cmp.Or(ref, defaultWorkspace)}
	held, err := s.Store.Lookup(ctx, name)
	switch {
	case fault.Is(err, fault.NotFound) && ref == "":
		spec, err := json.Marshal(WorkspaceSpec{})
		o := ledger.Object{Ref: ledger.Ref{Kind: KindWorkspace.Name, ID: ledger.NewID()}, Org: p.Org, Owner: p.User, Name: defaultWorkspace, Phase: phaseReady, Spec: spec}
		return o, []ledger.Put{{Object: o, Op: "create"}}, []ledger.Claim{{Name: name, Holder: o.Ref}}, err
	case fault.Is(err, fault.NotFound):
		if held, err = s.workspaceByRef(ctx, ref); err != nil {
			return ledger.Object{}, nil, nil, err
		}
	case err != nil:
		return ledger.Object{}, nil, nil, err
	}
	o, err := s.Store.Get(ctx, held)
	if fault.Is(err, fault.NotFound) {
		return o, nil, nil, absent
	}
	if err != nil {
		return o, nil, nil, err
	}
	w, err := sound(ctx, s, o, DecodeWorkspace)
	if err != nil {
		return o, nil, nil, err
	}
	if o = w.Object; !p.Sees(o.Org, o.Owner) {
		return o, nil, nil, absent
	}
	if w.Spec.Home != "" {
		return o, nil, nil, fault.New(fault.Invalid, "the workspace %.128q is a namespace: make a custom resource in it instead", o.Name).Because("workspace")
	}
	return o, nil, nil, nil
}

// workspaceByRef takes an id, or for an operator, who has no organisation, also a
// name or "organisation/name".
func (s *Service) workspaceByRef(ctx context.Context, ref string) (ledger.Ref, error) {
	id := ledger.Ref{Kind: KindWorkspace.Name, ID: ref}
	if !access.From(ctx).Admin {
		return id, nil
	}
	full := ledger.Name{Space: workspaceSpace, Name: ref}
	if !strings.Contains(ref, "/") {
		full.Name = ref + "/" + defaultWorkspace
	}
	held, err := s.Store.Lookup(ctx, full)
	if fault.Is(err, fault.NotFound) {
		return id, nil
	}
	return held, err
}
