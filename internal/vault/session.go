package vault

import (
	"context"
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
	number    int64         // of the login: what was taken in another session ends with that one
	full      time.Duration // its life when it began
	care      time.Time     // zero: it does not end, or nothing can be done about that
	ends      time.Time     // zero: it does not end, as far as is known
}

// begin is of a token just had, or with the number it had, renewed.
func (c *Client) begin(token string, life time.Duration, renewable bool, number int64) error {
	k, err := c.as(token)
	if err != nil {
		return err
	}
	next := session{api: k, renewable: renewable, number: number, full: life}
	if number == 0 {
		c.logins++
		next.number = c.logins
	} else {
		next.full = max(life, c.session.full)
	}
	if life > 0 {
		next.care, next.ends = c.cfg.Now().Add(life*2/3), c.cfg.Now().Add(life)
	}
	c.session = next
	return nil
}

// State is how a session stands.
type State struct {
	Number int64     // one more with each login: what was taken under another number ends with that session
	Care   time.Time // when somebody should Keep it; zero: never
	Ends   time.Time // zero: never, as far as is known
}

// Keep makes sure of a session that is not about to end, and calls nobody where
// there is one.
func (c *Client) Keep(ctx context.Context) (State, error) {
	if err := c.take(ctx); err != nil {
		return State{}, err
	}
	s := c.session
	c.give()
	if s.api != nil && (s.care.IsZero() || c.cfg.Now().Before(s.care)) {
		return State{s.number, s.care, s.ends}, nil
	}
	err := c.policy.Do(ctx, func(ctx context.Context) error {
		_, err := c.enter(ctx)
		return c.explain(ctx, err)
	})
	if taken := c.take(ctx); taken != nil {
		return State{}, taken
	}
	defer c.give()
	return State{c.session.number, c.session.care, c.session.ends}, err
}

// Leave ends a session that this client has begun, and with it all that was taken in
// it. A token that was given is left as it is.
func (c *Client) Leave(ctx context.Context) error {
	if err := c.take(ctx); err != nil {
		return err
	}
	defer c.give()
	k := c.session.api
	if k == nil || c.cfg.Auth == "token" {
		return nil
	}
	c.session = session{}
	return c.explain(ctx, k.Auth().Token().RevokeSelfWithContext(ctx, ""))
}

// number is that of the session with a token; 0: it is over.
func (c *Client) number(ctx context.Context, token string) int64 {
	if c.take(ctx) != nil {
		return 0
	}
	defer c.give()
	if c.session.api != nil && c.session.api.Token() == token {
		return c.session.number
	}
	return 0
}

// take waits for one's turn with the session, as long as one may wait.
func (c *Client) take(ctx context.Context) error {
	select {
	case c.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *Client) give() { <-c.turn }

// enter returns a client with a token that is good as far as is known. Callers
// wait for one who logs in.
func (c *Client) enter(ctx context.Context) (*api.Client, error) {
	if err := c.take(ctx); err != nil {
		return nil, err
	}
	defer c.give()
	given := c.cfg.Auth == "token"
	switch s := c.session; {
	case s.api == nil && given:
		if err := c.look(ctx); err != nil {
			return nil, err
		}
	case s.api == nil:
		if err := c.login(ctx); err != nil {
			return nil, err
		}
	case !s.care.IsZero() && !c.cfg.Now().Before(s.care):
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
func (c *Client) look(ctx context.Context) error {
	token, err := c.cfg.Show("token")
	if err != nil {
		return err
	}
	if err := c.begin(token, 0, false, 0); err != nil {
		return err
	}
	k, number := c.session.api, c.session.number
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
	if err := c.begin(token, life, renewable, number); err != nil || renewable {
		return err
	}
	c.session.care = time.Time{}
	return nil
}

func (c *Client) renew(ctx context.Context) error {
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
	life := time.Duration(out.Auth.LeaseDuration) * time.Second
	if err := c.begin(was, life, out.Auth.Renewable, c.session.number); err != nil || life >= c.session.full*2/3 {
		return err
	}
	// Its longest life is near: what is taken in another session has time to be.
	return &api.ResponseError{StatusCode: http.StatusBadRequest, Errors: []string{"the token lives no longer"}}
}

func (c *Client) login(ctx context.Context) error {
	method := c.cfg.Auth
	in := map[string]any{}
	for param, what := range methods[method] {
		v, err := c.cfg.Show(what)
		if err != nil {
			return err
		}
		if v != "" {
			in[param] = v
		}
	}
	at := c.cfg.Mount
	anonymous, err := c.as("")
	if err != nil {
		return err
	}
	out, err := anonymous.Logical().WriteWithContext(ctx, "auth/"+at+"/login", in)
	var no *api.ResponseError
	if errors.As(err, &no) && no.StatusCode >= 400 && no.StatusCode < 500 && no.StatusCode != http.StatusTooManyRequests {
		return fault.New(fault.Denied, "%s does not let %s log in by %s at auth/%s; check its role and what it shows, then retry", c.name, c.cfg.Who, method, at).Because("login")
	}
	if err != nil {
		return err
	}
	if out == nil || out.Auth == nil || out.Auth.ClientToken == "" {
		return fault.New(fault.Denied, "%s gives no token for a login by %s at auth/%s; check that this is where the method is", c.name, method, at).Because("login")
	}
	return c.begin(out.Auth.ClientToken, time.Duration(out.Auth.LeaseDuration)*time.Second, out.Auth.Renewable, 0)
}

// over reports whether a token is refused everywhere, and not only here. An error
// says that nobody could be asked.
func (c *Client) over(ctx context.Context, k *api.Client) (bool, error) {
	_, err := k.Auth().Token().LookupSelfWithContext(ctx)
	var no *api.ResponseError
	if errors.As(err, &no) && no.StatusCode == http.StatusForbidden {
		return true, nil
	}
	return false, err
}

// leave ends a session that is over, and reports whether there can be another. If
// somebody else has begun one meanwhile, that is it.
func (c *Client) leave(ctx context.Context, token string) (another bool, err error) {
	if c.cfg.Auth == "token" {
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
