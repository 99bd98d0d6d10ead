package client

import (
	"context"
	"net/http"
	"net/url"

	v1 "github.com/droverhq/drover/api/v1"
)

// Join has the lines made that bring a cluster's agent onto it, with a runtime and into
// a namespace; empty: the server's defaults.
func (c *Client) Join(ctx context.Context, cluster, runtime, namespace string) (v1.Join, error) {
	var out v1.Join
	query := url.Values{}
	set(query, "runtime", runtime)
	set(query, "namespace", namespace)
	err := c.do(ctx, call{method: http.MethodPost, path: []string{"clusters", cluster, "join"}, query: query}, &out)
	return out, err
}

// Drain lets a cluster take no new orders and be empty in the end.
func (c *Client) Drain(ctx context.Context, cluster string, d v1.DrainCluster) (v1.Object, error) {
	var out v1.Object
	err := c.do(ctx, call{method: http.MethodPost, path: []string{"clusters", cluster, "drain"}, body: d}, &out)
	return out, err
}

// Undrain lets a cluster take orders again.
func (c *Client) Undrain(ctx context.Context, cluster string) (v1.Object, error) {
	var out v1.Object
	err := c.do(ctx, call{method: http.MethodPost, path: []string{"clusters", cluster, "undrain"}}, &out)
	return out, err
}

// Abandon gives a cluster up that is lost for good.
func (c *Client) Abandon(ctx context.Context, cluster string, a v1.AbandonCluster) (v1.Object, error) {
	var out v1.Object
	err := c.do(ctx, call{method: http.MethodPost, path: []string{"clusters", cluster, "abandon"}, body: a}, &out)
	return out, err
}

// Placement tells why an instance is where it is, and where it would go now.
func (c *Client) Placement(ctx context.Context, resource, idOrName string) (v1.Placement, error) {
	var out v1.Placement
	err := c.do(ctx, call{method: http.MethodGet, path: []string{resource, idOrName, "placement"}}, &out)
	return out, err
}

// ExplainPlacement tells where orders would go that nobody made.
func (c *Client) ExplainPlacement(ctx context.Context, ask v1.AskPlacement) (v1.Explanation, error) {
	var out v1.Explanation
	err := c.do(ctx, call{method: http.MethodPost, path: []string{"placement", "explain"}, body: ask}, &out)
	return out, err
}

// Capacity tells what the regions have, how full clusters are, and what scaling
// says.
func (c *Client) Capacity(ctx context.Context) (v1.Capacities, error) {
	var out v1.Capacities
	err := c.do(ctx, call{method: http.MethodGet, path: []string{"capacity"}}, &out)
	return out, err
}
