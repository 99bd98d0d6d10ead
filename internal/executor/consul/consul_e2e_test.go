//go:build e2e

package consul_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/executor/consul"
	"github.com/droverhq/drover/internal/executor/executortest"
	"github.com/droverhq/drover/internal/fault"
	server "github.com/droverhq/drover/test/consul"
)

func TestContractOnConsul(t *testing.T) {
	s := server.Start(t)
	for name, several := range map[string]bool{"one": false, "several": true} {
		t.Run(name, func(t *testing.T) {
			if _, err := hands(t, s.URL, "").KV().DeleteTree("", nil); err != nil {
				t.Fatal(err)
			}
			executortest.Run(t, keys(t, executortest.Before(t, s.URL), s.URL, "", several))
		})
	}
	t.Run("services", func(t *testing.T) {
		c := services(t, executortest.Before(t, s.URL), s.URL, "")
		c.Executor = unlisted{c.Executor}
		executortest.Run(t, c)
	})
}

// The server itself is killed when it is down, and stopped in its tracks when it
// hangs.
func TestContractOnBadDays(t *testing.T) {
	s := server.Start(t, server.WithData(), server.WithACLs())
	c := keys(t, executortest.Before(t, s.URL), s.URL, s.Token, true)
	c.Down = func(t testing.TB) func() {
		must(t, s.Kill())
		return func() { must(t, s.Start()) }
	}
	c.Hang = func(t testing.TB) func() {
		must(t, s.Pause())
		return func() { must(t, s.Resume()) }
	}
	c.Lives = 20
	executortest.Run(t, c)
}

func TestTokens(t *testing.T) {
	s := server.Start(t, server.WithACLs())
	expect := func(t *testing.T, e *consul.Executor, r executor.Resource, reason, next string) {
		t.Helper()
		o, err := e.Observe(t.Context(), r)
		if !fault.Is(err, fault.Denied) || fault.Reason(err) != reason || !strings.Contains(err.Error(), next) {
			t.Errorf("observed %+v, %v (%v, %q)", o, err, fault.Of(err), fault.Reason(err))
		}
		if _, err := e.Apply(t.Context(), r); !fault.Is(err, fault.Denied) || fault.Reason(err) != reason {
			t.Errorf("applied: %v", err)
		}
		if _, err := e.Destroy(t.Context(), r); !fault.Is(err, fault.Denied) || fault.Reason(err) != reason {
			t.Errorf("destroyed: %v", err)
		}
	}
	made := func(t *testing.T, token string, in map[string]any) (*consul.Executor, executor.Resource) {
		r := resource(s.URL)
		r.Connection = connection(s.URL, token)
		if r.ID = t.Name(); in != nil {
			r.Inputs = in
		}
		return consul.New(impatient()), r
	}
	service := map[string]any{"service": "web", "address": "10.0.0.1", "port": int64(80), "node": "n1"}
	t.Run("without any", func(t *testing.T) {
		e, r := made(t, "", nil)
		expect(t, e, r, "denied", "")
	})
	t.Run("of nobody", func(t *testing.T) {
		e, r := made(t, "11111111-2222-3333-4444-555555555555", nil)
		expect(t, e, r, "token", "put a new one")
	})
	t.Run("services without any", func(t *testing.T) {
		root, kept := made(t, s.Token, service)
		if _, err := root.Apply(t.Context(), kept); err != nil {
			t.Fatal(err)
		}
		e, r := made(t, "", service)
		expect(t, e, r, "denied", "")
		if o, err := root.Observe(t.Context(), kept); err != nil || !o.Exists {
			t.Errorf("it is gone: %+v, %v", o, err)
		}
	})
	t.Run("that may only read", func(t *testing.T) {
		e, r := made(t, s.TokenOf(t, `key_prefix "" { policy = "read" }`), nil)
		if o, err := e.Observe(t.Context(), r); err != nil || o.Exists {
			t.Errorf("%+v, %v", o, err)
		}
		if _, err := e.Apply(t.Context(), r); !fault.Is(err, fault.Denied) || fault.Reason(err) != "denied" || !strings.Contains(err.Error(), "key") {
			t.Errorf("applied: %v", err)
		}
	})
	t.Run("that may only do what is needed", func(t *testing.T) {
		token := s.TokenOf(t, `key_prefix "shop/" { policy = "write" }
node_prefix "" { policy = "write" }
service_prefix "" { policy = "write" }`)
		for _, in := range []map[string]any{nil, {"service": "api", "address": "10.0.0.1", "port": int64(80)}} {
			e, r := made(t, token, in)
			if _, err := e.Apply(t.Context(), r); err != nil {
				t.Errorf("apply: %v", err)
			}
			if o, err := e.Observe(t.Context(), r); err != nil || !o.Exists {
				t.Errorf("%+v, %v", o, err)
			}
			if _, err := e.Destroy(t.Context(), r); err != nil {
				t.Errorf("destroy: %v", err)
			}
		}
	})
	t.Run("expired", func(t *testing.T) {
		var token struct{ SecretID string }
		in := map[string]any{"Policies": []map[string]string{{"Name": "global-management"}}, "ExpirationTTL": "60s"}
		must(t, s.API().Ask(t.Context(), http.MethodPut, "/v1/acl/token", in, &token))
		e, r := made(t, token.SecretID, nil)
		if _, err := e.Apply(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		// Consul lets none live for less than a minute: to delete it is the same.
		var self struct{ AccessorID string }
		must(t, s.As(token.SecretID).Ask(t.Context(), http.MethodGet, "/v1/acl/token/self", nil, &self))
		must(t, s.API().Ask(t.Context(), http.MethodDelete, "/v1/acl/token/"+self.AccessorID, nil, nil))
		expect(t, e, r, "token", "put a new one")
	})
}

// A thousand resources share a few connections, and a change is told to the one
// that it concerns.
func TestManyWatch(t *testing.T) {
	s := server.Start(t)
	e := consul.New(impatient())
	const many = 1000
	told := make([]chan struct{}, many)
	ctx, cancel := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	for i := range many {
		told[i] = make(chan struct{}, 16)
		r := resource(s.URL)
		r.Connection = connection(s.URL, "")
		r.Inputs = map[string]any{"key": fmt.Sprintf("shop/%d/size", i), "value": "small"}
		wait.Go(func() {
			_ = e.Watch(ctx, r, func() {
				select {
				case told[i] <- struct{}{}:
				default:
				}
			})
		})
	}
	get := func(i int, what string) {
		t.Helper()
		select {
		case <-told[i]:
		case <-time.After(2 * time.Minute):
			t.Fatalf("%s: %d was not told", what, i)
		}
	}
	for i := range many {
		get(i, "at first")
	}
	_, err := hands(t, s.URL, "").KV().Put(&api.KVPair{Key: "shop/7/size", Value: []byte("large")}, nil)
	must(t, err)
	get(7, "after a change")
	woken := 0
	for i := range many {
		if len(told[i]) > 0 {
			woken++
		}
	}
	if woken > 1 {
		t.Errorf("%d others were woken", woken)
	}
	cancel()
	wait.Wait()
}
