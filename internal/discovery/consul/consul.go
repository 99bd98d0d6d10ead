// Package consul finds services in Consul, and registers this one there.
//
// It owns how Consul is asked. What is known while it is away is the port's.
package consul

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/droverhq/drover/internal/discovery"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/resilience"
	"github.com/droverhq/drover/internal/transport"
)

// Config of a client.
type Config struct {
	Way        transport.Config // where the agent of Consul is
	TokenFile  string           // read for each call; default: nobody in particular asks
	Datacenter string           // of names that have none; default: the agent's own
	// TTL is how long what was said of this process counts; default 15 s. It is
	// said anew three times as often.
	TTL     time.Duration
	Sidecar bool // register a sidecar proxy of Consul's service mesh as well
	// Resilience is the policy of calls; Name is that of the agent.
	Resilience resilience.Config
}

// Client implements discovery.Finder and discovery.Announcer.
type Client struct {
	cfg    Config
	api    *api.Client
	name   string
	policy *resilience.Policy

	mu      sync.Mutex
	trouble error // of the last try to tell others of this process
}

var (
	_ discovery.Finder    = (*Client)(nil)
	_ discovery.Announcer = (*Client)(nil)
)

// New makes a client. It calls nobody.
func New(c Config) (*Client, error) {
	at, way, err := transport.New(c.Way)
	if err != nil {
		return nil, err
	}
	c.TTL = cmp.Or(c.TTL, 15*time.Second)
	made := &Client{cfg: c}
	if _, err := made.token(); err != nil {
		return nil, fault.New(fault.Invalid, "cannot read the file of Consul's token: %w", err)
	}
	made.api, err = api.NewClient(&api.Config{
		Address: at.Host, Scheme: at.Scheme, PathPrefix: at.Path, HttpClient: &http.Client{
			Transport: identity{way, made.token},
			// The token goes to nobody else, and nowhere in the clear.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	})
	if err != nil {
		return nil, fault.New(fault.Invalid, "Consul cannot be used: %w", err)
	}
	p := c.Resilience
	p.Name = "Consul at " + at.Host
	p.Timeout, p.Rest = cmp.Or(p.Timeout, 3*time.Second), cmp.Or(p.Rest, 2*time.Second) // names are asked for when things are bad: nobody waits for long
	made.name, made.policy = p.Name, resilience.New(p)
	return made, nil
}

func (c *Client) token() (string, error) {
	if c.cfg.TokenFile == "" {
		return "", nil
	}
	data, err := os.ReadFile(c.cfg.TokenFile)
	return strings.TrimSpace(string(data)), err
}

// identity says who asks, whatever the environment says to the library. An answer
// that is an error becomes one here, because the library drops its status.
type identity struct {
	http.RoundTripper
	token func() (string, error)
}

// refusal is an answer that is an error.
type refusal struct {
	code int
	body string
}

func (r *refusal) Error() string { return fmt.Sprintf("status %d: %s", r.code, r.body) }

func (i identity) RoundTrip(req *http.Request) (*http.Response, error) {
	token, err := i.token()
	if err != nil {
		return nil, err
	}
	req = req.Clone(req.Context())
	req.Header.Del("X-Consul-Token")
	if token != "" {
		req.Header.Set("X-Consul-Token", token)
	}
	resp, err := i.RoundTripper.RoundTrip(req)
	if err != nil || resp.StatusCode < 400 {
		return resp, err
	}
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	_ = resp.Body.Close()
	return nil, &refusal{resp.StatusCode, strings.TrimSpace(string(body))}
}

// Find implements discovery.Finder. Any server may answer: an address that is a
// second old is as good as a new one, and is had while there is no leader.
func (c *Client) Find(ctx context.Context, name discovery.Name) (discovery.Answer, error) {
	var found []*api.ServiceEntry
	err := c.policy.Do(ctx, func(ctx context.Context) error {
		q := &api.QueryOptions{Datacenter: cmp.Or(name.Datacenter, c.cfg.Datacenter), AllowStale: true}
		var err error
		found, _, err = c.api.Health().Service(name.Service, name.Tag, true, q.WithContext(ctx))
		return c.explain(ctx, err)
	})
	if err != nil {
		return discovery.Answer{}, err
	}
	out := discovery.Answer{At: time.Now()}
	for _, e := range found {
		at := discovery.Endpoint{ID: e.Service.ID, Host: e.Service.Address, Port: e.Service.Port, Tags: e.Service.Tags, Meta: e.Service.Meta}
		if at.Host == "" && e.Node != nil {
			at.Host = e.Node.Address
		}
		if at.Host != "" {
			out.Endpoints = append(out.Endpoints, at)
		}
	}
	if len(out.Endpoints) == 0 {
		return out, fault.New(fault.NotFound, "%s knows nobody healthy as %s; register it, or look why its checks fail", c.name, name).Because("nobody-healthy")
	}
	return out, nil
}

// explain turns what the library says into what a user can do about it.
func (c *Client) explain(ctx context.Context, err error) error {
	var no *refusal
	switch {
	case err == nil || errors.Is(err, context.Canceled):
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	case !errors.As(err, &no):
		return fault.New(fault.Unavailable, "%s does not answer (%w)", c.name, transport.Unreached(err))
	}
	body := strings.ToLower(no.body)
	switch {
	case strings.Contains(body, "acl not found"), no.code == http.StatusUnauthorized:
		return fault.New(fault.Denied, "%s does not know Drover's token; put a new one into the file that token-file names", c.name).Because("token")
	case strings.Contains(body, "permission denied"), no.code == http.StatusForbidden:
		return fault.New(fault.Denied, "%s refuses this to Drover's token (%s); give its policy this right", c.name, no.body).Because("denied")
	case strings.Contains(body, "no path to datacenter"):
		return fault.New(fault.Invalid, "%s knows no such datacentre", c.name).Because("datacenter")
	case no.code == http.StatusBadRequest:
		return fault.New(fault.Invalid, "%s does not take this: %s", c.name, no.body)
	case no.code == http.StatusNotFound, strings.Contains(body, "unknown check"), strings.Contains(body, "does not have associated ttl"):
		return fault.New(fault.NotFound, "%s does not know this: %s", c.name, no.body)
	}
	return fault.New(fault.Unavailable, "%s cannot do this at the moment (status %d)", c.name, no.code)
}
