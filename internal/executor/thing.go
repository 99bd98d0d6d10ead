package executor

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/droverhq/drover/internal/fault"
)

// Thing is what one resource stands for in something that keeps things by name:
// keys, services, secrets, policies. It is opened for one call.
type Thing interface {
	// Look reads everything that the resource has or may have, and refuses with
	// NotOurs where something else is where it is wanted.
	Look(ctx context.Context) (View, error)
	// Make makes it as it is wanted, in one step that happens or does not, on the
	// condition that all is as Look has seen it. What is needed to find it again
	// is remembered before.
	Make(ctx context.Context) error
	// Finish does what is left after Make, also that of a killed call: it takes
	// away what is no longer wanted.
	Finish(ctx context.Context) error
	// Remove takes away everything that the resource has made.
	Remove(ctx context.Context) error
	// Outputs of what Look has seen, or of what Make has made.
	Outputs() map[string]any
}

// View is what Look has seen.
type View struct {
	Name   string  // for people: "key shop/size"
	There  bool    // it is where it is wanted, whatever it is like
	Fields []Field // how it differs from what is wanted there
	// Left is what the resource has and is no longer wanted; of what has moved
	// away it Forces.
	Left []Field
	// Unfinished: it is as wanted, and Finish has something to do.
	Unfinished bool
	Unready    string // see Observation
	By         string // see Observation
	Mark       string // see Change; the same until Make has happened
	// Outputs as they will be, Unknown where that is not known.
	Outputs map[string]any
	Takes   []string // see Change
}

func (v View) right() bool { return v.There && len(v.Fields) == 0 }

// Things is the part of an Executor that is the same for all things: what is
// decided about what was seen. An executor embeds it and describes itself.
type Things struct {
	Open func(ctx context.Context, r Resource) (Thing, error)
}

func (t Things) look(ctx context.Context, r Resource) (Thing, View, error) {
	if err := ctx.Err(); err != nil {
		return nil, View{}, err
	}
	x, err := t.Open(ctx, r)
	if err != nil {
		return nil, View{}, err
	}
	v, err := x.Look(ctx)
	return x, v, err
}

// Plan implements Executor.
func (t Things) Plan(ctx context.Context, r Resource) (Change, error) {
	_, v, err := t.look(ctx, r)
	if err != nil {
		return Change{}, err
	}
	c := Change{Action: None, Mark: v.Mark, Outputs: v.Outputs, Takes: v.Takes, Fields: slices.Concat(v.Left, v.Fields)}
	switch forces := func(f Field) bool { return f.Forces }; {
	case slices.ContainsFunc(c.Fields, forces):
		f := c.Fields[slices.IndexFunc(c.Fields, forces)]
		c.Action, c.Why = Replace, fmt.Sprintf("%s is %v, wanted %v", f.Path, Show(f.Before), Show(f.After))
	case !v.There:
		c.Action, c.Why = Create, v.Name+" is not there"
	case len(c.Fields) > 0:
		f := c.Fields[0]
		c.Action, c.Why = Update, fmt.Sprintf("%s is %v, wanted %v", f.Path, told(f.Before), told(f.After))
		if n := len(c.Fields) - 1; n > 0 {
			c.Why += fmt.Sprintf(", and %d more", n)
		}
	}
	return c, nil
}

func told(v any) any {
	switch x := Show(v).(type) {
	case nil:
		return "nothing"
	case string:
		if runes := []rune(x); len(runes) > 60 {
			return string(runes[:60]) + "…"
		}
		return x
	default:
		return x
	}
}

// Apply implements Executor.
func (t Things) Apply(ctx context.Context, r Resource) (Result, error) {
	if err := r.Settled(); err != nil {
		return Result{}, err
	}
	x, v, err := t.look(ctx, r)
	if err != nil {
		return Result{}, err
	}
	// What is right already may have been made right by a call that was killed,
	// under the very plan that has seen something else.
	if !v.right() {
		if r.Mark != "" && r.Mark != v.Mark {
			return Result{}, Moved(v.Name)
		}
		if err := x.Make(ctx); err != nil {
			return Result{}, err
		}
		fmt.Fprintf(r.Log, "wrote %s\n", v.Name)
	}
	if !v.right() || v.Unfinished || len(v.Left) > 0 {
		if err := x.Finish(ctx); err != nil {
			return Result{}, err
		}
	}
	return Result{Done: true, Outputs: x.Outputs(), Made: []string{v.Name}}, nil
}

// Observe implements Executor.
func (t Things) Observe(ctx context.Context, r Resource) (Observation, error) {
	_, v, err := t.look(ctx, r)
	if fault.Reason(err) == "not-ours" {
		// Something is there, and what the resource has made is not.
		return Observation{Mark: Mark("not ours")}, nil
	}
	if err != nil {
		return Observation{}, err
	}
	o := Observation{Exists: v.There, Mark: v.Mark}
	if v.There {
		o.By, o.Unready = v.By, v.Unready
		for _, f := range v.Fields {
			o.Drift = append(o.Drift, Field{Path: f.Path, Before: f.After, After: f.Before})
		}
	}
	return o, nil
}

// Destroy implements Executor.
func (t Things) Destroy(ctx context.Context, r Resource) (Result, error) {
	if err := ctx.Err(); err != nil {
		return Result{}, err
	}
	x, err := t.Open(ctx, r)
	if err != nil {
		return Result{}, err
	}
	if err := x.Remove(ctx); err != nil {
		return Result{}, err
	}
	return Result{Done: true}, nil
}

// Memory is what a Thing keeps in a resource's State.
type Memory struct {
	Names []string        `json:"names,omitempty"` // of what it may have, sorted
	Note  json.RawMessage `json:"note,omitempty"`
}

// Memory returns what was last remembered.
func (r Resource) Memory() (m Memory) {
	_ = json.Unmarshal(r.State, &m) // nothing was kept yet
	return m
}

// Remember saves what differs from what was last remembered. A note is put as it
// becomes JSON; nil: none.
func (r Resource) Remember(ctx context.Context, names []string, note any) error {
	m := Memory{Names: slices.Clone(names)}
	slices.Sort(m.Names)
	m.Names = slices.Compact(m.Names)
	if note != nil {
		data, err := json.Marshal(note)
		if err != nil {
			return err
		}
		m.Note = data
	}
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if r.Save == nil || string(data) == string(r.State) {
		return ctx.Err()
	}
	if err := r.Save(ctx, data); err != nil {
		return fmt.Errorf("cannot remember what is about to be made: %w", err)
	}
	return ctx.Err()
}
