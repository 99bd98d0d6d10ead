package gitops

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/expr"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// Executor makes deployments that are resources of an environment. It asks for them
// as the environment's owner does: the reach of workspaces applies as to everybody.
type Executor struct {
	service *Service
	feed    Follower
	log     Log
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
	Feed    Follower // nil: deployments are polled
	Log     Log      // needed with Feed, and to tell who changed a deployment
}

// NewExecutor makes the executor.
func NewExecutor(c ExecutorConfig) *Executor {
	return &Executor{service: c.Service, feed: c.Feed, log: c.Log}
}

// Describe implements executor.Executor.
func (*Executor) Describe() executor.Description {
	text := func(what string, examples ...any) map[string]any {
		return map[string]any{"type": "string", "maxLength": maxURL, "description": what, "examples": examples}
	}
	return executor.Description{
		Summary: "a directory of a Git repository, deployed to a cluster",
		Inputs: map[string]any{
			"type": "object", "additionalProperties": false, "required": []any{"repository", "path", "namespace"},
			"properties": map[string]any{
				"repository":   text("URL of the repository; a credential of the workspace opens it", "https://git.example.org/shop/deploy"),
				"path":         text("directory in it", "k8s"),
				"revision":     text("branch, tag or commit; default: HEAD", "main"),
				"namespace":    text("namespace that it goes into", "shop"),
				"cluster":      text("id of the cluster; default: the workspace's"),
				"target":       text("a target of the workspace, in place of a cluster"),
				"selector":     map[string]any{"type": "object", "description": "labels of the clusters that it goes to, in place of one", "additionalProperties": map[string]any{"type": "string"}},
				"name":         map[string]any{"type": "string", "pattern": label.String(), "description": "name within the workspace; default: made of the environment's name and the resource's address"},
				"workspace":    text("workspace by name or id; default: the organisation's own"),
				"manual":       map[string]any{"type": "boolean", "description": "Git is not followed: only sync runs deploy"},
				"sync_options": map[string]any{"type": "array", "items": map[string]any{"type": "string"}, "description": "CreateNamespace=true"},
			},
		},
		Outputs: map[string]executor.Output{
			"id":        {Type: expr.String, Summary: "id of the deployment"},
			"name":      {Type: expr.String, Summary: "name of the deployment"},
			"cluster":   {Type: expr.String, Summary: "cluster whose agent has it"},
			"namespace": {Type: expr.String, Summary: "namespace that it is in"},
			"phase":     {Type: expr.String, Summary: "what has become of it: deployed"},
			"sync":      {Type: expr.String, Summary: "Synced, OutOfSync or Unknown"},
			"health":    {Type: expr.String, Summary: "Healthy, Progressing, Degraded..."},
			"revision":  {Type: expr.String, Summary: "commit that is deployed"},
		},
		Timeout: 30 * time.Second,
		AtOnce:  64,
		Every:   time.Minute,
	}
}

// live are the outputs that are known only when it is deployed.
var live = []string{"cluster", "sync", "health", "revision"}

// Plan implements executor.Executor.
func (e *Executor) Plan(ctx context.Context, r executor.Resource) (executor.Change, error) {
	w, err := e.open(ctx, r)
	if err != nil {
		return executor.Change{}, err
	}
	c := executor.Change{Action: executor.None, Mark: w.mark(), Fields: w.fields()}
	if w.known("name") && w.known("workspace") {
		c.Takes = []string{w.label()}
	}
	switch {
	case w.d == nil:
		c.Action, c.Why = executor.Create, "there is no such deployment"
		c.Outputs = map[string]any{"id": executor.Unknown{}}
		e.foresee(c.Outputs, w)
		return c, e.free(ctx, w)
	case w.d.Spec.Deleted:
		c.Action, c.Why = executor.Replace, "somebody has deleted the deployment"
	case forced(c.Fields) != nil:
		f := forced(c.Fields)
		c.Action, c.Why = executor.Replace, fmt.Sprintf("%s is %v, wanted %v, and cannot be changed", f.Path, executor.Show(f.Before), executor.Show(f.After))
	case len(c.Fields) > 0:
		f := c.Fields[0]
		c.Action, c.Why = executor.Update, fmt.Sprintf("%s is %v, wanted %v", f.Path, executor.Show(f.Before), executor.Show(f.After))
	}
	c.Outputs = e.outputs(w.d)
	if c.Action != executor.None {
		e.foresee(c.Outputs, w)
	}
	if c.Action == executor.Replace {
		c.Outputs["id"] = executor.Unknown{}
	}
	return c, nil
}

