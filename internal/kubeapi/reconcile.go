package kubeapi

import (
	"context"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/kubeapi/v1alpha1"
)

// Labels of namespaces. They say who pays and which Argo CD works, so tenants must
// not be able to set them: the roles edit and admin of Kubernetes cannot.
const (
	EngineLabel = "drover.dev/engine" // a cluster whose agent carries deployments out
	OrgLabel    = "drover.dev/org"    // the organisation whose namespace it is
)

// reconcile hands over what is there of one name now: first those that have gone,
// then the one that is there.
func (c *Controllers) reconcile(ctx context.Context, k key) error {
	if k.kind == gitops.KindWorkspace.Name {
		return c.stand(ctx, k.namespace)
	}
	r, ok := resourceOf(k.kind)
	if !ok {
		return nil
	}
	if k.mend {
		return c.mend(ctx, r, k)
	}
	for _, p := range c.gone.of(k) {
		if err := c.part(ctx, r, k, p); err != nil {
			return err
		}
		c.gone.drop(k, p.uid)
	}
	o := r.one()
	if err := c.cache.Get(ctx, k.object(), o); apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		return err
	}
	ns, err := c.namespace(ctx, k.namespace)
	if err != nil {
		return err
	}
	in := intentOf(ns, o)
	if k.kind == gitops.KindSyncRun.Name && !in.Gone {
		if err := c.elders(ctx, r, ns, o); err != nil {
			return err
		}
	}
	var secret *gitops.SecretData
	if r.secret != nil && !in.Gone {
		if secret, err = c.secret(ctx, k.namespace, r.secret(o), r.typed); err != nil {
			return c.unread(ctx, r, k, in, o, err)
		}
		c.unreadable.Delete(k)
	}
	if verdictOf(o) == empty { // what becomes of it is told soon
		seen := r.one()
		seen.SetNamespace(o.GetNamespace())
		seen.SetName(o.GetName())
		seen.SetUID(o.GetUID())
		seen.SetResourceVersion(o.GetResourceVersion())
		c.Home.recent.meet(seen)
	}
	if err = settled(r.send(ctx, c.Service, in, o, secret)); err != nil {
		return err
	}
	if k.kind == gitops.KindSyncRun.Name {
		c.handed.note(in.UID, !in.Gone)
	}
	if uid, ok := c.altered.LoadAndDelete(k); ok && uid == in.UID {
		c.Logger.WarnContext(ctx, "what the ledger has of a custom resource was changed by somebody else, and was put right", "home", c.Home.Name,
			"kind", k.kind, "namespace", k.namespace, "name", k.name)
		c.Home.mended(ctx, r.name, o, theRow)
	}
	return nil
}

// intentOf is a custom resource that is there, as far as all kinds are alike.
func intentOf(ns gitops.Namespace, o client.Object) gitops.Intent {
	return gitops.Intent{
		Namespace: ns, Name: o.GetName(), UID: string(o.GetUID()), Generation: o.GetGeneration(), Created: o.GetCreationTimestamp().UTC(),
		Gone: !o.GetDeletionTimestamp().IsZero(), Held: slices.Contains(o.GetFinalizers(), v1alpha1.Finalizer),
	}
}

// part hands over that a custom resource has gone, once the API itself has said so.
func (c *Controllers) part(ctx context.Context, r resource, k key, p parting) error {
	there, err := c.there(ctx, r, k, p.uid)
	if err != nil || there {
		return err
	}
	// An API that has taken the place of another has nothing of what that had.
	if err := c.admit(ctx); err != nil {
		return err
	}
	ns, err := c.namespace(ctx, k.namespace)
	if err != nil {
		return err
	}
	c.handed.note(p.uid, false)
	if p.namespace != "" && p.namespace != ns.UID { // it went with its namespace
		ns = gitops.Namespace{Home: c.Home.Name, Name: k.namespace, UID: p.namespace, Missing: true}
	}
	err = settled(r.send(ctx, c.Service, gitops.Intent{Namespace: ns, Name: k.name, UID: p.uid, Gone: true}, r.one(), nil))
	if fault.Reason(err) == "stranger" { // it is not of here, and nothing that comes from here changes that
		return nil
	}
	return err
}

