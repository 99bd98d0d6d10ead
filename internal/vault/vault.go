// Package vault speaks with Vault and OpenBao, which speak the same language: for
// resources that are kept there, and for what Drover itself needs.
//
// It owns sessions (logging in, renewing, logging in again) and what refusals mean.
// It must not know what is kept there, nor for whom.
package vault

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/openbao/openbao/api/v2"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/resilience"
	"github.com/droverhq/drover/internal/transport"
)

// Config of a client.
type Config struct {
	Way       transport.Config // where the server is
	Namespace string
	Auth      string // token, approle, jwt or kubernetes; default token
	Mount     string // of the method; default: its name
	// Show returns what is shown at a login, or nothing: token, role, roleId,
	// secretId, jwt. It is asked for each login.
	Show func(what string) (string, error)
	// Who logs in, and where what it shows is written down: for errors.
	Who, Where string
	// Resilience is the policy of calls; Name is that of the server.
	Resilience resilience.Config
	// Now is the clock that sessions end by; default time.Now.
	Now func() time.Time
}

// Client is one login's. It is safe for concurrent use, and has no goroutines.
type Client struct {
	cfg       Config
	at        *url.URL
	transport *http.Transport
	name      string
	policy    *resilience.Policy

	turn    chan struct{} // held by whoever uses the session, which may take a call
	session session
	logins  int64

	mu     sync.Mutex
	mounts map[string]bool // that are known to have versions
}

// methods of logging in, with what each sends.
var methods = map[string]map[string]string{
	"token":      {},
	"approle":    {"role_id": "roleId", "secret_id": "secretId"},
	"jwt":        {"role": "role", "jwt": "jwt"},
	"kubernetes": {"role": "role", "jwt": "jwt"},
}

// New makes a client. It calls nobody.
func New(c Config) (*Client, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Auth = cmp.Or(c.Auth, "token")
	c.Mount = cmp.Or(c.Mount, c.Auth)
	at, way, err := transport.New(c.Way)
	if err != nil {
		return nil, err
	}
	needs, ok := methods[c.Auth]
	if !ok {
		return nil, fault.New(fault.Invalid, "%s's auth is %q; there are token, approle, jwt and kubernetes", c.Where, c.Auth)
	}
	shown := []string{"token"}
	for _, what := range needs {
		shown = append(shown, what)
	}
	for _, what := range shown {
		v, err := c.Show(what)
		switch {
		case c.Auth != "token" && what == "token", what == "secretId" && err == nil: // a role may do without
		case err != nil:
			return nil, err
		case v == "" && what == "token":
			return nil, fault.New(fault.Invalid, "%s has no token; give it tokenFile, or another auth", c.Where)
		case v == "":
			return nil, fault.New(fault.Invalid, "%s logs in by %s and has no %s", c.Where, c.Auth, what)
		}
	}
	made := &Client{cfg: c, at: at, transport: way, turn: make(chan struct{}, 1), mounts: map[string]bool{}}
	if _, err := made.as(""); err != nil {
		return nil, fault.New(fault.Invalid, "%s cannot be used: %w", c.Where, err)
	}
	policy := c.Resilience
	policy.Name = "Vault at " + at.Host
	policy.Queue = cmp.Or(policy.Queue, 30*time.Second)
	made.name, made.policy = policy.Name, resilience.New(policy)
	return made, nil
}

// Name is the server's, for errors and metrics.
func (c *Client) Name() string { return c.name }

// as makes a client of the library with a token. Its own way to copy one reads
// the environment of the server, which is nobody's here.
func (c *Client) as(token string) (*api.Client, error) {
	config := api.NewConfig()
	if config.Error != nil {
		return nil, config.Error
	}
	config.Address, config.HttpClient.Transport, config.MaxRetries, config.Timeout = c.at.String(), c.transport, 0, 0
	k, err := api.NewClient(config)
	if err != nil {
		return nil, err
	}
	if ns := c.cfg.Namespace; ns != "" {
		k.SetNamespace(ns)
	}
	k.SetToken(token)
	return k, nil
}

