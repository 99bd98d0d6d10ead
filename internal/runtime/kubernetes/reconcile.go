package kubernetes

import (
	"context"
	"reflect"
	"slices"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/manifest"
	"github.com/droverhq/drover/internal/runtime"
)

const (
	lookAgain   = 10 * time.Second // at what is not ready, where no watch tells
	removeAgain = time.Second      // at what is going away
)

// reconcile makes one item so. It never waits for the cluster to get on with
// something: it comes back later, or when a watch tells.
func (s *shift) reconcile(ctx context.Context, id string) (again time.Duration, err error) {
	s.mu.Lock()
	e := s.items[id]
	touched := e != nil && e.touched
	if e != nil {
		e.touched = false
	}
	s.mu.Unlock()
	if e == nil {
		return 0, nil
	}
	e.busy.Lock()
	defer e.busy.Unlock()
	switch {
	case !s.holds(id, e) || e.record.ID == "" || e.record.Gone:
		return 0, nil
	case !e.told: // the agent says it again when it has verified it, and what runs is left alone until then
		return 0, nil
	case e.record.Delete:
		return s.remove(ctx, e)
	}
	if touched {
		e.applied = false
	}
	seen, err := s.install(ctx, e)
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	if fault.Reason(err) == "fenced" {
		return 0, err // what is there is another's to tell
	}
	if err != nil {
		e.applied = false
		seen = failed(e.record, err)
		s.complain(e, err)
	} else {
		e.message = ""
	}
	if err := s.settle(ctx, e, seen); err != nil {
		return 0, err
	}
	if err == nil && seen.State != runtime.Ready && seen.State != runtime.Suspended {
		again = lookAgain
	}
	return again, err
}

// complain tells the log about a failure, once until it changes.
func (s *shift) complain(e *entry, err error) {
	if text := err.Error(); e.message != text {
		e.message = text
		s.r.cfg.Logger.Warn("cannot apply an item", "item", e.record.ID, "reason", fault.Reason(err), "error", text)
	}
}

// failed is what users read about an item that could not be applied. What runs
// is not called broken because the cluster does not answer.
func failed(r record, err error) runtime.Observed {
	seen := r.Seen
	was := seen.Generation == r.Generation && (seen.State == runtime.Ready || seen.State == runtime.Suspended)
	kind := fault.Of(err)
	if fault.Reason(err) == "changed-meanwhile" {
		kind = fault.Unavailable // it is a matter of trying again
	}
	switch kind {
	case fault.Unavailable:
		if was {
			return seen
		}
		seen.State, seen.Message = runtime.Installing, err.Error()
	case fault.Exhausted:
		seen.State, seen.Message = runtime.Rejected, err.Error()
		if r.Settled {
			// It runs here already: nobody should move it for want of room to change it.
			seen.State = runtime.Error
		}
	case fault.Internal:
		seen.State, seen.Message = runtime.Error, "the data plane cannot apply it; its operator finds the reason in the agent's log"
	default:
		seen.State, seen.Message = runtime.Error, err.Error()
	}
	return seen
}

// settle shows what was seen, and writes down what a restart should tell.
func (s *shift) settle(ctx context.Context, e *entry, seen runtime.Observed) error {
	kept := e.record.Seen
	if reflect.DeepEqual(kept, seen) {
		s.mu.Lock()
		same := reflect.DeepEqual(e.seen, seen)
		s.mu.Unlock()
		if !same {
			s.show(e, seen)
		}
		return nil
	}
	next := e.record
	next.Seen = seen
	next.Settled = next.Settled || seen.State == runtime.Ready
	worth := kept.State != seen.State || kept.Generation != seen.Generation || !reflect.DeepEqual(kept.Versions, seen.Versions) || !reflect.DeepEqual(kept.Routes, seen.Routes)
	if worth {
		if err := s.save(ctx, e, next); err != nil {
			return err
		}
	}
	e.record = next
	s.show(e, seen)
	return nil
}

// install applies what the record asks for and looks at what has become of it.
func (s *shift) install(ctx context.Context, e *entry) (runtime.Observed, error) {
	doc, err := read(e.record.Body)
	if err != nil {
		return runtime.Observed{}, err
	}
	plan, err := s.compose(ctx, e.record, doc)
	if err != nil {
		return runtime.Observed{}, err
	}
	if !e.applied {
		if err := s.enforce(ctx, e, plan); err != nil {
			return runtime.Observed{}, err
		}
		e.applied = true
	}
	return s.look(ctx, e.record, doc, plan)
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
}

