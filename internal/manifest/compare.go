package manifest

import (
	"context"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Compared is one object as it is, and as Apply would make it.
type Compared struct {
	ID ID
	// There is the object as it is; nil: it is not.
	There map[string]any
	// Would is the object as the cluster says it would be. It is nil where that
	// cannot be said: its namespace or its kind comes with the same set, or it
	// would have to be made again.
	Would map[string]any
	// Fixed: the cluster does not let it be changed so; it must go and come again.
	Fixed bool
}

// Compare tries a set out and writes nothing. Errors are those of Apply.
func (c *Client) Compare(ctx context.Context, set Set) ([]Compared, error) {
	var all []Compared
	err := c.eachForeseen(ctx, set, func(a *attempt, one Compared, err error) error {
		all = append(all, one)
		return err
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// eachForeseen tries each object of a set out on its own. An error that is returned
// ends it.
func (c *Client) eachForeseen(ctx context.Context, set Set, take func(a *attempt, one Compared, err error) error) error {
	objects, err := c.prepare(ctx, set)
	if err != nil {
		return err
	}
	here := map[string]bool{}
	for _, o := range objects {
		if id := idOf(o); id.namespace() {
			here[id.Name] = true
		}
	}
	defined := definitions(objects)
	for _, o := range objects {
		a := &attempt{c: c, set: set, object: o, id: idOf(o), force: set.Force}
		_, comes := defined[a.id.groupKind()]
		one, err := a.foresee(ctx, comes, here[a.id.Namespace])
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := take(a, one, explain(err, a.id)); err != nil {
			return err
		}
	}
	return nil
}

// foresee compares one object. Its kind or its namespace may come with the set.
func (a *attempt) foresee(ctx context.Context, kindComes, namespaceComes bool) (Compared, error) {
	out := Compared{ID: a.id}
	there, err := a.c.get(ctx, a.object.GroupVersionKind(), a.id)
	if kindComes && meta.IsNoMatchError(err) {
		return out, nil
	}
	if err != nil {
		return out, err
	}
	if a.there = there; there != nil {
		if err := a.mine(); err != nil {
			return out, err
		}
		out.There = there.Object
	}
	would, err := a.dry(ctx)
	switch {
	case err == nil:
		out.Would = would.Object
	case there == nil && namespaceComes && apierrors.IsNotFound(err):
	case there != nil && immutable(err):
		out.Fixed = true
	default:
		return out, err
	}
	return out, nil
}

// dry asks the cluster what the object would be.
func (a *attempt) dry(ctx context.Context) (*unstructured.Unstructured, error) {
	ctx, stop := context.WithTimeout(ctx, a.c.cfg.Timeout)
	defer stop()
	o := a.object.DeepCopy()
	options := []client.PatchOption{client.DryRunAll, client.FieldOwner(a.c.cfg.Manager)}
	if a.force {
		options = append(options, client.ForceOwnership)
	}
	err := a.c.kube.Patch(ctx, o, client.Apply, options...) //nolint:staticcheck // the typed way needs typed objects
	return o, err
}

func immutable(err error) bool {
	return apierrors.IsInvalid(err) && strings.Contains(err.Error(), "immutable")
}

// Describe tells where objects of a kind are found, for those who watch them.
func (c *Client) Describe(id ID) (resource schema.GroupVersionResource, namespaced bool, err error) {
	m, err := c.mapper.RESTMapping(id.groupKind())
	if err != nil {
		return schema.GroupVersionResource{}, false, explain(err, id)
	}
	return m.Resource, m.Scope.Name() == meta.RESTScopeNameNamespace, nil
}
