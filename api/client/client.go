// Package client is the one Go client of Drover's own API, /api/v1. The command
// line, the agent and outside programs use it.
//
// It owns requests, bounds on answers, errors that say what went wrong, and
// streams that survive a lost connection. It must not know contexts, files or
// anything else of the machine it runs on.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

const (
	maxAnswer = 32 << 20 // a page of 100 objects of the largest size fits
	maxEvent  = 64 << 20
	maxSync   = 64 << 20 // the full desired state of a large cluster
	maxError  = 64 << 10
)

// Config says which server to talk to, and as whom.
type Config struct {
	Server string // URL; without a scheme: http for loopback, https for all else
	Token  string // bearer token; empty: anonymous
	// Bearer returns the token for each request, in place of Token: one that is
	// short-lived is renewed by it. Default: Token.
	Bearer func(ctx context.Context) (string, error)
	// HTTPClient default: connects within 10 s, follows no redirects (a token
	// must not travel to another host).
	HTTPClient *http.Client
	// Plaintext lets the token go to another machine over http, where whoever is
	// on the way reads it. Default: that is refused.
	Plaintext bool
	UserAgent string        // default "drover-client"
	Timeout   time.Duration // of one request that is not a stream; default 30 s
	// Warn is told what servers say that people should know; default: nobody is.
	Warn func(text string)
	// Silence is how long a stream may say nothing, not even a heartbeat,
	// before its connection is taken for lost; default 1 min.
	Silence time.Duration
	// Backoff is the pause before the nth attempt in a row (from 1) to resume a
	// stream; default 200 ms doubling to 10 s, with jitter.
	Backoff func(attempt int) time.Duration
}

// Client is safe for concurrent use.
type Client struct {
	base *url.URL
	cfg  Config
}

// New checks the configuration; it does not connect.
func New(cfg Config) (*Client, error) {
	base, err := parseServer(cfg.Server)
	if err != nil {
		return nil, err
	}
	if strings.ContainsAny(cfg.Token, "\r\n\x00") {
		return nil, errors.New("the token holds a line break")
	}
	if (cfg.Token != "" || cfg.Bearer != nil) && !cfg.Plaintext && exposed(base) {
		return nil, fmt.Errorf("%w: %s is another machine and named with http: use https", ErrPlaintext, base.Host)
	}
	if cfg.HTTPClient == nil {
		cfg.HTTPClient = HTTPClient(Transport())
	}
	if cfg.UserAgent == "" {
		cfg.UserAgent = "drover-client"
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 30 * time.Second
	}
	if cfg.Silence <= 0 {
		cfg.Silence = time.Minute
	}
	if cfg.Backoff == nil {
		cfg.Backoff = backoff
	}
	return &Client{base: base, cfg: cfg}, nil
}

// ErrPlaintext says that a token would travel for everybody on the way to read.
var ErrPlaintext = errors.New("a token does not travel unencrypted")

