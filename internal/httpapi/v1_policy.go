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
	"github.com/droverhq/drover/internal/policy"
)

// PolicyWriter changes who may use what.
type PolicyWriter interface {
	// ApplyOne brings a document of a kind into force, and tells whether that
	// changed anything.
	ApplyOne(ctx context.Context, kind, source string, data []byte) (ledger.Object, bool, error)
	Delete(ctx context.Context, kind, name string) (ledger.Object, error)
	// Accept records that the caller accepts terms, and tells whether that is new.
	Accept(ctx context.Context, who access.Principal, terms, version string) (ledger.Object, bool, error)
}

// policies are the resources that operators apply documents of.
var policies = map[string]string{
	"quotas": policy.KindQuota.Name, "denylists": policy.KindDenyList.Name,
	"accesslists": policy.KindAccessList.Name, "terms": policy.KindTerms.Name,
}

type acceptInput struct {
	ID   string `path:"id" maxLength:"256" doc:"Name of the terms"`
	Body *v1.Accept
}

func (o *own) routesPolicy() {
	tags := []string{"policies"}
	for _, r := range fixed {
		kind, ok := policies[r.Name]
		if !ok {
			continue
		}
		o.raw(huma.Operation{
			OperationID: "apply-" + r.Kind, Method: http.MethodPut, Path: "/api/v1/" + r.Name, Tags: tags,
			Summary:     "Bring a document into force, in place of the one of its name; operators only",
			Description: "A broken one changes nothing, and the answer names all its mistakes with their lines. The same document again changes nothing either.",
			RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
				"application/yaml": {Schema: &huma.Schema{Type: "string"}},
				"application/json": {Schema: &huma.Schema{Type: "object"}},
			}},
			Responses: map[string]*huma.Response{"200": {Description: "The document as it is now", Content: o.content("application/json", v1.Object{})}},
		}, func(w http.ResponseWriter, r *http.Request) { o.applyPolicy(w, r, kind) })
		huma.Register(o.api, huma.Operation{
			OperationID: "delete-" + r.Kind, Method: http.MethodDelete, Path: "/api/v1/" + r.Name + "/{id}", Tags: tags,
			Summary: "Take a document out of force; operators only", DefaultStatus: http.StatusOK,
		}, func(ctx context.Context, in *struct {
			ID string `path:"id" maxLength:"256" doc:"Name of the document"`
		}) (*body[v1.Object], error) {
			if err := o.mayWritePolicies(ctx); err != nil {
				return nil, err
			}
			gone, err := o.PolicyWriter.Delete(ctx, kind, in.ID)
			if err != nil {
				return nil, err
			}
			return &body[v1.Object]{wire(&gone, o.Offerings, access.From(ctx))}, nil
		})
	}
	huma.Register(o.api, huma.Operation{
		OperationID: "accept-terms", Method: http.MethodPost, Path: "/api/v1/terms/{id}/accept", Tags: tags,
		Summary: "Accept terms, in the caller's own name", DefaultStatus: http.StatusOK, MaxBodyBytes: -1,
		Description: "Answers with the acceptance; GET /api/v1/acceptances lists the caller's. Accepting again changes nothing.",
	}, o.acceptTerms)
}

func (o *own) mayWritePolicies(ctx context.Context) error {
	switch {
	case !access.From(ctx).Admin:
		return fault.New(fault.Denied, "only an operator may change policies")
	case o.PolicyWriter == nil:
		return fault.New(fault.NotFound, "policies cannot be changed on this server")
	}
	return nil
}

func (o *own) applyPolicy(w http.ResponseWriter, r *http.Request, kind string) {
	ctx := r.Context()
	if err := o.mayWritePolicies(ctx); err != nil {
		o.fail(w, r, err)
		return
	}
	data, err := io.ReadAll(r.Body)
	if err != nil {
		o.fail(w, r, unreadable(err))
		return
	}
	made, _, err := o.PolicyWriter.ApplyOne(ctx, kind, "request", data)
	if err != nil {
		o.fail(w, r, err)
		return
	}
	writeJSON(w, http.StatusOK, wire(&made, o.Offerings, access.From(ctx)))
}

func (o *own) acceptTerms(ctx context.Context, in *acceptInput) (*body[v1.Object], error) {
	if o.PolicyWriter == nil {
		return nil, fault.New(fault.NotFound, "there are no terms on this server")
	}
	version := ""
	if in.Body != nil {
		version = in.Body.Version
	}
	who := access.From(ctx)
	made, _, err := o.PolicyWriter.Accept(ctx, who, in.ID, version)
	if err != nil {
		return nil, err
	}
	return &body[v1.Object]{wire(&made, o.Offerings, who)}, nil
}
