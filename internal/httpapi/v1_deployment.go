package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/ledger"
)

type deploymentPath struct {
	ID string `path:"id" doc:"Name or id of the deployment" maxLength:"256"`
}

type named[T any] struct {
	ID   string `path:"id" doc:"Name or id" maxLength:"256"`
	Body T
}

func (o *own) routesDeployment() {
	if o.Deployments == nil {
		return
	}
	op := func(id, method, path, summary, description string) huma.Operation {
		return huma.Operation{OperationID: id, Method: method, Path: "/api/v1" + path, Tags: []string{"deployments"},
			Summary: summary, Description: description, DefaultStatus: http.StatusAccepted, MaxBodyBytes: -1}
	}
	huma.Register(o.api, op("create-deployment", http.MethodPost, "/deployments", "Bring a directory of a Git repository to a namespace",
		"Argo CD makes it so where the cluster has one, the cluster's agent otherwise."), o.createDeployment)
	huma.Register(o.api, op("update-deployment", http.MethodPatch, "/deployments/{id}", "Change a deployment",
		"One that a custom resource asked for is changed there."), o.updateDeployment)
	huma.Register(o.api, op("delete-deployment", http.MethodDelete, "/deployments/{id}", "Remove a deployment with all that it has deployed", ""),
		func(ctx context.Context, in *deploymentPath) (*accepted, error) {
			return o.acceptDeployment(ctx)(o.Deployments.Delete(ctx, in.ID))
		})
	huma.Register(o.api, op("forget-deployment", http.MethodPost, "/deployments/{id}/forget", "Forget a deployment, and leave what it has deployed as it is",
		"For one whose agent may not remove it, too, while it is being deleted. It is gone when its agent has let go of it."),
		func(ctx context.Context, in *deploymentPath) (*accepted, error) {
			return o.acceptDeployment(ctx)(o.Deployments.Forget(ctx, in.ID))
		})
	huma.Register(o.api, op("sync-deployment", http.MethodPost, "/deployments/{id}/sync", "Ask for one sync of a manual deployment",
		"The answer is the sync run: runs of a deployment are carried out one after the other."),
		func(ctx context.Context, in *named[v1.SyncDeployment]) (*accepted, error) {
			run, operation, err := o.Deployments.Sync(ctx, in.ID, in.Body.Revision, in.Body.Prune)
			return o.acceptEnvironment(ctx)(run.Object, operation, err)
		})
	huma.Register(o.api, op("terminate-syncrun", http.MethodPost, "/syncruns/{id}/terminate", "End a sync run that waits or runs", ""),
		func(ctx context.Context, in *deploymentPath) (*accepted, error) {
			if err := o.Deployments.Terminate(ctx, in.ID); err != nil {
				return nil, err
			}
			r, _ := kindOf(gitops.KindSyncRun.Name)
			found, err := o.find(ctx, r, in.ID)
			return o.acceptEnvironment(ctx)(found, "", err)
		})
	huma.Register(o.api, op("refresh-deployment", http.MethodPost, "/deployments/{id}/refresh", "Have the repository looked at now", ""),
		func(ctx context.Context, in *deploymentPath) (*accepted, error) {
			if err := o.Deployments.Refresh(ctx, in.ID); err != nil {
				return nil, err
			}
			d, err := o.Deployments.Get(ctx, in.ID)
			return o.acceptDeployment(ctx)(d, "", err)
		})
	huma.Register(o.api, op("rollback-deployment", http.MethodPost, "/deployments/{id}/rollback", "Go back to an earlier revision",
		"The deployment stays there until its revision is changed again."),
		func(ctx context.Context, in *named[v1.RollbackDeployment]) (*accepted, error) {
			return o.acceptDeployment(ctx)(o.Deployments.Rollback(ctx, in.ID, in.Body.ID, in.Body.Revision))
		})
	status := op("get-deployment-status", http.MethodGet, "/deployments/{id}/status", "How a deployment is, with all its resources and its history", "")
	status.DefaultStatus = http.StatusOK
	huma.Register(o.api, status, o.deploymentStatus)
	o.routesRepository()
	o.routesPush()
}

