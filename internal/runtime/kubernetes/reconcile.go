package kubernetes

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/manifest"
	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/keep"
)

const (
	lookAgain   = 10 * time.Second // at what is not ready, where no watch tells
	removeAgain = time.Second      // at what is going away
)

// shift is the part of a shift that is this runtime's.
type shift struct {
	*keep.Shift
	r     *Runtime
	watch *watcher

	mu      sync.Mutex
	differs map[string][]runtime.ResourceDifference // of manual deployments, as they were last compared
}

func (r *Runtime) begin(ctx context.Context, ks *keep.Shift) (keep.Worker, error) {
	s := &shift{Shift: ks, r: r, differs: map[string][]runtime.ResourceDifference{}}
	var err error
	if s.watch, err = newWatcher(ctx, s); err != nil {
		return nil, err
	}
	s.Go(func() { s.vigil(ctx) })
	return s, nil
}

// Reconcile implements keep.Worker. It never waits for the cluster to get on with
// something: it comes back later, or when a watch tells.
func (s *shift) Reconcile(ctx context.Context, e *keep.Entry) (again time.Duration, err error) {
	switch {
	case e.Record.Gone:
		return 0, nil
	case e.Record.Delete:
		return s.remove(ctx, e)
	}
	if rest := s.pause(e); rest > 0 {
		return rest, nil
	}
	began := s.r.cfg.Now()
	seen, err := s.install(ctx, e)
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	if fault.Reason(err) == "fenced" {
		return 0, err // what is there is another's to tell
	}
	if err != nil {
		e.Applied = false
		seen = keep.Failed(e.Record, err)
		s.Complain(e, err)
		if again, err = s.fails(ctx, e, &seen, began, err); err == nil {
			return again, s.Settle(ctx, e, seen)
		}
	} else {
		s.Content(e)
	}
	if err := s.Settle(ctx, e, seen); err != nil {
		return 0, err
	}
	if err == nil && seen.State != runtime.Ready && seen.State != runtime.Suspended {
		again = lookAgain
	}
	return again, err
}

// fails tells of a deployment that could not be carried out. Without an error it is
// tried again after a while.
func (s *shift) fails(ctx context.Context, e *keep.Entry, seen *runtime.Observed, began time.Time, err error) (again time.Duration, _ error) {
	if e.Record.Kind != runtime.KindDeployment {
		return 0, err
	}
	doc, _ := read(e.Record.Body)
	if seen.State == runtime.Error {
		keepFailure(e, doc, seen.Message, began, s.r.cfg.Now())
	}
	again, failed := s.retry(ctx, e, doc, seen.Message, began)
	if failed != nil {
		return 0, failed
	}
	m := remember(e.Record.Own)
	if run := m.ran(doc); seen.State == runtime.Error || run != nil && run.Phase != succeeded {
		seen.Detail, _ = failedDeployment(doc, seen.Message, m)
	}
	if again > 0 {
		return again, nil
	}
	return 0, err
}

// Sweep implements keep.Worker: kinds that no item has any more are not watched.
func (s *shift) Sweep(context.Context) {
	used, listed := map[schema.GroupKind]bool{}, s.Listed()
	for _, inventory := range listed {
		for _, line := range inventory {
			if o, err := manifest.Parse(line); err == nil {
				used[schema.GroupKind{Group: o.Group, Kind: o.Kind}] = true
			}
		}
	}
	s.watch.drop(used, listed)
}

// install applies what the record asks for and looks at what has become of it.
func (s *shift) install(ctx context.Context, e *keep.Entry) (runtime.Observed, error) {
	doc, err := read(e.Record.Body)
	if err != nil {
		return runtime.Observed{}, err
	}
	if doc.Deployment != nil && doc.Deployment.Kept {
		return s.letGo(ctx, e)
	}
	plan, err := s.compose(ctx, e.Record, doc)
	if err != nil {
		return runtime.Observed{}, err
	}
	if !e.Applied {
		if doc.manual() {
			err = s.attend(ctx, e, doc, plan)
		} else {
			s.forget(e.Record.ID)
			err = s.enforce(ctx, e, plan, true)
		}
		if err != nil {
			return runtime.Observed{}, err
		}
		e.Applied = true
	}
	return s.look(ctx, e.Record, doc, plan)
}

