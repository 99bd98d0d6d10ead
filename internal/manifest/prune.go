package manifest

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/droverhq/drover/internal/fault"
)

// Pruning is what to remove: what Before lists and After does not.
type Pruning struct {
	Owner         string
	Before, After []string
	// Namespaces and Definitions let namespaces and definitions of kinds go, and
	// everything in and of them. Without, they stay and stay listed.
	Namespaces, Definitions bool
	Fence                   func(context.Context) error // as in Set
}

// Pruned tells how far it came.
type Pruned struct {
	Kept   []string // still ours and still listed: not allowed to go
	Going  []string // asked to go, not gone yet
	Gone   []string
	Others []string // another's by now, and left alone
	// Message says what holds those that are going.
	Message string
}

// Done reports whether nothing is on its way any more.
func (p Pruned) Done() bool { return len(p.Going) == 0 }

// candidates are what may go, in the order in which it must, and what stays.
func (p Pruning) candidates() (goes []ID, kept []string, err error) {
	for _, s := range Union(p.Before) {
		if slices.Contains(p.After, s) {
			continue
		}
		id, err := Parse(s)
		if err != nil {
			return nil, nil, err
		}
		if id.namespace() && !p.Namespaces || id.definition() && !p.Definitions {
			kept = append(kept, s)
			continue
		}
		goes = append(goes, id)
	}
	slices.SortFunc(goes, func(a, b ID) int { return order(b, a) })
	return goes, kept, nil
}

// Prune removes what the inventory before had and the one after has not, and
// what still carries the owner's label. It returns when the removal is under
// way; call it again until it is Done. Namespaces and definitions go when
// everything else is gone.
func (c *Client) Prune(ctx context.Context, p Pruning) (Pruned, error) {
	if p.Owner == "" {
		return Pruned{}, fault.New(fault.Invalid, "pruning needs an owner")
	}
	ids, kept, err := p.candidates()
	if err != nil {
		return Pruned{}, err
	}
	out := Pruned{Kept: kept}
	var failed []error
	for _, id := range ids {
		if id.Lasting() && len(out.Going) > 0 && !allLasting(out.Going) {
			out.Going = append(out.Going, id.String())
			continue
		}
		there, err := c.remove(ctx, p, id)
		switch {
		case ctx.Err() != nil:
			return out, ctx.Err()
		case err != nil:
			failed = append(failed, explain(err, id))
			out.Going = append(out.Going, id.String())
			if fault.Reason(failed[len(failed)-1]) == "unreachable" {
				return out, failed[len(failed)-1]
			}
		case there == nil:
			out.Gone = append(out.Gone, id.String())
		case there.GetLabels()[OwnerLabel] != Mark(p.Owner):
			out.Others = append(out.Others, id.String())
		default:
			out.Going = append(out.Going, id.String())
			if out.Message == "" {
				out.Message = lingering(id, there)
			}
		}
	}
	return out, gather(failed)
}

func allLasting(ids []string) bool {
	return !slices.ContainsFunc(ids, func(s string) bool {
		id, err := Parse(s)
		return err == nil && !id.Lasting()
	})
}

// remove asks for the removal of one object, of exactly the one that was seen.
// It returns the object if it is still there, or is another's.
func (c *Client) remove(ctx context.Context, p Pruning, id ID) (*unstructured.Unstructured, error) {
	m, err := c.mapper.RESTMapping(id.groupKind())
	if meta.IsNoMatchError(err) {
		return nil, nil // with its kind, all of the kind are gone
	}
	if err != nil {
		return nil, err
	}
	for n := 1; ; n++ {
		there, err := c.get(ctx, m.GroupVersionKind, id)
		if err != nil || there == nil || there.GetLabels()[OwnerLabel] != Mark(p.Owner) || there.GetDeletionTimestamp() != nil {
			return there, err
		}
		if p.Fence != nil {
			if err := p.Fence(ctx); err != nil {
				return there, err
			}
		}
		err = c.erase(ctx, there)
		switch {
		case apierrors.IsNotFound(err):
			return nil, nil
		case apierrors.IsConflict(err) && n < attempts:
			continue // it changed since: look whose it is again
		case err != nil:
			return there, err
		}
		return c.get(ctx, m.GroupVersionKind, id)
	}
}

func (c *Client) erase(ctx context.Context, o *unstructured.Unstructured) error {
	ctx, stop := context.WithTimeout(ctx, c.cfg.Timeout)
	defer stop()
	uid, version := o.GetUID(), o.GetResourceVersion()
	return c.kube.Delete(ctx, o, client.PropagationPolicy(metav1.DeletePropagationBackground),
		client.Preconditions{UID: &uid, ResourceVersion: &version})
}

// lingering says why something that was asked to go is still there.
func lingering(id ID, o *unstructured.Unstructured) string {
	if id.namespace() {
		for _, name := range []string{"NamespaceFinalizersRemaining", "NamespaceContentRemaining", "NamespaceDeletionDiscoveryFailure", "NamespaceDeletionContentFailure"} {
			if why := conditionMessage(o, name); why != "" {
				return "the namespace " + id.Name + " is stuck while being removed: " + short(why)
			}
		}
		return "the namespace " + id.Name + " is being removed"
	}
	return id.Words() + " is being removed" + holders(o)
}

func conditionMessage(o *unstructured.Unstructured, name string) string {
	all, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range all {
		if m, ok := c.(map[string]any); ok && m["type"] == name && m["status"] == "True" {
			text, _ := m["message"].(string)
			return text
		}
	}
	return ""
}

// Look returns an object as it is; nil: it is not there.
func (c *Client) Look(ctx context.Context, id ID) (*unstructured.Unstructured, error) {
	m, err := c.mapper.RESTMapping(id.groupKind())
	if err != nil {
		return nil, explain(err, id)
	}
	o, err := c.get(ctx, m.GroupVersionKind, id)
	return o, explain(err, id)
}
