package client

import (
	"context"
	"net/http"
	"net/url"

	v1 "github.com/droverhq/drover/api/v1"
)

// CreateDeployment brings a directory of a Git repository to a namespace.
func (c *Client) CreateDeployment(ctx context.Context, d v1.CreateDeployment) (v1.Object, error) {
	var out v1.Object
	err := c.do(ctx, call{method: http.MethodPost, path: []string{"deployments"}, body: d}, &out)
	return out, err
}

// SyncDeployment asks for one sync, and returns the run.
func (c *Client) SyncDeployment(ctx context.Context, deployment string, s v1.SyncDeployment) (v1.Object, error) {
	return c.deployment(ctx, deployment, "sync", s)
}

// RollbackDeployment goes back to an earlier revision.
func (c *Client) RollbackDeployment(ctx context.Context, deployment string, r v1.RollbackDeployment) (v1.Object, error) {
	return c.deployment(ctx, deployment, "rollback", r)
}

// RefreshDeployment has the repository looked at now.
func (c *Client) RefreshDeployment(ctx context.Context, deployment string) (v1.Object, error) {
	return c.deployment(ctx, deployment, "refresh", nil)
}

// ForgetDeployment deletes a deployment, and leaves what it has deployed as it is.
func (c *Client) ForgetDeployment(ctx context.Context, deployment string) (v1.Object, error) {
	return c.deployment(ctx, deployment, "forget", nil)
}

// TerminateSync ends a sync run that waits or runs.
func (c *Client) TerminateSync(ctx context.Context, run string) (v1.Object, error) {
	var out v1.Object
	err := c.do(ctx, call{method: http.MethodPost, path: []string{"syncruns", run, "terminate"}}, &out)
	return out, err
}

func (c *Client) deployment(ctx context.Context, name, verb string, body any) (v1.Object, error) {
	var out v1.Object
	err := c.do(ctx, call{method: http.MethodPost, path: []string{"deployments", name, verb}, body: body}, &out)
	return out, err
}

// DeploymentStatus tells how a deployment is, with all its resources.
func (c *Client) DeploymentStatus(ctx context.Context, deployment string) (v1.DeploymentStatus, error) {
	var out v1.DeploymentStatus
	err := c.do(ctx, call{method: http.MethodGet, path: []string{"deployments", deployment, "status"}}, &out)
	return out, err
}

// PutRepository keeps the credential of a repository.
func (c *Client) PutRepository(ctx context.Context, name string, r v1.PutRepository) (v1.Object, error) {
	return c.put(ctx, "repositories", name, r)
}

// PutTarget takes a cluster in that the caller brings along.
func (c *Client) PutTarget(ctx context.Context, name string, t v1.PutTarget) (v1.Object, error) {
	return c.put(ctx, "targets", name, t)
}

// PutWorkspace says where an organisation may deploy to; operators only.
func (c *Client) PutWorkspace(ctx context.Context, name string, w v1.PutWorkspace) (v1.Object, error) {
	return c.put(ctx, "workspaces", name, w)
}

func (c *Client) put(ctx context.Context, resource, name string, body any) (v1.Object, error) {
	var out v1.Object
	err := c.do(ctx, call{method: http.MethodPut, path: []string{resource, name}, body: body}, &out)
	return out, err
}

// WebhookSecret of the caller's organisation; with rotate another one from now on.
func (c *Client) WebhookSecret(ctx context.Context, rotate bool) (v1.WebhookSecret, error) {
	q := url.Values{}
	if rotate {
		q.Set("rotate", "true")
	}
	var out v1.WebhookSecret
	err := c.do(ctx, call{method: http.MethodPost, path: []string{"webhooks", "git", "secret"}, query: q}, &out)
	return out, err
}
