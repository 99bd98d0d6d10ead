package httpapi

import (
	"context"
	"net/http"
	"regexp"

	"github.com/danielgtaylor/huma/v2"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/fault"
)

var clusterName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

func (o *own) routesCluster() {
	huma.Register(o.api, huma.Operation{
		OperationID: "register-cluster", Method: http.MethodPost, Path: "/api/v1/clusters", Tags: []string{"operator"},
		Summary:       "Make a data plane known, so that its agent may connect; operators only",
		DefaultStatus: http.StatusCreated, MaxBodyBytes: -1,
		Description: "An existing cluster is left as it is. Have a token signed for its agent with POST /api/v1/tokens.",
	}, o.registerCluster)
	huma.Register(o.api, huma.Operation{
		OperationID: "update-cluster", Method: http.MethodPatch, Path: "/api/v1/clusters/{id}", Tags: []string{"operator"},
		Summary: "Hand a data plane over to another installation of its agent; operators only", MaxBodyBytes: -1,
		Description: "A cluster belongs to the first agent installation that connects, and every other one is refused. " +
			"Stop the old agent and what it runs before you hand its cluster over: it is no longer told anything, but nobody stops it.",
	}, o.updateCluster)
}

func (o *own) registerCluster(ctx context.Context, in *body[v1.CreateCluster]) (*body[v1.Object], error) {
	if !access.From(ctx).Admin {
		return nil, fault.New(fault.Denied, "only an operator may register clusters")
	}
	b := in.Body
	if !clusterName.MatchString(b.Name) {
		return nil, fault.New(fault.Invalid, "a cluster's name has 1 to 63 lower-case letters, digits and dashes").Because("name-invalid")
	}
	if b.Provider == "" || b.Region == "" {
		return nil, fault.New(fault.Invalid, "a cluster needs a provider and a region: instances are placed by them (drover create cluster NAME --provider P --region R)").Because("field")
	}
	c, err := o.Clusters.Register(ctx, b.Name, cluster.Spec{Provider: b.Provider, Region: b.Region})
	if err != nil {
		return nil, err
	}
	return &body[v1.Object]{wire(&c, o.names(), access.From(ctx))}, nil
}

type clusterInput struct {
	ID   string `path:"id" doc:"Id of the cluster" maxLength:"256"`
	Body v1.UpdateCluster
}

func (o *own) updateCluster(ctx context.Context, in *clusterInput) (*body[v1.Object], error) {
	if !access.From(ctx).Admin {
		return nil, fault.New(fault.Denied, "only an operator may change clusters")
	}
	if in.Body.Installation == nil {
		return nil, fault.New(fault.Invalid, "nothing to change: a cluster has an installation that can be set").Because("field")
	}
	if !identity(*in.Body.Installation) {
		return nil, fault.New(fault.Invalid, badIdentity).Because("field")
	}
	if !clusterName.MatchString(in.ID) {
		return nil, fault.New(fault.NotFound, "there is no cluster %.64q", in.ID)
	}
	c, err := o.Clusters.HandOver(ctx, in.ID, *in.Body.Installation)
	if err != nil {
		return nil, err
	}
	return &body[v1.Object]{wire(&c, o.names(), access.From(ctx))}, nil
}
