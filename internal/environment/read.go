package environment

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// Get returns an environment by its id, also one that is gone, or by the name of
// one that is there. Faults: NotFound; Conflict (reason "ambiguous": an operator
// sees several of that name).
func (s *Service) Get(ctx context.Context, idOrName string) (ledger.Object, error) {
	who := access.From(ctx)
	o, err := s.Store.Get(ctx, ledger.Ref{Kind: Kind.Name, ID: idOrName})
	if err == nil && who.Sees(o.Org, o.Owner) {
		return o, nil
	}
	if err != nil && !fault.Is(err, fault.NotFound) {
		return o, err
	}
	ref, err := s.Store.Lookup(ctx, named(who.Org, who.User, idOrName))
	if err == nil {
		o, err = s.Store.Get(ctx, ref)
	}
	if fault.Is(err, fault.NotFound) && who.Admin {
		return s.elsewhere(ctx, idOrName)
	}
	return visible(ctx, o, err, "environment", idOrName)
}

// elsewhere finds an environment of whatever organisation, for operators.
func (s *Service) elsewhere(ctx context.Context, name string) (ledger.Object, error) {
	if !validName.MatchString(name) {
		return ledger.Object{}, fault.New(fault.NotFound, "there is no environment %.80q", name)
	}
	found, err := s.Store.List(ctx, ledger.Query{Kind: Kind.Name, Where: equals("name", name), Limit: maxNamesakes + 1})
	switch {
	case err != nil:
		return ledger.Object{}, err
	case len(found) == 0:
		return ledger.Object{}, fault.New(fault.NotFound, "there is no environment %.80q", name)
	case len(found) > 1:
		var said []string
		for _, o := range found {
			said = append(said, fmt.Sprintf("%s of %.64q", o.ID, o.Org))
		}
		return ledger.Object{}, fault.New(fault.Conflict, "several organisations have an environment %s: name it by its id (%s)", name, sentences(said, maxNamesakes)).Because("ambiguous")
	}
	return found[0], nil
}

// maxNamesakes is how many of a name are told.
const maxNamesakes = 5

func equals(column string, v any) ledger.Expr {
	return ledger.Compare{Column: column, Op: ledger.Eq, Values: []any{v}}
}

// ResourcesOf is the query of an environment's resources; more narrows it down.
func ResourcesOf(environment ledger.Object, more ...ledger.Expr) ledger.Query {
	q := ledger.Query{Kind: KindResource.Name, Scope: map[string]any{"parent": environment.ID}}
	if len(more) > 0 {
		q.Where = ledger.And(more)
	}
	return q
}

// Resource returns one by its address or id. While one takes the place of another,
// it is the one that stays.
func (s *Service) Resource(ctx context.Context, environment, address string) (ledger.Object, error) {
	e, err := s.Get(ctx, environment)
	if err != nil {
		return e, err
	}
	o, err := s.Store.Get(ctx, ledger.Ref{Kind: KindResource.Name, ID: address})
	if err == nil && o.Parent == e.ID {
		return o, nil
	}
	found, err := s.Store.List(ctx, ResourcesOf(e, equals("name", address)))
	if err != nil {
		return ledger.Object{}, err
	}
	if len(found) == 0 {
		return ledger.Object{}, fault.New(fault.NotFound, "environment %s has no resource %.80q", e.Name, address)
	}
	for _, o := range found {
		if r, err := DecodeResource(o); err == nil && !r.Spec.Absent {
			return o, nil
		}
	}
	return found[0], nil
}

// minHash is how much of a hash says which plan is meant.
const minHash = 8