// there asks the API whether a custom resource is still there. It lists by name,
// because a listing that finds nothing cannot be mistaken for an API that does not
// serve the kind.
func (c *Controllers) there(ctx context.Context, r resource, k key, uid string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	gvk, err := apiutil.GVKForObject(r.one(), c.Home.scheme)
	if err != nil {
		return false, err
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	err = c.Home.kube.List(ctx, list, client.InNamespace(k.namespace), client.MatchingFields{"metadata.name": k.name})
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return false, fault.New(fault.Unavailable, "the Kubernetes API %q does not serve %s now", c.Home.Name, gvk.Kind)
	}
	if err != nil {
		return false, c.Home.explain(err)
	}
	return slices.ContainsFunc(list.Items, func(o metav1.PartialObjectMetadata) bool { return string(o.UID) == uid }), nil
}

// namespace tells how a namespace is now. One that is not seen yet is asked for.
func (c *Controllers) namespace(ctx context.Context, name string) (gitops.Namespace, error) {
	o := namespaceMeta()
	err := c.cache.Get(ctx, client.ObjectKey{Name: name}, o)
	if apierrors.IsNotFound(err) {
		return c.askNamespace(ctx, name)
	}
	if err != nil {
		return gitops.Namespace{Home: c.Home.Name, Name: name}, c.Home.explain(err)
	}
	return c.namespaceOf(o), nil
}

// askNamespace asks the API itself how a namespace is.
func (c *Controllers) askNamespace(ctx context.Context, name string) (gitops.Namespace, error) {
	out := gitops.Namespace{Home: c.Home.Name, Name: name}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	o := namespaceMeta()
	err := c.Home.kube.Get(ctx, client.ObjectKey{Name: name}, o)
	if missing(err) {
		out.Missing = true
		return out, nil
	}
	if err != nil {
		return out, c.Home.explain(err)
	}
	return c.namespaceOf(o), nil
}

func (c *Controllers) namespaceOf(o *metav1.PartialObjectMetadata) gitops.Namespace {
	return gitops.Namespace{
		Home: c.Home.Name, Name: o.Name, UID: string(o.UID), Terminating: !o.DeletionTimestamp.IsZero(),
		Engine: c.Engine(o.Labels[EngineLabel]), Org: o.Labels[OrgLabel],
	}
}

// stand has what the ledger has of a namespace put right, as the API has that now: another
// replica may have seen more of it.
func (c *Controllers) stand(ctx context.Context, name string) error {
	ns, err := c.askNamespace(ctx, name)
	if err != nil {
		return err
	}
	return settled(c.Service.IntendWorkspace(ctx, ns))
}

// secret reads a Secret, which is kept nowhere here. Nothing of one of another type
// is looked at: whoever names it may not be meant to read it.
func (c *Controllers) secret(ctx context.Context, namespace, name, typed string) (*gitops.SecretData, error) {
	if name == "" {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var s corev1.Secret
	err := c.Home.kube.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &s)
	if missing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, c.Home.explain(err)
	}
	if string(s.Type) != typed {
		return &gitops.SecretData{Type: string(s.Type)}, nil
	}
	return &gitops.SecretData{Type: string(s.Type), Data: s.Data}, nil
}

// unreadAfter is how often in a row a Secret could not be read before that is told: most
// failures pass.
const unreadAfter = 3

// unread tells, of kinds that have a word for it, that a Secret cannot be read although the
// API answers otherwise. It is tried again either way.
func (c *Controllers) unread(ctx context.Context, r resource, k key, in gitops.Intent, o client.Object, failed error) error {
	if k.kind != gitops.KindTarget.Name {
		return failed
	}
	if n, _ := c.unreadable.LoadOrStore(k, new(atomic.Int32)); n.(*atomic.Int32).Add(1) < unreadAfter {
		return failed
	}
	if err := settled(r.send(ctx, c.Service, in, o, &gitops.SecretData{Unreadable: true})); err != nil {
		return err
	}
	return failed
}

// mend has a status written again that still does not say what it should.
func (c *Controllers) mend(ctx context.Context, r resource, k key) error {
	o := r.one()
	if err := c.cache.Get(ctx, k.object(), o); apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		return err
	}
	if verdictOf(o) == told {
		return nil
	}
	if verdictOf(o) == damaged {
		c.Home.mended(ctx, r.name, o, theStatus)
	}
	return settled(c.Service.Resync(ctx, r.name, string(o.GetUID())))
}

// settled is nothing where trying again cannot help: the ledger knows better (it
// has a newer one, or the namespace is going), or never knew it.
func settled(err error) error {
	if fault.Is(err, fault.Conflict) && (fault.Reason(err) == "stale" || fault.Reason(err) == "terminating") ||
		fault.Is(err, fault.NotFound) && fault.Reason(err) != "namespace" {
		return nil
	}
	return err
}
