package argocd

import (
	"context"
	"reflect"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/manifest"
	"github.com/droverhq/drover/internal/runtime/keep"
)

// writer writes on behalf of one item, after it has made sure once that no other
// replica does.
type writer struct {
	s      *shift
	e      *keep.Entry
	passed bool
	writes int                        // of objects, so far
	memory *memory                    // of the item, where what is put right is told; nil: nowhere
	made   *unstructured.Unstructured // the Application, if it was made just now
}

func (w *writer) fence(ctx context.Context) error {
	if w.passed {
		return nil
	}
	if err := w.s.Fence(w.e)(ctx); err != nil {
		return err
	}
	w.passed = true
	return nil
}

func (r *Runtime) in(k kind) dynamic.ResourceInterface {
	return r.objects.Resource(k.GroupVersionResource).Namespace(r.cfg.ArgoCD)
}

// explain says what went wrong; that there is no Argo CD above all.
func (r *Runtime) explain(err error, k kind, name string) error {
	switch {
	case err == nil:
		return nil
	case noKind(err):
		return fault.New(fault.Invalid, "Argo CD is not installed in this cluster (it has no %s): install it, or let the agent run with the runtime kubernetes", k.Resource).Because("no-argocd")
	case noNamespace(err):
		return fault.New(fault.Invalid, "there is no namespace %s, where Argo CD should be: name the one that it is in by the agent's option argocd=<namespace>", r.cfg.ArgoCD).Because("no-argocd")
	}
	return manifest.Explain(err, manifest.ID{Group: k.Group, Kind: k.kind, Namespace: r.cfg.ArgoCD, Name: name})
}

// live reads an object from the cluster; nil: there is none.
func (r *Runtime) live(ctx context.Context, k kind, name string) (*unstructured.Unstructured, error) {
	ctx, stop := context.WithTimeout(ctx, keep.CallTimeout)
	defer stop()
	o, err := r.in(k).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) && !noKind(err) {
		return nil, nil
	}
	return o, r.explain(err, k, name)
}

// amend returns the object as it should be, and whether that is another. Fields
// that are not wanted are left to those who have set them.
func amend(now, want *unstructured.Unstructured) (next *unstructured.Unstructured, differs bool) {
	next = now.DeepCopy()
	for field, v := range want.Object {
		if field == "apiVersion" || field == "kind" || field == "metadata" {
			continue
		}
		if !reflect.DeepEqual(next.Object[field], v) {
			next.Object[field], differs = v, true
		}
	}
	labels, marks := next.GetLabels(), next.GetAnnotations()
	for k, v := range want.GetLabels() {
		if labels[k] != v {
			if labels == nil {
				labels = map[string]string{}
			}
			labels[k], differs = v, true
		}
	}
	for k, v := range want.GetAnnotations() {
		if marks[k] != v {
			if marks == nil {
				marks = map[string]string{}
			}
			marks[k], differs = v, true
		}
	}
	finalizers := next.GetFinalizers()
	for _, f := range want.GetFinalizers() {
		if !slices.Contains(finalizers, f) && next.GetDeletionTimestamp() == nil {
			finalizers, differs = append(finalizers, f), true
		}
	}
	if differs {
		next.SetLabels(labels)
		next.SetAnnotations(marks)
		next.SetFinalizers(finalizers)
	}
	return next, differs
}

// ensure makes an object as it is wanted. Born are annotations that it has from
// its beginning.
func (w *writer) ensure(ctx context.Context, k kind, want *unstructured.Unstructured, born map[string]string) error {
	name := want.GetName()
	now, err := w.s.cached(ctx, k, name)
	if err != nil {
		return err
	}
	for fresh := range 5 {
		switch {
		case now == nil:
			made, err := w.create(ctx, k, want, born)
			if made || err != nil {
				return err
			}
		case fresh == 0 && blames(now, want):
			// The watch may be late: nobody is blamed for what was put right already.
		default:
			done, err := w.change(ctx, k, now, want)
			if done || err != nil {
				return err
			}
		}
		if now, err = w.s.r.live(ctx, k, name); err != nil {
			return err
		}
	}
	return fault.New(fault.Unavailable, "the %s of Argo CD was changed by others all the time; it is tried again", k.kind).Because("changed-meanwhile")
}