// letGo forgets what was deployed, and leaves it as it is: whatever removes the item
// from now on removes nothing, and where the agent may say so the next one may have it.
func (s *shift) letGo(ctx context.Context, e *keep.Entry) (runtime.Observed, error) {
	s.forget(e.Record.ID)
	if err := s.r.cluster.Release(ctx, e.Record.ID, e.Record.Inventory, s.Fence(e)); err != nil {
		return runtime.Observed{}, err
	}
	if err := s.list(ctx, e, nil); err != nil {
		return runtime.Observed{}, err
	}
	e.Applied = true
	seen := runtime.Observed{ID: e.Record.ID, Kind: e.Record.Kind, Generation: e.Record.Generation, State: runtime.Ready}
	var err error
	seen.Detail, err = json.Marshal(runtime.Deployed{Sync: runtime.SyncStatus{Status: "Unknown"}, Health: runtime.HealthStatus{Status: "Unknown"}, Kept: true})
	return seen, err
}

// handTools are what people change objects by hand with: what they change is put
// right. What another program manages is told instead, or the two would fight.
var handTools = []string{"kubectl", "k9s", "Mozilla"}

// plan is what an item comes to on this cluster.
type plan struct {
	set       manifest.Set
	inventory []string // of the whole set
	own       []string // of what the body lists: without the namespace and the routes
	routes    []carrier
	home      string
	doc       document
}

