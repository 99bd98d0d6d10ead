package gitops

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// homeWorkspace returns the workspace that a namespace is, and the put that makes
// it or tells what has changed of it, for the commit of an intent. Faults: NotFound
// (reason "namespace"), Conflict (reason "terminating"), Denied (reason
// "workspace": it may not deploy).
func (s *Service) homeWorkspace(ctx context.Context, in Namespace) (ledger.Object, []ledger.Put, error) {
	switch {
	case in.Missing || in.UID == "":
		return ledger.Object{}, nil, fault.New(fault.NotFound, "there is no namespace %.128q", in.Name).Because("namespace")
	case in.Terminating:
		return ledger.Object{}, nil, fault.New(fault.Conflict, "the namespace %.128q is being deleted: nothing new begins in it", in.Name).Because("terminating")
	}
	o, err := s.Store.Get(ctx, ledger.Ref{Kind: KindWorkspace.Name, ID: in.UID})
	known := err == nil
	if err != nil && !fault.Is(err, fault.NotFound) {
		return o, nil, err
	}
	var spec WorkspaceSpec
	if known {
		if err := json.Unmarshal(o.Spec, &spec); err != nil {
			return o, nil, err
		}
	}
	switch {
	case known && (spec.Home != in.Home || spec.Namespace != in.Name):
		return o, nil, fault.New(fault.Denied, "the workspace %s is not the namespace %.128q of %s", o.ID, in.Name, in.Home).Because("workspace")
	case known && spec.Deleted:
		return o, nil, fault.New(fault.Denied, "the namespace %.128q may not deploy any more: ask your operator", in.Name).Because("workspace")
	case known && (in.Engine == "" || spec.Engine == in.Engine) && o.Org == in.org() && o.Deleted.IsZero():
		return o, nil, nil
	}
	spec.Home, spec.Namespace, spec.Engine = in.Home, in.Name, cmp.Or(in.Engine, spec.Engine)
	body, err := json.Marshal(spec)
	if err != nil {
		return o, nil, err
	}
	op := "update"
	if !known {
		op = "create"
		o = ledger.Object{
			Ref:  ledger.Ref{Kind: KindWorkspace.Name, ID: in.UID},
			Name: in.Name, Phase: phaseReady, Fields: ledger.Fields{"home": in.Home},
		}
	}
	o.Spec, o.Org, o.Deleted = body, in.org(), time.Time{}
	return o, []ledger.Put{{Object: o, Expect: o.Version, Op: op}}, nil
}

// org is whose a namespace is, and all that is in it.
func (in Namespace) org() string { return cmp.Or(in.Org, in.Home+"/"+in.Name) }

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
	var spec WorkspaceSpec
	if err := json.Unmarshal(o.Spec, &spec); err != nil {
		return o, nil, nil, err
	}
	if !p.Sees(o.Org, o.Owner) || spec.Deleted {
		return o, nil, nil, absent
	}
	if spec.Home != "" {
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
