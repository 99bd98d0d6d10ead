// Package kubernetes makes resources that are objects of a Kubernetes cluster, by
// server-side apply.
//
// What it makes carries the resource's id as its owner: an object without it is
// somebody else's, and is never touched. It must not know what the objects are
// for.
package kubernetes

import (
	"context"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/expr"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/manifest"
)

// Config of an Executor. The zero value is fine.
type Config struct {
	// Wrap sees every request, for tests; nil: nobody does.
	Wrap func(http.RoundTripper) http.RoundTripper
}

// Executor applies manifests.
type Executor struct {
	pool *executor.Pool[*manifest.Client]
}

// New makes the executor.
func New(cfg Config) *Executor {
	return &Executor{executor.NewPool(func(c executor.Connection) (*manifest.Client, error) {
		if err := c.Check("kubeconfig", "kubeconfigFile"); err != nil {
			return nil, err
		}
		var kubeconfig []byte // none: the account of the pod that the server runs in
		switch {
		case c["kubeconfig"] != "":
			kubeconfig = []byte(c["kubeconfig"])
		case c["kubeconfigFile"] != "":
			var err error
			if kubeconfig, err = os.ReadFile(c["kubeconfigFile"]); err != nil {
				return nil, fault.New(fault.Unavailable, "the kubeconfig of the connection cannot be read: %w", err)
			}
		}
		return manifest.Open(manifest.Config{Kubeconfig: kubeconfig, Wrap: cfg.Wrap})
	})}
}

// Describe implements executor.Executor.
func (*Executor) Describe() executor.Description {
	return executor.Description{
		Summary: "objects of a Kubernetes cluster, by server-side apply",
		Inputs: map[string]any{
			"type": "object", "additionalProperties": false, "required": []any{"manifests"},
			"properties": map[string]any{
				"manifests": map[string]any{
					"type": "array", "minItems": 1, "maxItems": 500, "items": map[string]any{"type": "object"},
					"description": "objects as kubectl takes them, in any order",
					"examples":    []any{[]any{map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "web"}, "data": map[string]any{"size": "small"}}}},
				},
				"namespace": map[string]any{"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$", "default": "default", "description": "namespace of objects that need one and name none; it must be there, or be among the manifests"},
				"ready":     map[string]any{"type": "string", "maxLength": 4096, "examples": []any{"objects.all(o, o.kind != 'Deployment' || o.status.readyReplicas == o.spec.replicas)"}, "description": "CEL over objects, the list of them as they are; default: all are what Kubernetes calls ready"},
			},
		},
		Outputs: map[string]executor.Output{
			"objects": {Type: expr.List(expr.String), Summary: "what was made: \"Deployment shop/web\""},
			"status":  {Type: expr.Map(expr.Dyn), Summary: "status of each as it was when all were ready, by \"Deployment shop/web\""},
		},
		Connects: true,
		Timeout:  2 * time.Minute,
	}
}

// Plan implements executor.Executor.
func (e *Executor) Plan(ctx context.Context, r executor.Resource) (executor.Change, error) {
	w, err := e.open(ctx, r)
	if err != nil {
		return executor.Change{}, err
	}
	v, err := w.look(ctx)
	if err != nil {
		return executor.Change{}, err
	}
	return v.decide(), nil
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
	v, err := w.look(ctx)
	if err != nil {
		return executor.Result{}, err
	}
	change := v.decide()
	if change.Action != executor.None {
		// What was begun under this very plan has moved by our own hand.
		if r.Mark != "" && r.Mark != change.Mark && (w.memory.Plan == "" || r.Mark != w.memory.Plan) {
			return executor.Result{}, executor.Moved("the objects")
		}
		if waits, err := w.make(ctx, v); err != nil || waits != "" {
			return executor.Result{Message: waits, After: time.Second}, err
		}
	}
	return w.finish(ctx, v)
}

// make writes what differs. It returns what has to be waited for first.
func (w *work) make(ctx context.Context, v view) (waits string, err error) {
	next := w.memory
	next.Plan = w.r.Mark
	next.Inventory = manifest.Union(w.memory.Inventory, v.inventory)
	next.Hidden = manifest.Union(w.memory.Hidden, w.hidden)
	if err := w.save(ctx, next); err != nil {
		return "", err
	}
	if len(v.fixed) > 0 {
		gone, err := w.client.Prune(ctx, manifest.Pruning{Owner: w.set.Owner, Before: v.fixed, Namespaces: true, Definitions: true})
		if err != nil {
			return "", err
		}
		if !gone.Done() {
			return gone.Message, nil
		}
	}
	res, err := w.client.Apply(ctx, w.set)
	for _, id := range res.Created {
		w.log("made", id)
	}
	for _, id := range res.Changed {
		w.log("changed", id)
	}
	return "", err
}