// compose works out the set of an item: its objects, its namespace where that
// is ours to make, and its routes.
func (s *shift) compose(ctx context.Context, rec record, doc document) (plan, error) {
	p := plan{home: s.r.cfg.home(rec.ID, doc)}
	p.set = manifest.Set{Owner: rec.ID, Namespace: p.home, Force: doc.Force, Override: handTools}
	for _, m := range doc.Manifests {
		if doc.Suspended && !doc.bare {
			m = resting(m)
		}
		p.set.Objects = append(p.set.Objects, m)
	}
	var err error
	if p.own, err = s.r.cluster.Inventory(ctx, p.set); err != nil {
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
	if there == nil || there.GetLabels()[manifest.OwnerLabel] == manifest.Mark(rec.ID) {
		p.set.Objects = append(p.set.Objects, map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": p.home}})
		p.inventory = manifest.Union(p.inventory, []string{home.String()})
	}
	return p, nil
}

// within reports whether an inventory's line is in the namespace.
func within(line, namespace string) bool {
	id, err := manifest.Parse(line)
	return err == nil && id.Namespace == namespace
}

// enforce applies the set and removes what it no longer has. The inventory is
// written before anything that it lists is made, and forgets nothing that may
// still be there.
func (s *shift) enforce(ctx context.Context, e *entry, p plan) error {
	if err := s.list(ctx, e, manifest.Union(e.record.Inventory, p.inventory)); err != nil {
		return err
	}
	s.watch.follow(p.inventory)
	p.set.Fence = s.fence(e)
	if _, err := s.r.cluster.Apply(ctx, p.set); err != nil {
		return err
	}
	gone, err := s.r.cluster.Prune(ctx, manifest.Pruning{Owner: e.record.ID, Before: e.record.Inventory, After: p.inventory, Fence: s.fence(e)})
	if err != nil {
		return err
	}
	return s.list(ctx, e, manifest.Union(p.inventory, gone.Kept, gone.Going))
}

// fence makes sure that the item's Secret is still as this replica wrote it.
// Another replica writes there before it touches any object of the item.
func (s *shift) fence(e *entry) func(context.Context) error {
	version, name := e.was.version, named("drover-item-", e.record.ID)
	return func(ctx context.Context) error {
		now, err := s.r.keep.versionOf(ctx, name)
		if err == nil && now != version {
			return fault.New(fault.Conflict, "another replica of the agent is at work on %s", e.record.ID).Because("fenced")
		}
		return err
	}
}

// list writes the inventory down if it is another.
func (s *shift) list(ctx context.Context, e *entry, inventory []string) error {
	if slices.Equal(inventory, e.record.Inventory) {
		return nil
	}
	next := e.record
	next.Inventory = inventory
	return s.save(ctx, e, next)
}

// remove takes an item away, a step at a time.
func (s *shift) remove(ctx context.Context, e *entry) (time.Duration, error) {
	rec := e.record
	s.watch.follow(rec.Inventory)
	gone, err := s.r.cluster.Prune(ctx, manifest.Pruning{Owner: rec.ID, Before: s.exclusive(rec), Namespaces: true, Fence: s.fence(e)})
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	if fault.Reason(err) == "fenced" {
		return 0, err
	}
	seen := runtime.Observed{ID: rec.ID, Kind: rec.Kind, Generation: rec.Generation, State: runtime.Installing, Message: gone.Message}
	if err != nil {
		s.complain(e, err)
		seen.Message = "it cannot be removed yet: " + err.Error()
		if fault.Is(err, fault.Internal) {
			seen.Message = "it cannot be removed yet; the data plane's operator finds the reason in the agent's log"
		}
		if err := s.settle(ctx, e, seen); err != nil {
			return 0, err
		}
		return 0, err
	}
	if !gone.Done() {
		return removeAgain, s.settle(ctx, e, seen)
	}
	next := rec
	next.Gone, next.Inventory, next.Body = true, nil, nil
	next.Seen = runtime.Observed{ID: rec.ID, Kind: rec.Kind, Generation: rec.Generation, State: runtime.Deleted}
	if err := s.save(ctx, e, next); err != nil {
		return 0, err
	}
	s.show(e, next.Seen)
	return 0, nil
}

// exclusive is an item's inventory without namespaces that others have moved
// into: they would go with it.
func (s *shift) exclusive(rec record) []string {
	lines := map[string]bool{}
	s.mu.Lock()
	for other, e := range s.items {
		for _, line := range e.listed {
			if id, err := manifest.Parse(line); err == nil && other != rec.ID {
				lines[id.Namespace] = true
			}
		}
	}
	s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(rec.Inventory), func(line string) bool {
		id, err := manifest.Parse(line)
		return err == nil && id.Group == "" && id.Kind == "Namespace" && lines[id.Name]
	})
}
