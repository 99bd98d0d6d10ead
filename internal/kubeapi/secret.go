package kubeapi

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// secretField is the index of custom resources by the Secret that they name.
const secretField = "secret"

// followSecrets queues the custom resources that name a Secret whenever that comes,
// changes or goes. Only Secrets of the types that are for us are watched, and only
// their metadata: what they hold is read when it is handed over. There are four
// goroutines, which end with ctx.
func (c *Controllers) followSecrets(ctx context.Context, working *sync.WaitGroup) (synced []toolscache.InformerSynced, err error) {
	metas, err := metadata.NewForConfigAndClient(c.Home.rest, c.Home.cluster.HTTP())
	if err != nil {
		return nil, err
	}
	for _, r := range resources() {
		if r.secret == nil {
			continue
		}
		informer := metadatainformer.NewFilteredMetadataInformer(metas, corev1.SchemeGroupVersion.WithResource("secrets"), metav1.NamespaceAll, 0,
			toolscache.Indexers{}, func(o *metav1.ListOptions) {
				o.FieldSelector = fields.OneTermEqualSelector("type", r.typed).String()
			}).Informer()
		err := informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *toolscache.Reflector, err error) { c.broke(err) })
		if err == nil {
			err = informer.SetTransform(bare)
		}
		if err != nil {
			return nil, err
		}
		registered, err := informer.AddEventHandler(c.onSecret(ctx, r))
		if err != nil {
			return nil, err
		}
		synced = append(synced, registered.HasSynced)
		working.Go(func() { informer.RunWithContext(ctx) })
		working.Go(func() { c.seekSecrets(ctx, r, informer.GetStore()) })
	}
	return synced, nil
}

// seekSecrets queues, again and again, the custom resources whose Secret is not
// among those that are watched: it is missing, or is there with another type, which
// no watch tells.
func (c *Controllers) seekSecrets(ctx context.Context, r resource, watched toolscache.Store) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(c.Seek + rand.N(c.Seek/4+1)):
		}
		if !c.synced.Load() {
			continue
		}
		err := c.each(ctx, r, func(o client.Object) {
			name := r.secret(o)
			if _, there, _ := watched.GetByKey(o.GetNamespace() + "/" + name); name != "" && !there {
				c.enqueue(sometime, key{kind: r.name, namespace: o.GetNamespace(), name: o.GetName()})
			}
		})
		if err != nil {
			c.broke(err)
		}
	}
}

// bare drops what may repeat a Secret's data: the annotation of kubectl apply does.
func bare(in any) (any, error) {
	if o, ok := in.(*metav1.PartialObjectMetadata); ok {
		o.Annotations, o.ManagedFields = nil, nil
	}
	return in, nil
}

func (c *Controllers) onSecret(ctx context.Context, r resource) toolscache.ResourceEventHandler {
	touched := func(in any) {
		o, ok := lastState(in)
		if !ok {
			return
		}
		err := c.each(ctx, r, func(found client.Object) {
			c.enqueue(atOnce, key{kind: r.name, namespace: found.GetNamespace(), name: found.GetName()})
		}, client.InNamespace(o.GetNamespace()), client.MatchingFields{secretField: o.GetName()})
		if err != nil {
			c.broke(err)
		}
	}
	return toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(in any, first bool) {
			if !first || c.synced.Load() { // otherwise those that name it are queued themselves
				touched(in)
			}
		},
		UpdateFunc: func(was, now any) {
			before, ok1 := was.(*metav1.PartialObjectMetadata)
			is, ok2 := now.(*metav1.PartialObjectMetadata)
			if ok1 && ok2 && before.ResourceVersion != is.ResourceVersion {
				touched(now)
			}
		},
		DeleteFunc: touched,
	}
}
