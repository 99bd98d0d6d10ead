package vault

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/openbao/openbao/api/v2"

	"github.com/droverhq/drover/internal/fault"
)

// session is a token with the moment at which it is cared for: two thirds of its
// life, so that no call finds it over unless somebody has ended it.
type session struct {
	api       *api.Client // with the token; nil: there is none
	renewable bool
	care      time.Time // zero: it does not end
}

func (c *client) begin(token string, life time.Duration, renewable bool) error {
	k, err := c.as(token)
	if err != nil {
		return err
	}
	c.session = session{api: k, renewable: renewable}
	if life > 0 {
		c.session.care = c.now().Add(life * 2 / 3)
	}
	return nil
}

// take waits for one's turn with the session, as long as one may wait.
func (c *client) take(ctx context.Context) error {
	select {
	case c.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *client) give() { <-c.turn }

// enter returns a client with a token that is good as far as is known. Callers
// wait for one who logs in.
func (c *client) enter(ctx context.Context) (*api.Client, error) {
	if err := c.take(ctx); err != nil {
		return nil, err
	}
	defer c.give()
	given := cmp.Or(c.conn["auth"], "token") == "token"
	switch s := c.session; {
	case s.api == nil && given:
		if err := c.look(ctx); err != nil {
			return nil, err
		}
	case s.api == nil:
		if err := c.login(ctx); err != nil {
			return nil, err
		}
	case !s.care.IsZero() && !c.now().Before(s.care):
		err := c.renew(ctx)
		if err != nil && !given {
			err = c.login(ctx)
		}
		var no *api.ResponseError
		if err != nil && !(given && errors.As(err, &no)) {
			return nil, err
		}
		// A given token that cannot be renewed is used until it is over.
		if err != nil {
			c.session.care = time.Time{}
		}
	}
	return c.session.api, nil
}

// look learns how long a given token lives. One who may not ask goes without.
func (c *client) look(ctx context.Context) error {
	if err := c.begin(c.conn["token"], 0, false); err != nil {
		return err
	}
	k := c.session.api
	self, err := k.Auth().Token().LookupSelfWithContext(ctx)
	var no *api.ResponseError
	switch {
	case errors.As(err, &no) && no.StatusCode == http.StatusForbidden:
		return nil
	case err != nil:
		c.session.api = nil
		return err
	}
	life, _ := self.TokenTTL()
	renewable, _ := self.TokenIsRenewable()
	if !renewable {
		life = 0
	}
	return c.begin(c.conn["token"], life, renewable)
}

func (c *client) renew(ctx context.Context) error {
	if !c.session.renewable {
		return &api.ResponseError{StatusCode: http.StatusBadRequest, Errors: []string{"the token cannot be renewed"}}
	}
	was := c.session.api.Token()
	out, err := c.session.api.Auth().Token().RenewSelfWithContext(ctx, 0)
	if err != nil {
		return err
	}
	if out == nil || out.Auth == nil || out.Auth.LeaseDuration < 1 {
		return &api.ResponseError{StatusCode: http.StatusBadRequest, Errors: []string{"the token lives no longer"}}
	}
	return c.begin(was, time.Duration(out.Auth.LeaseDuration)*time.Second, out.Auth.Renewable)
}

func (c *client) login(ctx context.Context) error {
	method := c.conn["auth"]
	in := map[string]any{}
	for param, option := range methods[method] {
		if v := c.conn[option]; v != "" {
			in[param] = v
		}
	}
	at := cmp.Or(c.conn["authMount"], method)
	anonymous, err := c.as("")
	if err != nil {
		return err
	}
	out, err := anonymous.Logical().WriteWithContext(ctx, "auth/"+at+"/login", in)
	var no *api.ResponseError
	if errors.As(err, &no) && no.StatusCode >= 400 && no.StatusCode < 500 && no.StatusCode != http.StatusTooManyRequests {
		return fault.New(fault.Denied, "%s does not let the connection log in by %s at auth/%s; check its role and what it shows, then retry", c.name, method, at).Because("login")
	}
	if err != nil {
		return err
	}
	if out == nil || out.Auth == nil || out.Auth.ClientToken == "" {
		return fault.New(fault.Denied, "%s gives no token for a login by %s at auth/%s; check that this is where the method is", c.name, method, at).Because("login")
	}
	return c.begin(out.Auth.ClientToken, time.Duration(out.Auth.LeaseDuration)*time.Second, out.Auth.Renewable)
}

// over reports whether a token is refused everywhere, and not only here. An error
// says that nobody could be asked.
func (c *client) over(ctx context.Context, k *api.Client) (bool, error) {
	_, err := k.Auth().Token().LookupSelfWithContext(ctx)
	var no *api.ResponseError
	if errors.As(err, &no) && no.StatusCode == http.StatusForbidden {
		return true, nil
	}
	return false, err
}

// leave ends a session that is over, and reports whether there can be another. If
// somebody else has begun one meanwhile, that is it.
func (c *client) leave(ctx context.Context, token string) (another bool, err error) {
	if cmp.Or(c.conn["auth"], "token") == "token" {
		return false, nil
	}
	if err := c.take(ctx); err != nil {
		return false, err
	}
	defer c.give()
	if c.session.api != nil && c.session.api.Token() == token {
		c.session = session{}
	}
	return true, nil
}

// number reads a whole number as JSON, or a ledger, gives it.
func number(v any) int {
	switch x := v.(type) {
	case int:
		return x
	case int64:
		return int(x)
	case float64:
		return int(x)
	case json.Number:
		n, _ := x.Int64()
		return int(n)
	}
	return 0
}
