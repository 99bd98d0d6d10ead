package environment

import (
	"context"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
)

// next writes that a plan is wanted of its environment, which is made where it is
// not there yet. It returns the environment and the operation.
func (s *Service) next(ctx context.Context, p Plan, n Next, verb string, puts ...ledger.Put) (ledger.Object, string, error) {
	for range attempts {
		o, err := s.Store.Get(ctx, ledger.Ref{Kind: Kind.Name, ID: p.Spec.ID})
		if err != nil && !fault.Is(err, fault.NotFound) {
			return o, "", err
		}
		set := ledger.Set{}
		var e Environment
		if err != nil { // it is new
			e = s.fresh(p)
			set.Claims = []ledger.Claim{{Name: named(p.Org, p.Owner, p.Spec.Environment), Holder: e.Ref}}
		} else {
			if !o.Deleted.IsZero() {
				return o, "", fault.New(fault.Conflict, "environment %s is gone: plan again", o.Name).Because("phase")
			}
			if e, err = Decode(o); err != nil {
				return o, "", err
			}
			if err := e.takes(p.Spec); err != nil {
				return o, "", err
			}
			if e.Spec.Turn > 0 && e.Spec.Version != p.Spec.Version { // another version may allow more
				if err := s.allowed(ctx, verb, e.Spec.Version, o, e.Name); err != nil {
					return o, "", err
				}
			}
			if p.Spec.TTL > 0 {
				if err := s.mayEnd(ctx, e, s.Now().Add(p.Spec.TTL)); err != nil {
					return o, "", err
				}
			}
		}
		overtaken := ""
		if e.Spec.Next != nil {
			overtaken = e.Spec.Next.Operation
		}
		id, ops, err := s.start(ctx, verb, e.Object, overtaken)
		if err != nil {
			return o, "", err
		}
		n.Operation = id
		e.Spec.Next, e.Status.Tries = &n, 0
		put, err := e.put(verb)
		if err != nil {
			return o, "", err
		}
		set.Puts = append(append([]ledger.Put{put}, ops...), puts...)
		set.Wakes = []ledger.Wake{{Ref: e.Ref, Org: e.Org}}
		if len(puts) > 0 {
			set.Wakes = append(set.Wakes, ledger.Wake{Ref: p.Ref, Org: p.Org})
		}
		done, err := s.commit(ctx, set)
		switch fault.Reason(err) {
		case "version", "exists":
			continue
		case "name-taken":
			return o, "", taken(p.Spec.Environment)
		}
		return done, id, err
	}
	return ledger.Object{}, "", busy(p.Spec.Environment)
}

func busy(name string) error {
	return fault.New(fault.Unavailable, "environment %.80q changes all the time; try again", name)
}

// fresh is the environment of a plan that is the first.
func (s *Service) fresh(p Plan) Environment {
	return Environment{
		Object: ledger.Object{Ref: ledger.Ref{Kind: Kind.Name, ID: p.Spec.ID}, Org: p.Org, Owner: p.Owner, Name: p.Spec.Environment, Phase: Deploying},
		Spec: Spec{Description: p.Spec.Description, Tags: p.Spec.Tags, Template: p.Spec.Template, Version: p.Spec.Version,
			Parameters: p.Spec.Parameters, Operator: p.Spec.Operator},
		Status: Status{Since: s.Now().UTC(), Message: "its plan is being made"},
	}
}

// want changes what is wanted of an environment, again if somebody wrote meanwhile.
func (s *Service) want(ctx context.Context, idOrName, permission, op string, change func(e *Environment, set *ledger.Set) error) (ledger.Object, error) {
	for range attempts {
		o, err := s.Get(ctx, idOrName)
		if err != nil {
			return o, err
		}
		if !o.Deleted.IsZero() {
			return o, fault.New(fault.NotFound, "environment %s is gone", o.Name)
		}
		e, err := Decode(o)
		if err != nil {
			return o, err
		}
		if err := s.allowed(ctx, permission, e.Spec.Version, o, e.Name); err != nil {
			return o, err
		}
		if e.Spec.Handed != nil {
			return o, handed(&e)
		}
		var set ledger.Set
		if err := change(&e, &set); err != nil {
			return o, err
		}
		put, err := e.put(op)
		if err != nil {
			return o, err
		}
		set.Puts = append([]ledger.Put{put}, set.Puts...)
		set.Wakes = append(set.Wakes, ledger.Wake{Ref: o.Ref, Org: o.Org})
		done, err := s.commit(ctx, set)
		if fault.Reason(err) == "version" {
			continue
		}
		return done, err
	}
	return ledger.Object{}, busy(idOrName)
}

// Retry goes on with what has failed and what waits for it. It returns the id of
// the operation.
func (s *Service) Retry(ctx context.Context, environment string) (ledger.Object, string, error) {
	o, err := s.Get(ctx, environment)
	if err != nil {
		return o, "", err
	}
	e, err := Decode(o)
	if err != nil {
		return o, "", err
	}
	if e.Spec.Turn == 0 && e.Status.Operation == "" && e.Spec.Next == nil && o.Deleted.IsZero() { // no plan was ever taken up
		order := PlanOrder{Environment: e.ID, Parameters: e.Spec.Parameters, Template: e.Spec.Version}
		return s.Change(ctx, order)
	}
	permission, id := "apply", ""
	if e.Spec.Destroy {
		permission = "destroy"
	}
	done, err := s.want(ctx, e.ID, permission, "retry", func(e *Environment, set *ledger.Set) error {
		if e.Spec.Next != nil {
			id = e.Spec.Next.Operation
			return nil // what is wanted is tried anyway: now
		}
		op, puts, err := s.start(ctx, "retry", e.Object, e.Status.Operation)
		if err != nil {
			return err
		}
		id, set.Puts = op, puts
		e.Spec.Turn++
		e.Status.Operation = op
		return nil
	})
	return done, id, err
}

// Observe has everything looked at now.
func (s *Service) Observe(ctx context.Context, environment string) (ledger.Object, error) {
	return s.want(ctx, environment, "plan", "observe", func(e *Environment, _ *ledger.Set) error {
		e.Spec.Look++
		return nil
	})
}

// visible refuses what the caller may not know of.
func visible(ctx context.Context, o ledger.Object, err error, what, name string) (ledger.Object, error) {
	if err != nil && !fault.Is(err, fault.NotFound) {
		return o, err
	}
	if err != nil || !access.From(ctx).Sees(o.Org, o.Owner) {
		return ledger.Object{}, fault.New(fault.NotFound, "there is no %s %.80q", what, name)
	}
	return o, nil
}

// start is the operation of a verb, and the end of the one that it overtakes.
func (s *Service) start(ctx context.Context, verb string, of ledger.Object, overtaken string) (id string, puts []ledger.Put, err error) {
	begin := operation.Start(verb, of, ledger.CauseOf(ctx))
	end, err := s.end(ctx, overtaken, operation.Superseded, "a later "+verb+" took its place")
	return begin.Object.ID, append(end, begin), err
}

// end ends an operation where it still runs.
func (s *Service) end(ctx context.Context, id, phase, reason string) ([]ledger.Put, error) {
	if id == "" {
		return nil, nil
	}
	op, err := s.Store.Get(ctx, ledger.Ref{Kind: operation.Kind.Name, ID: id})
	if err != nil || op.Phase != operation.Running {
		return nil, err
	}
	put, err := operation.Finish(op, phase, reason, s.Now())
	return []ledger.Put{put}, err
}
