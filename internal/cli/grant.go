package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/droverhq/drover/api/client"
)

// provider is where an identity provider says that it is to be found.
type provider struct {
	Authorization string `json:"authorization_endpoint"`
	Token         string `json:"token_endpoint"`
	End           string `json:"end_session_endpoint"`
}

// grant is what a login gives.
type grant struct {
	Access  string `json:"access_token"`
	Refresh string `json:"refresh_token"`
	Seconds int64  `json:"expires_in"`
}

// discover reads the provider's own description.
func discover(ctx context.Context, web *http.Client, issuer string) (p provider, err error) {
	base, err := url.Parse(issuer)
	if err != nil || base.Host == "" {
		return p, usagef("%s is no URL of an identity provider", quoted(issuer))
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base.JoinPath(".well-known", "openid-configuration").String(), nil)
	if err != nil {
		return p, err
	}
	if err := answer(web, req, &p); err != nil {
		return p, fmt.Errorf("cannot find the identity provider at %s: %w", issuer, err)
	}
	if p.Authorization == "" || p.Token == "" {
		return p, usagef("people do not log in at %s: name its identity provider with --issuer", issuer)
	}
	for _, endpoint := range []string{p.Authorization, p.Token, p.End} {
		u, err := url.Parse(endpoint)
		if endpoint != "" && (err != nil || u.Scheme != "https" && !(u.Scheme == "http" && (u.Host == base.Host || client.Loopback(u.Hostname())))) {
			return p, fmt.Errorf("the identity provider at %s names %s, which is not safe: it needs https", issuer, quoted(endpoint))
		}
	}
	return p, nil
}

// refused is an answer of the token endpoint that trying again does not change.
type refused struct {
	Code string `json:"error"`
}

func (e *refused) Error() string { return "the identity provider says " + clean(e.Code, false) }

func (p provider) exchange(ctx context.Context, web *http.Client, form url.Values) (g grant, err error) {
	err = post(ctx, web, p.Token, form, &g)
	if err == nil && g.Access == "" {
		err = errors.New("the identity provider gave no token")
	}
	return g, err
}

func post(ctx context.Context, web *http.Client, to string, form url.Values, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return answer(web, req, into)
}

// answer sends a request and reads JSON. What came back is not repeated: it may
// hold tokens.
func answer(web *http.Client, req *http.Request, into any) error {
	req.Header.Set("Accept", "application/json")
	resp, err := web.Do(req)
	if err != nil {
		if inner := errors.Unwrap(err); inner != nil {
			err = inner // net/http repeats the URL
		}
		if req.Context().Err() != nil {
			return fmt.Errorf("cannot ask %s: %w", req.URL.Host, err)
		}
		return &client.Unreachable{Server: req.URL.Host, Err: err}
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return fmt.Errorf("cannot ask %s: %w", req.URL.Host, err)
	}
	if resp.StatusCode >= 300 {
		var no refused
		if resp.StatusCode < 500 && json.Unmarshal(data, &no) == nil && no.Code != "" {
			return &no
		}
		return fmt.Errorf("%s answered %s", req.URL.Host, resp.Status)
	}
	if len(data) == 0 || into == nil {
		return nil
	}
	if json.Unmarshal(data, into) != nil {
		return fmt.Errorf("%s did not answer as an identity provider does", req.URL.Host)
	}
	return nil
}

// keep notes a login in a context.
func (i *contextItem) keep(g grant, p provider, client string, now time.Time) {
	i.Token, i.TokenFile, i.Expires = g.Access, "", ""
	if g.Seconds > 0 {
		i.Expires = now.Add(time.Duration(g.Seconds) * time.Second).UTC().Format(time.RFC3339)
	}
	if g.Refresh != "" {
		i.RefreshToken = g.Refresh
	}
	i.TokenURL, i.LogoutURL, i.ClientID = p.Token, p.End, client
}

// end tells the identity provider that the login is over.
func (i contextItem) end(ctx context.Context) error {
	if i.LogoutURL == "" {
		return errors.New("it has no way to log out")
	}
	web, err := i.web()
	if err != nil {
		return err
	}
	return post(ctx, web, i.LogoutURL, url.Values{"client_id": {i.ClientID}, "refresh_token": {i.RefreshToken}}, nil)
}

// early is how long before its end a token is renewed.
const early = 30 * time.Second

func (i contextItem) fresh(now time.Time, margin time.Duration) bool {
	end, err := time.Parse(time.RFC3339, i.Expires)
	return err == nil && now.Add(margin).Before(end)
}

// bearer returns the token of a context's login, renewed when it is due. A
// refresh token is good once, so commands that run at the same time take turns:
// whoever comes second finds the new one in the file.
func (c *CLI) bearer(name string, item contextItem) func(context.Context) (string, error) {
	var mu sync.Mutex
	return func(ctx context.Context) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		if item.fresh(c.now(), early) {
			return item.Token, nil
		}
		renewed, err := c.renew(ctx, name)
		if err == nil {
			item = renewed
			return item.Token, nil
		}
		var no *refused
		if errors.As(err, &no) {
			return "", &deniedError{"the login of context " + quoted(name) + " has ended: `drover login --context " + name + "` begins another"}
		}
		if item.fresh(c.now(), 0) {
			return item.Token, nil // the provider is away; the old one is still good
		}
		at, _ := url.Parse(item.TokenURL)
		return "", &client.Unreachable{Server: at.Host, Err: fmt.Errorf("the login cannot be renewed: %w", err)}
	}
}

func (c *CLI) renew(ctx context.Context, name string) (item contextItem, err error) {
	err = c.editContexts(ctx, func(file *contexts) error {
		if item, err = file.get(name); err != nil || item.fresh(c.now(), early) {
			return err
		}
		// What was sent counts: an interrupt must not lose the answer.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
		defer cancel()
		p := provider{Token: item.TokenURL, End: item.LogoutURL}
		web, err := item.web()
		if err != nil {
			return err
		}
		g, err := p.exchange(ctx, web, url.Values{"grant_type": {"refresh_token"}, "client_id": {item.ClientID}, "refresh_token": {item.RefreshToken}})
		if err != nil {
			return err
		}
		item.keep(g, p, item.ClientID, c.now())
		file.Contexts[name] = item
		return nil
	})
	return item, err
}
