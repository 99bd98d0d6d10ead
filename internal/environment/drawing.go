package environment

import (
	"context"
	"strings"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/template"
)

// Drawings are the templates of the template room.
type Drawings struct{ *template.Service }

// Blueprint implements Templates.
func (d Drawings) Blueprint(ctx context.Context, ref string) (Blueprint, error) {
	t, err := d.Version(ctx, ref)
	if err != nil {
		return nil, err
	}
	return drawing{t}, nil
}

// Files implements Templates. A part of the same repository has its files there.
func (d Drawings) Files(ctx context.Context, version, part string) (map[string][]byte, error) {
	t, err := d.Version(ctx, version)
	if err != nil {
		return nil, err
	}
	if part != "" && part != t.Ref() {
		name, _, _ := strings.Cut(part, "@")
		for _, id := range t.Pins {
			if of, _, _ := strings.Cut(id, "@"); of == name {
				version = id
			}
		}
	}
	tree, err := d.Tree(ctx, version)
	if err != nil {
		return nil, err
	}
	out := make(map[string][]byte, len(tree.Files))
	for path, f := range tree.Files {
		out[path] = f.Data
	}
	return out, nil
}

// drawing is a template as a Blueprint.
type drawing struct{ *template.Template }

func (d drawing) About() About {
	return About{ID: d.ID(), Name: d.Metadata.Name, Version: d.Spec.Version, Spec: d.Spec}
}

func (d drawing) Check(parameters map[string]any) (map[string]any, error) {
	return d.Validate(parameters)
}

func (d drawing) Expand(ctx context.Context, given template.Given) (Layout, error) {
	l, err := d.Template.Expand(ctx, given)
	if err != nil {
		return nil, err
	}
	return drawn{l}, nil
}

func (d drawing) Judge(ctx context.Context, plan Plan, changes []PlannedChange) ([]Verdict, error) {
	var counts PlanStatus
	counts.count(changes)
	facts := make([]template.ChangeFacts, len(changes))
	for i, c := range changes {
		facts[i] = template.ChangeFacts{Address: c.Address, Executor: c.Executor, Action: string(c.Action), Group: c.Group, Tags: c.Tags}
	}
	found, err := d.Template.Judge(ctx, template.PlanFacts{
		Environment: plan.Spec.Environment, Org: plan.Org, Owner: plan.Owner, Tags: plan.Spec.Tags,
		Creates: counts.Creates, Changes: counts.Updates, Replaces: counts.Replaces, Destroys: counts.Destroys,
	}, facts)
	out := make([]Verdict, len(found))
	for i, v := range found {
		out[i] = Verdict(v)
	}
	return out, err
}

func (d drawing) May(verb, action string, who access.Principal, org, owner string) bool {
	return d.Spec.Permissions.May(verb, action, who, org, owner)
}

// drawn is a template's layout as a Layout.
type drawn struct{ *template.Layout }

func (d drawn) Nodes() []template.Node  { return d.Layout.Nodes }
func (d drawn) Groups() []template.Part { return d.Layout.Groups }

// files are those of the template that a resource is said in, read when they are
// asked for.
func (s *Service) files(version, part string) func(context.Context) (map[string][]byte, error) {
	return func(ctx context.Context) (map[string][]byte, error) { return s.Templates.Files(ctx, version, part) }
}