// foresee fills in outputs of what is to be made or changed.
func (e *Executor) foresee(out map[string]any, w *wish) {
	for _, name := range live {
		out[name] = executor.Unknown{}
	}
	out["name"], out["namespace"], out["phase"] = w.shown("name"), w.shown("namespace"), executor.Unknown{}
}

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
	if w.d != nil && !w.d.Spec.Deleted && len(fields) == 0 {
		return e.follow(w.d)
	}
	// What was begun under this very plan has moved by our own hand.
	if r.Mark != "" && r.Mark != w.mark() && (w.memory.Plan == "" || r.Mark != w.memory.Plan) {
		return executor.Result{}, executor.Moved(w.label())
	}
	if w.d == nil {
		return e.create(ctx, r, w)
	}
	if err := w.remember(ctx, r, note{ID: w.memory.ID, Plan: r.Mark}); err != nil {
		return executor.Result{}, err
	}
	if w.d.Spec.Deleted {
		return waiting("the deployment %s is being deleted; it is made again once it is gone", w.d.Name)
	}
	as := e.as(ctx, w.d)
	if forced(fields) != nil {
		if _, _, err := e.service.Delete(as, w.d.ID); err != nil {
			return executor.Result{}, err
		}
		fmt.Fprintf(r.Log, "the deployment %s is deleted, to be made again\n", w.d.Name)
		return waiting("the deployment %s is being replaced", w.d.Name)
	}
	d, _, err := e.service.Update(as, w.d.ID, w.change())
	if err != nil {
		return executor.Result{}, err
	}
	fmt.Fprintf(r.Log, "the deployment %s is changed\n", w.d.Name)
	return e.follow(&d)
}

func waiting(format string, args ...any) (executor.Result, error) {
	return executor.Result{Message: fmt.Sprintf(format, args...), After: 500 * time.Millisecond}, nil
}

// create makes the deployment, under an id that was written down before.
func (e *Executor) create(ctx context.Context, r executor.Resource, w *wish) (executor.Result, error) {
	if err := e.free(ctx, w); err != nil {
		return executor.Result{}, err
	}
	id, first := w.memory.ID, w.memory.ID == ""
	if id == "" || w.spent {
		id = ledger.NewID()
	}
	if err := w.remember(ctx, r, note{ID: id, Plan: r.Mark}); err != nil {
		return executor.Result{}, err
	}
	d, _, err := e.service.create(w.as, w.order, id)
	if first && refused(err) {
		// No earlier call can have made it under an id that was new: there is nothing to find.
		if err := r.Save(ctx, nil); err != nil {
			return executor.Result{}, err
		}
	}
	if fault.Reason(err) == "name-taken" {
		return executor.Result{}, executor.NotOurs(w.label())
	}
	if err != nil {
		return executor.Result{}, err
	}
	fmt.Fprintf(r.Log, "the deployment %s is asked for\n", d.Name)
	return e.follow(&d)
}

// refused tells an answer after which there is no such deployment for sure.
func refused(err error) bool {
	return fault.Is(err, fault.Conflict) || fault.Is(err, fault.Denied) || fault.Is(err, fault.Invalid) || fault.Is(err, fault.Exhausted)
}

// follow tells how far a deployment is that is as wanted.
func (e *Executor) follow(d *Deployment) (executor.Result, error) {
	switch {
	case d.Phase == Failed && d.Status.Operation == "":
		return executor.Result{}, fault.New(fault.Unavailable, "the deployment %s has failed%s", d.Name, colon(d.trouble())).Because("failed")
	case d.Phase == Deployed && d.Status.Operation == "", !d.Spec.Automated && d.Status.Operation == "" && d.Phase == OutOfSync:
	default:
		return waiting("the deployment %s is %s%s", d.Name, d.Phase, colon(d.trouble()))
	}
	return executor.Result{
		Done: true, Made: []string{"deployment " + d.Name}, Outputs: e.outputs(d),
		Links: []executor.Link{{Rel: "object", URL: KindDeployment.Name + "/" + d.ID}},
	}, nil
}

