package environment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/resilience"
	"github.com/droverhq/drover/internal/template"
)

// calls holds the policy of each executor and connection: all calls to one share
// it.
type calls struct {
	mu sync.Mutex
	of map[string]*side
}

// side is an executor and connection with whose call failed there last: what that
// said is nobody else's to read.
type side struct {
	*resilience.Policy
	name string
	last atomic.Pointer[string]
}

// forever is the timeout of a policy: each call brings its own.
const forever = 365 * 24 * time.Hour

func (s *Service) policy(name, connection string, d executor.Description) *side {
	s.calls.mu.Lock()
	defer s.calls.mu.Unlock()
	key := name
	if d.Connects {
		key += "/" + connection
	}
	if s.calls.of == nil {
		s.calls.of = map[string]*side{}
	}
	if s.calls.of[key] == nil {
		c := ExecutorPolicy(key, d, s.Observer)
		c.Rest = s.rest
		s.calls.of[key] = &side{name: key, Policy: resilience.New(c)}
	}
	return s.calls.of[key]
}

// ExecutorPolicy is what bounds the calls of an executor, of one connection if it has any.
func ExecutorPolicy(key string, d executor.Description, observer resilience.Observer) resilience.Config {
	atOnce := d.AtOnce
	if atOnce <= 0 {
		atOnce = 16
	}
	return resilience.Config{Name: "executor " + key, Timeout: forever, AtOnce: atOnce, Tell: true, Observer: observer}
}

// call is one resource as it is given to its executor.
type call struct {
	executor.Executor
	about    executor.Description
	resource executor.Resource
	policy   *side
	timeout  time.Duration
	known    []any // trees that hold secrets of it
	veil     veil  // over those
}

// subject is what a call is about.
type subject struct {
	id, address, name, connection string // name of the executor
	tags                          []string
	timeout                       time.Duration
	environment                   string
	org, owner, template          string
	operator                      bool
	there                         *Resource // nil: it was never made
	inputs                        map[string]any
}

func subjectOf(sh *sheet, n template.Node, of Facts) subject {
	return subject{id: sh.id(n.Address), address: n.Address, name: n.Executor, connection: connection(n), tags: n.Tags,
		timeout: time.Duration(n.Timeout), environment: of.Name, org: of.Org, owner: of.Owner, template: sh.about.Name}
}

// call prepares a call: it opens the connection and what is sealed.
func (s *Service) call(ctx context.Context, on subject) (*call, error) {
	x := s.Executors[on.name]
	if x == nil {
		return nil, fault.New(fault.Invalid, "this server has no executor %q", on.name)
	}
	d := x.Describe()
	c := &call{Executor: x, about: d, policy: s.policy(on.name, on.connection, d), timeout: on.timeout, resource: executor.Resource{
		ID: on.id, Address: on.address, Environment: on.environment, Org: on.org, Owner: on.owner, Operator: on.operator, Tags: on.tags,
		Inputs: on.inputs, Log: io.Discard,
	}}
	if c.timeout <= 0 {
		if c.timeout = d.Timeout; c.timeout <= 0 {
			c.timeout = time.Minute
		}
	}
	if d.Connects {
		if s.Connections == nil {
			return nil, fault.New(fault.Invalid, "this server has no connection %q for executor %s", on.connection, on.name)
		}
		var err error
		if c.resource.Connection, err = s.Connections.Open(ctx, on.name, on.connection, Whose{Org: on.org, Template: on.template, Operator: on.operator}); err != nil {
			return nil, err
		}
	}
	var before map[string]any // what it was made with: secrets may have changed since
	if on.there != nil {
		var err error
		if before, err = s.keptInputs(ctx, on.there.Status); err != nil {
			return nil, err
		}
		if c.resource.Outputs, err = s.made(ctx, *on.there); err != nil {
			return nil, err
		}
		if on.there.Status.Version == "" && len(c.resource.Outputs) == 0 {
			c.resource.Outputs = nil // it was never made
		}
		if c.resource.State, err = s.unseal(ctx, on.there.Status.State); err != nil {
			return nil, err
		}
	}
	c.known = []any{on.inputs, before, c.resource.Outputs, credentials(c.resource.Connection)}
	c.veil = veilOf(c.known...)
	return c, nil
}

