package gitops

import (
	"cmp"
	"context"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// homeWorkspace returns the workspace that a namespace is, and the put that makes
// it or tells what has changed of it, for the commit of an intent. Faults: NotFound
// (reason "namespace"), Conflict (reason "terminating"), Denied (reason
// "workspace": it is another's).
func (s *Service) homeWorkspace(ctx context.Context, in Namespace) (ledger.Object, []ledger.Put, error) {
	switch {
	case in.Missing || in.UID == "":
		return ledger.Object{}, nil, fault.New(fault.NotFound, "there is no namespace %.128q", in.Name).Because("namespace")
	case in.Terminating:
		return ledger.Object{}, nil, fault.New(fault.Conflict, "the namespace %.128q is being deleted: nothing new begins in it", in.Name).Because("terminating")
	}
	w, forged, err := s.namespaced(ctx, in)
	if err == nil && forged { // that is a change of its own, which is told
		if err = s.IntendWorkspace(ctx, in); err == nil {
			w, _, err = s.namespaced(ctx, in)
		}
	}
	if err == nil {
		err = w.refuses(in)
	}
	if err != nil || !w.follow(in) {
		return w.Object, nil, err
	}
	put, err := w.putSealed()
	return put.Object, []ledger.Put{put}, err
}

// IntendWorkspace puts right what the ledger has of a namespace, and says so there if
// somebody else has written that. One in which nothing is known leaves nothing. Faults
// are those of IntendDeployment.
func (s *Service) IntendWorkspace(ctx context.Context, in Namespace) error {
	if in.Missing || in.UID == "" || in.Terminating {
		return nil
	}
	for attempt := 0; ; attempt++ {
		err := s.intendWorkspace(ctx, in)
		if !again(err, attempt) {
			return err
		}
	}
}

func (s *Service) intendWorkspace(ctx context.Context, in Namespace) error {
	w, forged, err := s.namespaced(ctx, in)
	if err != nil || !forged && (w.gone() || !w.is(in)) {
		return err
	}
	changed := w.follow(in) || forged
	if !changed && w.Spec.Seal == w.seal() {
		return nil
	}
	put, err := w.putSealed()
	if err != nil {
		return err
	}
	set := ledger.Set{Actor: actorOf(Intent{Namespace: in}), Cause: ledger.CauseOf(ctx), Puts: []ledger.Put{put}}
	if changed { // what is told to agents may be something else
		if set.Wakes, err = s.wakesOf(ctx, map[string]any{"workspace": w.ID}); err != nil {
			return err
		}
	}
	if _, err = s.Store.Commit(ctx, set); err == nil && forged && s.Mirror != nil {
		s.Mirror.Mended(ctx, KindWorkspace.Name, w.ID, Origin{Home: in.Home, Namespace: in.Name, Name: in.Name})
	}
	return err
}

// namespaced reads the workspace that a namespace is; without an id: there is none.
// Forged: somebody else has written it, or taken it away with something in it, which
// nobody of ours does. What operators said of it is then as the log has it.
func (s *Service) namespaced(ctx context.Context, in Namespace) (w Workspace, forged bool, err error) {
	ref := ledger.Ref{Kind: KindWorkspace.Name, ID: in.UID}
	o, err := s.Store.Get(ctx, ref)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return w, false, err
	}
	w, bad := DecodeWorkspace(o)
	if bad != nil || w.forged() {
		w.Spec = WorkspaceSpec{}
		err = s.lookBack(ctx, ref, func(was ledger.Change) bool {
			then, bad := DecodeWorkspace(was.Object)
			if bad != nil || then.Spec.Seal == "" || then.Spec.Seal != then.seal() {
				return false
			}
			w.Spec = then.Spec
			return true
		})
		return w, true, err
	}
	if w.gone() {
		forged, err = s.used(ctx, in.UID)
	}
	return w, forged, err
}

// used reports whether something is in a workspace.
func (s *Service) used(ctx context.Context, id string) (bool, error) {
	held, err := s.within(ctx, id)
	return held != nil, err
}

// within returns something that is in a workspace; nil: nothing is.
func (s *Service) within(ctx context.Context, id string) (*ledger.Object, error) {
	for _, kind := range []string{KindDeployment.Name, KindRepository.Name, KindTarget.Name} {
		found, err := s.Store.List(ctx, ledger.Query{Kind: kind, Scope: map[string]any{"workspace": id}, Limit: 1})
		if err != nil {
			return nil, err
		}
		if len(found) > 0 {
			return &found[0], nil
		}
	}
	return nil, nil
}

// gone reports whether there is no such workspace, or none any more.
func (w *Workspace) gone() bool { return w.ID == "" || !w.Object.Deleted.IsZero() }

// is reports whether a workspace says that it is a namespace.
func (w *Workspace) is(in Namespace) bool {
	return w.Spec.Home == in.Home && w.Spec.Namespace == in.Name
}

// refuses says why a namespace may not be this workspace; nil: it may.
func (w *Workspace) refuses(in Namespace) error {
	if w.ID == "" || w.is(in) {
		return nil
	}
	return fault.New(fault.Denied, "the workspace %s is not the namespace %.128q of %s", w.ID, in.Name, in.Home).Because("workspace")
}

// follow makes a workspace what its namespace is, and reports whether it was something
// else.
func (w *Workspace) follow(in Namespace) bool {
	was, org, gone := w.Spec, w.Org, w.gone()
	if w.ID == "" {
		w.Object = ledger.Object{Ref: ledger.Ref{Kind: KindWorkspace.Name, ID: in.UID}, Phase: phaseReady}
	}
	w.Spec.Home, w.Spec.Namespace, w.Spec.Engine = in.Home, in.Name, cmp.Or(in.Engine, w.Spec.Engine)
	w.Name, w.Org, w.Object.Deleted = in.Name, in.org(), time.Time{}
	return gone || org != w.Org || was.Home != in.Home || was.Namespace != in.Name || was.Engine != w.Spec.Engine
}

// putSealed makes the put of a workspace as we know it.
func (w *Workspace) putSealed() (ledger.Put, error) {
	w.Spec.Seal = w.seal()
	if w.Version == 0 {
		return w.put("create")
	}
	return w.put("update")
}

// seal is the digest of all that was written of a workspace that is a namespace.
func (w *Workspace) seal() string {
	spec := w.Spec
	spec.Seal = ""
	return digestOfSpec([]any{spec, w.Name, w.Org})
}

// forged reports whether somebody else has written it, as far as that can be told.
func (w *Workspace) forged() bool { return w.Spec.Seal != "" && w.Spec.Seal != w.seal() }

// asks is the digest of the namespace that a workspace is, as Namespace has it.
func (w *Workspace) asks() string {
	if w.Spec.Seal != w.seal() {
		return altered
	}
	return Namespace{Home: w.Spec.Home, Name: w.Spec.Namespace, Engine: w.Spec.Engine, Org: w.Org}.Asks()
}

// Asks is the digest of what the ledger should have of a namespace.
func (in Namespace) Asks() string {
	return digestOfSpec([]string{in.Home, in.Name, in.Engine, in.org()})
}

// org is whose a namespace is, and all that is in it.
func (in Namespace) org() string { return cmp.Or(in.Org, in.Home+"/"+in.Name) }
