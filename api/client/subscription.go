package client

import (
	"context"
	"net/http"

	v1 "github.com/droverhq/drover/api/v1"
)

// CreateSubscription has a URL told of changes. The answer has the secret that
// deliveries are signed with, this once.
func (c *Client) CreateSubscription(ctx context.Context, s v1.CreateSubscription) (v1.Subscription, error) {
	var out v1.Subscription
	err := c.do(ctx, call{method: http.MethodPost, path: []string{"subscriptions"}, body: s}, &out)
	return out, err
}

// UpdateSubscription changes one. The answer has a secret where a new one was asked
// for.
func (c *Client) UpdateSubscription(ctx context.Context, idOrName string, s v1.UpdateSubscription) (v1.Subscription, error) {
	var out v1.Subscription
	err := c.do(ctx, call{method: http.MethodPatch, path: []string{"subscriptions", idOrName}, body: s}, &out)
	return out, err
}

// Rejected lists messages that were put aside.
func (c *Client) Rejected(ctx context.Context) (v1.RejectedMessages, error) {
	var out v1.RejectedMessages
	err := c.do(ctx, call{method: http.MethodGet, path: []string{"rejected"}}, &out)
	return out, err
}

// RejectedMessage returns one, with its body.
func (c *Client) RejectedMessage(ctx context.Context, key string) (v1.RejectedMessage, error) {
	var out v1.RejectedMessage
	err := c.do(ctx, call{method: http.MethodGet, path: []string{"rejected", key}}, &out)
	return out, err
}

// RetryMessage brings one back to its queue.
func (c *Client) RetryMessage(ctx context.Context, key string) error {
	return c.do(ctx, call{method: http.MethodPost, path: []string{"rejected", key, "retry"}}, nil)
}

// DropMessage removes one for good.
func (c *Client) DropMessage(ctx context.Context, key string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: []string{"rejected", key}}, nil)
}
