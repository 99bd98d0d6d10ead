package instance

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/expr"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// Executor makes instances that are resources of an environment. It orders them
// as the environment's owner does: quota, terms and lists apply as to everybody.
type Executor struct {
	service *Service
	feed    Follower
	log     Log
	url     func(host string) string
}

// Follower tells of changes of the ledger as they come.
type Follower interface {
	Next(ctx context.Context, after int64) ([]ledger.Change, error)
}

// Log is what the ledger has written down.
type Log interface {
	Head(ctx context.Context) (ledger.Head, error)
	Changes(ctx context.Context, query ledger.ChangeQuery) ([]ledger.Change, error)
}

// ExecutorConfig of an Executor.
type ExecutorConfig struct {
	Service *Service
	Feed    Follower // nil: instances are polled
	Log     Log      // needed with Feed, and to tell who changed an instance
	// URL of a host, for outputs; default: "https://" and the host.
	URL func(host string) string
}

// NewExecutor makes the executor.
func NewExecutor(c ExecutorConfig) *Executor {
	if c.URL == nil {
		c.URL = func(host string) string { return "https://" + host }
	}
	return &Executor{service: c.Service, feed: c.Feed, log: c.Log, url: c.URL}
}

// Describe implements executor.Executor.
func (*Executor) Describe() executor.Description {
	text := func(what string, examples ...any) map[string]any {
		return map[string]any{"type": "string", "maxLength": 256, "description": what, "examples": examples}
	}
	return executor.Description{
		Summary: "an instance of an offering of this fleet",
		Inputs: map[string]any{
			"type": "object", "additionalProperties": false, "required": []any{"offering"},
			"properties": map[string]any{
				"offering":   text("what to order", "dinosaur", "kafka"),
				"name":       map[string]any{"type": "string", "pattern": namePattern.String(), "maxLength": maxName, "description": "name within the organisation; default: made of the environment's name and the resource's address"},
				"type":       text("instance type; default: what the owner has quota for", "standard"),
				"size":       text("size of the type; default: its first", "x1"),
				"provider":   text("cloud provider; default: the offering's first"),
				"region":     text("region; default: the provider's first"),
				"multi_az":   map[string]any{"type": "boolean", "description": "over several zones, where the type leaves that open"},
				"version":    text("version of the offering's first component; default: the newest"),
				"billing":    text("billing model; default: the first that is granted"),
				"parameters": map[string]any{"type": "object", "description": "as the offering's schema has them; no secrets"},
			},
		},
		Outputs: map[string]executor.Output{
			"id":      {Type: expr.String, Summary: "id of the instance"},
			"name":    {Type: expr.String, Summary: "name of the instance"},
			"host":    {Type: expr.String, Summary: "its first host; empty if it has none"},
			"url":     {Type: expr.String, Summary: "URL of its first host; empty if it has none"},
			"hosts":   {Type: expr.Map(expr.String), Summary: "all its hosts, by name of the route"},
			"phase":   {Type: expr.String, Summary: "what has become of it: ready"},
			"version": {Type: expr.String, Summary: "version of the offering's first component"},
			"view":    {Type: expr.Map(expr.Dyn), Summary: "what the offering's API shows of it"},
		},
		Timeout: 30 * time.Second,
		AtOnce:  64,
		Every:   time.Minute,
	}
}

// Plan implements executor.Executor.
func (e *Executor) Plan(ctx context.Context, r executor.Resource) (executor.Change, error) {
	w, err := e.open(ctx, r)
	if err != nil {
		return executor.Change{}, err
	}
	c := executor.Change{Action: executor.None, Mark: w.mark(), Fields: w.fields()}
	if w.name != "" {
		c.Takes = []string{"the instance " + w.label()}
	}
	switch {
	case w.in == nil:
		c.Action, c.Why = executor.Create, "there is no such instance"
		c.Outputs = map[string]any{"name": w.name, "phase": Ready}
		for _, name := range []string{"id", "host", "url", "hosts", "version", "view"} {
			c.Outputs[name] = executor.Unknown{}
		}
		return c, e.free(ctx, r, w)
	case w.in.Spec.Deleted:
		c.Action, c.Why = executor.Replace, "somebody has deleted the instance"
	case forced(c.Fields) != nil:
		f := forced(c.Fields)
		c.Action, c.Why = executor.Replace, fmt.Sprintf("%s is %v, wanted %v, and cannot be changed", f.Path, executor.Show(f.Before), executor.Show(f.After))
	case len(c.Fields) > 0:
		f := c.Fields[0]
		c.Action, c.Why = executor.Update, fmt.Sprintf("%s is %v, wanted %v", f.Path, executor.Show(f.Before), executor.Show(f.After))
	}
	c.Outputs = e.outputs(w.in)
	if c.Action != executor.None {
		c.Outputs["view"], c.Outputs["version"] = executor.Unknown{}, executor.Unknown{}
	}
	if c.Action == executor.Replace {
		for _, name := range []string{"id", "host", "url", "hosts"} {
			c.Outputs[name] = executor.Unknown{}
		}
		c.Outputs["name"], c.Outputs["phase"] = w.name, Ready
	}
	return c, nil
}

