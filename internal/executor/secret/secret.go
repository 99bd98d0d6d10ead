// Package secret makes resources that are secrets which nobody has chosen: passwords
// and keys, made once and kept in the ledger, sealed.
//
// It owns nothing outside: what it makes is its state and its output. It must not
// show a value to anybody.
package secret

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/expr"
	"github.com/droverhq/drover/internal/fault"
)

// Executor makes secrets.
type Executor struct{}

// New makes the executor.
func New() Executor { return Executor{} }

// Describe implements executor.Executor.
func (Executor) Describe() executor.Description {
	return executor.Description{
		Summary: "a password or key that nobody has chosen, made once and kept sealed in the ledger",
		Inputs: map[string]any{
			"type": "object", "additionalProperties": false,
			"properties": map[string]any{
				"bytes":    map[string]any{"type": "integer", "minimum": 16, "maximum": 512, "default": 32, "description": "of randomness"},
				"encoding": map[string]any{"type": "string", "enum": []any{"hex", "base64", "url"}, "default": "url", "description": "how it is written: hex digits, base64, or letters that need no quoting anywhere"},
				"turn":     map[string]any{"type": "string", "maxLength": 64, "description": "another word makes another secret", "examples": []any{"2026-11"}},
			},
		},
		Outputs: map[string]executor.Output{"value": {Type: expr.String, Secret: true, Summary: "the secret"}},
	}
}

// state is the secret with what it was made by.
type state struct {
	Bytes    int64  `json:"bytes"`
	Encoding string `json:"encoding"`
	Turn     string `json:"turn,omitempty"`
	Value    string `json:"value"`
}

// wanted is what the inputs ask for, and whether all of it is known.
func wanted(r executor.Resource) (w state, known bool, err error) {
	w = state{Bytes: 32, Encoding: "url"}
	known = true
	for _, name := range []string{"bytes", "encoding", "turn"} {
		in := r.Input(name)
		if err := in.Open(); err != nil {
			return w, false, err
		}
		if known = known && in.Known; !in.Given || !in.Known {
			continue
		}
		switch name {
		case "bytes":
			n, ok := in.Value.(int64)
			if !ok || n < 16 || n > 512 {
				return w, false, fault.New(fault.Invalid, "a secret has 16 to 512 bytes")
			}
			w.Bytes = n
		case "encoding":
			w.Encoding = in.Text()
		case "turn":
			w.Turn = in.Text()
		}
	}
	return w, known, nil
}

func kept(r executor.Resource) (*state, error) {
	if len(r.State) == 0 {
		return nil, nil
	}
	s := &state{}
	if err := json.Unmarshal(r.State, s); err != nil || s.Value == "" {
		return nil, fault.New(fault.Internal, "what is remembered of %s cannot be read", r.Address)
	}
	return s, nil
}

// differs lists what another one would be made for.
func (s state) differs(w state, known bool) (out []executor.Field) {
	add := func(path string, is, want any) {
		if is != want {
			out = append(out, executor.Field{Path: path, Before: is, After: want})
		}
	}
	add("bytes", s.Bytes, w.Bytes)
	add("encoding", s.Encoding, w.Encoding)
	add("turn", s.Turn, w.Turn)
	if !known {
		out = append(out, executor.Field{Path: "turn", Before: s.Turn, After: executor.Unknown{}})
	}
	return out
}

func (s *state) mark() string {
	if s == nil {
		return executor.Mark("nothing")
	}
	return executor.Mark(s.Bytes, s.Encoding, s.Turn)
}

// Plan implements executor.Executor.
func (Executor) Plan(ctx context.Context, r executor.Resource) (executor.Change, error) {
	if err := ctx.Err(); err != nil {
		return executor.Change{}, err
	}
	w, known, err := wanted(r)
	if err != nil {
		return executor.Change{}, err
	}
	s, err := kept(r)
	if err != nil {
		return executor.Change{}, err
	}
	c := executor.Change{Action: executor.None, Mark: s.mark(), Outputs: map[string]any{"value": executor.Unknown{}}}
	if s == nil {
		c.Action, c.Why = executor.Create, "there is no such secret"
		c.Fields = []executor.Field{{Path: "bytes", After: w.Bytes}, {Path: "encoding", After: w.Encoding}}
		return c, nil
	}
	if c.Fields = s.differs(w, known); len(c.Fields) > 0 {
		c.Action, c.Why = executor.Update, "another "+c.Fields[0].Path+" is wanted: a new secret is made"
		return c, nil
	}
	c.Outputs["value"] = executor.NewSecret(s.Value)
	return c, nil
}

// Apply implements executor.Executor. What is made is safe before anybody is told.
func (Executor) Apply(ctx context.Context, r executor.Resource) (executor.Result, error) {
	if err := r.Settled(); err != nil {
		return executor.Result{}, err
	}
	if err := ctx.Err(); err != nil {
		return executor.Result{}, err
	}
	w, _, err := wanted(r)
	if err != nil {
		return executor.Result{}, err
	}
	s, err := kept(r)
	if err != nil {
		return executor.Result{}, err
	}
	if s == nil || len(s.differs(w, true)) > 0 {
		if r.Mark != "" && r.Mark != s.mark() {
			return executor.Result{}, executor.Moved("the secret")
		}
		raw := make([]byte, w.Bytes)
		_, _ = rand.Read(raw) // never fails
		switch w.Encoding {
		case "hex":
			w.Value = hex.EncodeToString(raw)
		case "base64":
			w.Value = base64.StdEncoding.EncodeToString(raw)
		default:
			w.Value = base64.RawURLEncoding.EncodeToString(raw)
		}
		data, err := json.Marshal(w)
		if err != nil {
			return executor.Result{}, err
		}
		if err := r.Save(ctx, data); err != nil {
			return executor.Result{}, fmt.Errorf("cannot keep the secret: %w", err)
		}
		s = &w
		fmt.Fprintln(r.Log, "made a secret")
	}
	return executor.Result{Done: true, Outputs: map[string]any{"value": executor.NewSecret(s.Value)}, Made: []string{"a secret"}}, nil
}

// Observe implements executor.Executor.
func (Executor) Observe(ctx context.Context, r executor.Resource) (executor.Observation, error) {
	if err := ctx.Err(); err != nil {
		return executor.Observation{}, err
	}
	s, err := kept(r)
	return executor.Observation{Exists: s != nil, Mark: s.mark()}, err
}

// Destroy implements executor.Executor: its state goes with the resource.
func (Executor) Destroy(ctx context.Context, _ executor.Resource) (executor.Result, error) {
	return executor.Result{Done: true}, ctx.Err()
}
