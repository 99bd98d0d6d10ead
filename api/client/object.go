package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	v1 "github.com/droverhq/drover/api/v1"
)

// Resources lists what verbs apply to on this server.
func (c *Client) Resources(ctx context.Context) ([]v1.Resource, error) {
	var out v1.Resources
	err := c.do(ctx, call{method: http.MethodGet, path: []string{"kinds"}}, &out)
	return out.Items, err
}

// ListOptions selects a page. Zero fields leave the choice to the server.
type ListOptions struct {
	Page, Size int
	Search     string // "name = rex and region = local"
	OrderBy    string // "created_at desc"
}

// List returns one page.
func (c *Client) List(ctx context.Context, resource string, o ListOptions) (v1.List, error) {
	q := url.Values{}
	setInt(q, "page", int64(o.Page))
	setInt(q, "size", int64(o.Size))
	set(q, "search", o.Search)
	set(q, "orderBy", o.OrderBy)
	var out v1.List
	err := c.do(ctx, call{method: http.MethodGet, path: []string{resource}, query: q}, &out)
	return out, err
}

// Get returns one object, by id or name; at is a sequence or an RFC 3339 time
// in the past, or empty for the present.
func (c *Client) Get(ctx context.Context, resource, idOrName, at string) (v1.Object, error) {
	q := url.Values{}
	set(q, "at", at)
	var out v1.Object
	err := c.do(ctx, call{method: http.MethodGet, path: []string{resource, idOrName}, query: q}, &out)
	return out, err
}

// History returns every change of one object, oldest first.
func (c *Client) History(ctx context.Context, resource, idOrName string) ([]v1.Change, error) {
	var all []v1.Change
	for after := int64(0); ; {
		q := url.Values{"limit": {"1000"}}
		setInt(q, "after", after)
		var page v1.Changes
		err := c.do(ctx, call{method: http.MethodGet, path: []string{resource, idOrName, "history"}, query: q}, &page)
		if err != nil {
			return all, err
		}
		all = append(all, page.Items...)
		// A server that does not move on has no more to give.
		if len(page.Items) == 0 || page.Next <= after || page.Items[len(page.Items)-1].Seq > page.Next {
			return all, nil
		}
		after = page.Next
	}
}

// Create orders a new object: v1.CreateInstance for an offering's instances.
func (c *Client) Create(ctx context.Context, resource string, body any) (v1.Object, error) {
	var out v1.Object
	err := c.do(ctx, call{method: http.MethodPost, path: []string{resource}, body: body}, &out)
	return out, err
}

// Update changes intent: v1.UpdateInstance for an offering's instances.
func (c *Client) Update(ctx context.Context, resource, idOrName string, body any) (v1.Object, error) {
	var out v1.Object
	err := c.do(ctx, call{method: http.MethodPatch, path: []string{resource, idOrName}, body: body}, &out)
	return out, err
}

// Promote moves an instance to another billing model while it runs.
func (c *Client) Promote(ctx context.Context, resource, idOrName string, to v1.Promote) (v1.Object, error) {
	var out v1.Object
	err := c.do(ctx, call{method: http.MethodPost, path: []string{resource, idOrName, "promote"}, body: to}, &out)
	return out, err
}

// CreateServiceAccount makes an account for a program. The answer has its
// secret; nothing shows it again.
func (c *Client) CreateServiceAccount(ctx context.Context, r v1.CreateServiceAccount) (v1.ServiceAccount, error) {
	var out v1.ServiceAccount
	err := c.do(ctx, call{method: http.MethodPost, path: []string{"serviceaccounts"}, body: r}, &out)
	return out, err
}

// ResetServiceAccount gives a service account another secret.
func (c *Client) ResetServiceAccount(ctx context.Context, idOrName string) (v1.ServiceAccount, error) {
	var out v1.ServiceAccount
	err := c.do(ctx, call{method: http.MethodPost, path: []string{"serviceaccounts", idOrName, "reset"}}, &out)
	return out, err
}

// SetPassword gives a user of the server's own identity provider another
// password, which ends their logins.
func (c *Client) SetPassword(ctx context.Context, idOrName, password string) (v1.Object, error) {
	var out v1.Object
	err := c.do(ctx, call{method: http.MethodPut, path: []string{"users", idOrName, "password"}, body: v1.SetPassword{Password: password}}, &out)
	return out, err
}

