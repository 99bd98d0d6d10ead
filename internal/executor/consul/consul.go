// Package consul makes resources that are keys and services of Consul.
//
// It owns how they are marked as a resource's: keys by their flags, services by
// their meta, both written in the transaction that writes the rest, so that there
// is no moment in which something is there and nobody's. It must not know what
// the values mean.
package consul

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/expr"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/resilience"
)

// Executor keeps keys and services.
type Executor struct {
	executor.Things
	pool *executor.Pool[*client]
}

// Config of the executor.
type Config struct {
	// Resilience is the policy of each connection; Name is that of its server.
	Resilience resilience.Config
}

// New makes the executor.
func New(c Config) *Executor {
	e := &Executor{pool: executor.NewPool(func(conn executor.Connection) (*client, error) { return dial(conn, c.Resilience) })}
	e.Things.Open = e.open
	return e
}

// atOnce is how many keys a resource may have, and checks a service: what Consul
// changes in one transaction.
const atOnce = 64

// Describe implements executor.Executor.
func (*Executor) Describe() executor.Description {
	text := func(description string, more ...any) map[string]any {
		m := map[string]any{"type": "string", "description": description}
		for i := 0; i < len(more); i += 2 {
			m[more[i].(string)] = more[i+1]
		}
		return m
	}
	name := "^[A-Za-z0-9_.-]+$"
	form := func(needed []any, more ...any) map[string]any {
		return map[string]any{"required": needed, "propertyNames": map[string]any{"enum": slices.Concat(needed, more)}}
	}
	return executor.Description{
		Summary: "keys, or a service, in Consul",
		Inputs: map[string]any{
			"type": "object", "additionalProperties": false,
			"oneOf": []any{
				form([]any{"key", "value"}),
				form([]any{"prefix", "keys"}),
				form([]any{"service", "address", "port"}, "id", "node", "tags", "meta", "checks"),
			},
			"properties": map[string]any{
				"key":    text("one key", "pattern", "^[^/]", "maxLength", 512, "examples", []any{"shop/size"}),
				"value":  text("what is kept under the key"),
				"prefix": text("in front of each of the keys", "pattern", "^[^/]", "maxLength", 512, "examples", []any{"shop/settings"}),
				"keys": map[string]any{
					"type": "object", "minProperties": 1, "maxProperties": atOnce, "additionalProperties": map[string]any{"type": "string"},
					"description": "several keys with their values, which change together or not at all",
				},
				"service": text("name of a service, registered in the catalog", "pattern", name, "examples", []any{"web"}),
				"id":      text("of this one among those of the same name; default: the name", "pattern", name),
				"node":    text("under which it is registered; default: one of its own", "pattern", name),
				"address": text("where the service is"),
				"port":    map[string]any{"type": "integer", "minimum": 1, "maximum": 65535, "description": "port of the service"},
				"tags":    map[string]any{"type": "array", "items": map[string]any{"type": "string"}, "description": "tags of the service"},
				"meta":    map[string]any{"type": "object", "additionalProperties": map[string]any{"type": "string"}, "description": "further facts about the service"},
				"checks": map[string]any{
					"type": "array", "maxItems": 16, "description": "health checks, run by consul-esm where there is one",
					"items": map[string]any{
						"type": "object", "additionalProperties": false, "required": []any{"name"},
						"properties": map[string]any{
							"name": text("of the check"), "http": text("URL that must answer 2xx"), "tcp": text("host:port that must be open"),
							"interval": text("between two runs", "default", "10s"),
							"status":   text("until it was run", "enum", []any{"passing", "warning", "critical"}, "default", "passing"),
						},
					},
				},
			},
		},
		Outputs: map[string]executor.Output{
			"keys":    {Type: expr.List(expr.String), Summary: "whole names of the keys"},
			"prefix":  {Type: expr.String, Summary: "as it was given, or the key"},
			"service": {Type: expr.String, Summary: "name of the service"},
			"id":      {Type: expr.String, Summary: "of the service on its node"},
			"node":    {Type: expr.String, Summary: "under which the service is registered"},
			"address": {Type: expr.String, Summary: "host:port of the service"},
		},
		Connects: true,
	}
}

func (e *Executor) open(_ context.Context, r executor.Resource) (executor.Thing, error) {
	c, err := e.pool.Get(r.Connection)
	if err != nil {
		return nil, err
	}
	if r.Input("service").Given {
		return newService(c, r)
	}
	return newKeys(c, r)
}

// flag is what the keys of a resource carry. It fits into the whole numbers of
// every language, and is never that of a key nobody has marked.
func flag(id string) uint64 {
	sum := sha256.Sum256([]byte("drover " + id))
	return binary.BigEndian.Uint64(sum[:8])>>16 | 1<<48
}

// short is a name that is made of a resource's id.
func short(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:6])
}

// stale says that somebody was faster between Look and Make.
func stale(r executor.Resource, what string) error {
	if r.Mark != "" {
		return executor.Moved(what)
	}
	return fault.New(fault.Unavailable, "%s changes while it is being written; it is tried again", what).Because("busy")
}

// texts returns a list of texts as it may come from an output or an input.
func texts(v any) (out []string) {
	switch x := v.(type) {
	case []string:
		return x
	case []any:
		for _, e := range x {
			if s, ok := e.(string); ok {
				out = append(out, s)
			}
		}
	}
	return out
}
