package consul_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/hashicorp/consul/api"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/executor/consul"
	"github.com/droverhq/drover/internal/executor/executortest"
	"github.com/droverhq/drover/internal/fault"
)

func TestKeys(t *testing.T) {
	for name, several := range map[string]bool{"one": false, "several": true} {
		t.Run(name, func(t *testing.T) {
			f := newFake()
			executortest.Run(t, keys(t, executortest.NewFront(t, f), executortest.NewFront(t, f).URL, "", several))
		})
	}
}

func TestServices(t *testing.T) {
	f := newFake()
	c := services(t, executortest.NewFront(t, f), executortest.NewFront(t, f).URL, "")
	c.Executor = unlisted{c.Executor}
	executortest.Run(t, c)
}

// unlisted hides that keys are listed: services have no strays.
type unlisted struct{ executor.Executor }

func (u unlisted) Watch(ctx context.Context, r executor.Resource, changed func()) error {
	return u.Executor.(executor.Watcher).Watch(ctx, r, changed)
}

func resource(url string) executor.Resource {
	return executor.Resource{
		ID: "res-1", Address: "size", Connection: executor.Connection{"address": url, "token": "t0ken"},
		Inputs: map[string]any{"key": "shop/size", "value": "small"}, Log: io.Discard,
		Save: func(context.Context, []byte) error { return nil },
	}
}

func TestRefusals(t *testing.T) {
	for _, tc := range []struct {
		reason, body string
		status       int
		kind         fault.Kind
		why, next    string
	}{
		{"a token that is gone", "ACL not found", 403, fault.Denied, "token", "put a new one"},
		{"a token without rights", "Permission denied: token lacks permission 'key:write' on \"shop/size\"", 403, fault.Denied, "denied", "key:write"},
		{"no leader", "No cluster leader", 500, fault.Unavailable, "no-leader", "by itself"},
		{"something broke", "boom", 500, fault.Unavailable, "", "by itself"},
		{"too many requests", "Your IP is issuing too many concurrent connections", 429, fault.Unavailable, "", "by itself"},
		{"too large", "Request body too large", 413, fault.Invalid, "", "512 KiB"},
		{"nonsense", "Missing key name", 400, fault.Invalid, "", "Missing key name"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			f := newFake()
			f.refuse = func(r *http.Request) (int, string) {
				if got := r.Header.Get("X-Consul-Token"); got != "t0ken" {
					t.Errorf("the token is %q", got)
				}
				return tc.status, tc.body
			}
			r := resource(executortest.NewFront(t, f).URL)
			e := consul.New(impatient())
			_, err := e.Apply(t.Context(), r)
			if !fault.Is(err, tc.kind) || fault.Reason(err) != tc.why || !strings.Contains(err.Error(), tc.next) {
				t.Errorf("apply: %v (%v, %q)", err, fault.Of(err), fault.Reason(err))
			}
			if o, err := e.Observe(t.Context(), r); !fault.Is(err, tc.kind) {
				t.Errorf("observe: %+v, %v", o, err)
			}
			if _, err := e.Destroy(t.Context(), r); !fault.Is(err, tc.kind) {
				t.Errorf("destroy: %v", err)
			}
		})
	}
}

// The environment of the server is not that of tenants' connections.
func TestEnvironmentIsNotUsed(t *testing.T) {
	t.Setenv("CONSUL_HTTP_TOKEN", "the server's own")
	t.Setenv("CONSUL_NAMESPACE", "elsewhere")
	f := newFake()
	f.refuse = func(r *http.Request) (int, string) {
		if r.Header.Get("X-Consul-Token") != "" || r.URL.Query().Has("ns") {
			t.Errorf("asked with %v, %v", r.Header, r.URL)
		}
		return 0, ""
	}
	r := resource(executortest.NewFront(t, f).URL)
	delete(r.Connection, "token")
	if _, err := consul.New(impatient()).Apply(t.Context(), r); err != nil {
		t.Error(err)
	}
}

func TestConnections(t *testing.T) {
	for _, tc := range []struct {
		reason string
		c      executor.Connection
	}{
		{"no address", executor.Connection{}},
		{"no URL", executor.Connection{"address": "consul:8500"}},
		{"a file", executor.Connection{"address": "file:///etc/passwd"}},
		{"a misspelt option", executor.Connection{"address": "http://127.0.0.1:1", "tokn": "x"}},
		{"no certificate", executor.Connection{"address": "https://127.0.0.1:1", "ca": "x"}},
		{"half a pair", executor.Connection{"address": "https://127.0.0.1:1", "cert": "x"}},
		{"a token in the clear to another machine", executor.Connection{"address": "http://consul.invalid:8500", "token": "x"}},
	} {
		r := resource("")
		r.Connection = tc.c
		if _, err := consul.New(impatient()).Observe(t.Context(), r); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: got %v", tc.reason, err)
		}
	}
}

func TestInputs(t *testing.T) {
	for _, tc := range []struct {
		reason string
		in     map[string]any
	}{
		{"a secret name", map[string]any{"key": executor.NewSecret("x"), "value": "y"}},
		{"a key that is a path", map[string]any{"key": "/x", "value": "y"}},
		{"a number", map[string]any{"key": "x", "value": int64(1)}},
		{"a secret in the catalog", map[string]any{"service": "web", "address": executor.NewSecret("x"), "port": int64(1)}},
		{"an interval", map[string]any{"service": "web", "address": "x", "port": int64(1), "checks": []any{map[string]any{"name": "c", "interval": "often"}}}},
	} {
		r := resource("http://127.0.0.1:1")
		r.Inputs = tc.in
		if _, err := consul.New(impatient()).Plan(t.Context(), r); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: got %v", tc.reason, err)
		}
	}
}

// One who comes between reading and writing is not overwritten.
func TestSomebodyIsFaster(t *testing.T) {
	for _, in := range []map[string]any{
		{"key": "shop/size", "value": "small"},
		{"service": "web", "id": "web-1", "node": "n1", "address": "10.0.0.1", "port": int64(80)},
	} {
		f := newFake()
		url := executortest.NewFront(t, f).URL
		c := hands(t, url, "")
		r := resource(url)
		r.Inputs = in
		r.Save = func(context.Context, []byte) error {
			_, err := c.KV().Put(&api.KVPair{Key: "shop/size", Value: []byte("theirs")}, nil)
			must(t, err)
			_, err = c.Catalog().Register(&api.CatalogRegistration{Node: "n1", Address: "10.9.9.9", Service: &api.AgentService{ID: "web-1", Service: "theirs"}}, nil)
			must(t, err)
			return nil
		}
		e := consul.New(impatient())
		for range 2 {
			if _, err := e.Apply(t.Context(), r); fault.Reason(err) != "not-ours" {
				t.Errorf("%v: got %v", in, err)
			}
		}
		if _, err := e.Destroy(t.Context(), r); err != nil {
			t.Error(err)
		}
		if string(f.kv["shop/size"].Value) != "theirs" || f.services[[2]string{"n1", "web-1"}].Service != "theirs" {
			t.Errorf("%v: theirs was overwritten", in)
		}
	}
}