// blames tells whether somebody else has changed an object: what we ourselves wanted
// last time is marked, so it was another then, or is another since. It is pure.
func blames(now, want *unstructured.Unstructured) bool {
	_, differs := amend(now, want)
	return differs && now.GetAnnotations()[digestMark] == want.GetAnnotations()[digestMark]
}

// create makes what is missing; false: somebody else has.
func (w *writer) create(ctx context.Context, k kind, want *unstructured.Unstructured, born map[string]string) (made bool, err error) {
	if err := w.fence(ctx); err != nil {
		return false, err
	}
	o := want.DeepCopy()
	marks := o.GetAnnotations()
	for key, v := range born {
		marks[key] = v
	}
	o.SetAnnotations(marks)
	before, err := w.notice(ctx, k, want.GetName(), "deleted", true)
	if err != nil {
		return false, err
	}
	call, stop := context.WithTimeout(ctx, keep.CallTimeout)
	defer stop()
	w.writes++
	o, err = w.s.r.in(k).Create(call, o, metav1.CreateOptions{FieldManager: managedBy})
	if apierrors.IsAlreadyExists(err) {
		w.unsay(before)
		return false, nil
	}
	if err != nil {
		return false, w.s.r.explain(err, k, want.GetName())
	}
	if k == applications {
		w.made = o
	}
	if w.s.known(k, want.GetName()) {
		return true, w.heal(k, want.GetName(), "deleted")
	}
	return true, nil
}

// change puts right what differs; false: it was changed meanwhile.
func (w *writer) change(ctx context.Context, k kind, now, want *unstructured.Unstructured) (done bool, err error) {
	next, differs := amend(now, want)
	if !differs {
		w.s.known(k, want.GetName())
		return true, nil
	}
	theirs := blames(now, want)
	before, err := w.notice(ctx, k, want.GetName(), "changed", theirs)
	if err != nil {
		return false, err
	}
	if k == applications {
		w.s.remind(next)
	}
	if err := w.patch(ctx, k, now, next); err != nil {
		if apierrors.IsConflict(err) { // perhaps by ourselves: an answer that is lost is asked for again
			return false, nil
		}
		if apierrors.IsNotFound(err) {
			w.unsay(before)
			return false, nil
		}
		return false, w.s.r.explain(err, k, want.GetName())
	}
	if w.s.known(k, want.GetName()) && theirs {
		return true, w.heal(k, want.GetName(), "changed")
	}
	return true, nil
}

// patch turns now into next, if it is still as it was read.
func (w *writer) patch(ctx context.Context, k kind, now, next *unstructured.Unstructured) error {
	if err := w.fence(ctx); err != nil {
		return err
	}
	data, err := client.MergeFromWithOptions(now, client.MergeFromWithOptimisticLock{}).Data(next)
	if err != nil {
		return err
	}
	call, stop := context.WithTimeout(ctx, keep.CallTimeout)
	defer stop()
	w.writes++
	_, err = w.s.r.in(k).Patch(call, now.GetName(), types.MergePatchType, data, metav1.PatchOptions{FieldManager: managedBy})
	return err
}

// erase removes an object if it is the one that was read; what is gone is gone.
func (w *writer) erase(ctx context.Context, k kind, o *unstructured.Unstructured) error {
	if err := w.fence(ctx); err != nil {
		return err
	}
	uid := o.GetUID()
	call, stop := context.WithTimeout(ctx, keep.CallTimeout)
	defer stop()
	err := w.s.r.in(k).Delete(call, o.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if apierrors.IsNotFound(err) {
		err = nil
	}
	w.s.unknow(k, o.GetName())
	return w.s.r.explain(err, k, o.GetName())
}