// credentials are the options of a connection that nobody may read in a message.
func credentials(c executor.Connection) map[string]any {
	out := map[string]any{}
	for name, v := range c {
		name = strings.ToLower(name)
		if slices.ContainsFunc([]string{"token", "secret", "password", "key", "credential"}, func(s string) bool { return strings.Contains(name, s) }) {
			out[name] = executor.NewSecret(v)
		}
	}
	return out
}

// queueTries is how often a plan queues for an executor that has enough to do.
const queueTries = 60

// errSlow ends a call that takes longer than it may.
var errSlow = errors.New("timeout")

// do makes the call once, or again while the other side is away. What its error
// says is fit for people.
func (c *call) do(ctx context.Context, again bool, call func(context.Context, executor.Resource) error) error {
	var own error // what says nothing about the other side
	within := func(ctx context.Context) error {
		ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, errSlow)
		defer cancel()
		err := call(ctx, c.resource)
		if own = nil; err == nil {
			return nil
		}
		if errors.Is(context.Cause(ctx), errSlow) {
			err = fault.New(fault.Unavailable, "it took longer than %s", c.timeout).Because("timeout")
		}
		said := seemly{error: err, text: c.veil.text(err.Error()), own: c.alone(err)}
		if said.own {
			own = said
			return nil
		}
		whose := c.whose()
		c.policy.last.Store(&whose)
		return said
	}
	run := c.policy.Once
	if again {
		run = c.policy.Do
	}
	err := run(ctx, within)
	for tries := 0; again && fault.Reason(err) == "bulkhead-full" && tries < queueTries && ctx.Err() == nil; tries++ {
		err = run(ctx, within) // others plan at the same time: each try waits for its turn
	}
	if err == nil {
		return own
	}
	text := c.veil.text(err.Error())
	if last := c.policy.last.Load(); fault.Reason(err) == "breaker-open" && (last == nil || *last != c.whose()) {
		text = fmt.Sprintf("executor %s does not answer; it is tried again by itself", c.policy.name)
	}
	return seemly{error: err, text: text}
}

func (c *call) whose() string { return c.resource.Org + "/" + c.resource.Owner }

// alone reports whether an error is about what the resource asks for, such as a
// command that ends badly: others are not to wait because of it.
func (c *call) alone(err error) bool {
	switch fault.Reason(err) {
	case "exit", "failed":
		return true
	case "timeout":
		return !c.about.Connects
	}
	return false
}

// seemly is an error whose text holds no secret.
type seemly struct {
	error
	text string
	own  bool // it says nothing about the other side
}

func (s seemly) Error() string { return s.text }
func (s seemly) Unwrap() error { return s.error }

// resumes returns the pause that an error asks for which was no attempt.
func resumes(err error) (time.Duration, bool) {
	var r interface{ Resumes() time.Duration }
	if errors.As(err, &r) {
		return r.Resumes(), true
	}
	if fault.Reason(err) == "bulkhead-full" {
		return 500 * time.Millisecond, true
	}
	return 0, false
}

// hide makes Secret what the executor or the template says is.
func hide(outputs map[string]any, d executor.Description, named []string) map[string]any {
	out := make(map[string]any, len(outputs))
	for name, v := range outputs {
		out[name] = v
		if d.Outputs[name].Secret && !hides(v) {
			out[name] = secretOf(v)
		}
	}
	for _, name := range named {
		if v, ok := out[name]; ok && !hides(v) {
			out[name] = secretOf(v)
		}
	}
	return out
}

func secretOf(v any) any {
	if _, unknown := v.(executor.Unknown); unknown {
		return v // nothing is known, so nothing is told
	}
	return executor.NewSecret(v)
}

// foreseen are the outputs of a resource while planning: what nobody knows yet is
// Unknown.
func foreseen(c executor.Change, there map[string]any, d executor.Description) map[string]any {
	out := map[string]any{}
	for name := range d.Outputs {
		out[name] = executor.Unknown{}
	}
	if c.Action == executor.None {
		for name, v := range there {
			out[name] = v
		}
	}
	for name, v := range c.Outputs {
		out[name] = v
	}
	return out
}

// about tells people which resource an error is of.
func about(address string, err error) string { return fmt.Sprintf("%s: %s", address, err) }

func wakeOf(kind, id, org string) ledger.Wake {
	return ledger.Wake{Ref: ledger.Ref{Kind: kind, ID: id}, Org: org}
}
