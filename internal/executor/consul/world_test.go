package consul_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/executor/consul"
	"github.com/droverhq/drover/internal/executor/executortest"
	"github.com/droverhq/drover/internal/resilience"
)

// impatient is a policy that does not make tests wait.
func impatient() consul.Config {
	return consul.Config{Resilience: resilience.Config{Timeout: time.Minute, Pause: time.Millisecond, Rest: time.Millisecond, Failures: 1000}}
}

// hands are those of somebody who uses Consul without Drover.
func hands(t testing.TB, url, token string) *api.Client {
	t.Helper()
	c, err := api.NewClient(&api.Config{Address: url, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// keys is a world of one key per thing, or of several.
func keys(t testing.TB, front *executortest.Front, direct, token string, several bool) executortest.Config {
	c := hands(t, direct, token)
	at := func(n int) string { return fmt.Sprintf("shop/%d/size", n) }
	edits := 0
	put := func(t testing.TB, key, value string) {
		t.Helper()
		_, err := c.KV().Put(&api.KVPair{Key: key, Value: []byte(value)}, nil)
		must(t, err)
	}
	return executortest.Config{
		Lives: 100, Executor: consul.New(impatient()), Connection: connection(front.URL, token),
		Inputs: func(n int, s executortest.Shape) map[string]any {
			where, value := at(n), any("small")
			switch s {
			case executortest.Changed:
				value = "large"
			case executortest.Moved:
				where = fmt.Sprintf("moved/%d/size", n)
			case executortest.Later:
				value = executor.Unknown{}
			case executortest.Veiled:
				value = executor.NewSecret(executortest.Canary)
			}
			if !several {
				return map[string]any{"key": where, "value": value}
			}
			in := map[string]any{"size": value, "colour": "red"}
			if s == executortest.Changed {
				delete(in, "colour")
				in["shape"] = "round"
			}
			return map[string]any{"prefix": where[:len(where)-len("/size")], "keys": in}
		},
		Look: func(t testing.TB) map[string]string {
			pairs, _, err := c.KV().List("", nil)
			must(t, err)
			out := map[string]string{}
			for _, p := range pairs {
				out[p.Key] = fmt.Sprintf("%d %s", p.Flags, p.Value)
			}
			return out
		},
		Take: func(t testing.TB, n int) { put(t, at(n), "theirs") },
		Edit: func(t testing.TB, n int) { edits++; put(t, at(n), fmt.Sprint("edit ", edits)) },
		Delete: func(t testing.TB, n int) {
			_, err := c.KV().Delete(at(n), nil)
			must(t, err)
			if several {
				_, err = c.KV().Delete(fmt.Sprintf("shop/%d/colour", n), nil)
				must(t, err)
				_, err = c.KV().Delete(fmt.Sprintf("shop/%d/shape", n), nil)
				must(t, err)
			}
		},
		Beside: func(t testing.TB, n int) string {
			put(t, fmt.Sprintf("shop/%d/stray", n), "theirs")
			return fmt.Sprintf("kv/shop/%d/stray", n)
		},
		Down: front.Down, Hang: front.Hang, Cut: front.Cut,
	}
}

func connection(url, token string) executor.Connection {
	c := executor.Connection{"address": url}
	if token != "" {
		c["token"] = token
	}
	return c
}

// services is a world of services.
func services(t testing.TB, front *executortest.Front, direct, token string) executortest.Config {
	c := hands(t, direct, token)
	node := func(n int) string { return fmt.Sprintf("node-%d", n) }
	register := func(t testing.TB, node, id, address string) {
		t.Helper()
		_, err := c.Catalog().Register(&api.CatalogRegistration{
			Node: node, Address: "10.9.9.9", SkipNodeUpdate: true,
			Service: &api.AgentService{ID: id, Service: "web", Address: address, Port: 80},
		}, nil)
		must(t, err)
	}
	edits := 0
	return executortest.Config{
		Lives: 100, Executor: consul.New(impatient()), Connection: connection(front.URL, token),
		Inputs: func(n int, s executortest.Shape) map[string]any {
			in := map[string]any{
				"service": "web", "node": node(n), "id": "web-1", "address": "10.0.0.1", "port": int64(80), "tags": []any{"a", "b"},
				"meta": map[string]any{"colour": "red"},
				"checks": []any{
					map[string]any{"name": "alive", "http": "http://10.0.0.1/", "interval": "5s"},
					map[string]any{"name": "port", "tcp": "10.0.0.1:80"},
				},
			}
			switch s {
			case executortest.Changed:
				in["port"], in["tags"] = int64(81), []any{"c"}
				in["checks"] = []any{map[string]any{"name": "port", "tcp": "10.0.0.1:81"}}
			case executortest.Moved:
				in["node"] = "other-" + node(n)
			case executortest.Later:
				in["address"] = executor.Unknown{}
			case executortest.Veiled:
				return nil // a catalog is read by everybody
			}
			return in
		},
		Look: func(t testing.TB) map[string]string {
			nodes, _, err := c.Catalog().Nodes(nil)
			must(t, err)
			out := map[string]string{}
			for _, n := range nodes {
				list, _, err := c.Catalog().NodeServiceList(n.Node, nil)
				must(t, err)
				checks, _, err := c.Health().Node(n.Node, nil)
				must(t, err)
				for _, s := range list.Services {
					out[n.Node+"/"+s.ID] = fmt.Sprint(s.Service, s.Address, s.Port, s.Tags, s.Meta, len(checks))
				}
			}
			return out
		},
		Take: func(t testing.TB, n int) { register(t, node(n), "web-1", "10.9.9.9") },
		Edit: func(t testing.TB, n int) { edits++; register(t, node(n), "web-1", fmt.Sprint("10.8.0.", edits)) },
		Delete: func(t testing.TB, n int) {
			_, err := c.Catalog().Deregister(&api.CatalogDeregistration{Node: node(n), ServiceID: "web-1"}, nil)
			must(t, err)
		},
		Beside: func(t testing.TB, n int) string {
			register(t, node(n), "other", "10.7.7.7")
			return "" // services are nobody's strays
		},
		Down: front.Down, Hang: front.Hang, Cut: front.Cut,
	}
}
