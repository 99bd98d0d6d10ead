package client

import (
	"context"
	"net/http"

	v1 "github.com/droverhq/drover/api/v1"
)

// Doctor has the server say what is wrong with it; operators only.
func (c *Client) Doctor(ctx context.Context) (v1.Diagnosis, error) {
	var out v1.Diagnosis
	err := c.do(ctx, call{method: http.MethodGet, path: []string{"doctor"}}, &out)
	return out, err
}
