// Package certificate makes resources that are certificates: an authority of its own,
// and what that one signs for servers, agents and clients. They are kept in the ledger, keys
// sealed.
//
// It owns nothing outside: what it makes is its state and its outputs. It must not show
// a key to anybody, nor know who uses a certificate.
package certificate

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/droverhq/drover/internal/authority"
	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/expr"
	"github.com/droverhq/drover/internal/fault"
)

// useAuthority is that of what signs the others.
const useAuthority = "authority"

// Executor makes certificates.
type Executor struct {
	// Now is the time; default time.Now.
	Now func() time.Time
}

// New makes the executor.
func New() Executor { return Executor{} }

func (x Executor) now() time.Time {
	if x.Now == nil {
		return time.Now()
	}
	return x.Now()
}

// Describe implements executor.Executor.
func (Executor) Describe() executor.Description {
	return executor.Description{
		Summary: "a certificate with its key: an authority of its own, or what that one signs; kept in the ledger",
		Inputs: map[string]any{
			"type": "object", "additionalProperties": false, "required": []any{"use", "name"},
			"properties": map[string]any{
				"use":   map[string]any{"type": "string", "enum": []any{useAuthority, authority.UseServer, authority.UseClient, authority.UseAgent}, "description": "whose it is"},
				"name":  map[string]any{"type": "string", "minLength": 1, "maxLength": 64, "description": "its common name; of an agent: the cluster", "examples": []any{"drover"}},
				"hosts": map[string]any{"type": "array", "maxItems": 50, "items": map[string]any{"type": "string", "maxLength": 253}, "description": "of a server: names and addresses that it is reached by"},
				"signer": map[string]any{"type": "string", "maxLength": 32 << 10, "description": "the output key of an authority, which signs; an authority has none",
					"examples": []any{"${authority.outputs.key}"}},
				"lifetime": map[string]any{"type": "string", "description": "default: 90 days, of an authority ten years", "examples": []any{"2160h"}},
				"turn":     map[string]any{"type": "string", "maxLength": 64, "description": "another word makes another one; that of an authority is signed by the one before, too", "examples": []any{"2026-11"}},
			},
		},
		Outputs: map[string]executor.Output{
			"certificate": {Type: expr.String, Summary: "in PEM form, with what leads to its authority; of an authority: what everybody is to believe"},
			"key":         {Type: expr.String, Secret: true, Summary: "in PEM form; of an authority: what signs"},
			"fingerprint": {Type: expr.String, Summary: "another one for each certificate that is made, for who starts anew because of it"},
		},
		Every: time.Hour,
	}
}

// state is what was made, with what it was made by.
type state struct {
	Use      string   `json:"use"`
	Name     string   `json:"name"`
	Hosts    []string `json:"hosts,omitempty"`
	Lifetime string   `json:"lifetime,omitempty"`
	Turn     string   `json:"turn,omitempty"`

	Certificate string `json:"certificate"`
	Key         string `json:"key"`
}

// wanted is what the inputs ask for.
type wanted struct {
	state
	signer *authority.Held // nil: it has none, or is not known
	known  bool
}

func read(r executor.Resource) (w wanted, err error) {
	w.known = true
	for _, name := range []string{"use", "name", "hosts", "lifetime", "turn"} {
		in := r.Input(name)
		if err := in.Open(); err != nil { // everybody can read them in the certificate
			return w, err
		}
		w.known = w.known && in.Known
	}
	w.Use, w.Name, w.Lifetime, w.Turn = r.Input("use").Text(), r.Input("name").Text(), r.Input("lifetime").Text(), r.Input("turn").Text()
	hosts, _ := r.Input("hosts").Value.([]any)
	for _, h := range hosts {
		if text, ok := h.(string); ok {
			w.Hosts = append(w.Hosts, text)
		}
	}
	if w.Lifetime != "" {
		if d, err := time.ParseDuration(w.Lifetime); err != nil || d < time.Minute {
			return w, fault.New(fault.Invalid, "lifetime is a duration of at least a minute, such as 2160h")
		}
	}
	by := r.Input("signer")
	w.known = w.known && by.Known
	switch use := r.Input("use"); {
	case !use.Known:
	case (w.Use == useAuthority) == by.Given:
		return w, fault.New(fault.Invalid, "a certificate is signed by an authority: signer is its output key; an authority itself has no signer")
	case w.Use != useAuthority && by.Known:
		if w.signer, err = authority.OpenHeld(by.Text(), ""); err != nil {
			return w, fault.New(fault.Invalid, "signer is no authority's key")
		}
	}
	return w, nil
}

