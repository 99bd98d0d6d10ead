package consul

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/resilience"
)

// client is one connection's.
type client struct {
	api    *api.Client
	name   string
	policy *resilience.Policy

	mu     sync.Mutex
	groups map[string]*group // see watch.go
}

// dial reads a connection. It calls nobody.
func dial(c executor.Connection, with resilience.Config) (*client, error) {
	if err := c.Check("address", "token", "namespace", "partition", "datacenter", "ca", "cert", "key", "serverName", "plaintext"); err != nil {
		return nil, err
	}
	// Consul has a limit of connections per client, which is above that of the
	// transport.
	at, transport, err := c.Transport()
	if err != nil {
		return nil, err
	}
	k, err := api.NewClient(&api.Config{
		Address: at.Host, Scheme: at.Scheme, PathPrefix: at.Path, Datacenter: c["datacenter"],
		HttpClient: &http.Client{
			Transport: identity{transport, c},
			// The token goes to nobody else, and nowhere in the clear.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	})
	if err != nil {
		return nil, fault.New(fault.Invalid, "the connection cannot be used: %w", err)
	}
	with.Name = "Consul at " + at.Host
	with.Queue = cmp.Or(with.Queue, 30*time.Second)
	return &client{api: k, name: with.Name, policy: resilience.New(with), groups: map[string]*group{}}, nil
}

// identity says who asks: the connection, whatever the environment of the server
// says to the library. An answer that is an error becomes one here, because the
// library drops its status where it matters.
type identity struct {
	http.RoundTripper
	c executor.Connection
}

// refusal is an answer that is an error.
type refusal struct {
	code int
	body string
}

func (r *refusal) Error() string { return fmt.Sprintf("status %d: %s", r.code, r.body) }

func (i identity) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Del("X-Consul-Token")
	if token := i.c["token"]; token != "" {
		req.Header.Set("X-Consul-Token", token)
	}
	q := req.URL.Query()
	for param, option := range map[string]string{"ns": "namespace", "partition": "partition"} {
		q.Del(param)
		if v := i.c[option]; v != "" {
			q.Set(param, v)
		}
	}
	req.URL.RawQuery = q.Encode()
	resp, err := i.RoundTripper.RoundTrip(req)
	if err != nil || resp.StatusCode < 400 || resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusConflict {
		return resp, err
	}
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	_ = resp.Body.Close()
	return nil, &refusal{resp.StatusCode, strings.TrimSpace(string(body))}
}

// do makes a call that may be made twice.
func (c *client) do(ctx context.Context, call func(q *api.QueryOptions) error) error {
	err := c.policy.Do(ctx, func(ctx context.Context) error {
		return c.explain(ctx, call((&api.QueryOptions{RequireConsistent: true}).WithContext(ctx)))
	})
	return err
}

// errStale is a transaction that was rolled back, because something in it is not
// as it was seen.
var errStale = errors.New("stale")

// txn makes a transaction. errStale: it was rolled back.
func (c *client) txn(ctx context.Context, ops api.TxnOps) (out api.TxnResults, err error) {
	err = c.do(ctx, func(q *api.QueryOptions) error {
		ok, resp, _, err := c.api.Txn().Txn(ops, q)
		if err != nil || ok {
			if resp != nil {
				out = resp.Results
			}
			return err
		}
		var said []string
		for _, e := range resp.Errors {
			if denied(e.What) {
				return &refusal{http.StatusForbidden, e.What}
			}
			if !moved.MatchString(e.What) {
				said = append(said, e.What)
			}
		}
		if len(said) > 0 {
			return fault.New(fault.Invalid, "%s does not take this: %s", c.name, strings.Join(said, "; "))
		}
		return errStale
	})
	return out, err
}

// moved matches what Consul says of a condition that does not hold, or of
// something that is not there.
var moved = regexp.MustCompile(`(?i)stale|not found|n't exist|does not exist|missing`)

func denied(said string) bool {
	said = strings.ToLower(said)
	return strings.Contains(said, "permission denied") || strings.Contains(said, "acl not found")
}

// explain turns what the library says into what a user can do about it. Values
// are in requests alone, and errors repeat none of those.
func (c *client) explain(ctx context.Context, err error) error {
	var no *refusal
	switch {
	case err == nil || errors.Is(err, errStale) || errors.Is(err, context.Canceled):
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	case !errors.As(err, &no):
		var f *fault.Error
		if errors.As(err, &f) {
			return err
		}
		return fault.New(fault.Unavailable, "%s does not answer (%w); it is tried again by itself", c.name, executor.Unreached(err))
	}
	switch body := strings.ToLower(no.body); {
	case strings.Contains(body, "acl not found"), no.code == http.StatusUnauthorized:
		return fault.New(fault.Denied, "%s does not know the connection's token: it has expired or was removed; put a new one into the connection, then retry", c.name).Because("token")
	case denied(body), no.code == http.StatusForbidden:
		return fault.New(fault.Denied, "%s refuses this to the connection's token (%s); give its policy this right, then retry", c.name, no.body).Because("denied")
	case no.code == http.StatusRequestEntityTooLarge, strings.Contains(body, "too large"):
		return fault.New(fault.Invalid, "%s takes no values of this size; a value may have 512 KiB", c.name)
	case strings.Contains(body, "no cluster leader"):
		return fault.New(fault.Unavailable, "%s has no leader at the moment; it is tried again by itself", c.name).Because("no-leader")
	case no.code == http.StatusBadRequest:
		return fault.New(fault.Invalid, "%s does not take this: %s", c.name, no.body)
	}
	return fault.New(fault.Unavailable, "%s cannot do this at the moment (status %d); it is tried again by itself", c.name, no.code)
}
