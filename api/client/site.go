package client

import (
	"context"
	"net/http"

	v1 "github.com/droverhq/drover/api/v1"
)

// Site tells which of two sites the server is, and how both stand.
func (c *Client) Site(ctx context.Context) (v1.Site, error) {
	var out v1.Site
	err := c.do(ctx, call{method: http.MethodGet, path: []string{"site"}}, &out)
	return out, err
}

// PromoteSite has the server's site lead. It may take as long as the lease of a witness.
func (c *Client) PromoteSite(ctx context.Context, word v1.PromoteSite) (v1.Site, error) {
	var out v1.Site
	err := c.exchange(ctx, call{method: http.MethodPost, path: []string{"site", "promote"}, body: word}, &out, maxAnswer)
	return out, err
}