func kept(r executor.Resource) (*state, error) {
	if len(r.State) == 0 {
		return nil, nil
	}
	s := &state{}
	if err := json.Unmarshal(r.State, s); err != nil || s.Key == "" {
		return nil, fault.New(fault.Internal, "what is remembered of %s cannot be read", r.Address)
	}
	return s, nil
}

// ends tells when it ends, and whether that is soon: when a third of its life is left.
func (s *state) ends(now time.Time) (end time.Time, soon bool) {
	from, to := authority.Life(s.Certificate)
	return to, now.After(to.Add(-to.Sub(from) / 3))
}

// differs lists what another one would be made for.
func (s *state) differs(w wanted, now time.Time) (out []executor.Field) {
	add := func(path string, differs bool, is, want any) {
		if differs {
			out = append(out, executor.Field{Path: path, Before: is, After: want})
		}
	}
	add("use", s.Use != w.Use, s.Use, w.Use)
	add("name", s.Name != w.Name, s.Name, w.Name)
	add("hosts", !slices.Equal(s.Hosts, w.Hosts), fmt.Sprint(s.Hosts), fmt.Sprint(w.Hosts))
	add("lifetime", s.Lifetime != w.Lifetime, s.Lifetime, w.Lifetime)
	add("turn", s.Turn != w.Turn, s.Turn, w.Turn)
	if w.signer != nil {
		add("signer", !w.signer.Signed(s.Certificate), "the authority before", "the authority")
	}
	if !w.known {
		out = append(out, executor.Field{Path: "signer", Before: "the authority", After: executor.Unknown{}})
	}
	if to, soon := s.ends(now); soon {
		out = append(out, executor.Field{Path: "ends", Before: to.UTC().Format(time.DateOnly), After: "later"})
	}
	return out
}

func (s *state) mark() string {
	if s == nil {
		return executor.Mark("nothing")
	}
	return executor.Mark(s.Certificate)
}

func (s *state) outputs() map[string]any {
	return map[string]any{"certificate": s.Certificate, "key": executor.NewSecret(s.Key), "fingerprint": authority.Print(s.Certificate)}
}

// Plan implements executor.Executor.
func (x Executor) Plan(ctx context.Context, r executor.Resource) (executor.Change, error) {
	if err := ctx.Err(); err != nil {
		return executor.Change{}, err
	}
	w, err := read(r)
	if err != nil {
		return executor.Change{}, err
	}
	s, err := kept(r)
	if err != nil {
		return executor.Change{}, err
	}
	c := executor.Change{Action: executor.None, Mark: s.mark(), Outputs: map[string]any{"certificate": executor.Unknown{}, "key": executor.Unknown{}, "fingerprint": executor.Unknown{}}}
	if s == nil {
		c.Action, c.Why = executor.Create, "there is no such certificate"
		c.Fields = []executor.Field{{Path: "use", After: w.Use}, {Path: "name", After: w.Name}}
		return c, nil
	}
	if c.Fields = s.differs(w, x.now()); len(c.Fields) > 0 {
		c.Action, c.Why = executor.Update, "another "+c.Fields[0].Path+" is wanted: a new certificate is made"
		if c.Fields[0].Path == "ends" {
			c.Why = fmt.Sprintf("it ends on %v: a new one is made", c.Fields[0].Before)
		}
		return c, nil
	}
	if r.Outputs != nil && r.Outputs["fingerprint"] == nil { // it is of a time before there was one
		c.Action, c.Why = executor.Update, "its fingerprint is told"
		c.Fields = []executor.Field{{Path: "fingerprint", After: "told"}}
	}
	c.Outputs = s.outputs()
	return c, nil
}

