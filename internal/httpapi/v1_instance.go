package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/offering"
)

// accepted answers a change whose work is done after the answer.
type accepted struct {
	Operation string `header:"Drover-Operation" doc:"Id of the operation that tells how the work goes"`
	Body      v1.Object
}

type createInput struct {
	ResourcePath
	Body v1.CreateInstance
}

type updateInput struct {
	ObjectPath
	Body v1.UpdateInstance
}

type promoteInput struct {
	ObjectPath
	Body v1.Promote
}

func (o *own) routesInstance() {
	tags := []string{"instances"}
	huma.Register(o.api, huma.Operation{
		OperationID: "create-instance", Method: http.MethodPost, Path: "/api/v1/{resource}", Tags: tags,
		Summary: "Order an instance of an offering", DefaultStatus: http.StatusAccepted, MaxBodyBytes: -1,
	}, o.createInstance)
	huma.Register(o.api, huma.Operation{
		OperationID: "update-instance", Method: http.MethodPatch, Path: "/api/v1/{resource}/{id}", Tags: tags,
		Summary: "Change what is wanted of an instance: parameters, owner, versions, suspended", DefaultStatus: http.StatusAccepted, MaxBodyBytes: -1,
	}, o.updateInstance)
	huma.Register(o.api, huma.Operation{
		OperationID: "delete-instance", Method: http.MethodDelete, Path: "/api/v1/{resource}/{id}", Tags: tags,
		Summary: "Ask for the end of an instance", DefaultStatus: http.StatusAccepted,
		Description: "The instance is gone when its data plane has said so. Asking twice changes nothing.",
	}, o.deleteInstance)
	huma.Register(o.api, huma.Operation{
		OperationID: "promote-instance", Method: http.MethodPost, Path: "/api/v1/{resource}/{id}/promote", Tags: tags,
		Summary: "Move an instance to another billing model while it runs", DefaultStatus: http.StatusAccepted, MaxBodyBytes: -1,
		Description: "The new quota is taken and the old one given back in one step. status.promotion tells how it goes: promoting, then nothing, or failed with promotion_details.",
	}, o.promoteInstance)
}

// sold returns the offering whose instances a resource is.
func (o *own) sold(name string) (*offering.Offering, error) {
	r, err := o.resource(name)
	if err != nil {
		return nil, err
	}
	if r.Offering == "" {
		return nil, fault.New(fault.Invalid, "%s cannot be ordered or changed like this; name the resource of an offering", r.Name).Because("method")
	}
	off, ok := o.Offerings.Get(r.Offering)
	if !ok {
		return nil, fault.New(fault.NotFound, "offering %q is gone", r.Offering)
	}
	return off, nil
}

func (o *own) createInstance(ctx context.Context, in *createInput) (*accepted, error) {
	off, err := o.sold(in.Resource)
	if err != nil {
		return nil, err
	}
	b := in.Body
	made, err := o.Instances.Create(ctx, off, instance.Create{
		Name: b.Name, Provider: b.Provider, Region: b.Region, MultiAZ: b.MultiAZ, Plan: b.Plan, Version: b.Version, Parameters: b.Parameters,
		Billing: instance.Billing{Model: b.BillingModel, Marketplace: b.Marketplace, Account: b.BillingAccount}, Cluster: b.Cluster,
	})
	return o.accept(ctx, made, err)
}

func (o *own) updateInstance(ctx context.Context, in *updateInput) (*accepted, error) {
	off, err := o.sold(in.Resource)
	if err != nil {
		return nil, err
	}
	b := in.Body
	made, err := o.Instances.Update(ctx, off.Metadata.Name, in.ID, instance.Update{
		Owner: b.Owner, Version: b.Version, Versions: b.Versions, Suspended: b.Suspended, Parameters: b.Parameters,
	})
	return o.accept(ctx, made, err)
}

func (o *own) promoteInstance(ctx context.Context, in *promoteInput) (*accepted, error) {
	off, err := o.sold(in.Resource)
	if err != nil {
		return nil, err
	}
	if in.Body.BillingModel == "" {
		return nil, fault.New(fault.Invalid, "billing_model is needed: the one to move to").Because("billing")
	}
	if !plainName(in.ID) {
		return nil, fault.New(fault.NotFound, "an id is short, plain text")
	}
	made, err := o.Instances.Promote(ctx, off.Metadata.Name, in.ID, instance.Billing{
		Model: in.Body.BillingModel, Marketplace: in.Body.Marketplace, Account: in.Body.BillingAccount,
	})
	return o.accept(ctx, made, err)
}

func (o *own) deleteInstance(ctx context.Context, in *ObjectPath) (*accepted, error) {
	off, err := o.sold(in.Resource)
	if err != nil {
		return nil, err
	}
	made, err := o.Instances.Delete(ctx, off.Metadata.Name, in.ID)
	return o.accept(ctx, made, err)
}

func (o *own) accept(ctx context.Context, made ledger.Object, err error) (*accepted, error) {
	if err != nil {
		return nil, err
	}
	in, err := instance.Decode(made)
	if err != nil {
		return nil, err
	}
	return &accepted{Operation: in.Status.Operation, Body: wire(&made, o.Offerings, access.From(ctx))}, nil
}
