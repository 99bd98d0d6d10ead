package manifest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fluxcd/pkg/ssa"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/droverhq/drover/internal/fault"
)

// Result of Apply.
type Result struct {
	Inventory []string // everything of the set, whether it had to be written or not
	Created   []string
	Changed   []string
}

// Inventory names what a set would apply, without applying it: written down
// before Apply, it lets nothing be lost if the program dies in between.
func (c *Client) Inventory(ctx context.Context, set Set) ([]string, error) {
	objects, err := c.prepare(ctx, set)
	if err != nil {
		return nil, err
	}
	return inventory(objects), nil
}

func inventory(objects []*unstructured.Unstructured) []string {
	ids := make([]string, len(objects))
	for i, o := range objects {
		ids[i] = idOf(o).String()
	}
	return Union(ids)
}

func (c *Client) prepare(ctx context.Context, set Set) ([]*unstructured.Unstructured, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return prepare(set, func(gvk schema.GroupVersionKind) (bool, error) {
		m, err := c.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		if err != nil {
			return false, explain(err, ID{Group: gvk.Group, Kind: gvk.Kind})
		}
		return m.Scope.Name() == "namespace", nil
	})
}

// Apply makes the cluster have the objects of the set: namespaces and
// definitions of kinds first, then the rest. What is so already is not written.
// Each stage is tried out before any of it is written, so that a mistake in one
// object leaves the others of its stage as they were.
//
// The error joins one fault per object that cannot be applied; the result tells
// what was.
func (c *Client) Apply(ctx context.Context, set Set) (Result, error) {
	objects, err := c.prepare(ctx, set)
	if err != nil {
		return Result{}, err
	}
	res := Result{Inventory: inventory(objects)}
	for len(objects) > 0 {
		stage := idOf(objects[0]).stage()
		n := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return idOf(o).stage() != stage })
		if n < 0 {
			n = len(objects)
		}
		if err := c.stage(ctx, set, objects[:n], &res); err != nil {
			return res, err
		}
		if err := c.established(ctx, objects[:n]); err != nil {
			return res, err
		}
		objects = objects[n:]
	}
	return res, nil
}

// stage tries objects out and writes those that differ.
func (c *Client) stage(ctx context.Context, set Set, objects []*unstructured.Unstructured, res *Result) error {
	var differ []*attempt
	var failed []error
	for _, o := range objects {
		a := &attempt{c: c, set: set, object: o, id: idOf(o), force: set.Force}
		wanted, err := a.compare(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			failed = append(failed, err)
		case wanted:
			differ = append(differ, a)
		}
		if fault.Is(err, fault.Unavailable) && fault.Reason(err) == "unreachable" {
			return err // the others would only wait for the same
		}
	}
	if len(failed) > 0 {
		return gather(failed)
	}
	if err := set.begin(ctx, differ); err != nil {
		return err
	}
	for _, a := range differ {
		if err := a.write(ctx); err != nil {
			failed = append(failed, err)
			continue
		}
		res.note(a)
	}
	return gather(failed)
}

// begin says what is about to be written, and asks whether it may be.
func (s Set) begin(ctx context.Context, differ []*attempt) error {
	if len(differ) == 0 {
		return nil
	}
	if s.Before != nil {
		var will Result
		for _, a := range differ {
			will.note(a)
		}
		if err := s.Before(ctx, will); err != nil {
			return err
		}
	}
	if s.Fence != nil {
		return s.Fence(ctx)
	}
	return nil
}

func (r *Result) note(a *attempt) {
	if a.there == nil {
		r.Created = append(r.Created, a.id.String())
	} else {
		r.Changed = append(r.Changed, a.id.String())
	}
}

// gather makes one error of many, of the kind of the first.
func gather(all []error) error {
	if len(all) < 2 {
		return errors.Join(all...)
	}
	return fault.New(fault.Of(all[0]), "%w", errors.Join(all...)).Because(fault.Reason(all[0]))
}

// attempt is one object on its way.
type attempt struct {
	c      *Client
	set    Set
	object *unstructured.Unstructured
	id     ID
	there  *unstructured.Unstructured // as it is; nil: it is not
	force  bool
}

const attempts = 4 // at an object that others write at the same time

// compare tells whether the object must be written.
func (a *attempt) compare(ctx context.Context) (differs bool, err error) {
	for n := 1; ; n++ {
		if differs, err = a.try(ctx); !stale(err) || n == attempts {
			return differs, explain(err, a.id)
		}
	}
}

func (a *attempt) try(ctx context.Context) (bool, error) {
	there, err := a.c.get(ctx, a.object.GroupVersionKind(), a.id)
	if err != nil {
		return false, err
	}
	if a.there = there; there != nil {
		if err := a.mine(); err != nil {
			return false, err
		}
	}
	ctx, stop := context.WithTimeout(ctx, a.c.cfg.Timeout)
	defer stop()
	m := ssa.NewResourceManager(seen{a.c.kube, a}, nil, ssa.Owner{Field: a.c.cfg.Manager})
	entry, _, _, err := m.Diff(ctx, a.fenced(), ssa.DefaultDiffOptions())
	if others := managers(err); !a.force && len(others) > 0 && a.set.overrides(others) {
		a.force = true
		entry, _, _, err = m.Diff(ctx, a.fenced(), ssa.DefaultDiffOptions())
	}
	if err != nil {
		return false, err
	}
	return entry.Action != ssa.UnchangedAction, nil
}