// Apply implements executor.Executor. What is made is safe before anybody is told.
func (x Executor) Apply(ctx context.Context, r executor.Resource) (executor.Result, error) {
	if err := r.Settled(); err != nil {
		return executor.Result{}, err
	}
	if err := ctx.Err(); err != nil {
		return executor.Result{}, err
	}
	w, err := read(r)
	if err != nil {
		return executor.Result{}, err
	}
	s, err := kept(r)
	if err != nil {
		return executor.Result{}, err
	}
	var differs []executor.Field
	if s != nil {
		differs = s.differs(w, x.now())
	}
	if s == nil || len(differs) > 0 {
		// One that is only old was perhaps made by this very plan, and nobody was told: a
		// newer one is what both want.
		old := len(differs) == 1 && differs[0].Path == "ends"
		if r.Mark != "" && r.Mark != s.mark() && !old {
			return executor.Result{}, executor.Moved("the certificate")
		}
		if err := w.make(s); err != nil {
			return executor.Result{}, err
		}
		data, err := json.Marshal(w.state)
		if err != nil {
			return executor.Result{}, err
		}
		if err := r.Save(ctx, data); err != nil {
			return executor.Result{}, fmt.Errorf("cannot keep the certificate: %w", err)
		}
		s = &w.state
		to, _ := s.ends(x.now())
		fmt.Fprintf(r.Log, "made a certificate, good until %s\n", to.UTC().Format(time.DateOnly))
	}
	return executor.Result{Done: true, Outputs: s.outputs(), Made: []string{"a certificate of " + s.Name}}, nil
}

// make makes what is wanted; an authority with the word of the one before it.
func (w *wanted) make(was *state) error {
	lifetime, _ := time.ParseDuration(w.Lifetime) // read has seen to it; zero: the default
	if w.Use != useAuthority {
		var err error
		w.Certificate, w.Key, err = w.signer.Issue(authority.Request{Use: w.Use, Name: w.Name, Hosts: w.Hosts, Lifetime: lifetime})
		return err
	}
	var held *authority.Held
	var err error
	if was != nil && was.Use == useAuthority && was.Name == w.Name {
		if held, err = authority.OpenHeld(was.Key, was.Certificate); err == nil {
			err = held.Rotate(lifetime)
		}
	} else {
		held, err = authority.NewHeld(w.Name, lifetime)
	}
	if err == nil {
		w.Certificate = held.Bundle()
		w.Key, err = held.Signer()
	}
	return err
}

// Observe implements executor.Executor. What ends soon differs from what is wanted: it is
// made anew by a plan, or by a correction where the template says so.
func (x Executor) Observe(ctx context.Context, r executor.Resource) (executor.Observation, error) {
	if err := ctx.Err(); err != nil {
		return executor.Observation{}, err
	}
	s, err := kept(r)
	o := executor.Observation{Exists: s != nil, Mark: s.mark()}
	if err != nil || s == nil {
		return o, err
	}
	if to, soon := s.ends(x.now()); soon {
		o.Drift = []executor.Field{{Path: "ends", Before: "later", After: to.UTC().Format(time.DateOnly)}}
	}
	return o, nil
}

// Destroy implements executor.Executor: its state goes with the resource.
func (Executor) Destroy(ctx context.Context, _ executor.Resource) (executor.Result, error) {
	return executor.Result{Done: true}, ctx.Err()
}