// Read returns what is at a path. found is false only if the server has said that
// nothing is there.
func (c *Client) Read(ctx context.Context, path string, into any) (found bool, err error) {
	return c.ask(ctx, path, nil, into)
}

// List returns the names in a folder.
func (c *Client) List(ctx context.Context, path string) ([]string, error) {
	var out struct {
		Keys []string `json:"keys"`
	}
	_, err := c.ask(ctx, path, map[string][]string{"list": {"true"}}, &out)
	return out.Keys, err
}

func (c *Client) ask(ctx context.Context, path string, query map[string][]string, into any) (found bool, err error) {
	err = c.do(ctx, func(ctx context.Context, k *api.Client) error {
		found = false
		resp, err := k.Logical().ReadRawWithDataWithContext(ctx, path, query)
		if resp != nil && resp.Body != nil {
			defer resp.Body.Close()
		}
		var no *api.ResponseError
		if errors.As(err, &no) && no.StatusCode == http.StatusNotFound && len(no.Errors) == 0 {
			return nil
		}
		if err != nil {
			return err
		}
		found = true
		return json.NewDecoder(resp.Body).Decode(&struct {
			Data any `json:"data"`
		}{into})
	})
	return found, err
}

// Write sends something to a path, and returns the answer.
func (c *Client) Write(ctx context.Context, path string, in map[string]any) (*api.Secret, error) {
	var out *api.Secret
	err := c.do(ctx, func(ctx context.Context, k *api.Client) (err error) {
		out, err = k.Logical().WriteWithContext(ctx, path, in)
		return err
	})
	return out, err
}

// Take reads something that ends, such as a lease, with the number of the session
// that it ends with at the latest. Nothing at the path is a fault of NotFound.
func (c *Client) Take(ctx context.Context, path string) (out *api.Secret, session int64, err error) {
	err = c.do(ctx, func(ctx context.Context, k *api.Client) error {
		out = nil
		// The library takes a path that nobody serves for one with nothing at it.
		resp, err := k.Logical().ReadRawWithContext(ctx, path)
		if resp != nil && resp.Body != nil {
			defer resp.Body.Close()
		}
		var no *api.ResponseError
		if errors.As(err, &no) && no.StatusCode == http.StatusNotFound && len(no.Errors) == 0 {
			return nil
		}
		if err != nil {
			return err
		}
		if out, err = api.ParseSecret(resp.Body); err == nil {
			session = c.number(ctx, k.Token())
		}
		return err
	})
	if err == nil && out == nil {
		err = fault.New(fault.NotFound, "%s has nothing at %s", c.name, path)
	}
	return out, session, err
}

// Remove deletes a path; nothing is fine.
func (c *Client) Remove(ctx context.Context, path string) error {
	return c.do(ctx, func(ctx context.Context, k *api.Client) error {
		_, err := k.Logical().DeleteWithContext(ctx, path)
		var no *api.ResponseError
		if errors.As(err, &no) && no.StatusCode == http.StatusNotFound && len(no.Errors) == 0 {
			return nil
		}
		return err
	})
}

// do makes a call that may be made twice, in a session. A call that is refused
// because the session is over is made again in a new one.
func (c *Client) do(ctx context.Context, call func(ctx context.Context, k *api.Client) error) error {
	return c.policy.Do(ctx, func(ctx context.Context) error {
		for again := false; ; again = true {
			k, err := c.enter(ctx)
			if err != nil {
				return c.explain(ctx, err)
			}
			err = call(ctx, k)
			var no *api.ResponseError
			if !errors.As(err, &no) || no.StatusCode != http.StatusForbidden {
				return c.explain(ctx, err)
			}
			if over, look := c.over(ctx, k); look != nil {
				return c.explain(ctx, look)
			} else if !over {
				return fault.New(fault.Denied, "%s refuses this to %s's token (%s %s); give its policies this right, then retry", c.name, c.cfg.Who, no.HTTPMethod, route(no.URL)).Because("denied")
			}
			if another, err := c.leave(ctx, k.Token()); err != nil {
				return err
			} else if !another || again {
				return c.expired()
			}
		}
	})
}

