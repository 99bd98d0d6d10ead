package gitops

import (
	"cmp"
	"context"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// known is what the ledger has of a custom resource. A spec that cannot be read is none:
// nobody of ours has written it. Of one that is gone it is as the log has it, since nobody
// else knows it any more. A status that cannot be read is put right at once.
func (s *Service) known(ctx context.Context, kind string, in Intent) (o ledger.Object, known bool, err error) {
	o, err = s.Store.Get(ctx, ledger.Ref{Kind: kind, ID: in.UID})
	if fault.Is(err, fault.NotFound) {
		return ledger.Object{}, false, nil
	}
	if err == nil && (!legible(o) || in.Gone && readable[kind](o) != nil) {
		now, bad := s.mend(ctx, o)
		if bad == nil {
			o = now
		} else if fault.Of(bad) != fault.Internal || !legible(o) {
			err = bad
		}
	}
	if err == nil && len(o.Spec) > 0 {
		spec, bad := digests[kind](o.Spec)
		if bad != nil {
			o.Spec = nil
		} else if _, deleted := spec.origin(); in.Gone && !deleted && !o.Deleted.IsZero() {
			// Nobody of ours takes a row away that was not to go: all of it is there still.
			o.Deleted = time.Time{}
		}
	}
	return o, err == nil, err
}

// admit makes the checks of what is still there. Forged: what the ledger has of it was
// written by somebody else, and is to be written anew whatever it says.
func (s *Service) admit(ctx context.Context, in Intent, known bool, o ledger.Object, deleted bool, of *Origin) (forged bool, err error) {
	refused := news(in, known, o, deleted, of)
	switch fault.Reason(refused) {
	case "stale":
	case "stranger":
		if ours, err := s.belongs(ctx, in, o, of); err != nil || !ours {
			return false, cmp.Or(err, refused)
		}
	default:
		return false, refused
	}
	if s.Mirror == nil || in.Namespace.Missing {
		return false, refused
	}
	// That it is gone, or has a later generation, is the word of its API, which takes
	// neither back. It is asked after the row was read: what it says now is the later word,
	// and the commit fails if somebody writes meanwhile. A view that is older than what the
	// API has proves nothing.
	generation, err := s.Mirror.Stands(ctx, o.Kind, in.UID, *in.origin())
	switch {
	case fault.Is(err, fault.NotFound):
		return false, refused
	case err != nil:
		return false, err
	case generation != in.Generation:
		return false, refused
	}
	return true, nil
}

// belongs reports whether a row that says something else is of a resource's namespace:
// in a workspace that is a namespace there is nothing but what its resources asked for. One
// of another home that there is, is that home's to stand by, unless the namespace is not.
func (s *Service) belongs(ctx context.Context, in Intent, o ledger.Object, of *Origin) (bool, error) {
	id, _ := o.Fields["workspace"].(string)
	if id == "" || in.Namespace.UID != "" && id != in.Namespace.UID {
		return false, nil
	}
	switch w, err := s.workspace(ctx, id); {
	case err != nil && !fault.Is(err, fault.NotFound):
		return false, err
	case err == nil && w.is(in.Namespace):
		return true, nil
	case err == nil && w.Spec.Home != "" && w.Spec.Home != in.Namespace.Home && !w.forged():
		return false, nil
	case in.Namespace.UID == "": // gone too, and nothing tells which it was
		return false, nil
	}
	if of == nil {
		return true, nil
	}
	there, err := s.hasHome(ctx, of.Home)
	return err == nil && !there, err
}

// elsewhere reports whether a row that says it is of a home is in a namespace of another
// one: that home does not have its resource, and can tell nothing of it.
func (s *Service) elsewhere(ctx context.Context, home string, o ledger.Object) (bool, error) {
	id, _ := o.Fields["workspace"].(string)
	w, err := s.workspace(ctx, id)
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}
	if err != nil || w.Spec.Home == "" || w.Spec.Home == home || w.Spec.Seal != w.seal() {
		return false, err
	}
	return s.hasHome(ctx, w.Spec.Home)
}

func (s *Service) hasHome(ctx context.Context, name string) (bool, error) {
	_, err := s.Store.Get(ctx, ledger.Ref{Kind: KindHome.Name, ID: name})
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}
	return err == nil, err
}

// goneAlready takes the word that a resource is gone, and returns whose it was and whether
// that leaves nothing to do. One that was never known leaves nothing behind, but for a
// finalizer that nobody else would take off. What somebody has written into its row since
// keeps nothing: its resource cannot put that right any more.
func (s *Service) goneAlready(ctx context.Context, kind string, in Intent, o ledger.Object, deleted bool, of *Origin) (*Origin, bool, error) {
	over := !o.Deleted.IsZero()
	if (o.ID == "" || over) && in.Held && s.Mirror != nil {
		if err := s.Mirror.Release(ctx, kind, in.UID, *in.origin()); err != nil {
			return of, false, err
		}
	}
	if o.ID == "" {
		return of, false, fault.New(fault.NotFound, "%s was never known, and is gone", in.Name).Because("unknown")
	}
	var theirs bool
	var err error
	if of == nil || of.Home != in.Namespace.Home {
		var ours bool
		ours, err = s.belongs(ctx, in, o, of)
		theirs, of = !ours, in.origin()
	} else if !over && !deleted {
		theirs, err = s.elsewhere(ctx, of.Home, o)
	}
	if err == nil && theirs {
		err = fault.New(fault.Conflict, "%s is no custom resource of %s", o.Ref, in.Namespace.Home).Because("stranger")
	}
	if kind != KindSyncRun.Name && o.Phase != Deleting && o.Phase != Gone {
		deleted = false // as somebody else has written, and nobody acts on
	}
	return of, over || deleted, err
}

// lookBack goes through what was written of an object before, newest first, until it was
// found. The last of it is there for ever, and what is not found is not known any more.
func (s *Service) lookBack(ctx context.Context, ref ledger.Ref, found func(ledger.Change) bool) error {
	changes, err := s.Store.Changes(ctx, ledger.ChangeQuery{Kind: ref.Kind, ID: ref.ID, Limit: lookBackAt, Reverse: true, Left: true})
	for i := 0; i < len(changes) && !found(changes[i]); i++ {
	}
	return err
}

// lookBackAt is how much is looked through: all but the newest was written by somebody else.
const lookBackAt = 100

// mended tells the resource what became of a forged one.
func (s *Service) mended(ctx context.Context, of ledger.Ref, in Intent, forged bool, err error) error {
	if forged && err == nil && s.Mirror != nil {
		s.Mirror.Mended(ctx, of.Kind, of.ID, *in.origin())
	}
	return err
}

// revive takes back that an object is gone, or about to be: phase is where it begins anew.
func revive(o *ledger.Object, name, phase string) {
	o.Deleted, o.Name = time.Time{}, name
	if o.Phase == Deleting || o.Phase == Gone {
		o.Phase = phase
	}
}

// comeBack takes back that a deployment was to go. What the agent was told counts on, so
// that it goes on as it is, or comes anew once its removal is over.
func (d *Deployment) comeBack(name string, now time.Time) {
	s := &d.Status
	if s.Released || !d.Deleted.IsZero() && !s.Remove { // what was handed over may not be kept any more, or says that it is let go
		s.Desired, s.Digest, s.Made, s.Commit = "", "", "", ""
	}
	s.Released, s.Detached = false, false
	if d.Phase == Deleting || d.Phase == Gone {
		d.Status.Since = now.UTC()
	}
	revive(&d.Object, name, Deploying)
}
