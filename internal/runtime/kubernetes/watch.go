package kubernetes

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/manifest"
)

// watcher wakes the item whose object was changed or removed. It watches the
// kinds that items have, each once for the whole cluster, only objects with an
// owner, and only their metadata: what changed is read by whoever is woken.
type watcher struct {
	ctx    context.Context // of the shift: the goroutines end with it
	s      *shift
	client metadata.Interface

	mu   sync.Mutex
	seen map[schema.GroupKind]*following
}

// following is one watch.
type following struct {
	stop   context.CancelFunc
	synced func() bool // its first list has come
	failed moment
	// early are items that were compared before the first list came: what was done to
	// them in between is in it as if it had always been so.
	early map[string]bool
}

// moment is when something happened last; the zero value: never.
type moment struct{ at atomic.Int64 }

func (m *moment) set(now time.Time) { m.at.Store(now.UnixNano()) }

func (m *moment) within(d time.Duration, now time.Time) bool {
	return now.Sub(time.Unix(0, m.at.Load())) < d
}

func newWatcher(ctx context.Context, s *shift) (*watcher, error) {
	c, err := metadata.NewForConfigAndClient(s.r.cluster.REST(), s.r.cluster.HTTP())
	if err != nil {
		return nil, fault.New(fault.Internal, "cannot watch the cluster: %w", err)
	}
	return &watcher{ctx: ctx, s: s, client: c, seen: map[schema.GroupKind]*following{}}, nil
}

// follow watches the kinds of an item's inventory; whoever compares it afterwards
// misses nothing that is done to it from then on.
func (w *watcher) follow(item string, inventory []string) {
	for _, line := range inventory {
		id, err := manifest.Parse(line)
		if err != nil {
			continue
		}
		gk := schema.GroupKind{Group: id.Group, Kind: id.Kind}
		m, err := w.s.r.cluster.Mapper().RESTMapping(gk)
		if err != nil {
			continue // not served yet: followed when it is applied
		}
		w.mu.Lock()
		if w.seen[gk] == nil && w.ctx.Err() == nil {
			ctx, stop := context.WithCancel(w.ctx)
			w.seen[gk] = &following{stop: stop, early: map[string]bool{}}
			w.start(ctx, m.Resource, w.seen[gk])
		}
		if f := w.seen[gk]; f != nil && !f.synced() {
			f.early[item] = true
		}
		w.mu.Unlock()
	}
}

// drop ends the watches of kinds that no item has any more.
func (w *watcher) drop(used map[schema.GroupKind]bool, items map[string][]string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for gk, f := range w.seen {
		maps.DeleteFunc(f.early, func(id string, _ bool) bool { _, there := items[id]; return !there })
		if !used[gk] {
			f.stop()
			delete(w.seen, gk)
		}
	}
}

func (w *watcher) start(ctx context.Context, gvr schema.GroupVersionResource, f *following) {
	informer := metadatainformer.NewFilteredMetadataInformer(w.client, gvr, metav1.NamespaceAll, 0, cache.Indexers{},
		func(o *metav1.ListOptions) { o.LabelSelector = manifest.OwnerLabel }).Informer()
	f.synced = informer.HasSynced
	// A watch that may not be is replaced by the vigil; it is not worth a line
	// on somebody's standard error each time.
	_ = informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		f.failed.set(w.s.r.cfg.Now())
		w.s.r.cfg.Logger.Debug("a watch ended", "resource", gvr.Resource, "error", err)
	})
	_ = informer.SetTransform(slim)
	_, _ = informer.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) {
			if !initial {
				w.wake(nil, partial(obj))
			}
		},
		UpdateFunc: func(before, after any) { w.wake(partial(before), partial(after)) },
		DeleteFunc: func(obj any) {
			if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = last.Obj
			}
			w.wake(partial(obj), nil)
		},
	})
	w.s.Go(func() { informer.RunWithContext(ctx) })
	w.s.Go(func() {
		select {
		case <-ctx.Done():
		case <-informer.HasSyncedChecker().Done():
			w.catchUp(f)
		}
	})
}

// catchUp has the items compared again that were before their watch told anything.
func (w *watcher) catchUp(f *following) {
	w.mu.Lock()
	early := slices.Collect(maps.Keys(f.early))
	clear(f.early)
	w.mu.Unlock()
	for _, id := range early {
		w.s.Touch(id)
	}
}

// slim drops what nobody reads of an object's metadata.
func slim(obj any) (any, error) {
	if m, ok := obj.(*metav1.PartialObjectMetadata); ok {
		m.ManagedFields = nil
	}
	return obj, nil
}

func partial(obj any) *metav1.PartialObjectMetadata {
	m, _ := obj.(*metav1.PartialObjectMetadata)
	return m
}

// wake has the owner look at its objects, and compare them where more than a
// status may have changed.
func (w *watcher) wake(before, after *metav1.PartialObjectMetadata) {
	one := after
	if one == nil {
		one = before
	}
	if one == nil {
		return
	}
	id, ours := w.s.Marked(one.Labels[manifest.OwnerLabel])
	switch {
	case !ours:
	case before == nil || after == nil || content(before, after):
		w.s.Touch(id)
	default:
		w.s.Wake(id)
	}
}

// content reports whether more than the status may have changed. Kinds without
// generations do not tell.
func content(before, after *metav1.PartialObjectMetadata) bool {
	return after.Generation == 0 || before.Generation != after.Generation ||
		!reflect.DeepEqual(before.Labels, after.Labels) || !reflect.DeepEqual(before.Annotations, after.Annotations) ||
		(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil)
}
