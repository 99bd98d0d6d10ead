package gitops

import (
	"context"
	"encoding/json"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/reconcile"
)

// sound decodes an object. One that cannot be read was garbled by somebody else: whoever
// comes across it puts it right first, so that it holds up nobody for long.
func sound[T any](ctx context.Context, s *Service, o ledger.Object, as func(ledger.Object) (T, error)) (T, error) {
	out, bad := as(o)
	for attempt := 0; bad != nil; attempt++ {
		now, err := s.mend(ctx, o)
		if again(err, attempt) {
			if o, err = s.Store.Get(ctx, o.Ref); err == nil {
				out, bad = as(o)
				continue
			}
		}
		if err != nil {
			return out, err
		}
		return as(now)
	}
	return out, nil
}

// readable reports whether the documents of an object can be read, by kind.
var readable = map[string]func(ledger.Object) error{
	KindWorkspace.Name:  func(o ledger.Object) error { _, err := DecodeWorkspace(o); return err },
	KindDeployment.Name: func(o ledger.Object) error { _, err := Decode(o); return err },
	KindSyncRun.Name:    func(o ledger.Object) error { _, err := DecodeSyncRun(o); return err },
	KindRepository.Name: func(o ledger.Object) error { _, err := DecodeRepository(o); return err },
	KindTarget.Name:     func(o ledger.Object) error { _, err := DecodeTarget(o); return err },
}

// legible reports whether the status of an object can be read.
func legible(o ledger.Object) bool {
	o.Spec = nil
	return readable[o.Kind](o) == nil
}

// mend writes an object that somebody has garbled as the log has it, has it looked at, and
// tells its resource. Where the log has no status that can be read, it begins anew, as one
// that the ledger has lost; what was asked for is never made up.
func (s *Service) mend(ctx context.Context, o ledger.Object) (ledger.Object, error) {
	spec, status := readable[o.Kind](ledger.Object{Ref: o.Ref, Spec: o.Spec}), readable[o.Kind](ledger.Object{Ref: o.Ref, Status: o.Status})
	shown := len(o.View) == 0 || json.Valid(o.View)
	err := s.lookBack(ctx, o.Ref, func(c ledger.Change) bool {
		was := c.Object
		if !shown {
			o.View, shown = was.View, true
		}
		if spec != nil && readable[o.Kind](ledger.Object{Ref: o.Ref, Spec: was.Spec}) == nil {
			o.Spec, spec = was.Spec, nil
		}
		if status != nil && readable[o.Kind](ledger.Object{Ref: o.Ref, Status: was.Status}) == nil {
			o.Status, status = was.Status, nil
		}
		return spec == nil && status == nil
	})
	if err != nil {
		return o, err
	}
	if spec != nil {
		return o, spec
	}
	if !shown {
		o.View = nil
	}
	if status != nil {
		if o.Status = nil; o.Kind == KindDeployment.Name && o.Phase == Deleting {
			// Whoever has it would keep it for ever.
			return o, fault.New(fault.Internal, "what was handed over of %s cannot be read, and the log has nothing of it: it cannot be removed", o.Ref)
		}
	}
	if err := s.unnamed(ctx, &o); err != nil {
		return o, err
	}
	wakes := []ledger.Wake{{Ref: o.Ref, Org: o.Org}}
	if o.Kind == KindWorkspace.Name { // those in it are looked at, and it never is
		if wakes, err = s.wakesOf(ctx, map[string]any{"workspace": o.ID}); err != nil {
			return o, err
		}
	}
	done, err := s.Store.Commit(ctx, ledger.Set{
		Actor: "system", Cause: ledger.ByChange(o.Ref, o.Version),
		Puts: []ledger.Put{{Object: o, Expect: o.Version, Op: "mend"}}, Wakes: wakes,
	})
	if err != nil {
		return o, err
	}
	s.mendedRow(ctx, o)
	return done.Objects[0], nil
}

// unnamed takes out of a deployment what its body and what was seen are kept as, where
// that was erased since: nothing that could be read has named it.
func (s *Service) unnamed(ctx context.Context, o *ledger.Object) error {
	if o.Kind != KindDeployment.Name {
		return nil
	}
	d, err := Decode(*o)
	if err != nil {
		return err
	}
	lost := func(blob string) bool {
		if blob == "" {
			return false
		}
		_, failed := s.Keeper.Blob(ctx, blob)
		if failed != nil && !fault.Is(failed, fault.NotFound) {
			err = failed
		}
		return fault.Is(failed, fault.NotFound)
	}
	st := &d.Status
	if lost(st.Desired) {
		st.Desired, st.Digest, st.Made, st.Commit = "", "", "", ""
	}
	if st.Observed != nil && lost(st.Observed.Blob) {
		st.Observed = nil
	}
	if st.Leaving != nil && lost(st.Leaving.Desired) {
		st.Leaving.Desired = ""
	}
	if err != nil {
		return err
	}
	return documents(o, nil, d.Status, nil)
}

// mendedRow tells the resource of a row, where it has one.
func (s *Service) mendedRow(ctx context.Context, o ledger.Object) {
	if s.Mirror == nil {
		return
	}
	if o.Kind == KindWorkspace.Name {
		if w, err := DecodeWorkspace(o); err == nil && w.Spec.Home != "" {
			s.Mirror.Mended(ctx, o.Kind, o.ID, Origin{Home: w.Spec.Home, Namespace: w.Spec.Namespace, Name: w.Spec.Namespace})
		}
		return
	}
	if spec, err := digests[o.Kind](o.Spec); err == nil {
		if of, _ := spec.origin(); of != nil {
			s.Mirror.Mended(ctx, o.Kind, o.ID, *of)
		}
	}
}

// gaveUp ends a run on what cannot be read and cannot be put right: somebody has to look.
// What only could not be looked up now is tried again.
func gaveUp(err error) error {
	if fault.Of(err) == fault.Internal {
		return reconcile.Terminal(err)
	}
	return err
}
