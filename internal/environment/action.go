package environment

import (
	"context"
	"encoding/json"
	"io"
	"time"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
	"github.com/droverhq/drover/internal/template"
)

// Runner runs the commands of actions.
type Runner interface {
	// Check refuses a command that cannot be run, without running anything.
	Check(c template.Command, files map[string][]byte) error
	// Run runs it to its end. What it prints goes to the log as it comes. Its error
	// says how it failed.
	Run(ctx context.Context, c template.Command, files map[string][]byte, log io.Writer) error
}

// Phases of a run of an action.
const (
	RunPending = "pending"
	RunRunning = "running"
	RunEnded   = "ended" // how is in its operation
)

// KindRun declares runs of actions: the id is that of the operation, the parent the
// environment.
var KindRun = ledger.Kind{
	Name:   "actionrun",
	Totals: [][]string{{}, {"org"}},
}

// RunSpec is what was asked for.
type RunSpec struct {
	Environment string `json:"environment"` // name
	Action      string `json:"action"`
	Version     string `json:"version"` // of the template
	// Arguments: reference of the keeper's, since people hand over what nobody else
	// is to see. They are shredded when it ends.
	Arguments string `json:"arguments,omitempty"`
}

// RunStatus is what has become of it.
type RunStatus struct {
	Log     string `json:"log,omitempty"` // digest
	LogFrom int64  `json:"log_from,omitempty"`
}

// Run is an object with its documents decoded.
type Run struct {
	ledger.Object
	Spec   RunSpec
	Status RunStatus
}

// DecodeRun reads a run out of its object.
func DecodeRun(o ledger.Object) (Run, error) {
	r := Run{Object: o}
	return r, decode(o, &r.Spec, &r.Status)
}

func (r Run) put(op string) (ledger.Put, error) {
	o := r.Object
	if err := encode(&o, r.Spec, r.Status); err != nil {
		return ledger.Put{}, err
	}
	return ledger.Put{Object: o, Expect: o.Version, Op: op}, nil
}

// Possible is an action with whether the caller may run it.
type Possible struct {
	template.Action
	Allowed bool
}

// Actions lists what can be run on an environment.
func (s *Service) Actions(ctx context.Context, environment string) ([]Possible, error) {
	e, b, err := s.blueprintOf(ctx, environment)
	if err != nil {
		return nil, err
	}
	var out []Possible
	for _, a := range b.About().Spec.Actions {
		out = append(out, Possible{a, mayRun(b, a.Name, access.From(ctx), e)})
	}
	return out, nil
}

func (s *Service) blueprintOf(ctx context.Context, environment string) (Environment, Blueprint, error) {
	o, err := s.Get(ctx, environment)
	if err != nil {
		return Environment{}, nil, err
	}
	e, err := Decode(o)
	if err != nil {
		return e, nil, err
	}
	b, err := s.Templates.Blueprint(ctx, e.Spec.Version)
	return e, b, err
}

func mayRun(b Blueprint, action string, who access.Principal, e Environment) bool {
	return who.Admin || who.Sees(e.Org, e.Owner) && b.May("action", action, who, e.Org, e.Owner)
}

// maxArguments bounds what is handed over to an action.
const maxArguments = 64 << 10

// RunAction starts an action and returns its operation. Faults: NotFound, Denied,
// Invalid (arguments), Conflict (reason "phase": nothing is there to run it on).
func (s *Service) RunAction(ctx context.Context, environment, action string, args map[string]any) (ledger.Object, error) {
	e, b, err := s.blueprintOf(ctx, environment)
	if err != nil {
		return ledger.Object{}, err
	}
	if !mayRun(b, action, access.From(ctx), e) {
		return ledger.Object{}, denied(access.From(ctx), "run "+clipName(action)+" on", e.Name)
	}
	switch {
	case !e.Deleted.IsZero() || e.Spec.Destroy:
		return ledger.Object{}, fault.New(fault.Conflict, "environment %s is being destroyed, or is gone", e.Name).Because("phase")
	case e.Spec.Turn == 0:
		return ledger.Object{}, fault.New(fault.Conflict, "environment %s is not there yet: wait until it is deployed", e.Name).Because("phase")
	case s.Runner == nil:
		return ledger.Object{}, fault.New(fault.Unavailable, "this server runs no actions")
	}
	command, files, err := s.command(ctx, e, action, args)
	if err == nil {
		err = s.Runner.Check(command, files)
	}
	if err != nil {
		return ledger.Object{}, err
	}
	raw, err := json.Marshal(args)
	if err != nil || len(raw) > maxArguments {
		return ledger.Object{}, fault.New(fault.Invalid, "the arguments of an action have at most %d bytes", maxArguments).Because("parameters")
	}
	sealed, err := s.Keeper.Seal(ctx, raw)
	if err != nil {
		return ledger.Object{}, err
	}
	begin := operation.Start("action:"+action, e.Object, ledger.CauseOf(ctx))
	r := Run{Object: ledger.Object{Ref: ledger.Ref{Kind: KindRun.Name, ID: begin.Object.ID}, Org: e.Org, Owner: e.Owner, Name: action, Parent: e.ID, Phase: RunPending},
		Spec: RunSpec{Environment: e.Name, Action: action, Version: e.Spec.Version, Arguments: sealed}}
	put, err := r.put("create")
	if err != nil {
		return ledger.Object{}, err
	}
	return s.commit(ctx, ledger.Set{Puts: []ledger.Put{begin, put}, Wakes: []ledger.Wake{{Ref: r.Ref, Org: r.Org}}})
}

func clipName(name string) string { return name[:min(len(name), 64)] }

// command renders an action with the files of its template.
func (s *Service) command(ctx context.Context, e Environment, action string, args map[string]any) (template.Command, map[string][]byte, error) {
	sh, err := s.sheet(ctx, e.Spec.Version, e.Spec.Parameters, e.facts())
	if err != nil {
		return template.Command{}, nil, err
	}
	var failed error
	c, err := sh.Action(ctx, action, args, s.known(ctx, sh, &failed, nil))
	if failed != nil {
		return c, nil, failed
	}
	if err != nil {
		return c, nil, err
	}
	if c.Timeout <= 0 {
		c.Timeout = actionTimeout
	}
	files, err := s.Templates.Files(ctx, e.Spec.Version, "")
	return c, files, err
}

const actionTimeout = 5 * time.Minute

// OperationLog returns what an action has said from an offset on; operations that
// are none have said nothing.
func (s *Service) OperationLog(ctx context.Context, id string, offset int64) (Tail, error) {
	op, err := s.Store.Get(ctx, ledger.Ref{Kind: operation.Kind.Name, ID: id})
	if op, err = visible(ctx, op, err, "operation", id); err != nil {
		return Tail{}, err
	}
	o, err := s.Store.Get(ctx, ledger.Ref{Kind: KindRun.Name, ID: id})
	if fault.Is(err, fault.NotFound) {
		return Tail{Running: op.Phase == operation.Running}, nil
	}
	if err != nil {
		return Tail{}, err
	}
	r, err := DecodeRun(o)
	if err != nil {
		return Tail{}, err
	}
	t, err := s.part(ctx, o.ID, r.Status.Log, r.Status.LogFrom, offset, r.Phase != RunEnded)
	t.Next = max(t.Next, offset) // what was read already may not be kept yet: nobody reads it twice
	return t, err
}
