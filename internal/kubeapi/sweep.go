package kubeapi

import (
	"cmp"
	"context"
	"maps"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/droverhq/drover/internal/gitops"
)

// page of what the ledger knows.
const page = 500

// secretsEach is how many comparisons go by until Secrets are read again: those are
// calls of the API, and all but the ones of the wrong type are watched.
const secretsEach = 10

// sweepAll compares what the ledger knows with what is there: at the start, slowly
// ever after, and soon after a watch broke. All of it is in memory, but for what
// the ledger knows.
func (c *Controllers) sweepAll(ctx context.Context) {
	for n := 0; ; n++ {
		if err := c.sweep(ctx, n%secretsEach == 0); err != nil && ctx.Err() == nil {
			c.Logger.Warn("what the ledger knows could not be compared with the custom resources; nothing was changed", "home", c.Home.Name, "error", err)
		}
		next := time.NewTimer(c.Sweep + rand.N(c.Sweep/10+1))
		select {
		case <-ctx.Done():
			next.Stop()
			return
		case <-next.C:
		case <-c.relist:
			next.Reset(c.Sweep / 2) // by then the list was made anew, or not
			select {
			case <-ctx.Done():
				next.Stop()
				return
			case <-next.C:
			}
		}
	}
}

// sweep queues those that the ledger knows and that are not there (whether they are
// really gone is asked of the API then), those that it does not know, those of which it
// has something else than they ask for, those whose status is not ours, and namespaces that
// the ledger has as something else. What needs a
// Secret is looked at again in any case where that is asked for: one of the wrong type is
// not watched.
func (c *Controllers) sweep(ctx context.Context, secrets bool) error {
	if err := c.admit(ctx); err != nil {
		return err
	}
	used := map[string]bool{} // namespaces
	for _, r := range resources() {
		known, err := c.known(ctx, r.name)
		if err != nil {
			return err
		}
		err = c.each(ctx, r, func(o client.Object) {
			used[o.GetNamespace()] = true
			k := key{kind: r.name, namespace: o.GetNamespace(), name: o.GetName()}
			has, ok := known[string(o.GetUID())]
			delete(known, string(o.GetUID()))
			switch {
			case ok && differs(r, o, has):
				if !has.Dated { // otherwise it may be how it was read
					c.altered.Store(k, has.UID)
				}
				c.enqueue(again, k)
			case secrets && r.secret != nil || !ok || has.Generation != o.GetGeneration():
				c.enqueue(sometime, k)
			}
			c.mendLater(o, k)
		})
		if err != nil {
			return err
		}
		for _, k := range known {
			if err := c.compare(ctx, r, k); err != nil {
				return err
			}
		}
	}
	return c.sweepNamespaces(ctx, used)
}

// sweepNamespaces queues those of which the ledger has something else than they are, or
// nothing although something is in them. One that is not there tells nothing.
func (c *Controllers) sweepNamespaces(ctx context.Context, used map[string]bool) error {
	known, err := c.known(ctx, gitops.KindWorkspace.Name)
	if err != nil {
		return err
	}
	names := maps.Clone(used)
	for _, k := range known {
		names[k.Namespace] = true
	}
	for name := range names {
		o := namespaceMeta()
		if err := c.cache.Get(ctx, client.ObjectKey{Name: name}, o); apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			return err
		}
		is := c.namespaceOf(o)
		has, ok := known[is.UID]
		is.Engine = cmp.Or(is.Engine, has.Engine) // one that names none stays where it is
		if !is.Terminating && (ok && has.Asks != is.Asks() || !ok && used[name]) {
			c.enqueue(again, key{kind: gitops.KindWorkspace.Name, namespace: name, name: name})
		}
	}
	return nil
}

// known is all that the ledger has of a kind, by UID.
func (c *Controllers) known(ctx context.Context, kind string) (map[string]gitops.Known, error) {
	all := map[string]gitops.Known{}
	for after := ""; ; {
		list, err := c.Service.KnownOf(ctx, c.Home.Name, kind, after, page)
		if err != nil {
			return nil, err
		}
		for _, k := range list {
			all[k.UID] = k
		}
		if len(list) < page {
			return all, nil
		}
		after = list[len(list)-1].UID
	}
}

// differs reports whether the ledger has something else of a custom resource than that
// asks for, though it has seen it as it is: then somebody has changed it there.
func differs(r resource, o client.Object, has gitops.Known) bool {
	if !o.GetDeletionTimestamp().IsZero() || has.Generation != o.GetGeneration() {
		return false // it is handed over, or about to be
	}
	if has.Namespace != o.GetNamespace() || has.Name != o.GetName() {
		return true
	}
	in := intentOf(gitops.Namespace{Name: o.GetNamespace()}, o)
	return has.Asks != "" && has.Asks != r.wish(in, o, nil).Asks()
}

// compare looks for one that was not listed.
func (c *Controllers) compare(ctx context.Context, r resource, known gitops.Known) error {
	k := key{kind: r.name, namespace: known.Namespace, name: known.Name}
	o := r.one()
	err := c.cache.Get(ctx, k.object(), o)
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	if err == nil && string(o.GetUID()) == known.UID {
		return nil
	}
	c.gone.add(k, parting{uid: known.UID, namespace: known.NamespaceUID})
	c.enqueue(again, k)
	return nil
}
