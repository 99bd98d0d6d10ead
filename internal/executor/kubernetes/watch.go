package kubernetes

import (
	"context"
	"errors"
	"io"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/manifest"
)

// Watch implements executor.Watcher: it follows the metadata of the objects that
// carry the resource's id. There is one goroutine for each kind and namespace,
// which ends with ctx. An object that loses its owner is told as removed.
func (e *Executor) Watch(ctx context.Context, r executor.Resource, changed func()) error {
	m, err := remembered(r)
	if err != nil || len(m.Inventory) == 0 {
		return err
	}
	cluster, err := e.pool.Get(r.Connection)
	if err != nil {
		return err
	}
	client, err := metadata.NewForConfigAndClient(cluster.REST(), cluster.HTTP())
	if err != nil {
		return fault.New(fault.Internal, "cannot watch the cluster: %w", err)
	}
	type place struct {
		resource  schema.GroupVersionResource
		namespace string
	}
	places := map[place]bool{}
	for _, line := range m.Inventory {
		id, err := manifest.Parse(line)
		if err != nil {
			return err
		}
		resource, _, err := cluster.Describe(id)
		if err != nil {
			return err
		}
		places[place{resource, id.Namespace}] = true
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	var failed error
	var once sync.Once
	tell := cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { changed() },
		UpdateFunc: func(any, any) { changed() },
		DeleteFunc: func(any) { changed() },
	}
	for p := range places {
		informer := metadatainformer.NewFilteredMetadataInformer(client, p.resource, p.namespace, 0, cache.Indexers{},
			func(o *metav1.ListOptions) { o.LabelSelector = manifest.OwnerLabel + "=" + manifest.Mark(r.ID) }).Informer()
		// The caller decides when to watch again.
		_ = informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
			if errors.Is(err, io.EOF) || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
				return // a watch has its end: the next goes on
			}
			once.Do(func() { failed = manifest.Explain(err, manifest.ID{Kind: p.resource.Resource}); stop() })
		})
		if _, err := informer.AddEventHandler(tell); err != nil {
			return fault.New(fault.Internal, "cannot watch the cluster: %w", err)
		}
		running.Go(func() { informer.RunWithContext(ctx) })
		if cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			changed() // what happened before is to be looked at
		}
	}
	<-ctx.Done()
	running.Wait()
	return failed
}