// mine refuses objects that are another's, and those that are going away.
func (a *attempt) mine() error {
	owner := a.there.GetLabels()[OwnerLabel]
	switch {
	case owner == "" && a.set.Adopt, released(a.there), owner == Mark(a.set.Owner):
	case owner == "":
		return fault.New(fault.Conflict, "%s is there already and was not made here: rename one of the two, or remove it", a.id.Words()).Because("not-ours")
	default:
		return fault.New(fault.Conflict, "%s belongs to %s: rename one of the two", a.id.Words(),
			firstOf(a.there.GetAnnotations()[OwnerAnnotation], owner)).Because("not-ours")
	}
	if a.there.GetDeletionTimestamp() != nil {
		return fault.New(fault.Unavailable, "%s is still being removed%s; it is made again once it is gone", a.id.Words(), holders(a.there)).Because("terminating")
	}
	return nil
}

// fenced is the object with what it must still be when it is written: a write
// that raced another's is refused by the cluster rather than won by the last.
func (a *attempt) fenced() *unstructured.Unstructured {
	o := a.object.DeepCopy()
	if a.there != nil {
		o.SetResourceVersion(a.there.GetResourceVersion())
		o.SetUID(a.there.GetUID())
	}
	return o
}

func (a *attempt) write(ctx context.Context) error {
	for n := 1; ; n++ {
		err := a.patch(ctx)
		if !stale(err) || n == attempts {
			return explain(err, a.id)
		}
		differs, err := a.try(ctx)
		if err == nil && differs && a.set.Fence != nil {
			err = a.set.Fence(ctx)
		}
		if err != nil || !differs {
			return explain(err, a.id)
		}
	}
}

func (a *attempt) patch(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, a.c.cfg.Timeout)
	defer stop()
	options := []client.PatchOption{client.FieldOwner(a.c.cfg.Manager)}
	if a.force {
		options = append(options, client.ForceOwnership)
	}
	return a.c.kube.Patch(ctx, a.fenced(), client.Apply, options...) //nolint:staticcheck // the typed way needs typed objects
}

// stale reports whether somebody wrote the object since it was read.
func stale(err error) bool {
	return apierrors.IsConflict(err) && len(managers(err)) == 0
}

// seen is the client that fluxcd's comparison works with: it is given the
// object that was read already, and forces only what the set says.
type seen struct {
	client.Client
	a *attempt
}

func (s seen) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	u, ok := obj.(*unstructured.Unstructured)
	if s.a.there == nil || !ok {
		return apierrors.NewNotFound(schema.GroupResource{Group: s.a.id.Group, Resource: s.a.id.Kind}, key.Name)
	}
	u.Object = s.a.there.DeepCopy().Object
	return nil
}

func (s seen) Patch(ctx context.Context, obj client.Object, patch client.Patch, _ ...client.PatchOption) error {
	options := []client.PatchOption{client.DryRunAll, client.FieldOwner(s.a.c.cfg.Manager)}
	if s.a.force {
		options = append(options, client.ForceOwnership)
	}
	return s.Client.Patch(ctx, obj, patch, options...)
}

// get returns an object, nil if there is none.
func (c *Client) get(ctx context.Context, gvk schema.GroupVersionKind, id ID) (*unstructured.Unstructured, error) {
	ctx, stop := context.WithTimeout(ctx, c.cfg.Timeout)
	defer stop()
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	err := c.kube.Get(ctx, client.ObjectKey{Namespace: id.Namespace, Name: id.Name}, u)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return u, nil
}

// established waits until the kinds that were just defined are served, since
// nothing of them can be applied before.
func (c *Client) established(ctx context.Context, objects []*unstructured.Unstructured) error {
	var waiting []*unstructured.Unstructured
	for _, o := range objects {
		if idOf(o).definition() {
			waiting = append(waiting, o)
		}
	}
	if len(waiting) == 0 {
		return nil
	}
	ctx, stop := context.WithTimeout(ctx, c.cfg.Establish)
	defer stop()
	for _, o := range waiting {
		for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
			id := idOf(o)
			now, err := c.get(ctx, o.GroupVersionKind(), id)
			if err == nil && now != nil && condition(now, "Established") && c.served(now) {
				break
			}
			select {
			case <-ctx.Done():
				if err != nil {
					return explain(err, id)
				}
				return fault.New(fault.Unavailable, "the kind of %s is not served yet", id.Words()).Because("not-established")
			case <-time.After(pause):
			}
		}
	}
	return nil
}

// served reports whether discovery knows the kind of a definition by now.
func (c *Client) served(definition *unstructured.Unstructured) bool {
	group, _, _ := unstructured.NestedString(definition.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(definition.Object, "spec", "names", "kind")
	_, err := c.mapper.RESTMapping(schema.GroupKind{Group: group, Kind: kind})
	return err == nil
}

func condition(o *unstructured.Unstructured, name string) bool {
	all, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	return slices.ContainsFunc(all, func(c any) bool {
		m, ok := c.(map[string]any)
		return ok && m["type"] == name && m["status"] == "True"
	})
}
