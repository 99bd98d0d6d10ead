package environment

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// Handed says that another control plane keeps an environment from now on. It is
// never taken back here: two keepers would undo each other's work.
type Handed struct {
	To string    `json:"to"`
	At time.Time `json:"at"`
}

// Bundle is an environment on its way from one control plane to another, with its
// secrets in the clear: it is written nowhere.
type Bundle struct {
	Environment Moving
	Resources   []Moving
	Secrets     map[string][]byte // by the references in the documents
}

// Moving is an object without what its ledger has added.
type Moving struct {
	ID, Org, Owner, Name, Parent, Phase string
	Spec, Status                        json.RawMessage
}

func moving(o ledger.Object) Moving {
	return Moving{ID: o.ID, Org: o.Org, Owner: o.Owner, Name: o.Name, Parent: o.Parent, Phase: o.Phase, Spec: o.Spec, Status: o.Status}
}

func (m Moving) object(kind string) ledger.Object {
	return ledger.Object{Ref: ledger.Ref{Kind: kind, ID: m.ID}, Org: m.Org, Owner: m.Owner, Name: m.Name, Parent: m.Parent, Phase: m.Phase, Spec: m.Spec, Status: m.Status}
}

// HandOver lets go of an environment that works and is at rest: from the commit of
// its mark on, nobody here works on it. What another control plane needs to go on
// with it is returned, again and the same whenever it is asked for. Operators alone.
func (s *Service) HandOver(ctx context.Context, environment, to string) (Bundle, error) {
	if !access.From(ctx).Admin {
		return Bundle{}, fault.New(fault.Denied, "only an operator hands environments over")
	}
	o, err := s.Get(ctx, environment)
	if err != nil {
		return Bundle{}, err
	}
	e, err := Decode(o)
	if err != nil {
		return Bundle{}, err
	}
	if e.Spec.Handed == nil {
		if e, err = s.letGo(ctx, e, to); err != nil {
			return Bundle{}, err
		}
	}
	if e.Spec.Handed.To != to {
		return Bundle{}, handed(&e)
	}
	return s.bundle(ctx, e)
}

// letGo writes the mark.
func (s *Service) letGo(ctx context.Context, e Environment, to string) (Environment, error) {
	o, err := s.want(ctx, e.ID, "destroy", "hand-over", func(e *Environment, _ *ledger.Set) error {
		switch {
		case e.Phase != OK || e.Spec.Next != nil || e.Status.Laid != e.Spec.Turn || e.Status.Operation != "":
			return fault.New(fault.Conflict, "environment %s is %s: it is handed over once it is %s and nothing is under way", e.Name, e.Phase, OK).Because("phase")
		case e.Spec.Destroy:
			return fault.New(fault.Conflict, "environment %s is to be destroyed: it stays where it is", e.Name).Because("phase")
		}
		e.Spec.Handed = &Handed{To: to, At: s.Now().UTC()}
		return nil
	})
	if err != nil {
		return e, err
	}
	return Decode(o)
}

func handed(e *Environment) error {
	return fault.New(fault.Conflict, "environment %s was handed over to %s: ask there", e.Name, e.Spec.Handed.To).Because("handed-over")
}

func (s *Service) bundle(ctx context.Context, e Environment) (Bundle, error) {
	b := Bundle{Environment: moving(e.Object), Secrets: map[string][]byte{}}
	all, err := s.resources(ctx, e.ID, false)
	if err != nil {
		return b, err
	}
	keep := func(refs ...string) error {
		for _, ref := range refs {
			if ref == "" {
				continue
			}
			plain, err := s.Keeper.Unseal(ctx, ref)
			if err != nil {
				return err
			}
			b.Secrets[ref] = plain
		}
		return nil
	}
	if err := keep(slices.Collect(maps.Values(e.Status.Secrets))...); err != nil {
		return b, err
	}
	for _, r := range all {
		if !r.Deleted.IsZero() {
			continue
		}
		if r.Spec.Executor == "terraform" {
			return b, fault.New(fault.Conflict, "%s is made by terraform, whose state stays where it is: let it be made by the new control plane", r.Spec.Address).Because("terraform")
		}
		if err := keep(append(slices.Collect(maps.Values(r.Status.Secrets)), r.Status.Sealed, r.Status.State)...); err != nil {
			return b, err
		}
		b.Resources = append(b.Resources, moving(r.Object))
	}
	return b, nil
}

