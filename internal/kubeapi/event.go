package kubeapi

import (
	"context"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// lastState is what an informer had of an object that has gone.
func lastState(in any) (client.Object, bool) {
	if unknown, ok := in.(toolscache.DeletedFinalStateUnknown); ok {
		in = unknown.Obj
	}
	o, ok := in.(client.Object)
	return o, ok
}

// onResource queues what was written of one kind. What Drover itself wrote (a
// status) is not queued.
func (c *Controllers) onResource(ctx context.Context, r resource) toolscache.ResourceEventHandler {
	of := func(o client.Object) key { return key{kind: r.name, namespace: o.GetNamespace(), name: o.GetName()} }
	return toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(in any, first bool) {
			o, ok := in.(client.Object)
			if !ok {
				return
			}
			rank := atOnce
			if first {
				rank = sometime
			}
			c.enqueue(rank, of(o))
			c.mendLater(o, of(o))
		},
		UpdateFunc: func(before, now any) {
			was, ok1 := before.(client.Object)
			is, ok2 := now.(client.Object)
			if !ok1 || !ok2 {
				return
			}
			if was.GetUID() != is.GetUID() { // deleted and made anew between two looks
				c.left(ctx, of(was), was)
			}
			if news(was, is) {
				c.enqueue(atOnce, of(is))
			}
			if verdictOf(was) != verdictOf(is) {
				c.mendLater(is, of(is))
			}
		},
		DeleteFunc: func(in any) {
			if o, ok := lastState(in); ok {
				c.left(ctx, of(o), o)
				c.enqueue(atOnce, of(o))
			}
		},
	}
}

// news tells whether there is another intent.
func news(was, is client.Object) bool {
	return was.GetUID() != is.GetUID() || was.GetGeneration() != is.GetGeneration() ||
		was.GetDeletionTimestamp().IsZero() != is.GetDeletionTimestamp().IsZero() ||
		!slices.Equal(was.GetFinalizers(), is.GetFinalizers())
}

// left remembers who has gone, with the namespace as it is known now: it may go too.
func (c *Controllers) left(ctx context.Context, k key, o client.Object) {
	ns := namespaceMeta()
	var uid string
	if err := c.cache.Get(ctx, client.ObjectKey{Name: k.namespace}, ns); err == nil {
		uid = string(ns.UID)
	}
	c.gone.add(k, parting{uid: string(o.GetUID()), namespace: uid})
}

// mendLater has a status looked at again that does not say what it should.
func (c *Controllers) mendLater(o client.Object, k key) {
	after := c.Mend
	switch verdictOf(o) {
	case empty:
		after *= 10
	case damaged:
	default:
		return
	}
	k.mend = true
	c.queue.AddAfter(k, after)
}

// onNamespace queues all that is in a namespace when that matters to it.
func (c *Controllers) onNamespace(ctx context.Context) toolscache.ResourceEventHandler {
	all := func(in any) {
		o, ok := lastState(in)
		if !ok {
			return
		}
		for _, r := range resources() {
			if err := c.each(ctx, r, func(found client.Object) {
				c.enqueue(again, key{kind: r.name, namespace: found.GetNamespace(), name: found.GetName()})
			}, client.InNamespace(o.GetName())); err != nil {
				c.broke(err)
			}
		}
	}
	return toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(in any, first bool) {
			if o, ok := in.(client.Object); ok {
				c.note(o, false)
			}
			if !first { // otherwise they are queued themselves
				all(in)
			}
		},
		UpdateFunc: func(before, now any) {
			was, ok1 := before.(client.Object)
			is, ok2 := now.(client.Object)
			if ok1 && ok2 && (was.GetUID() != is.GetUID() || !maps.Equal(was.GetLabels(), is.GetLabels()) ||
				was.GetDeletionTimestamp().IsZero() != is.GetDeletionTimestamp().IsZero()) {
				c.note(is, false)
				all(is)
			}
		},
		DeleteFunc: func(in any) {
			if o, ok := lastState(in); ok {
				c.note(o, true)
			}
			all(in)
		},
	}
}

// each calls f with all cached objects of a kind. They may not be changed.
func (c *Controllers) each(ctx context.Context, r resource, f func(client.Object), of ...client.ListOption) error {
	list := r.many()
	if err := c.cache.List(ctx, list, append(of, client.UnsafeDisableDeepCopy)...); err != nil {
		return err
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return err
	}
	for _, item := range items {
		if o, ok := item.(client.Object); ok {
			f(o)
		}
	}
	return nil
}
