package manifest

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/droverhq/drover/internal/fault"
)

// ReleasedAnnotation is on what its owner has let go of, and says who that was: the next
// set that has it may take it over.
const ReleasedAnnotation = "drover.dev/released"

// Release lets go of what is listed and still carries the owner's label: it stays as it
// is, and is nobody's. What the cluster does not let the client change keeps its label,
// since letting go must not wait for that; whatever else fails is to be tried again. The
// fence is as in Set.
func (c *Client) Release(ctx context.Context, owner string, lines []string, fence func(context.Context) error) error {
	for _, line := range Union(lines) {
		id, err := Parse(line)
		if err != nil {
			return err
		}
		err = explain(c.release(ctx, owner, id, fence), id)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil && !closed(err) {
			return err
		}
	}
	return nil
}

// closed reports whether the cluster does not let an object be changed, and may never.
func closed(err error) bool {
	if fault.Is(err, fault.Denied) || fault.Is(err, fault.Invalid) || fault.Is(err, fault.Exhausted) {
		return true
	}
	why := fault.Reason(err)
	return why == "webhook-away" || why == "namespace-terminating" || why == "storage-full"
}

func (c *Client) release(ctx context.Context, owner string, id ID, fence func(context.Context) error) error {
	m, err := c.mapper.RESTMapping(id.groupKind())
	if meta.IsNoMatchError(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for n := 1; ; n++ {
		there, err := c.get(ctx, m.GroupVersionKind, id)
		if err != nil || there == nil || there.GetLabels()[OwnerLabel] != Mark(owner) {
			return err
		}
		if err := fence(ctx); err != nil {
			return err
		}
		next := there.DeepCopy()
		free(next, owner)
		call, stop := context.WithTimeout(ctx, c.cfg.Timeout)
		err = c.kube.Patch(call, next, client.MergeFromWithOptions(there, client.MergeFromWithOptimisticLock{}), client.FieldOwner(c.cfg.Manager))
		stop()
		if apierrors.IsNotFound(err) {
			return nil
		}
		if !apierrors.IsConflict(err) || n == attempts {
			return err
		}
	}
}

// free takes the marks of its owner off an object.
func free(o *unstructured.Unstructured, owner string) {
	labels, notes := o.GetLabels(), o.GetAnnotations()
	if notes == nil {
		notes = map[string]string{}
	}
	delete(labels, OwnerLabel)
	delete(notes, OwnerAnnotation)
	notes[ReleasedAnnotation] = owner
	o.SetLabels(labels)
	o.SetAnnotations(notes)
}

// released reports whether the object's owner has let go of it, and nobody has taken it
// since.
func released(o *unstructured.Unstructured) bool {
	return o.GetLabels()[OwnerLabel] == "" && o.GetAnnotations()[ReleasedAnnotation] != ""
}
