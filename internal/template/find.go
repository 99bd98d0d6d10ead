package template

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/source"
)

// Get returns a template's object, with what its newest version is. Faults:
// NotFound, also for what the caller may not plan.
func (s *Service) Get(ctx context.Context, name string) (ledger.Object, error) {
	o, err := s.template(ctx, name)
	if err != nil {
		return ledger.Object{}, err
	}
	if !Visible(access.From(ctx), o) {
		return ledger.Object{}, fault.New(fault.NotFound, "there is no template %.64q", name)
	}
	return o, nil
}

func (s *Service) template(ctx context.Context, name string) (ledger.Object, error) {
	missing := fault.New(fault.NotFound, "there is no template %.64q", name)
	if !nameForm.MatchString(name) {
		return ledger.Object{}, missing
	}
	o, err := s.stored(ctx, ledger.Ref{Kind: Kind.Name, ID: name})
	if err == nil && (o.Version == 0 || !o.Deleted.IsZero()) {
		return ledger.Object{}, missing
	}
	return o, err
}

// Visible: everybody sees the templates and versions that they may plan environments
// of.
func Visible(who access.Principal, o ledger.Object) bool {
	var sum Summary
	if json.Unmarshal(o.Spec, &sum) != nil {
		return false
	}
	return sum.Permissions.May(VerbPlan, "", who, who.Org, who.User)
}

// List returns the templates that the caller may plan environments of, by name.
func (s *Service) List(ctx context.Context) ([]ledger.Object, error) {
	all, err := s.pages(ctx, ledger.Query{Kind: Kind.Name})
	return slices.DeleteFunc(all, func(o ledger.Object) bool { return !Visible(access.From(ctx), o) }), err
}

// Versions of a template that the caller sees, the last added first. Faults: NotFound.
func (s *Service) Versions(ctx context.Context, name string) ([]ledger.Object, error) {
	if _, err := s.Get(ctx, name); err != nil {
		return nil, err
	}
	out, err := s.versions(ctx, name, nil)
	slices.SortStableFunc(out, func(a, b ledger.Object) int { return b.Updated.Compare(a.Updated) })
	return out, err
}

func (s *Service) versions(ctx context.Context, name string, where ledger.Expr) ([]ledger.Object, error) {
	return s.pages(ctx, ledger.Query{Kind: KindVersion.Name, Scope: map[string]any{"template": name}, Where: where})
}

func (s *Service) labelled(ctx context.Context, name, label string) ([]ledger.Object, error) {
	return s.versions(ctx, name, ledger.Compare{Column: "version", Op: ledger.Eq, Values: []any{label}})
}

func (s *Service) pages(ctx context.Context, q ledger.Query) ([]ledger.Object, error) {
	q.Limit = 1000
	var out []ledger.Object
	for {
		found, err := s.Store.List(ctx, q)
		if err != nil {
			return nil, fmt.Errorf("cannot list templates: %w", err)
		}
		out = append(out, found...)
		if len(found) < q.Limit {
			return out, nil
		}
		q.AfterID = found[len(found)-1].ID
	}
}

// Resolve returns the object of the version that is meant: "shop" is the one that
// was added last, "shop@1.2.0" the last of that label, "shop@3f2a" the commit that
// begins so, if only one does. Faults: NotFound, Conflict (reason "ambiguous").
func (s *Service) Resolve(ctx context.Context, ref string) (ledger.Object, error) {
	name, want, exact := strings.Cut(ref, "@")
	missing := fault.New(fault.NotFound, "there is no template %.128q", ref)
	if !nameForm.MatchString(name) || exact && !releaseForm.MatchString(want) {
		return ledger.Object{}, missing
	}
	if !exact {
		o, err := s.template(ctx, name)
		if err != nil {
			return ledger.Object{}, err
		}
		var sum Summary
		if err := json.Unmarshal(o.Spec, &sum); err != nil {
			return ledger.Object{}, fault.New(fault.Internal, "cannot read %s: %w", o.Ref, err)
		}
		return s.Store.Get(ctx, ledger.Ref{Kind: KindVersion.Name, ID: sum.ID})
	}
	found, err := s.labelled(ctx, name, want)
	if err != nil {
		return ledger.Object{}, err
	}
	if len(found) > 0 {
		return slices.MaxFunc(found, func(a, b ledger.Object) int { return a.Updated.Compare(b.Updated) }), nil
	}
	if o, err := s.stored(ctx, ledger.Ref{Kind: KindVersion.Name, ID: VersionID(name, want)}); err != nil || o.Version > 0 {
		if commit, _ := o.Fields["commit"].(string); err != nil || strings.HasPrefix(strings.TrimPrefix(commit, dirPrefix), want) {
			return o, err // also one that is deleted: what was made of it can still be taken away
		}
	}
	if len(want) < 4 {
		return ledger.Object{}, missing
	}
	all, err := s.versions(ctx, name, nil)
	if err != nil {
		return ledger.Object{}, err
	}
	all = slices.DeleteFunc(all, func(o ledger.Object) bool {
		commit, _ := o.Fields["commit"].(string)
		return !strings.HasPrefix(strings.TrimPrefix(commit, dirPrefix), want)
	})
	switch len(all) {
	case 0:
		return ledger.Object{}, missing
	case 1:
		return all[0], nil
	}
	return ledger.Object{}, fault.New(fault.Conflict, "%.128q may be several versions: write more of the commit", ref).Because("ambiguous")
}

