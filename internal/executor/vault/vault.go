// Package vault makes resources that are secrets and policies of Vault or
// OpenBao, which speak the same language.
//
// It owns how they are marked as a resource's, and what is generated. Values go from
// inputs to the server and from the server to secret outputs, and nowhere else.
package vault

import (
	"context"
	"crypto/rand"
	"fmt"
	"math/big"
	"strconv"
	"time"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/expr"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/resilience"
	"github.com/droverhq/drover/internal/vault"
)

// Executor keeps secrets and policies.
type Executor struct {
	executor.Things
	pool *executor.Pool[*vault.Client]
}

// Config of the executor.
type Config struct {
	// Resilience is the policy of each connection; Name is that of its server.
	Resilience resilience.Config
	// Now is the clock that sessions end by; default time.Now.
	Now func() time.Time
}

// New makes the executor.
func New(c Config) *Executor {
	if c.Now == nil {
		c.Now = time.Now
	}
	e := &Executor{pool: executor.NewPool(func(conn executor.Connection) (*vault.Client, error) { return dial(conn, c) })}
	e.Things.Open = e.open
	return e
}

// charsets that values are generated from.
var charsets = map[string]string{
	"alnum":   "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
	"alpha":   "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
	"digits":  "0123456789",
	"hex":     "0123456789abcdef",
	"symbols": "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!#%+,-./:=?@_",
}

// Describe implements executor.Executor.
func (*Executor) Describe() executor.Description {
	return executor.Description{
		Summary: "a secret with given and generated values, or a policy, in Vault or OpenBao",
		Inputs: map[string]any{
			"type": "object", "additionalProperties": false,
			"oneOf": []any{
				map[string]any{"required": []any{"path", "data"}, "propertyNames": map[string]any{"enum": []any{"mount", "path", "data", "generate"}}},
				map[string]any{"required": []any{"path", "generate"}, "propertyNames": map[string]any{"enum": []any{"mount", "path", "generate"}}},
				map[string]any{"required": []any{"policy", "rules"}, "propertyNames": map[string]any{"enum": []any{"policy", "rules"}}},
			},
			"properties": map[string]any{
				"mount": map[string]any{"type": "string", "default": "secret", "pattern": "^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*$", "description": "where a KV secrets engine of version 2 is mounted"},
				"path":  map[string]any{"type": "string", "pattern": "^[A-Za-z0-9_.@-]+(/[A-Za-z0-9_.@-]+)*$", "maxLength": 256, "description": "of the secret in the mount", "examples": []any{"shop/db"}},
				"data":  map[string]any{"type": "object", "additionalProperties": map[string]any{"type": "string"}, "description": "values by name"},
				"generate": map[string]any{
					"type": "object", "minProperties": 1, "maxProperties": 32, "description": "values that are made up once and shown to nobody, by name",
					"additionalProperties": map[string]any{
						"type": "object", "additionalProperties": false,
						"properties": map[string]any{
							"length":   map[string]any{"type": "integer", "minimum": 8, "maximum": 1024, "default": 32, "description": "in characters"},
							"charset":  map[string]any{"type": "string", "enum": []any{"alnum", "alpha", "digits", "hex", "symbols"}, "default": "alnum", "description": "of which characters"},
							"rotation": map[string]any{"type": "string", "default": "", "description": "whenever this changes, a new value is made up"},
						},
					},
				},
				"policy": map[string]any{"type": "string", "pattern": "^[a-z0-9_-]+$", "maxLength": 128, "description": "name of a policy", "examples": []any{"shop-read"}},
				"rules":  map[string]any{"type": "string", "description": "of the policy, in HCL"},
			},
		},
		Outputs: map[string]executor.Output{
			"path":     {Type: expr.String, Summary: "mount and path of the secret, as people write it"},
			"dataPath": {Type: expr.String, Summary: "path of the secret as policies name it: secret/data/shop/db"},
			"version":  {Type: expr.Int, Summary: "of the secret, one more with each change"},
			"values":   {Type: expr.Map(expr.String), Secret: true, Summary: "all values of the secret, given and generated, by name"},
			"policy":   {Type: expr.String, Summary: "name of the policy"},
		},
		Connects: true, Every: time.Minute,
	}
}

func (e *Executor) open(_ context.Context, r executor.Resource) (executor.Thing, error) {
	c, err := e.pool.Get(r.Connection)
	if err != nil {
		return nil, err
	}
	if r.Input("policy").Given {
		return newPolicy(c, r)
	}
	return newSecret(c, r)
}

// rule says how a value is generated.
type rule struct {
	length   int
	charset  string
	rotation string
}

// String is what is remembered of a rule and shown: another text asks for another
// value.
func (r rule) String() string {
	s := fmt.Sprintf("%d of %s", r.length, r.charset)
	if r.rotation != "" {
		s += ", rotation " + r.rotation
	}
	return s
}

func readRule(name string, v any) (rule, error) {
	m, _ := v.(map[string]any)
	out := rule{length: 32, charset: "alnum"}
	if l, ok := m["length"]; ok {
		n, err := strconv.Atoi(fmt.Sprint(l))
		if err != nil || n < 8 || n > 1024 {
			return out, fault.New(fault.Invalid, "generate.%s has a length of %v; it is between 8 and 1024", name, l)
		}
		out.length = n
	}
	if c, ok := m["charset"].(string); ok && c != "" {
		out.charset = c
	}
	if charsets[out.charset] == "" {
		return out, fault.New(fault.Invalid, "generate.%s has a charset %q that nobody knows", name, out.charset)
	}
	if rotation, ok := m["rotation"]; ok && rotation != nil {
		out.rotation = fmt.Sprint(rotation)
	}
	return out, nil
}

// generate makes a value up.
func (r rule) generate() (string, error) {
	letters := charsets[r.charset]
	out := make([]byte, r.length)
	for i := range out {
		n, err := rand.Int(rand.Reader, big.NewInt(int64(len(letters))))
		if err != nil {
			return "", err
		}
		out[i] = letters[n.Int64()]
	}
	return string(out), nil
}

// stale says that somebody was faster between Look and Make.
func stale(r executor.Resource, what string) error {
	if r.Mark != "" {
		return executor.Moved(what)
	}
	return fault.New(fault.Unavailable, "%s changes while it is being written; it is tried again", what).Because("busy")
}
