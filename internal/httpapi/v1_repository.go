package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/gitops"
)

// routesRepository serves what deployments need: credentials of repositories,
// clusters that tenants bring along, and where organisations may deploy to.
func (o *own) routesRepository() {
	op := func(id, method, path, summary, description string) huma.Operation {
		return huma.Operation{OperationID: id, Method: method, Path: "/api/v1" + path, Tags: []string{"deployments"},
			Summary: summary, Description: description, DefaultStatus: http.StatusOK, MaxBodyBytes: -1}
	}
	huma.Register(o.api, op("put-repository", http.MethodPut, "/repositories/{id}", "Keep the credential of a repository, or replace it",
		"It is tried at once; deployments use the last one that was good. Nobody is shown it again."),
		func(ctx context.Context, in *named[v1.PutRepository]) (*body[v1.Object], error) {
			b := in.Body
			r, err := o.Deployments.PutRepository(ctx, gitops.RepositoryOrder{Name: in.ID, Workspace: b.Workspace, URL: b.URL,
				Username: b.Username, Password: b.Password, SSHKey: b.SSHKey, KnownHosts: b.KnownHosts})
			return o.wireObject(ctx, r.Object, err)
		})
	huma.Register(o.api, op("delete-repository", http.MethodDelete, "/repositories/{id}", "Take a credential away", ""),
		func(ctx context.Context, in *deploymentPath) (*body[v1.Object], error) {
			return o.taken(ctx, gitops.KindRepository.Name, in.ID, o.Deployments.DeleteRepository)
		})
	huma.Register(o.api, op("put-target", http.MethodPut, "/targets/{id}", "Take a cluster in that the caller brings along, or replace how it is reached", ""),
		func(ctx context.Context, in *named[v1.PutTarget]) (*body[v1.Object], error) {
			b := in.Body
			t, err := o.Deployments.PutTarget(ctx, gitops.TargetOrder{Name: in.ID, Workspace: b.Workspace, URL: b.URL, Kubeconfig: []byte(b.Kubeconfig),
				Insecure: b.Insecure, NewAccount: b.NewAccount, Namespaces: b.Namespaces, ClusterResources: b.ClusterResources})
			return o.wireObject(ctx, t.Object, err)
		})
	huma.Register(o.api, op("delete-target", http.MethodDelete, "/targets/{id}", "Take a target away",
		"What was deployed there stays as it is; its deployments are detached."),
		func(ctx context.Context, in *deploymentPath) (*body[v1.Object], error) {
			return o.taken(ctx, gitops.KindTarget.Name, in.ID, o.Deployments.DeleteTarget)
		})
	huma.Register(o.api, op("put-workspace", http.MethodPut, "/workspaces/{id}", "Say where an organisation may deploy to; operators only", ""),
		func(ctx context.Context, in *named[v1.PutWorkspace]) (*body[v1.Object], error) {
			b := in.Body
			order := gitops.WorkspaceOrder{Name: in.ID, Org: b.Org, Engine: b.Engine, ClusterResources: b.ClusterResources}
			for _, r := range b.Reach {
				order.Reach = append(order.Reach, gitops.Reach(r))
			}
			w, err := o.Deployments.PutWorkspace(ctx, order)
			return o.wireObject(ctx, w.Object, err)
		})
	huma.Register(o.api, op("delete-workspace", http.MethodDelete, "/workspaces/{id}", "Forget a workspace in which nothing is any more; operators only", ""),
		func(ctx context.Context, in *deploymentPath) (*body[v1.Object], error) {
			return o.taken(ctx, gitops.KindWorkspace.Name, in.ID, o.Deployments.DeleteWorkspace)
		})
}

// taken takes something away and shows what it was.
func (o *own) taken(ctx context.Context, kind, id string, remove func(context.Context, string) error) (*body[v1.Object], error) {
	r, _ := kindOf(kind)
	was, err := o.find(ctx, r, id)
	if err == nil {
		err = remove(ctx, was.ID)
	}
	return o.wireObject(ctx, was, err)
}
