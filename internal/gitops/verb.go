package gitops

import (
	"cmp"
	"context"
	"slices"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// Order is what Drover's API is asked for: a deployment of an organisation's.
type Order struct {
	Name        string
	Workspace   string // name or id; empty: the organisation's own, made on first use
	Repository  string
	Path        string
	Revision    string
	To          To
	Manual      bool
	SyncOptions []string
}

// Change of a deployment; nil leaves as it is.
type Change struct {
	Repository, Path, Revision *string
	To                         *To
	Manual                     *bool
	SyncOptions                *[]string
}

// Create takes an order of the caller's (access.From(ctx)). It returns the
// deployment and its operation's id. Faults: Invalid, Denied (where it may not
// go), NotFound (cluster, target), Conflict (name).
func (s *Service) Create(ctx context.Context, o Order) (Deployment, string, error) {
	return s.create(ctx, o, ledger.NewID())
}

// create makes a deployment under an id that the caller may have written down.
func (s *Service) create(ctx context.Context, o Order, id string) (d Deployment, op string, err error) {
	who := access.From(ctx)
	if !label.MatchString(o.Name) {
		return d, "", fault.New(fault.Invalid, "%.80q is no name of a deployment: want up to 63 lower-case letters, digits and hyphens", o.Name).Because("name")
	}
	for attempt := 0; ; attempt++ {
		home, puts, claims, err := s.ownWorkspace(ctx, o.Workspace)
		if err != nil {
			return d, "", err
		}
		ws, err := DecodeWorkspace(home)
		if err != nil {
			return d, "", err
		}
		d = Deployment{
			Object: ledger.Object{
				Ref: ledger.Ref{Kind: KindDeployment.Name, ID: id}, Org: ws.Org, Owner: who.User, Name: o.Name, Phase: Pending,
				Parent: ws.ID, Fields: ledger.Fields{"workspace": ws.ID},
			},
			Spec: Spec{
				Repository: o.Repository, Path: o.Path, Revision: o.Revision, To: o.To, Automated: !o.Manual,
				SyncOptions: slices.Clone(o.SyncOptions), Operator: who.Admin,
			},
			Status: Status{Since: s.Now().UTC(), Wanted: cmp.Or(o.To.Cluster, ws.Spec.Engine)},
		}
		if err := s.check(ctx, d, ws); err != nil {
			return d, "", err
		}
		s.foresee(ctx, &d)
		set := s.set(ctx)
		set.Puts = puts
		set.Claims = append(claims, ledger.Claim{Name: nameOf(ws.ID, d.Name), Holder: d.Ref})
		if set.Wakes, err = s.runsOf(ctx, d); err != nil {
			return d, "", err
		}
		d, op, err = s.change(ctx, d, "create", set)
		if fault.Reason(err) == "name-taken" {
			if _, err := s.Store.Lookup(ctx, nameOf(ws.ID, o.Name)); err == nil {
				return d, "", fault.New(fault.Conflict, "there is a deployment %s in workspace %s already: change it, or take another name", o.Name, ws.Name).Because("name-taken")
			}
		}
		if !again(err, attempt) {
			return d, op, err
		}
	}
}

// foresee tells whoever asks for a deployment at once that its cluster cannot carry it
// out, or not yet. Whatever cannot be looked at now is told later.
func (s *Service) foresee(ctx context.Context, d *Deployment) {
	if d.Status.Wanted == "" || len(d.Spec.To.Selector) > 0 {
		return
	}
	if e, err := s.Engines.Engine(ctx, d.Status.Wanted); err == nil {
		d.Status.Error, d.Status.Patient = e.cannot(), true // whoever carries it out decides what it comes to
	}
}

// set is one of the caller's.
func (s *Service) set(ctx context.Context) ledger.Set {
	return ledger.Set{Actor: writer(ctx), Cause: ledger.CauseOf(ctx)}
}

// change writes a deployment with a new operation.
func (s *Service) change(ctx context.Context, d Deployment, verb string, set ledger.Set) (Deployment, string, error) {
	if err := s.begin(ctx, &d, verb, &set); err != nil {
		return d, "", err
	}
	d.settle(s.Now())
	op := d.Status.Operation
	o, err := s.writeDeployment(ctx, &d, verb, set)
	if err != nil {
		return d, "", err
	}
	d, err = Decode(o)
	return d, op, err
}

// Get finds a deployment by id or name; NotFound where the caller may not see it.
func (s *Service) Get(ctx context.Context, ref string) (Deployment, error) {
	who := access.From(ctx)
	missing := fault.New(fault.NotFound, "there is no deployment %.80q", ref)
	o, err := s.Store.Get(ctx, ledger.Ref{Kind: KindDeployment.Name, ID: cut(ref, 253)})
	if fault.Is(err, fault.NotFound) {
		q := ledger.Query{Kind: KindDeployment.Name, Where: ledger.Compare{Column: "name", Op: ledger.Eq, Values: []any{cut(ref, 253)}}, Limit: 2}
		s.Visible(ctx, &q)
		found, err := s.Store.List(ctx, q)
		switch {
		case err != nil:
			return Deployment{}, err
		case len(found) == 0:
			return Deployment{}, missing
		case len(found) > 1:
			return Deployment{}, fault.New(fault.Conflict, "several workspaces have a deployment %s: use the id", ref).Because("ambiguous")
		}
		o = found[0]
	} else if err != nil {
		return Deployment{}, err
	}
	if !who.Sees(o.Org, o.Owner) || !o.Deleted.IsZero() {
		return Deployment{}, missing
	}
	return sound(ctx, s, o, Decode)
}

// Visible limits a query of any kind of the room to what the caller may see.
func (s *Service) Visible(ctx context.Context, q *ledger.Query) {
	for column, v := range access.From(ctx).Scope() {
		if q.Scope == nil {
			q.Scope = map[string]any{}
		}
		q.Scope[column] = v
	}
}

// own finds a deployment that the caller may change.
func (s *Service) own(ctx context.Context, ref, verb string) (Deployment, error) {
	d, err := s.Get(ctx, ref)
	switch who := access.From(ctx); {
	case err != nil:
		return d, err
	case !who.MayChange(d.Org, d.Owner):
		return d, fault.New(fault.Denied, "%s may not %s deployment %s: its owner and the organisation's admins may", cmp.Or(who.User, "nobody"), verb, d.Name).Because("permission")
	case d.Spec.Deleted:
		return d, fault.New(fault.Conflict, "deployment %s is being deleted", d.Name).Because("deleting")
	}
	return d, nil
}

// ours finds one that is changed here, and not by a custom resource or a selector.
func (s *Service) ours(ctx context.Context, ref, verb string) (Deployment, error) {
	d, err := s.own(ctx, ref, verb)
	switch {
	case err != nil:
	case d.Spec.Origin != nil:
		err = fault.New(fault.Denied, "deployment %s is what the custom resource %s/%s asks for: %s that", d.Name, d.Spec.Origin.Namespace, d.Spec.Origin.Name, verb).Because("custom-resource")
	case d.child():
		err = fault.New(fault.Denied, "deployment %s was made by one with a selector: %s that (%s)", d.Name, verb, d.Parent).Because("selector")
	}
	return d, err
}

// Update changes a deployment. One that a custom resource asked for is changed there.
func (s *Service) Update(ctx context.Context, ref string, c Change) (Deployment, string, error) {
	for attempt := 0; ; attempt++ {
		d, op, err := s.update(ctx, ref, c)
		if !again(err, attempt) {
			return d, op, err
		}
	}
}

func (s *Service) update(ctx context.Context, ref string, c Change) (Deployment, string, error) {
	d, err := s.ours(ctx, ref, "change")
	if err != nil {
		return d, "", err
	}
	was := d.Spec
	if c.Repository != nil {
		d.Spec.Repository = *c.Repository
	}
	if c.Path != nil {
		d.Spec.Path = *c.Path
	}
	if c.Revision != nil {
		d.Spec.Revision, d.Spec.Previous = *c.Revision, ""
	}
	if c.To != nil {
		d.Spec.To = *c.To
	}
	if c.Manual != nil {
		d.Spec.Automated = !*c.Manual
	}
	if c.SyncOptions != nil {
		d.Spec.SyncOptions = slices.Clone(*c.SyncOptions)
	}
	if len(d.Spec.SyncOptions) == 0 {
		d.Spec.SyncOptions = nil
	}
	if len(was.To.Selector) > 0 != (len(d.Spec.To.Selector) > 0) {
		return d, "", fault.New(fault.Invalid, "a deployment to one place cannot become one to many, nor the other way: make another one").Because("selector")
	}
	if !d.Spec.asks(was) {
		return d, "", nil
	}
	if !access.From(ctx).Admin {
		d.Spec.Operator = false
	}
	ws, err := s.workspace(ctx, d.workspace())
	if err != nil {
		return d, "", err
	}
	if err := s.check(ctx, d, ws); err != nil {
		return d, "", err
	}
	return s.change(ctx, d, "update", s.set(ctx))
}

// Delete removes a deployment with all that was deployed. One that goes already goes as
// it was said first.
func (s *Service) Delete(ctx context.Context, ref string) (Deployment, string, error) {
	for attempt := 0; ; attempt++ {
		d, err := s.ours(ctx, ref, "delete")
		if fault.Reason(err) == "deleting" {
			return d, d.Status.Operation, nil
		}
		if err != nil {
			return d, "", err
		}
		set := s.set(ctx)
		if err := s.dropping(ctx, &d, &set); err != nil {
			return d, "", err
		}
		op := d.Status.Operation
		done, err := s.Store.Commit(ctx, set)
		if again(err, attempt) {
			continue
		}
		if err != nil {
			return d, "", err
		}
		d, err = Decode(done.Objects[0])
		return d, op, err
	}
}
