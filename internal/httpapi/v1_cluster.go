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
	"github.com/droverhq/drover/internal/ledger"
)

var clusterName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// maxKubeconfig is more than any has that names one cluster.
const maxKubeconfig = 64 << 10

type clusterPath struct {
	ID string `path:"id" doc:"Id of the cluster" maxLength:"256"`
}

type clusterInput struct {
	ID   string `path:"id" doc:"Id of the cluster" maxLength:"256"`
	Body v1.UpdateCluster
}

type drainInput struct {
	ID   string `path:"id" doc:"Id of the cluster" maxLength:"256"`
	Body *v1.DrainCluster
}

type abandonInput struct {
	ID   string `path:"id" doc:"Id of the cluster" maxLength:"256"`
	Body v1.AbandonCluster
}

// answered is accepted with a status of its own.
type answered struct {
	Status    int
	Operation string `header:"Drover-Operation" doc:"Id of the operation that tells how the work goes, if there is work"`
	Warning   string `header:"Drover-Warning" doc:"What people should know about what they asked for, if anything"`
	Body      v1.Object
}

// warningHeader is for people: it was done as they said, and may not be what they meant.
const warningHeader = "Drover-Warning"

func (o *own) routesCluster() {
	tags := []string{"operator"}
	huma.Register(o.api, huma.Operation{
		OperationID: "register-cluster", Method: http.MethodPost, Path: "/api/v1/clusters", Tags: tags,
		Summary:       "Make a data plane, or make one known that is there, so that its agent may connect; operators only",
		DefaultStatus: http.StatusCreated, MaxBodyBytes: -1,
		Description: "With a profile the cluster is made, and with a kubeconfig it is made fit from here: both answer 202 with an operation, and refuse a name that is taken. " +
			"Without, only its agent reaches it, and an existing cluster is left as it is. Have a token signed for its agent with POST /api/v1/tokens.",
		Responses: map[string]*huma.Response{ // with two of its own, the one for errors does not come by itself
			"202":     {Description: "Accepted", Content: o.content("application/json", v1.Object{})},
			"default": {Description: "Error", Content: o.content("application/json", v1.Error{})},
		},
	}, o.registerCluster)
	huma.Register(o.api, huma.Operation{
		OperationID: "update-cluster", Method: http.MethodPatch, Path: "/api/v1/clusters/{id}", Tags: tags,
		Summary: "Change what may be placed on a data plane, or hand it over to another installation of its agent; operators only", MaxBodyBytes: -1,
		Description: "A cluster belongs to the first agent installation that connects, and every other one is refused. " +
			"Stop the old agent and what it runs before you hand its cluster over: it is no longer told anything, but nobody stops it.",
	}, o.updateCluster)
	huma.Register(o.api, huma.Operation{
		OperationID: "drain-cluster", Method: http.MethodPost, Path: "/api/v1/clusters/{id}/drain", Tags: tags,
		Summary: "Let a data plane take no new orders, and wait until it is empty; operators only", DefaultStatus: http.StatusAccepted, MaxBodyBytes: -1,
		Description: "Instances whose offering says placement.movable are made anew elsewhere and removed here once they are ready there, a few at a time. While there are others it is refused with their names, unless force says that they are to end where they are. The operation ends when the cluster is empty.",
	}, o.drainCluster)
	huma.Register(o.api, huma.Operation{
		OperationID: "undrain-cluster", Method: http.MethodPost, Path: "/api/v1/clusters/{id}/undrain", Tags: tags,
		Summary: "Let a data plane take orders again; operators only", DefaultStatus: http.StatusOK,
	}, func(ctx context.Context, in *clusterPath) (*body[v1.Object], error) {
		if err := o.mayChangeCluster(ctx, in.ID); err != nil {
			return nil, err
		}
		c, err := o.Clusters.Undrain(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		return &body[v1.Object]{wire(&c, o.Offerings, access.From(ctx))}, nil
	})
	huma.Register(o.api, huma.Operation{
		OperationID: "abandon-cluster", Method: http.MethodPost, Path: "/api/v1/clusters/{id}/abandon", Tags: tags,
		Summary: "Give a data plane up that is lost for good; operators only", DefaultStatus: http.StatusAccepted, MaxBodyBytes: -1,
		Description: "Its instances are failed with the reason, hold no room, and can be deleted without its agent's word; an agent that returns is told to remove those that were, and is refused otherwise. " +
			"It is refused while the agent is connected. There is no way back. The operation ends when all instances are marked; delete the cluster when they are gone.",
	}, func(ctx context.Context, in *abandonInput) (*accepted, error) {
		if err := o.mayChangeCluster(ctx, in.ID); err != nil {
			return nil, err
		}
		c, err := o.Clusters.Abandon(ctx, in.ID, in.Body.Reason, in.Body.Destroy)
		return o.acceptCluster(ctx, c, err)
	})
	huma.Register(o.api, huma.Operation{
		OperationID: "delete-cluster", Method: http.MethodDelete, Path: "/api/v1/clusters/{id}", Tags: tags,
		Summary: "Take a data plane away on which nothing runs; operators only", DefaultStatus: http.StatusAccepted,
		Description: "What made it removes it; one that was there before only leaves the fleet. It is refused while instances run there. Asking twice changes nothing.",
	}, func(ctx context.Context, in *clusterPath) (*accepted, error) {
		if err := o.mayChangeCluster(ctx, in.ID); err != nil {
			return nil, err
		}
		c, err := o.Clusters.Delete(ctx, in.ID)
		return o.acceptCluster(ctx, c, err)
	})
}

func (o *own) mayChangeCluster(ctx context.Context, id string) error {
	switch {
	case !access.From(ctx).Admin:
		return fault.New(fault.Denied, "only an operator may change clusters")
	case !clusterName.MatchString(id):
		return fault.New(fault.NotFound, "there is no cluster %.64q", id)
	}
	return nil
}

func (o *own) acceptCluster(ctx context.Context, c ledger.Object, err error) (*accepted, error) {
	if err != nil {
		return nil, err
	}
	_, status, err := cluster.Decode(c)
	if err != nil {
		return nil, err
	}
	return &accepted{Operation: status.Operation, Body: wire(&c, o.Offerings, access.From(ctx))}, nil
}

func (o *own) registerCluster(ctx context.Context, in *body[v1.CreateCluster]) (*answered, error) {
	if !access.From(ctx).Admin {
		return nil, fault.New(fault.Denied, "only an operator may register clusters")
	}
	b := in.Body
	if !clusterName.MatchString(b.Name) {
		return nil, fault.New(fault.Invalid, "a cluster's name has 1 to 63 lower-case letters, digits and dashes").Because("name-invalid")
	}
	if len(b.Kubeconfig) > maxKubeconfig {
		return nil, fault.New(fault.Invalid, "a kubeconfig has at most %d KiB; make it smaller with kubectl config view --flatten --minify --raw", maxKubeconfig>>10).Because("field")
	}
	if b.Profile == "" && (b.Provider == "" || b.Region == "") {
		return nil, fault.New(fault.Invalid, "a cluster needs a provider and a region: instances are placed by them (drover create cluster NAME --provider P --region R)").Because("field")
	}
	want := cluster.Request{
		ID: b.Name, Profile: b.Profile, Provider: b.Provider, Region: b.Region, Domain: b.Domain,
		Labels: b.Labels, Taints: b.Taints, Limit: b.Limit,
	}
	if b.Kubeconfig != "" {
		want.Kubeconfig = []byte(b.Kubeconfig)
	}
	status, make := http.StatusCreated, o.Clusters.Enlist
	if b.Profile != "" || b.Kubeconfig != "" {
		status, make = http.StatusAccepted, o.Clusters.Create
	}
	c, err := make(ctx, want)
	out, err := o.acceptCluster(ctx, c, err)
	if err != nil {
		return nil, err
	}
	return &answered{Status: status, Operation: out.Operation, Warning: o.Clusters.Unsold(c), Body: out.Body}, nil
}

func (o *own) updateCluster(ctx context.Context, in *clusterInput) (*body[v1.Object], error) {
	if !access.From(ctx).Admin {
		return nil, fault.New(fault.Denied, "only an operator may change clusters")
	}
	b := in.Body
	edits := len(b.Labels) > 0 || b.Taints != nil || b.Limit != nil || b.Schedulable != nil
	if b.Installation == nil && !edits {
		return nil, fault.New(fault.Invalid, "nothing to change: a cluster has labels, taints, limit, schedulable and an installation that can be set").Because("field")
	}
	if b.Installation != nil && !identity(*b.Installation) {
		return nil, fault.New(fault.Invalid, badIdentity).Because("field")
	}
	if err := o.mayChangeCluster(ctx, in.ID); err != nil {
		return nil, err
	}
	var c ledger.Object
	var err error
	if edits {
		c, err = o.Clusters.Update(ctx, in.ID, editOf(b))
	}
	if err == nil && b.Installation != nil {
		c, err = o.Clusters.HandOver(ctx, in.ID, *b.Installation)
	}
	if err != nil {
		return nil, err
	}
	return &body[v1.Object]{wire(&c, o.Offerings, access.From(ctx))}, nil
}

func editOf(b v1.UpdateCluster) cluster.Edit {
	e := cluster.Edit{Taints: b.Taints, Schedulable: b.Schedulable}
	for key, value := range b.Labels {
		if e.Labels == nil {
			e.Labels = map[string]*string{}
		}
		if e.Labels[key] = nil; value != "" {
			e.Labels[key] = &value
		}
	}
	if b.Limit != nil {
		limit := b.Limit
		if *limit < 0 {
			limit = nil
		}
		e.Limit = &limit
	}
	return e
}

func (o *own) drainCluster(ctx context.Context, in *drainInput) (*accepted, error) {
	if err := o.mayChangeCluster(ctx, in.ID); err != nil {
		return nil, err
	}
	c, err := o.Clusters.Drain(ctx, in.ID, in.Body != nil && in.Body.Force)
	return o.acceptCluster(ctx, c, err)
}
