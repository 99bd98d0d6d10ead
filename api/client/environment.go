package client

import (
	"context"
	"net/http"
	"net/url"

	v1 "github.com/droverhq/drover/api/v1"
)

// AddTemplate brings a version of a template in; operators only.
func (c *Client) AddTemplate(ctx context.Context, a v1.AddTemplate) (v1.TemplateVersion, error) {
	var out v1.TemplateVersion
	err := c.do(ctx, call{method: http.MethodPost, path: []string{"templates"}, body: a}, &out)
	return out, err
}

// Executors lists what resources of a template are made by.
func (c *Client) Executors(ctx context.Context) (v1.Executors, error) {
	var out v1.Executors
	err := c.do(ctx, call{method: http.MethodGet, path: []string{"executors"}}, &out)
	return out, err
}

// Connections lists where executors work, without any option of theirs.
func (c *Client) Connections(ctx context.Context) (v1.Connections, error) {
	var out v1.Connections
	err := c.do(ctx, call{method: http.MethodGet, path: []string{"connections"}}, &out)
	return out, err
}

// PlanEnvironment asks what would be done. The plan is made meanwhile: ask Plan
// for it until it is no longer planning.
func (c *Client) PlanEnvironment(ctx context.Context, environment string, p v1.PlanEnvironment) (v1.Plan, error) {
	var out v1.Plan
	err := c.do(ctx, call{method: http.MethodPost, path: []string{"environments", environment, "plan"}, body: p}, &out)
	return out, err
}

// Plan returns a plan with all its changes, by id or hash.
func (c *Client) Plan(ctx context.Context, plan string) (v1.Plan, error) {
	var out v1.Plan
	err := c.do(ctx, call{method: http.MethodGet, path: []string{"plans", plan, "changes"}}, &out)
	return out, err
}

// ApplyEnvironment carries a plan out.
func (c *Client) ApplyEnvironment(ctx context.Context, environment string, a v1.ApplyEnvironment) (v1.Object, error) {
	return c.environment(ctx, environment, "apply", a)
}

// DestroyEnvironment takes everything away that an environment has.
func (c *Client) DestroyEnvironment(ctx context.Context, environment string, d v1.DestroyEnvironment) (v1.Object, error) {
	return c.environment(ctx, environment, "destroy", d)
}

// RetryEnvironment goes on with what has failed.
func (c *Client) RetryEnvironment(ctx context.Context, environment string) (v1.Object, error) {
	return c.environment(ctx, environment, "retry", nil)
}

// UnlockEnvironment takes the lock on the state of a resource away from a run whose
// machine is gone.
func (c *Client) UnlockEnvironment(ctx context.Context, environment, address string) (v1.Object, error) {
	var out v1.Object
	err := c.do(ctx, call{method: http.MethodPost, path: []string{"environments", environment, "unlock"}, query: url.Values{"address": {address}}}, &out)
	return out, err
}

// ObserveEnvironment has everything looked at now.
func (c *Client) ObserveEnvironment(ctx context.Context, environment string) (v1.Object, error) {
	return c.environment(ctx, environment, "observe", nil)
}

func (c *Client) environment(ctx context.Context, name, verb string, body any) (v1.Object, error) {
	var out v1.Object
	err := c.do(ctx, call{method: http.MethodPost, path: []string{"environments", name, verb}, body: body}, &out)
	return out, err
}

// Outputs of an environment; with reveal the secret ones too, for those who may
// apply.
func (c *Client) Outputs(ctx context.Context, environment string, reveal bool) (v1.Outputs, error) {
	q := url.Values{}
	if reveal {
		q.Set("reveal", "true")
	}
	var out v1.Outputs
	err := c.do(ctx, call{method: http.MethodGet, path: []string{"environments", environment, "outputs"}, query: q}, &out)
	return out, err
}

// Graph of an environment.
func (c *Client) Graph(ctx context.Context, environment string) (v1.Graph, error) {
	var out v1.Graph
	err := c.do(ctx, call{method: http.MethodGet, path: []string{"environments", environment, "graph"}}, &out)
	return out, err
}

// Drawing is the graph of an environment as SVG.
func (c *Client) Drawing(ctx context.Context, environment string) ([]byte, error) {
	var out []byte
	err := c.do(ctx, call{method: http.MethodGet, path: []string{"environments", environment, "graph.svg"}}, &out)
	return out, err
}

// Why tells what a resource, or with no address the environment, depends on and
// what depends on it.
func (c *Client) Why(ctx context.Context, environment, address string) (v1.Why, error) {
	q := url.Values{}
	set(q, "address", address)
	var out v1.Why
	err := c.do(ctx, call{method: http.MethodGet, path: []string{"environments", environment, "why"}, query: q}, &out)
	return out, err
}

// EnvironmentLog returns what a resource's executor has said in its last turn,
// after what was read before.
func (c *Client) EnvironmentLog(ctx context.Context, environment, address string, after int64) (v1.Log, error) {
	q := url.Values{}
	set(q, "address", address)
	setInt(q, "after", after)
	var out v1.Log
	err := c.do(ctx, call{method: http.MethodGet, path: []string{"environments", environment, "log"}, query: q}, &out)
	return out, err
}

// OperationLog returns what an action has said.
func (c *Client) OperationLog(ctx context.Context, operation string, after int64) (v1.Log, error) {
	q := url.Values{}
	setInt(q, "after", after)
	var out v1.Log
	err := c.do(ctx, call{method: http.MethodGet, path: []string{"operations", operation, "log"}, query: q}, &out)
	return out, err
}

// Actions that can be run on an environment.
func (c *Client) Actions(ctx context.Context, environment string) (v1.EnvironmentActions, error) {
	var out v1.EnvironmentActions
	err := c.do(ctx, call{method: http.MethodGet, path: []string{"environments", environment, "actions"}}, &out)
	return out, err
}

// RunAction starts one and returns its operation.
func (c *Client) RunAction(ctx context.Context, environment, action string, r v1.RunAction) (v1.Object, error) {
	var out v1.Object
	err := c.do(ctx, call{method: http.MethodPost, path: []string{"environments", environment, "actions", action}, body: r}, &out)
	return out, err
}

// Search finds what the caller may see by words; "dependsOn:db*" and "usedBy:web"
// go along the dependencies.
func (c *Client) Search(ctx context.Context, text, kind string, limit int) (v1.SearchResults, error) {
	q := url.Values{}
	set(q, "q", text)
	set(q, "kind", kind)
	setInt(q, "limit", int64(limit))
	var out v1.SearchResults
	err := c.do(ctx, call{method: http.MethodGet, path: []string{"search"}, query: q}, &out)
	return out, err
}