// forced is the first field that cannot be changed in place.
func forced(fields []executor.Field) *executor.Field {
	for i := range fields {
		if fields[i].Forces {
			return &fields[i]
		}
	}
	return nil
}

// Apply implements executor.Executor.
func (e *Executor) Apply(ctx context.Context, r executor.Resource) (executor.Result, error) {
	if err := r.Settled(); err != nil {
		return executor.Result{}, err
	}
	w, err := e.open(ctx, r)
	if err != nil {
		return executor.Result{}, err
	}
	fields := w.fields()
	if w.in != nil && !w.in.Spec.Deleted && len(fields) == 0 {
		return e.follow(w.in)
	}
	// What was begun under this very plan has moved by our own hand.
	if r.Mark != "" && r.Mark != w.mark() && (w.memory.Plan == "" || r.Mark != w.memory.Plan) {
		return executor.Result{}, executor.Moved("the instance " + w.label())
	}
	if w.in == nil {
		return e.order(ctx, r, w)
	}
	if err := w.remember(ctx, r, note{ID: w.memory.ID, Offering: w.memory.Offering, Plan: r.Mark}); err != nil {
		return executor.Result{}, err
	}
	if w.in.Spec.Deleted {
		return waiting("the instance %s is being deleted; it is made again once it is gone", w.in.Name)
	}
	as := access.With(ctx, access.Principal{User: w.in.Owner, Org: w.in.Org})
	if forced(fields) != nil {
		if _, err := e.service.Delete(as, w.in.Spec.Offering, w.in.ID); err != nil {
			return executor.Result{}, err
		}
		fmt.Fprintf(r.Log, "the instance %s is deleted, to be made again\n", w.in.Name)
		return waiting("the instance %s is being replaced", w.in.Name)
	}
	o, err := e.service.Update(as, w.in.Spec.Offering, w.in.ID, w.update())
	if err != nil {
		return executor.Result{}, err
	}
	fmt.Fprintf(r.Log, "the instance %s is changed\n", w.in.Name)
	in, err := Decode(o)
	if err != nil {
		return executor.Result{}, err
	}
	return e.follow(&in)
}

func waiting(format string, args ...any) (executor.Result, error) {
	return executor.Result{Message: fmt.Sprintf(format, args...), After: 500 * time.Millisecond}, nil
}

// order creates the instance, under an id that was written down before.
func (e *Executor) order(ctx context.Context, r executor.Resource, w *wish) (executor.Result, error) {
	if err := e.free(ctx, r, w); err != nil {
		return executor.Result{}, err
	}
	id, first := w.memory.ID, w.memory.ID == ""
	if id == "" || w.spent {
		id = ledger.NewID()
	}
	if err := w.remember(ctx, r, note{ID: id, Offering: w.off.Metadata.Name, Plan: r.Mark}); err != nil {
		return executor.Result{}, err
	}
	req := w.create
	req.ID, req.Name = id, w.name
	o, err := e.service.Create(access.With(ctx, access.Principal{User: r.Owner, Org: r.Org}), w.off, req)
	if first && refused(err) {
		// No earlier call can have made it under an id that was new: there is nothing to find.
		if err := r.Save(ctx, nil); err != nil {
			return executor.Result{}, err
		}
	}
	if fault.Reason(err) == "name-taken" {
		return executor.Result{}, executor.NotOurs("the instance " + w.label())
	}
	if err != nil {
		return executor.Result{}, err
	}
	fmt.Fprintf(r.Log, "the instance %s is ordered\n", w.name)
	in, err := Decode(o)
	if err != nil {
		return executor.Result{}, err
	}
	return e.follow(&in)
}

// refused tells an answer after which there is no such instance for sure.
func refused(err error) bool {
	return fault.Is(err, fault.Conflict) || fault.Is(err, fault.Denied) || fault.Is(err, fault.Invalid) || fault.Is(err, fault.Exhausted)
}