// Delete asks for a deletion, and returns the object as it is on its way out.
func (c *Client) Delete(ctx context.Context, resource, idOrName string) (v1.Object, error) {
	var out v1.Object
	err := c.do(ctx, call{method: http.MethodDelete, path: []string{resource, idOrName}}, &out)
	return out, err
}

// Apply creates or replaces an offering from its file (YAML or JSON).
func (c *Client) Apply(ctx context.Context, file []byte) (v1.Object, error) {
	return c.ApplyTo(ctx, "offerings", file)
}

// ApplyTo creates or replaces an object of a resource that is written as
// documents: offerings, profiles, quotas, denylists, accesslists, terms.
func (c *Client) ApplyTo(ctx context.Context, resource string, document []byte) (v1.Object, error) {
	var out v1.Object
	err := c.do(ctx, call{method: http.MethodPut, path: []string{resource}, body: document, media: "application/yaml"}, &out)
	return out, err
}

// Accept accepts terms in the caller's name; the version is that which was
// read, empty for the present one.
func (c *Client) Accept(ctx context.Context, terms, version string) (v1.Object, error) {
	var out v1.Object
	err := c.do(ctx, call{method: http.MethodPost, path: []string{"terms", terms, "accept"}, body: v1.Accept{Version: version}}, &out)
	return out, err
}

// Approve lets removals go that wait.
func (c *Client) Approve(ctx context.Context, approval string, a v1.Approve) (v1.Object, error) {
	var out v1.Object
	err := c.do(ctx, call{method: http.MethodPost, path: []string{"approvals", approval, "approve"}, body: a}, &out)
	return out, err
}

// Refuse keeps what waits to be removed.
func (c *Client) Refuse(ctx context.Context, approval string) (v1.Object, error) {
	var out v1.Object
	err := c.do(ctx, call{method: http.MethodPost, path: []string{"approvals", approval, "refuse"}}, &out)
	return out, err
}

// ChangeOptions selects a piece of the log. Zero fields select everything.
type ChangeOptions struct {
	After    int64
	Limit    int
	Newest   int // that many of the last ones; in place of After and Limit
	Resource string
	ID       string // with Resource
}

func (o ChangeOptions) query() url.Values {
	q := url.Values{}
	setInt(q, "limit", int64(o.Limit))
	setInt(q, "newest", int64(o.Newest))
	set(q, "resource", o.Resource)
	set(q, "id", o.ID)
	return q
}

// Changes reads a piece of the log, oldest first.
func (c *Client) Changes(ctx context.Context, o ChangeOptions) (v1.Changes, error) {
	q := o.query()
	q.Set("after", strconv.FormatInt(o.After, 10))
	var out v1.Changes
	err := c.do(ctx, call{method: http.MethodGet, path: []string{"changes"}, query: q}, &out)
	return out, err
}

// Token asks the built-in issuer for a token.
func (c *Client) Token(ctx context.Context, r v1.TokenRequest) (v1.Token, error) {
	var out v1.Token
	err := c.do(ctx, call{method: http.MethodPost, path: []string{"tokens"}, body: r}, &out)
	return out, err
}

// WhoAmI tells who the server takes the caller for.
func (c *Client) WhoAmI(ctx context.Context) (v1.WhoAmI, error) {
	var out v1.WhoAmI
	err := c.do(ctx, call{method: http.MethodGet, path: []string{"whoami"}}, &out)
	return out, err
}

// Ledger tells where the log stands and what work is due.
func (c *Client) Ledger(ctx context.Context) (v1.Ledger, error) {
	var out v1.Ledger
	err := c.do(ctx, call{method: http.MethodGet, path: []string{"ledger"}}, &out)
	return out, err
}

// Sync sends what an agent says and returns the answer, which the server may
// hold back: how long to wait is up to ctx, and to the HTTP client where that
// has a limit of its own.
func (c *Client) Sync(ctx context.Context, cluster string, s v1.Sync) (v1.Synced, error) {
	var out v1.Synced
	err := c.exchange(ctx, call{method: http.MethodPost, path: []string{"clusters", cluster, "sync"}, body: s}, &out, maxSync)
	return out, err
}

func set(q url.Values, name, value string) {
	if value != "" {
		q.Set(name, value)
	}
}

func setInt(q url.Values, name string, value int64) {
	if value != 0 {
		q.Set(name, strconv.FormatInt(value, 10))
	}
}