// TakeOver takes an environment over from another control plane, in one commit, with
// its secrets sealed anew; its template is here already. One that was taken over
// before is as it is now. Operators alone. Faults: Conflict (reason "name-taken").
func (s *Service) TakeOver(ctx context.Context, b Bundle) (ledger.Object, bool, error) {
	if !access.From(ctx).Admin {
		return ledger.Object{}, false, fault.New(fault.Denied, "only an operator takes environments over")
	}
	ref := ledger.Ref{Kind: Kind.Name, ID: b.Environment.ID}
	there, err := s.Store.Get(ctx, ref)
	if err == nil || !fault.Is(err, fault.NotFound) {
		return there, false, err
	}
	sealed := map[string]string{}
	for old, plain := range b.Secrets {
		if sealed[old], err = s.Keeper.Seal(ctx, plain); err != nil {
			return ledger.Object{}, false, err
		}
	}
	set, err := b.set(sealed)
	if err != nil {
		return ledger.Object{}, false, err
	}
	o, err := s.commit(ctx, set)
	ledger.Discard(ctx, s.Keeper, err, slices.Collect(maps.Values(sealed))...)
	switch fault.Reason(err) {
	case "exists": // another try of the same came first
		o, err = s.Store.Get(ctx, ref)
		return o, false, err
	case "name-taken":
		return o, false, taken(b.Environment.Name)
	}
	return o, err == nil, err
}

// set is everything of a bundle, as this ledger has it.
func (b Bundle) set(sealed map[string]string) (ledger.Set, error) {
	e, err := Decode(b.Environment.object(Kind.Name))
	if err != nil {
		return ledger.Set{}, err
	}
	// Plans, operations, records and logs stay where they were made.
	e.Spec.Handed, e.Spec.Plan, e.Status.Operation, e.Status.EndPlan = nil, "", "", ""
	e.Spec.Previous = nil // its template is not here: nobody can go back to it
	renew(e.Status.Secrets, sealed)
	put, err := e.put("adopt")
	if err != nil {
		return ledger.Set{}, err
	}
	set := ledger.Set{Puts: []ledger.Put{put}, Wakes: []ledger.Wake{wakeOf(Kind.Name, e.ID, e.Org)},
		Claims: []ledger.Claim{{Name: named(e.Org, e.Owner, e.Name), Holder: e.Ref}}}
	for _, m := range b.Resources {
		r, err := DecodeResource(m.object(KindResource.Name))
		if err != nil {
			return set, err
		}
		if r.Parent != e.ID {
			return set, fault.New(fault.Invalid, "%s is a resource of another environment", r.Spec.Address)
		}
		r.Fields = ledger.Fields{"environment": e.Name}
		r.Status.Sealed, r.Status.State = cmp.Or(sealed[r.Status.Sealed], ""), cmp.Or(sealed[r.Status.State], "")
		renew(r.Status.Secrets, sealed)
		r.Status.DriftRecord, r.Status.Log, r.Status.LogFrom, r.Status.LogTurn = "", "", 0, 0
		if put, err = r.put("adopt"); err != nil {
			return set, err
		}
		set.Puts = append(set.Puts, put)
		set.Wakes = append(set.Wakes, wakeOf(KindResource.Name, r.ID, r.Org))
	}
	return set, nil
}

func renew(refs, sealed map[string]string) {
	for name, old := range refs {
		refs[name] = sealed[old]
	}
}
