package httpapi

import (
	"context"
	"io"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
)

func (o *own) routesProfile() {
	tags := []string{"operator"}
	o.raw(huma.Operation{
		OperationID: "apply-profile", Method: http.MethodPut, Path: "/api/v1/profiles", Tags: tags,
		Summary: "Bring a profile of clusters into force, in place of the one of its name; operators only",
		Description: "A broken one changes nothing, and the answer names all its mistakes with their lines. The same document again changes nothing either. " +
			"Clusters that were made from it are made fit anew.",
		RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
			"application/yaml": {Schema: &huma.Schema{Type: "string"}},
			"application/json": {Schema: &huma.Schema{Type: "object"}},
		}},
		Responses: map[string]*huma.Response{"200": {Description: "The profile as it is now", Content: o.content("application/json", v1.Object{})}},
	}, o.applyProfile)
	huma.Register(o.api, huma.Operation{
		OperationID: "delete-profile", Method: http.MethodDelete, Path: "/api/v1/profiles/{id}", Tags: tags,
		Summary: "Take a profile out of force; operators only", DefaultStatus: http.StatusOK,
		Description: "No cluster goes: those that were made from it keep what they have.",
	}, func(ctx context.Context, in *struct {
		ID string `path:"id" maxLength:"256" doc:"Name of the profile"`
	}) (*body[v1.Object], error) {
		if !access.From(ctx).Admin {
			return nil, fault.New(fault.Denied, "only an operator may change profiles")
		}
		gone, err := o.Clusters.DeleteProfile(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return &body[v1.Object]{wire(&gone, o.Offerings, access.From(ctx))}, nil
	})
}

func (o *own) applyProfile(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	if !access.From(ctx).Admin {
		o.fail(w, r, fault.New(fault.Denied, "only an operator may change profiles"))
		return
	}
	data, err := io.ReadAll(r.Body)
	if err != nil {
		o.fail(w, r, unreadable(err))
		return
	}
	made, _, err := o.Clusters.ApplyProfile(ctx, "request", data)
	if err != nil {
		o.fail(w, r, err)
		return
	}
	if warning := o.Clusters.Unsold(made); warning != "" {
		w.Header().Set(warningHeader, warning)
	}
	writeJSON(w, http.StatusOK, wire(&made, o.Offerings, access.From(ctx)))
}
