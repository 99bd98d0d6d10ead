// Package terraform is the executor of modules of OpenTofu, or of Terraform: a
// module of the template's tree, or files that the template says.
//
// It owns how modules are laid out, planned and carried out, and how their plans
// are read. What OpenTofu remembers it must not know where to keep: whoever wires
// it has a place that answers OpenTofu itself, so that a run that outlives this
// process can still write down what it has made.
package terraform

import (
	"context"
	"os"
	"time"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/fault"
)

// States are where OpenTofu's states are kept, by the resource's id.
type States interface {
	// Read tells what is known of a state, and the state; nil: there is none.
	Read(ctx context.Context, resource string) (Head, []byte, error)
	// Access is what one run needs to come to its state, for as long as it may take.
	Access(ctx context.Context, run Run) (Access, error)
	// Rescue keeps a state that a run could not bring there itself. Conflict: there
	// is a newer one, or somebody else works on it.
	Rescue(ctx context.Context, resource string, state []byte) error
	// Break takes a lock away from a run that is no more.
	Break(ctx context.Context, resource, lock string) error
	// Forget destroys a state of which nothing is left.
	Forget(ctx context.Context, resource string) error
}

// Head is what is known of a state.
type Head struct {
	Serial  int64
	Lineage string
	Lock    *Lock // nil: nobody works on it
}

// Lock is who works on a state.
type Lock struct {
	ID, Host, Run string
	Since         time.Time
}

// Run is one run of OpenTofu on one resource.
type Run struct {
	Resource  string
	Host, Dir string // where it works
	Fence     int64
	Within    time.Duration // it takes no longer
}

// Access is the address of a state for OpenTofu's backend "http", and the
// credentials for it.
type Access struct{ URL, User, Password string }

// Config of the executor. Work and States are needed.
type Config struct {
	Binary string // default: tofu, as PATH has it
	// Settings is OpenTofu's own file of settings (TF_CLI_CONFIG_FILE), for a mirror
	// of providers; default: that of the server's environment.
	Settings string
	Work     string // directory of runs, each of which has one below
	Cache    string // directory of providers that all runs share; default: none
	States   States
}

// Executor runs OpenTofu.
type Executor struct {
	Config
	host string
	// fetch has room for one who fetches providers: the cache is not made for two.
	fetch chan struct{}
}

// New makes the executor, and clears up what runs of earlier processes have left.
func New(c Config) (*Executor, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fault.New(fault.Unavailable, "cannot tell the name of this machine: %w", err)
	}
	x := &Executor{Config: c, host: host, fetch: make(chan struct{}, 1)}
	for _, dir := range []string{c.Work, c.Cache} {
		if dir == "" {
			continue
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fault.New(fault.Invalid, "cannot use the directory of OpenTofu's runs: %w", err)
		}
	}
	if c.Work != "" {
		x.sweep("")
	}
	return x, nil
}

// Describe implements executor.Executor.
func (*Executor) Describe() executor.Description {
	text := func(s string) map[string]any { return map[string]any{"type": "string", "description": s} }
	return executor.Description{
		Summary: "a module of OpenTofu or Terraform, with its state in the ledger",
		Inputs: map[string]any{
			"type": "object", "additionalProperties": false,
			"properties": map[string]any{
				"module": text("directory of the template's tree with the module: `./network`"),
				"files": map[string]any{"type": "object", "description": "the module's files by name, in place of module",
					"additionalProperties": map[string]any{"type": "string"}},
				"variables": map[string]any{"type": "object", "description": "values of the module's variables; secret ones are sensitive in the module"},
			},
		},
		Open: true, Timeout: 30 * time.Minute, AtOnce: 4, Every: 15 * time.Minute,
	}
}

// Plan implements executor.Executor.
func (x *Executor) Plan(ctx context.Context, r executor.Resource) (executor.Change, error) {
	m, err := x.module(ctx, r, false)
	if err != nil {
		return executor.Change{}, err
	}
	head, state, err := x.States.Read(ctx, r.ID)
	if err != nil {
		return executor.Change{}, err
	}
	if !m.known {
		return later(r, m, head, contents(state)), nil
	}
	run, err := x.begin(ctx, r, m, false)
	if err != nil {
		return executor.Change{}, err
	}
	defer run.end()
	p, _, err := run.plan(ctx, normal)
	if err != nil {
		return executor.Change{}, err
	}
	return change(head, p, r.Outputs != nil), nil
}

// Observe implements executor.Executor.
func (x *Executor) Observe(ctx context.Context, r executor.Resource) (executor.Observation, error) {
	head, state, err := x.States.Read(ctx, r.ID)
	if err != nil {
		return executor.Observation{}, err
	}
	if state == nil && r.Outputs == nil {
		return executor.Observation{Mark: mark(head, nil)}, ctx.Err()
	}
	m, err := x.module(ctx, r, true)
	if err == nil {
		err = r.Settled()
	}
	if err != nil {
		return executor.Observation{}, err
	}
	run, err := x.begin(ctx, r, m, false)
	if err != nil {
		return executor.Observation{}, err
	}
	defer run.end()
	mode := refresh
	if state == nil { // whether that is as it should be only what it would make tells
		mode = normal
	}
	p, _, err := run.plan(ctx, mode)
	if err != nil {
		return executor.Observation{}, err
	}
	o := executor.Observation{Exists: there(head, p, r.Outputs != nil), Mark: mark(head, p)}
	if o.Exists {
		o.Drift = drift(p)
	}
	return o, nil
}