// Transport is how a client connects by default, for those who change some of it.
func Transport() *http.Transport {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext = (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext
	transport.ResponseHeaderTimeout = 30 * time.Second
	return transport
}

// HTTPClient follows no redirects: a token must not travel to another host.
func HTTPClient(t http.RoundTripper) *http.Client {
	return &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// Exposed reports whether what is sent to a server can be read on its way: it is
// another machine, and named with http.
func Exposed(server string) bool {
	base, err := parseServer(server)
	return err == nil && exposed(base)
}

func exposed(base *url.URL) bool { return base.Scheme == "http" && !Loopback(base.Hostname()) }

// Loopback reports whether a host is this machine by any resolver: an address
// of the loopback network, or localhost.
func Loopback(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || err == nil && ip.Unmap().IsLoopback()
}

// Server is the URL of the server.
func (c *Client) Server() string { return c.base.String() }

func parseServer(server string) (*url.URL, error) {
	if server == "" {
		return nil, errors.New("no server is named")
	}
	raw := server
	if !strings.Contains(raw, "://") {
		scheme := "https://"
		host, _, err := net.SplitHostPort(raw)
		if err != nil {
			host = raw
		}
		if Loopback(host) {
			scheme = "http://"
		}
		raw = scheme + raw
	}
	base, err := url.Parse(raw)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, errors.New("the server is named by an http or https URL, such as http://127.0.0.1:8000")
	}
	if base.User != nil {
		return nil, errors.New("a user or password has no place in the server's URL: use a token")
	}
	return &url.URL{Scheme: base.Scheme, Host: base.Host, Path: strings.TrimSuffix(base.Path, "/")}, nil
}

func backoff(attempt int) time.Duration {
	d := min(200*time.Millisecond<<min(attempt-1, 10), 10*time.Second)
	return d/2 + rand.N(d)
}

// call is one request: where to, and what with.
type call struct {
	method string
	path   []string // segments below /api/v1, not yet escaped
	query  url.Values
	body   any // []byte goes as it is, anything else as JSON
	media  string
}

func (c *Client) request(ctx context.Context, r call) (*http.Request, error) {
	var body io.Reader
	switch b := r.body.(type) {
	case nil:
	case []byte:
		body = bytes.NewReader(b)
	default:
		data, err := json.Marshal(b)
		if err != nil {
			return nil, fmt.Errorf("cannot encode the request: %w", err)
		}
		body = bytes.NewReader(data)
	}
	target := c.base.JoinPath("api", "v1")
	for _, segment := range r.path {
		// "." and ".." would climb to another endpoint even when escaped.
		if segment == "" || segment == "." || segment == ".." {
			return nil, fmt.Errorf("%q is not a name or id", segment)
		}
		target.RawPath = target.EscapedPath() + "/" + url.PathEscape(segment)
		target.Path += "/" + segment
	}
	target.RawQuery = r.query.Encode()
	req, err := http.NewRequestWithContext(ctx, r.method, target.String(), body)
	if err != nil {
		return nil, fmt.Errorf("cannot make the request: %w", err)
	}
	if body != nil {
		media := r.media
		if media == "" {
			media = "application/json"
		}
		req.Header.Set("Content-Type", media)
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", c.cfg.UserAgent)
	token := c.cfg.Token
	if c.cfg.Bearer != nil {
		if token, err = c.cfg.Bearer(ctx); err != nil {
			return nil, err
		}
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return req, nil
}

// send returns an answer with a status below 300, everything else as an error.
func (c *Client) send(req *http.Request) (*http.Response, error) {
	resp, err := c.cfg.HTTPClient.Do(req)
	if err != nil {
		return nil, unreachable(req, err)
	}
	if resp.StatusCode >= 300 {
		defer resp.Body.Close()
		return nil, readError(req, resp)
	}
	if text := resp.Header.Get("Drover-Warning"); text != "" && c.cfg.Warn != nil {
		c.cfg.Warn(text)
	}
	return resp, nil
}

// do sends a request and decodes its answer; into may be nil.
func (c *Client) do(ctx context.Context, r call, into any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.cfg.Timeout, errSlow)
	defer cancel()
	return c.exchange(ctx, r, into, maxAnswer)
}

// exchange is do for as long as ctx lasts.
func (c *Client) exchange(ctx context.Context, r call, into any, limit int64) error {
	req, err := c.request(ctx, r)
	if err != nil {
		return err
	}
	resp, err := c.send(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	switch {
	case err != nil:
		return unreachable(req, err)
	case int64(len(data)) > limit:
		return fmt.Errorf("the answer to %s %s is larger than %d MiB: ask for smaller pages", r.method, req.URL.Path, limit>>20)
	case into == nil || len(data) == 0:
		return nil
	}
	if raw, ok := into.(*[]byte); ok { // a document of another kind
		*raw = data
		return nil
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s did not answer as a Drover server does (%s %s): %w", c.base.Host, r.method, req.URL.Path, err)
	}
	return nil
}
