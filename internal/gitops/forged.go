package gitops

import (
	"context"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// known is what the ledger has of a custom resource. A spec that cannot be read is none:
// nobody of ours has written it.
func (s *Service) known(ctx context.Context, kind, uid string) (o ledger.Object, known bool, err error) {
	o, err = s.Store.Get(ctx, ledger.Ref{Kind: kind, ID: uid})
	if fault.Is(err, fault.NotFound) {
		return ledger.Object{}, false, nil
	}
	if err == nil && len(o.Spec) > 0 {
		if _, bad := digests[kind](o.Spec); bad != nil {
			o.Spec = nil
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
	case "stranger": // in a workspace that is a namespace there is nothing but what its resources asked for
		if workspace, _ := o.Fields["workspace"].(string); workspace != in.Namespace.UID {
			return false, refused
		}
		if of != nil { // another home that there is stands by it itself
			switch _, err := s.Store.Get(ctx, ledger.Ref{Kind: KindHome.Name, ID: of.Home}); {
			case err == nil:
				return false, refused
			case !fault.Is(err, fault.NotFound):
				return false, err
			}
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

// mended tells the resource what became of a forged one.
func (s *Service) mended(ctx context.Context, of ledger.Ref, in Intent, forged bool, err error) error {
	if forged && err == nil {
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