func (o *own) acceptDeployment(ctx context.Context) func(gitops.Deployment, string, error) (*accepted, error) {
	return func(d gitops.Deployment, operation string, err error) (*accepted, error) {
		return o.acceptEnvironment(ctx)(d.Object, operation, err)
	}
}

func (o *own) createDeployment(ctx context.Context, in *body[v1.CreateDeployment]) (*accepted, error) {
	b := in.Body
	return o.acceptDeployment(ctx)(o.Deployments.Create(ctx, gitops.Order{
		Name: b.Name, Workspace: b.Workspace, Repository: b.Repository, Path: b.Path, Revision: b.Revision,
		To:     gitops.To{Cluster: b.Cluster, Target: b.Target, Selector: b.Selector, Namespace: b.Namespace},
		Manual: b.Manual, SyncOptions: b.SyncOptions,
	}))
}

func (o *own) updateDeployment(ctx context.Context, in *named[v1.UpdateDeployment]) (*accepted, error) {
	b := in.Body
	if b == (v1.UpdateDeployment{}) {
		return nil, fault.New(fault.Invalid, "name at least one field to change").Because("body")
	}
	c := gitops.Change{Repository: b.Repository, Path: b.Path, Revision: b.Revision, Manual: b.Manual, SyncOptions: b.SyncOptions}
	if b.Namespace != nil {
		d, err := o.Deployments.Get(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		to := d.Spec.To
		to.Namespace, c.To = *b.Namespace, &to
	}
	return o.acceptDeployment(ctx)(o.Deployments.Update(ctx, in.ID, c))
}

func (o *own) deploymentStatus(ctx context.Context, in *deploymentPath) (*body[v1.DeploymentStatus], error) {
	d, err := o.Deployments.Get(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	view, err := o.Deployments.View(ctx, d)
	if err != nil {
		return nil, err
	}
	return &body[v1.DeploymentStatus]{deploymentWire(d, view)}, nil
}

func deploymentWire(d gitops.Deployment, view gitops.DeploymentView) v1.DeploymentStatus {
	out := v1.DeploymentStatus{ID: d.ID, Name: d.Name, Phase: d.Phase, Sync: view.Sync.Status, Revision: view.Sync.Revision,
		Health: view.Health.Status, Message: view.Health.Message, More: view.More, Operation: view.Operation, NoDiff: view.NoDiff}
	if h := view.Healed; h != nil {
		out.Healed = &v1.DeploymentHealed{At: h.At, What: h.What}
	}
	if c := view.Compared; c != nil {
		out.Compared = &v1.DeploymentCompared{Repository: c.Repository, Path: c.Path, Revision: c.Revision, Target: c.Target, Namespace: c.Namespace}
	}
	for _, c := range view.Conditions {
		out.Conditions = append(out.Conditions, v1.DeploymentCondition{Type: c.Type, Status: c.Status, Reason: c.Reason, Message: c.Message, Changed: c.Changed})
	}
	for _, r := range view.Resources {
		w := v1.DeployedResource{Group: r.Group, Version: r.Version, Kind: r.Kind, Namespace: r.Namespace, Name: r.Name, Status: r.Status}
		if r.Health != nil {
			w.Health, w.Message = r.Health.Status, r.Health.Message
		}
		out.Resources = append(out.Resources, w)
	}
	for _, h := range view.History {
		out.History = append(out.History, v1.DeployedRevision{ID: h.ID, Revision: h.Revision, Author: h.Author, Message: h.Message, By: h.By, Cause: h.Cause, Started: h.Started, Deployed: h.Deployed,
			Repository: h.Repository, Path: h.Path, Asked: h.Asked})
	}
	for _, x := range view.Diff {
		out.Diff = append(out.Diff, v1.DeployedDifference{Group: x.Group, Kind: x.Kind, Namespace: x.Namespace, Name: x.Name, Change: x.Change, Text: x.Text})
	}
	return out
}

// wireObject shows an object to the caller.
func (o *own) wireObject(ctx context.Context, of ledger.Object, err error) (*body[v1.Object], error) {
	if err != nil {
		return nil, err
	}
	return &body[v1.Object]{wireRow(&of, o.Offerings, access.From(ctx))}, nil
}
