package gitops

import (
	"context"
	"encoding/json"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

const knownPage = 500

// KnownOf pages through what the ledger has of a home, in the order of UIDs: custom
// resources of a kind, or namespaces (KindWorkspace). What is being deleted already is
// not among it.
func (s *Service) KnownOf(ctx context.Context, home, kind, after string, limit int) ([]Known, error) {
	if limit <= 0 {
		limit = knownPage
	}
	if digests[kind] == nil && kind != KindWorkspace.Name {
		return nil, fault.New(fault.Internal, "no custom resource stands for a %s", kind)
	}
	var out []Known
	for {
		found, err := s.Store.List(ctx, ledger.Query{Kind: kind, AfterID: after, Limit: knownPage})
		if err != nil {
			return nil, err
		}
		for _, o := range found {
			after = o.ID
			k, of := knownOf(o)
			if of != home {
				continue
			}
			out = append(out, k)
			if len(out) == limit {
				return out, nil
			}
		}
		if len(found) < knownPage {
			return out, nil
		}
	}
}

// knownOf is what a row says of its resource, and of which home that is; empty: it cannot
// be told, or the resource is said to be on its way out.
func knownOf(o ledger.Object) (k Known, home string) {
	if o.Kind == KindWorkspace.Name {
		w, err := DecodeWorkspace(o)
		if err != nil {
			return k, ""
		}
		return Known{Kind: o.Kind, UID: o.ID, Namespace: w.Spec.Namespace, Name: w.Spec.Namespace, NamespaceUID: o.ID, Asks: w.asks(), Engine: w.Spec.Engine}, w.Spec.Home
	}
	spec, err := digests[o.Kind](o.Spec)
	if err != nil {
		return k, ""
	}
	of, deleted := spec.origin()
	if of == nil || deleted {
		return k, ""
	}
	ws, _ := o.Fields["workspace"].(string)
	k = Known{Kind: o.Kind, UID: o.ID, Namespace: of.Namespace, Name: of.Name, NamespaceUID: ws, Generation: of.Generation, Asks: spec.digest(), Dated: of.Reading != reading}
	if !legible(o) {
		k.Asks, k.Dated = altered, false
	}
	return k, of.Home
}

// Resync wakes one object whose custom resource was found not to say what it
// should: it is told anew, whatever it was told before.
func (s *Service) Resync(ctx context.Context, kind, uid string) error {
	for attempt := 0; ; attempt++ {
		err := s.resync(ctx, kind, uid)
		if !again(err, attempt) {
			return err
		}
	}
}

func (s *Service) resync(ctx context.Context, kind, uid string) error {
	o, err := s.Store.Get(ctx, ledger.Ref{Kind: kind, ID: uid})
	if err == nil && !legible(o) {
		o, err = s.mend(ctx, o)
	}
	if err != nil {
		return err
	}
	if !o.Deleted.IsZero() {
		return fault.New(fault.NotFound, "%s is gone", o.Ref)
	}
	set := ledger.Set{Actor: "system", Cause: ledger.BySchedule("resync"), Wakes: []ledger.Wake{{Ref: o.Ref, Org: o.Org}}}
	var status map[string]json.RawMessage
	if len(o.Status) > 0 && json.Unmarshal(o.Status, &status) == nil && len(status["mirrored"]) > 0 {
		delete(status, "mirrored")
		if o.Status, err = json.Marshal(status); err != nil {
			return err
		}
		set.Puts = []ledger.Put{{Object: o, Expect: o.Version, Op: "resync"}}
	}
	_, err = s.Store.Commit(ctx, set)
	return err
}
