package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/breaker"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// Approvals decides about removals that wait. Every verb is for operators, whom
// it finds in the context.
type Approvals interface {
	Approve(ctx context.Context, id string, allow breaker.Allow) (ledger.Object, error)
	Refuse(ctx context.Context, id string) (ledger.Object, error)
}

type approveInput struct {
	ID   string `path:"id" maxLength:"256" doc:"Id of the approval"`
	Body *v1.Approve
}

type refuseInput struct {
	ID string `path:"id" maxLength:"256" doc:"Id of the approval"`
}

func (o *own) routesApproval() {
	tags := []string{"operator"}
	huma.Register(o.api, huma.Operation{
		OperationID: "approve", Method: http.MethodPost, Path: "/api/v1/approvals/{id}/approve", Tags: tags,
		Summary: "Let removals go that wait; operators only", DefaultStatus: http.StatusOK, MaxBodyBytes: -1,
		Description: "A rule that would take more than a set share of a scope within an hour waits for this. " +
			"What is approved of one version of a rule does not hold for the next.",
	}, o.approveRemovals)
	huma.Register(o.api, huma.Operation{
		OperationID: "refuse", Method: http.MethodPost, Path: "/api/v1/approvals/{id}/refuse", Tags: tags,
		Summary: "Keep what waits to be removed until the rule changes; operators only", DefaultStatus: http.StatusOK,
	}, o.refuseRemovals)
}

func (o *own) approveRemovals(ctx context.Context, in *approveInput) (*body[v1.Object], error) {
	if err := o.mayDecide(ctx, in.ID); err != nil {
		return nil, err
	}
	var allow breaker.Allow
	if b := in.Body; b != nil {
		allow.Count = b.Count
		if b.For != "" {
			var err error
			if allow.For, err = time.ParseDuration(b.For); err != nil || allow.For <= 0 {
				return nil, fault.New(fault.Invalid, "for is a duration such as 1h30m").Because("field")
			}
		}
	}
	return o.decided(ctx)(o.Approvals.Approve(ctx, in.ID, allow))
}

func (o *own) refuseRemovals(ctx context.Context, in *refuseInput) (*body[v1.Object], error) {
	if err := o.mayDecide(ctx, in.ID); err != nil {
		return nil, err
	}
	return o.decided(ctx)(o.Approvals.Refuse(ctx, in.ID))
}

func (o *own) mayDecide(ctx context.Context, id string) error {
	switch {
	case !access.From(ctx).Admin:
		return fault.New(fault.Denied, "only an operator may decide about removals")
	case o.Approvals == nil || !plainName(id):
		return fault.New(fault.NotFound, "there is no such approval")
	}
	traceOf(ctx).about = plainText("approval "+id, maxText)
	return nil
}

func (o *own) decided(ctx context.Context) func(ledger.Object, error) (*body[v1.Object], error) {
	return func(a ledger.Object, err error) (*body[v1.Object], error) {
		if err != nil {
			return nil, err
		}
		return &body[v1.Object]{wire(&a, o.Offerings, access.From(ctx))}, nil
	}
}