// Version returns a compiled version: see Resolve. It asks nobody's permission.
func (s *Service) Version(ctx context.Context, ref string) (*Template, error) {
	if t := s.kept(ref); t != nil {
		return t, nil
	}
	o, err := s.Resolve(ctx, ref)
	if err != nil {
		return nil, err
	}
	if t := s.kept(o.ID); t != nil {
		return t, nil
	}
	var sum Summary
	if err := json.Unmarshal(o.Spec, &sum); err != nil {
		return nil, fault.New(fault.Internal, "cannot read %s: %w", o.Ref, err)
	}
	tree, err := s.tree(ctx, sum)
	if err != nil {
		return nil, err
	}
	t, err := Parse(ctx, tree, sum.Source, s.around(sum.Pins))
	if err != nil {
		return nil, fmt.Errorf("template %s cannot be used any more: %w", o.ID, err)
	}
	s.keep(o.ID, t)
	return t, nil
}

// around is what versions are read against: with those that they were first read
// with, whatever has been added since.
func (s *Service) around(pins map[string]string) Surroundings {
	return Surroundings{Executors: s.Executors, Template: func(ctx context.Context, ref string) (*Template, string, error) {
		if id := pins[ref]; id != "" {
			ref = id
		}
		t, err := s.Version(ctx, ref)
		if err != nil {
			return nil, "", err
		}
		return t, t.ID(), nil
	}}
}

// onlyVisible finds the templates that the caller sees as parts, and those within
// them.
func (s *Service) onlyVisible(find func(context.Context, string) (*Template, string, error)) func(context.Context, string) (*Template, string, error) {
	return func(ctx context.Context, ref string) (*Template, string, error) {
		o, err := s.Resolve(ctx, ref)
		if err == nil && !Visible(access.From(ctx), o) {
			err = fault.New(fault.NotFound, "there is no template %.128q", ref)
		}
		if err != nil {
			return nil, "", err
		}
		return find(ctx, ref)
	}
}

// kept returns a version that is compiled already, by its id.
func (s *Service) kept(id string) *Template {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.made[id]
	if t != nil {
		s.use(id)
	}
	return t
}

func (s *Service) keep(id string, t *Template) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made[id] = t
	s.use(id)
	for len(s.recent) > s.Keep {
		delete(s.made, s.recent[0])
		s.recent = s.recent[1:]
	}
}

// use makes an id the last used; the lock is held.
func (s *Service) use(id string) {
	if i := slices.Index(s.recent, id); i >= 0 {
		s.recent = slices.Delete(s.recent, i, i+1)
	}
	s.recent = append(s.recent, id)
}

// Tree returns the files of a version by its id. Faults: NotFound.
func (s *Service) Tree(ctx context.Context, id string) (source.Tree, error) {
	o, err := s.Resolve(ctx, id)
	if err != nil {
		return source.Tree{}, err
	}
	var sum Summary
	if err := json.Unmarshal(o.Spec, &sum); err != nil {
		return source.Tree{}, fault.New(fault.Internal, "cannot read %s: %w", o.Ref, err)
	}
	return s.tree(ctx, sum)
}