// compose works out the set of an item: its objects, its namespace where that
// is ours to make, and its routes.
func (s *shift) compose(ctx context.Context, rec keep.Record, doc document) (plan, error) {
	p := plan{home: s.r.cfg.home(rec.ID, doc), doc: doc}
	p.set = manifest.Set{Owner: rec.ID, Namespace: p.home, Force: doc.Force, Override: handTools}
	for _, m := range doc.Manifests {
		if doc.Suspended && !doc.bare {
			m = resting(m)
		}
		p.set.Objects = append(p.set.Objects, m)
	}
	var err error
	listed := p.set
	// The control plane knows kinds by their names alone; the cluster knows them.
	listed.Namespaced = doc.Deployment != nil && !doc.Deployment.ClusterResources
	if p.own, err = s.r.cluster.Inventory(ctx, listed); err != nil {
		return p, err
	}
	if err := reserve(s.r.cfg.Namespace, doc.Deployment, p.own); err != nil {
		return p, err
	}
	if !doc.Suspended {
		if p.routes, err = s.r.carriers(rec.ID, p.home, doc.Routes); err != nil {
			return p, err
		}
	}
	for _, c := range p.routes {
		p.set.Objects = append(p.set.Objects, c.object)
	}
	if p.inventory, err = s.r.cluster.Inventory(ctx, p.set); err != nil {
		return p, err
	}
	home := manifest.ID{Kind: "Namespace", Name: p.home}
	if slices.Contains(p.inventory, home.String()) || !slices.ContainsFunc(p.inventory, func(id string) bool { return within(id, p.home) }) {
		return p, nil
	}
	there, err := s.r.cluster.Look(ctx, home)
	if err != nil {
		return p, err
	}
	if d := doc.Deployment; d != nil && d.NoNamespace {
		if there == nil {
			return p, fault.New(fault.Invalid, "the namespace %s is not there: make it, or have it made (sync option CreateNamespace=true)", p.home).Because("namespace-missing")
		}
		return p, nil
	}
	if there == nil || there.GetLabels()[manifest.OwnerLabel] == manifest.Mark(rec.ID) {
		p.set.Objects = append(p.set.Objects, map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": p.home}})
		if doc.Deployment == nil { // what a deployment goes into is a place that others may have things in, too: it is made, and never removed
			p.inventory = manifest.Union(p.inventory, []string{home.String()})
		}
	}
	return p, nil
}

// within reports whether an inventory's line is in the namespace.
func within(line, namespace string) bool {
	id, err := manifest.Parse(line)
	return err == nil && id.Namespace == namespace
}

// enforce applies the set and removes what it no longer has, where it may. The
// inventory is written before anything that it lists is made, and forgets nothing
// that may still be there.
func (s *shift) enforce(ctx context.Context, e *keep.Entry, p plan, prune bool) error {
	if err := s.list(ctx, e, manifest.Union(e.Record.Inventory, p.inventory)); err != nil {
		return err
	}
	s.watch.follow(e.Record.ID, p.inventory)
	// Asked anew each time, since what is about to be put right is written down first.
	p.set.Fence = func(ctx context.Context) error { return s.Fence(e)(ctx) }
	p.set.Before = func(ctx context.Context, will manifest.Result) error { return s.notice(ctx, e, will) }
	m, began := remember(e.Record.Own), s.r.cfg.Now()
	sync := p.doc.manual() || m.unsynced(e.Record.Body)
	wrote, err := s.r.cluster.Apply(ctx, p.set)
	if err != nil {
		return err
	}
	if err := s.mended(ctx, e); err != nil {
		return err
	}
	var pruned []string
	if prune {
		if pruned, err = s.prune(ctx, e, p); err != nil {
			return err
		}
	}
	if sync {
		return s.synced(e, p.doc, wrote, pruned, began)
	}
	return nil
}

// synced notes a sync that was carried out. It comes along when what is seen is written
// down.
func (s *shift) synced(e *keep.Entry, doc document, wrote manifest.Result, pruned []string, began time.Time) error {
	if e.Record.Kind != runtime.KindDeployment {
		return nil
	}
	m := remember(e.Record.Own)
	m.Operation = operationOf(doc, succeeded, "successfully synced", began, s.r.cfg.Now())
	m.Operation.did(doc, wrote, pruned)
	own, err := json.Marshal(m)
	e.Record.Own = own
	return err
}

// prune removes what the set no longer has, and tells what has gone or is going.
func (s *shift) prune(ctx context.Context, e *keep.Entry, p plan) ([]string, error) {
	gone, err := s.r.cluster.Prune(ctx, manifest.Pruning{Owner: e.Record.ID, Before: e.Record.Inventory, After: p.inventory, Fence: s.Fence(e)})
	if err != nil {
		return nil, err
	}
	return append(gone.Gone, gone.Going...), s.list(ctx, e, manifest.Union(p.inventory, gone.Kept, gone.Going))
}

// list writes the inventory down if it is another.
func (s *shift) list(ctx context.Context, e *keep.Entry, inventory []string) error {
	if slices.Equal(inventory, e.Record.Inventory) {
		return nil
	}
	next := e.Record
	next.Inventory = inventory
	return s.Save(ctx, e, next)
}

// remove takes an item away, a step at a time.
func (s *shift) remove(ctx context.Context, e *keep.Entry) (time.Duration, error) {
	rec := e.Record
	s.forget(rec.ID)
	s.watch.follow(rec.ID, rec.Inventory)
	gone, err := s.r.cluster.Prune(ctx, manifest.Pruning{Owner: rec.ID, Before: s.exclusive(rec), Namespaces: true, Fence: s.Fence(e)})
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	if fault.Reason(err) == "fenced" {
		return 0, err
	}
	seen := runtime.Observed{ID: rec.ID, Kind: rec.Kind, Generation: rec.Generation, State: runtime.Installing, Message: gone.Message}
	if err != nil {
		s.Complain(e, err)
		seen.Message = runtime.Unremovable + ": " + err.Error()
		if fault.Is(err, fault.Internal) {
			seen.Message = runtime.Unremovable + "; the data plane's operator finds the reason in the agent's log"
		}
		if err := s.Settle(ctx, e, seen); err != nil {
			return 0, err
		}
		return 0, err
	}
	if !gone.Done() {
		return removeAgain, s.Settle(ctx, e, seen)
	}
	next := rec
	next.Gone, next.Inventory, next.Body, next.Own = true, nil, nil, nil
	next.Seen = runtime.Observed{ID: rec.ID, Kind: rec.Kind, Generation: rec.Generation, State: runtime.Deleted}
	if err := s.Save(ctx, e, next); err != nil {
		return 0, err
	}
	s.Show(e, next.Seen)
	return 0, nil
}

// exclusive is an item's inventory without namespaces that others have moved
// into: they would go with it.
func (s *shift) exclusive(rec keep.Record) []string {
	lines := map[string]bool{}
	for other, inventory := range s.Listed() {
		for _, line := range inventory {
			if id, err := manifest.Parse(line); err == nil && other != rec.ID {
				lines[id.Namespace] = true
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(rec.Inventory), func(line string) bool {
		id, err := manifest.Parse(line)
		return err == nil && id.Group == "" && id.Kind == "Namespace" && lines[id.Name]
	})
}