func colon(text string) string {
	if text == "" {
		return ""
	}
	return ": " + text
}

// Observe implements executor.Executor.
func (e *Executor) Observe(ctx context.Context, r executor.Resource) (executor.Observation, error) {
	w, err := e.open(ctx, r)
	if err != nil {
		return executor.Observation{}, err
	}
	o := executor.Observation{Exists: w.d != nil, Mark: w.mark()}
	if w.d == nil {
		return o, nil
	}
	for _, f := range w.fields() {
		o.Drift = append(o.Drift, executor.Field{Path: f.Path, Before: f.After, After: f.Before})
	}
	if len(o.Drift) > 0 || w.d.Spec.Deleted {
		if o.By, err = e.by(ctx, w.d); err != nil {
			return executor.Observation{}, err
		}
	}
	o.Outputs = e.outputs(w.d)
	switch {
	case w.d.Spec.Deleted:
		o.Unready = "somebody has deleted it, and it is going"
	case w.d.Phase != Deployed && !(w.d.Phase == OutOfSync && !w.d.Spec.Automated):
		o.Unready = "it is " + w.d.Phase + colon(w.d.trouble())
	}
	return o, nil
}

// by is whoever changed what is wanted of a deployment last; empty: that is not
// known any more.
func (e *Executor) by(ctx context.Context, d *Deployment) (string, error) {
	if e.log == nil {
		return "", nil
	}
	changes, err := e.log.Changes(ctx, ledger.ChangeQuery{Kind: KindDeployment.Name, ID: d.ID, Reverse: true, Left: true, Limit: 100})
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

// Destroy implements executor.Executor. It is done when the deployment is gone.
func (e *Executor) Destroy(ctx context.Context, r executor.Resource) (executor.Result, error) {
	if err := ctx.Err(); err != nil {
		return executor.Result{}, err
	}
	m, err := recall(r)
	if err != nil || m.ID == "" {
		return executor.Result{Done: err == nil}, err
	}
	d, _, err := e.find(ctx, r, m.ID)
	if err != nil {
		return executor.Result{}, err
	}
	if d == nil {
		return executor.Result{Done: true}, r.Save(ctx, nil)
	}
	if !d.Spec.Deleted {
		if _, _, err := e.service.Delete(e.as(ctx, d), d.ID); err != nil {
			return executor.Result{}, err
		}
		fmt.Fprintf(r.Log, "the deployment %s is deleted\n", d.Name)
	}
	return waiting("the deployment %s is being deleted%s", d.Name, colon(d.Status.Error))
}

// outputs of a deployment.
func (e *Executor) outputs(d *Deployment) map[string]any {
	seen := d.Status.deployed()
	return map[string]any{
		"id": d.ID, "name": d.Name, "cluster": d.Status.Engine, "namespace": d.Spec.To.Namespace, "phase": d.Phase,
		"sync": seen.Sync.Status, "health": seen.Health.Status, "revision": seen.Sync.Revision,
	}
}

// Watch implements executor.Watcher: every change of the deployment is in the
// ledger, and the ledger tells of it.
func (e *Executor) Watch(ctx context.Context, r executor.Resource, changed func()) error {
	m, err := recall(r)
	if err != nil || e.feed == nil || m.ID == "" {
		return err
	}
	head, err := e.log.Head(ctx)
	if err != nil {
		return err
	}
	changed() // what happened before is to be looked at
	ref := ledger.Ref{Kind: KindDeployment.Name, ID: m.ID}
	for after := head.Seq; ; {
		changes, err := e.feed.Next(ctx, after)
		if err != nil {
			return err
		}
		for i := range changes {
			after = changes[i].Seq
			if changes[i].Object.Ref == ref {
				changed()
			}
		}
	}
}
