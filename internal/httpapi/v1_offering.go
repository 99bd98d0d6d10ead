package httpapi

import (
	"context"
	"io"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// OfferingWriter brings offerings into force and takes them out of it.
type OfferingWriter interface {
	// Apply tells whether anything changed.
	Apply(ctx context.Context, source string, data []byte) (ledger.Object, bool, error)
	Delete(ctx context.Context, name string) (ledger.Object, error)
}

func (o *own) routesOffering() {
	tags := []string{"offerings"}
	for _, method := range []string{http.MethodPut, http.MethodPost} {
		o.raw(huma.Operation{
			OperationID: map[string]string{"PUT": "apply-offering", "POST": "post-offering"}[method],
			Method:      method, Path: "/api/v1/offerings", Tags: tags,
			Summary:     "Bring an offering into force, in place of the one of its name; operators only",
			Description: "The body is the offering's file. A broken one changes nothing, and the answer names all its mistakes with their lines.",
			RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
				"application/yaml": {Schema: &huma.Schema{Type: "string"}},
				"application/json": {Schema: &huma.Schema{Type: "object"}},
			}},
			Responses: map[string]*huma.Response{"200": {Description: "The offering as it is now", Content: o.content("application/json", v1.Object{})}},
		}, o.applyOffering)
	}
	huma.Register(o.api, huma.Operation{
		OperationID: "delete-offering", Method: http.MethodDelete, Path: "/api/v1/offerings/{id}", Tags: tags,
		Summary: "Take an offering out of force; operators only", DefaultStatus: http.StatusAccepted,
		Description: "Refused while it has instances.",
	}, func(ctx context.Context, in *struct {
		ID string `path:"id" maxLength:"256" doc:"Name of the offering"`
	}) (*body[v1.Object], error) {
		if err := o.mayWriteOfferings(ctx); err != nil {
			return nil, err
		}
		gone, err := o.OfferingWriter.Delete(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return &body[v1.Object]{wire(&gone, o.Offerings, access.From(ctx))}, nil
	})
}

func (o *own) mayWriteOfferings(ctx context.Context) error {
	switch {
	case !access.From(ctx).Admin:
		return fault.New(fault.Denied, "only an operator may change offerings")
	case o.OfferingWriter == nil:
		return fault.New(fault.NotFound, "offerings cannot be changed on this server")
	}
	return nil
}

func (o *own) applyOffering(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	if err := o.mayWriteOfferings(ctx); err != nil {
		o.fail(w, r, err)
		return
	}
	data, err := io.ReadAll(r.Body)
	if err != nil {
		o.fail(w, r, unreadable(err))
		return
	}
	made, _, err := o.OfferingWriter.Apply(ctx, "request", data)
	if err != nil {
		o.fail(w, r, err)
		return
	}
	writeJSON(w, http.StatusOK, wire(&made, o.Offerings, access.From(ctx)))
}