func (c *Client) expired() error {
	return fault.New(fault.Denied, "the token of %s to %s has expired or was revoked; put a new one into %s, then retry", c.cfg.Who, c.name, c.cfg.Where).Because("token")
}

// route is the part of an address that a policy names.
func route(url string) string {
	_, after, _ := strings.Cut(url, "/v1/")
	path, _, _ := strings.Cut(after, "?")
	return path
}

// ErrStale is a write whose condition does not hold.
var ErrStale = errors.New("stale")

// explain turns what the library says into what a user can do about it.
func (c *Client) explain(ctx context.Context, err error) error {
	var no *api.ResponseError
	var known *fault.Error
	switch {
	case err == nil || errors.Is(err, context.Canceled) || errors.As(err, &known):
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	case !errors.As(err, &no):
		return fault.New(fault.Unavailable, "%s does not answer (%w); it is tried again by itself", c.name, transport.Unreached(err))
	}
	said := strings.ToLower(strings.Join(no.Errors, "; "))
	switch {
	case strings.Contains(said, "sealed"):
		return fault.New(fault.Unavailable, "%s is sealed; unseal it, and this goes on by itself", c.name).Because("sealed")
	case strings.Contains(said, "resume service shortly"): // a mount that was just made
		return fault.New(fault.Unavailable, "%s is still making %s ready; it is tried again by itself", c.name, route(no.URL)).Because("mounting")
	case strings.Contains(said, "check-and-set"):
		return ErrStale
	case strings.Contains(said, "no handler for route"), strings.Contains(said, "unsupported path"):
		return fault.New(fault.Invalid, "%s has nothing mounted at %s; mount it there, or name another mount", c.name, route(no.URL)).Because("no-mount")
	case no.StatusCode == http.StatusForbidden:
		return fault.New(fault.Denied, "%s refuses %s %s to %s; give it this right, then retry", c.name, no.HTTPMethod, route(no.URL), c.cfg.Who).Because("denied")
	case no.StatusCode == http.StatusRequestEntityTooLarge:
		return fault.New(fault.Invalid, "%s takes no secret of this size", c.name)
	case slices.Contains([]int{http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed}, no.StatusCode):
		return fault.New(fault.Invalid, "%s does not take %s: %s", c.name, route(no.URL), strings.Join(no.Errors, "; "))
	}
	return fault.New(fault.Unavailable, "%s cannot do this at the moment (status %d); it is tried again by itself", c.name, no.StatusCode)
}

// Versioned makes sure that a mount keeps versions: in one without, what is asked
// for here would be absent, and what is written would be something else.
func (c *Client) Versioned(ctx context.Context, mount string) error {
	c.mu.Lock()
	known := c.mounts[mount]
	c.mu.Unlock()
	if known {
		return nil
	}
	var about struct {
		Type    string            `json:"type"`
		Path    string            `json:"path"`
		Options map[string]string `json:"options"`
	}
	found, err := c.Read(ctx, "sys/internal/ui/mounts/"+mount, &about)
	if err != nil {
		if fault.Reason(err) == "denied" {
			return fault.New(fault.Denied, "%s has nothing mounted at %s, or %s's token may use nothing there; mount a KV secrets engine of version 2, or give the token's policies rights in it, then retry", c.name, mount, c.cfg.Who).Because("denied")
		}
		return err
	}
	if !found || about.Options["version"] != "2" {
		return fault.New(fault.Invalid, "what is mounted at %s in %s is no KV secrets engine of version 2; mount one, or name another mount", mount, c.name).Because("no-mount")
	}
	c.mu.Lock()
	c.mounts[mount] = true
	c.mu.Unlock()
	return nil
}