// follow tells how far an instance is that is as wanted.
func (e *Executor) follow(in *Instance) (executor.Result, error) {
	switch {
	case in.Phase == Failed:
		return executor.Result{}, fault.New(fault.Unavailable, "the instance %s has failed: %s", in.Name, firstText(in.Status.Reason, "its data plane does not say why")).Because("failed")
	case in.Phase == Suspended || in.Phase == Suspending:
		return waiting("the instance %s is %s: an operator must resume it", in.Name, in.Phase)
	case in.Phase != Ready || in.Status.Operation != "":
		return waiting("the instance %s is %s%s", in.Name, in.Phase, behind(in.Status.Message))
	}
	return executor.Result{
		Done: true, Made: []string{in.Spec.Offering + " " + in.Name}, Outputs: e.outputs(in),
		Links: []executor.Link{{Rel: "object", URL: Kind.Name + "/" + in.ID}},
	}, nil
}

func behind(message string) string {
	if message == "" {
		return ""
	}
	return ": " + message
}

func firstText(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// Observe implements executor.Executor.
func (e *Executor) Observe(ctx context.Context, r executor.Resource) (executor.Observation, error) {
	w, err := e.open(ctx, r)
	if err != nil {
		return executor.Observation{}, err
	}
	o := executor.Observation{Exists: w.in != nil, Mark: w.mark()}
	if w.in == nil {
		return o, nil
	}
	for _, f := range w.fields() {
		o.Drift = append(o.Drift, executor.Field{Path: f.Path, Before: f.After, After: f.Before})
	}
	if len(o.Drift) > 0 || w.in.Spec.Deleted {
		if o.By, err = e.by(ctx, w.in); err != nil {
			return executor.Observation{}, err
		}
	}
	o.Outputs = e.outputs(w.in)
	switch {
	case w.in.Spec.Deleted:
		o.Unready = "somebody has deleted it, and it is going"
	case w.in.Phase == Failed:
		o.Unready = "it has failed" + behind(w.in.Status.Reason)
	case w.in.Phase != Ready:
		o.Unready = "it is " + w.in.Phase + behind(w.in.Status.Message)
	}
	return o, nil
}

// by is whoever changed what is wanted of an instance last; empty: that is not
// known any more.
func (e *Executor) by(ctx context.Context, in *Instance) (string, error) {
	if e.log == nil {
		return "", nil
	}
	changes, err := e.log.Changes(ctx, ledger.ChangeQuery{Kind: Kind.Name, ID: in.ID, Reverse: true, Left: true, Limit: 100})
	if err != nil {
		return "", err
	}
	for i := range changes {
		if a := changes[i].Actor; a != "system" && !strings.HasPrefix(a, "agent:") {
			return a, nil
		}
	}
	return "", nil
}

// Destroy implements executor.Executor. It is done when the instance is gone.
func (e *Executor) Destroy(ctx context.Context, r executor.Resource) (executor.Result, error) {
	if err := ctx.Err(); err != nil {
		return executor.Result{}, err
	}
	m, err := recall(r)
	if err != nil || m.ID == "" {
		return executor.Result{Done: err == nil}, err
	}
	in, _, err := e.find(ctx, r, m.ID)
	if err != nil {
		return executor.Result{}, err
	}
	if in == nil {
		return executor.Result{Done: true}, r.Save(ctx, nil)
	}
	if !in.Spec.Deleted {
		as := access.With(ctx, access.Principal{User: in.Owner, Org: in.Org})
		if _, err := e.service.Delete(as, in.Spec.Offering, in.ID); err != nil {
			return executor.Result{}, err
		}
		fmt.Fprintf(r.Log, "the instance %s is deleted\n", in.Name)
	}
	return waiting("the instance %s is being deleted%s", in.Name, behind(in.Status.Message))
}

// outputs of an instance.
func (e *Executor) outputs(in *Instance) map[string]any {
	hosts := map[string]any{}
	for _, route := range in.Status.Routes {
		hosts[route.Name] = route.Host
	}
	url := ""
	if in.host() != "" {
		url = e.url(in.host())
	}
	version, _ := in.Fields["version"].(string)
	view := map[string]any{}
	_ = json.Unmarshal(in.View, &view) // an offering may show nothing
	return map[string]any{
		"id": in.ID, "name": in.Name, "host": in.host(), "url": url, "hosts": hosts,
		"phase": in.Phase, "version": version, "view": view,
	}
}