// PlanOf returns a plan by its id, its hash, or the beginning of that: of those
// with the same hash the newest. Environment narrows it down where it is not empty.
func (s *Service) PlanOf(ctx context.Context, environment, hashOrID string) (ledger.Object, error) {
	parent := ""
	if environment != "" {
		e, err := s.Get(ctx, environment)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return e, err
		}
		parent = e.ID // of one that is to be, there is only the plan
	}
	mine := func(o ledger.Object) bool {
		return access.From(ctx).Sees(o.Org, o.Owner) && (environment == "" || parent != "" && o.Parent == parent || parent == "" && o.Name == environment)
	}
	o, err := s.Store.Get(ctx, ledger.Ref{Kind: KindPlan.Name, ID: hashOrID})
	if err == nil && mine(o) && o.Deleted.IsZero() {
		return o, nil
	}
	if err != nil && !fault.Is(err, fault.NotFound) {
		return o, err
	}
	if len(hashOrID) < minHash || len(hashOrID) > 128 || strings.ContainsAny(hashOrID, `%_\`) {
		return ledger.Object{}, noPlan(hashOrID)
	}
	q := ledger.Query{Kind: KindPlan.Name, Scope: access.From(ctx).Scope(), Order: []ledger.Order{{Column: "created", Desc: true}}, Limit: 100,
		Where: ledger.Compare{Column: "hash", Op: ledger.Like, Values: []any{hashOrID + "%"}}}
	if len(hashOrID) == hashLen {
		q.Where = equals("hash", hashOrID)
	}
	found, err := s.Store.List(ctx, q)
	if err != nil {
		return ledger.Object{}, err
	}
	var best *ledger.Object
	for i := range found {
		if !mine(found[i]) {
			continue
		}
		if best == nil {
			best = &found[i]
		} else if found[i].Fields["hash"] != best.Fields["hash"] {
			return ledger.Object{}, fault.New(fault.Conflict, "several plans begin with %s: name more of the hash", hashOrID).Because("ambiguous")
		} else if best.Phase != Planned && found[i].Phase == Planned {
			best = &found[i]
		}
	}
	if best == nil {
		return ledger.Object{}, noPlan(hashOrID)
	}
	return *best, nil
}

func noPlan(name string) error {
	return fault.New(fault.NotFound, "there is no plan %.80q", name)
}

// Changes returns what a plan does to each resource.
func (s *Service) Changes(ctx context.Context, plan ledger.Object) ([]PlannedChange, error) {
	p, err := DecodePlan(plan)
	if err != nil || p.Status.Changes == "" {
		return nil, err
	}
	raw, err := s.Keeper.Blob(ctx, p.Status.Changes)
	if err != nil {
		return nil, err
	}
	var out []PlannedChange
	if err := json.Unmarshal(raw, &out); err != nil {
		return nil, fault.New(fault.Internal, "cannot read the changes of %s: %w", plan.Ref, err)
	}
	return out, nil
}

// Reasons is what something depends on, and what depends on it, nearest first.
type Reasons struct {
	Of        ledger.Object
	DependsOn []ledger.Reached
	UsedBy    []ledger.Reached
}

// Why tells the dependencies of an environment, or of its resource at an address,
// both ways and across environments. What the caller may not see is left out.
func (s *Service) Why(ctx context.Context, environment, address string) (Reasons, error) {
	o, err := s.Get(ctx, environment)
	if err == nil && address != "" {
		o, err = s.Resource(ctx, environment, address)
	}
	if err != nil {
		return Reasons{}, err
	}
	why := Reasons{Of: o}
	if s.Finder == nil {
		return why, fault.New(fault.Unavailable, "this server cannot follow dependencies")
	}
	for _, way := range []struct {
		back bool
		to   *[]ledger.Reached
	}{{false, &why.DependsOn}, {true, &why.UsedBy}} {
		found, err := s.Finder.Reach(ctx, ledger.Reach{From: o.Ref.String(), Back: way.back})
		if err != nil {
			return why, err
		}
		for _, r := range found {
			if r.Object == nil || r.Object.Org == "" && r.Object.Owner == "" || access.From(ctx).Sees(r.Object.Org, r.Object.Owner) {
				*way.to = append(*way.to, r)
			}
		}
	}
	return why, nil
}

// Outputs of an environment by name. Secret ones are Hidden, unless they are to be
// revealed, which only those may have done who may apply; the caller audits that.
func (s *Service) Outputs(ctx context.Context, environment string, reveal bool) (map[string]any, error) {
	o, err := s.Get(ctx, environment)
	if err != nil {
		return nil, err
	}
	e, err := Decode(o)
	if err != nil {
		return nil, err
	}
	if reveal {
		if err := s.allowed(ctx, "apply", e.Spec.Version, o, e.Name); err != nil {
			return nil, err
		}
	}
	out, err := s.values(ctx, e.Status.Outputs, e.Status.Secrets, reveal)
	if err != nil || !reveal {
		return out, err
	}
	for name, v := range out {
		out[name] = executor.Reveal(v)
	}
	return out, nil
}

// Awaiting implements breaker.Waiters: plans that wait for an approval.
func (s *Service) Awaiting(ctx context.Context, approval, after string, limit int) ([]ledger.Wake, string, error) {
	found, err := s.Store.List(ctx, ledger.Query{Kind: KindPlan.Name, Where: equals("approval", approval), AfterID: after, Limit: limit})
	if err != nil || len(found) == 0 {
		return nil, "", err
	}
	var wakes []ledger.Wake
	for _, o := range found {
		wakes = append(wakes, ledger.Wake{Ref: o.Ref, Org: o.Org})
	}
	return wakes, found[len(found)-1].ID, nil
}

// CountAwaiting implements breaker.Waiters.
func (s *Service) CountAwaiting(ctx context.Context, approval string) (int64, error) {
	return s.Store.Total(ctx, ledger.Query{Kind: KindPlan.Name, Where: equals("approval", approval)})
}