// finish takes away what is no longer wanted, and waits for the rest to work.
func (w *work) finish(ctx context.Context, v view) (executor.Result, error) {
	pruned, err := w.client.Prune(ctx, manifest.Pruning{Owner: w.set.Owner, Before: w.memory.Inventory, After: v.inventory, Namespaces: true, Definitions: true})
	if err != nil {
		return executor.Result{}, err
	}
	for _, id := range pruned.Gone {
		w.log("removed", id)
	}
	if !pruned.Done() {
		return executor.Result{Message: pruned.Message, After: time.Second}, nil
	}
	if err := w.save(ctx, memory{Inventory: v.inventory, Hidden: w.hidden, Plan: w.memory.Plan}); err != nil {
		return executor.Result{}, err
	}
	health, err := w.client.Health(ctx, manifest.Checking{Inventory: v.inventory, Ready: w.ready})
	if err != nil {
		return executor.Result{}, err
	}
	if health.Failed {
		return executor.Result{}, fault.New(fault.Unavailable, "%s", health.Message).Because("failed")
	}
	if !health.Ready {
		return executor.Result{Message: health.Message, After: 2 * time.Second}, nil
	}
	status := map[string]any{}
	for _, o := range health.Objects {
		if s, ok := o.Content["status"]; ok {
			status[o.ID.Words()] = s
		}
	}
	return executor.Result{Done: true, Made: names(v.inventory), Outputs: map[string]any{"objects": list(v.inventory), "status": status}}, nil
}

// Observe implements executor.Executor.
func (e *Executor) Observe(ctx context.Context, r executor.Resource) (executor.Observation, error) {
	w, err := e.open(ctx, r)
	if err != nil {
		return executor.Observation{}, err
	}
	v, err := w.look(ctx)
	if fault.Reason(err) == "not-ours" {
		// Something is there, and what the resource has made is not.
		return executor.Observation{Mark: executor.Mark("not ours")}, nil
	}
	if err != nil {
		return executor.Observation{}, err
	}
	o := executor.Observation{Exists: v.some, Mark: v.mark}
	if !v.some {
		return o, nil
	}
	for _, f := range v.fields {
		o.Drift = append(o.Drift, executor.Field{Path: f.Path, Before: f.After, After: f.Before})
	}
	if len(o.Drift) > 0 {
		o.By = v.by
		return o, nil
	}
	health, err := w.client.Health(ctx, manifest.Checking{Inventory: v.inventory, Ready: w.ready})
	if err != nil {
		return executor.Observation{}, err
	}
	if !health.Ready {
		o.Unready = health.Message
	}
	return o, nil
}

// Destroy implements executor.Executor.
func (e *Executor) Destroy(ctx context.Context, r executor.Resource) (executor.Result, error) {
	if err := ctx.Err(); err != nil {
		return executor.Result{}, err
	}
	m, err := remembered(r)
	if err != nil || len(m.Inventory) == 0 {
		return executor.Result{Done: err == nil}, err
	}
	client, err := e.pool.Get(r.Connection)
	if err != nil {
		return executor.Result{}, err
	}
	pruned, err := client.Prune(ctx, manifest.Pruning{Owner: r.ID, Before: m.Inventory, Namespaces: true, Definitions: true})
	if err != nil {
		return executor.Result{}, err
	}
	if !pruned.Done() {
		return executor.Result{Message: pruned.Message, After: time.Second}, nil
	}
	return executor.Result{Done: true}, r.Save(ctx, nil)
}

// names of objects for people.
func names(inventory []string) []string {
	var out []string
	for _, s := range inventory {
		out = append(out, words(s))
	}
	slices.Sort(out)
	return out
}

func list(inventory []string) []any {
	out := []any{}
	for _, name := range names(inventory) {
		out = append(out, name)
	}
	return out
}

func words(id string) string {
	parsed, err := manifest.Parse(id)
	if err != nil {
		return id
	}
	return parsed.Words()
}
