package httpapi

import (
	"context"
	"maps"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/template"
)

// Templates keeps templates. Every verb is for operators, whom it finds in the
// context; everybody may have files looked at that come along.
type Templates interface {
	// Add reads a version and keeps it; it says whether it is new.
	Add(ctx context.Context, a template.Addition) (ledger.Object, bool, error)
	// Delete takes a template out of use with all its versions. Faults: Conflict
	// while an environment is made of it.
	Delete(ctx context.Context, name string) (ledger.Object, error)
}

func (o *own) routesTemplate() {
	o.routesExecutor()
	o.routesConnection()
	if o.Templates == nil {
		return
	}
	tags := []string{"environments"}
	huma.Register(o.api, huma.Operation{
		OperationID: "add-template", Method: http.MethodPost, Path: "/api/v1/templates", Tags: tags,
		Summary: "Bring a version of a template in, from a Git repository or with its files; operators only", DefaultStatus: http.StatusCreated, MaxBodyBytes: -1,
		Description: "A broken one changes nothing, and the answer names all its mistakes with file and line. Everybody may ask for that alone (dry_run) with the files. No environment changes: they are upgraded by a plan of their own.",
	}, o.addTemplate)
	huma.Register(o.api, huma.Operation{
		OperationID: "delete-template", Method: http.MethodDelete, Path: "/api/v1/templates/{id}", Tags: tags,
		Summary: "Take a template out of use that no environment is made of; operators only", DefaultStatus: http.StatusOK,
	}, func(ctx context.Context, in *struct {
		ID string `path:"id" maxLength:"256" doc:"Name of the template"`
	}) (*body[v1.Object], error) {
		if !access.From(ctx).Admin {
			return nil, fault.New(fault.Denied, "only an operator may change templates")
		}
		gone, err := o.Templates.Delete(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return &body[v1.Object]{wire(&gone, o.Offerings, access.From(ctx))}, nil
	})
}

func (o *own) routesExecutor() {
	if o.Environments == nil {
		return
	}
	huma.Register(o.api, huma.Operation{
		OperationID: "list-executors", Method: http.MethodGet, Path: "/api/v1/executors", Tags: []string{"environments"},
		Summary: "What resources of a template are made by: what each takes and gives",
	}, func(context.Context, *struct{}) (*body[v1.Executors], error) {
		all := o.Environments.Executors
		out := v1.Executors{Items: make([]v1.Executor, 0, len(all))}
		for _, name := range slices.Sorted(maps.Keys(all)) {
			d := all[name].Describe()
			e := v1.Executor{Name: name, Summary: d.Summary, Inputs: d.Inputs, Open: d.Open, Connects: d.Connects, Outputs: make([]v1.ExecutorOutput, 0, len(d.Outputs))}
			for _, output := range slices.Sorted(maps.Keys(d.Outputs)) {
				given := d.Outputs[output]
				e.Outputs = append(e.Outputs, v1.ExecutorOutput{Name: output, Type: given.Type.String(), Secret: given.Secret, Summary: given.Summary})
			}
			out.Items = append(out.Items, e)
		}
		return &body[v1.Executors]{out}, nil
	})
}

func (o *own) addTemplate(ctx context.Context, in *body[v1.AddTemplate]) (*body[v1.TemplateVersion], error) {
	b := in.Body
	if !access.From(ctx).Admin && !b.DryRun {
		return nil, fault.New(fault.Denied, "only an operator may add templates")
	}
	if (b.Repository == "") == (len(b.Files) == 0) {
		return nil, fault.New(fault.Invalid, "name a repository, or send the files: one of the two").Because("body")
	}
	made, fresh, err := o.Templates.Add(ctx, template.Addition{
		Repository: b.Repository, Revision: b.Revision, Path: b.Path, Files: b.Files, Origin: b.Origin,
		Username: b.Username, Password: b.Password, SSHKey: []byte(b.SSHKey), KnownHosts: []byte(b.KnownHosts), DryRun: b.DryRun,
	})
	if err != nil {
		return nil, err
	}
	return &body[v1.TemplateVersion]{v1.TemplateVersion{Object: wire(&made, o.Offerings, access.From(ctx)), New: fresh}}, nil
}
