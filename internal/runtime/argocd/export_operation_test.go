package argocd

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/keep"
)

// Operations is operations, and what tells them.
type Operations struct {
	s *shift
	m memory
}

// OpenOperations shows them through a client.
func OpenOperations(objects dynamic.Interface, now func() time.Time, log *slog.Logger) *Operations {
	s := &shift{r: &Runtime{cfg: Config{Now: now, Logger: log}.defaults(), objects: objects}}
	s.ops = newOperations(s)
	return &Operations{s: s}
}

// Announce is announce, Conclude is conclude.
func (o *Operations) Announce(op runtime.DeploymentOperation) {
	o.s.announce(runtime.Deployment{Operation: &op}, &o.m, false)
}

func (o *Operations) Conclude(op runtime.DeploymentOperation, err error) {
	o.s.conclude(runtime.Deployment{Operation: &op}, &o.m, err)
}

// Follow is a sync that is in a phase.
func (o *Operations) Follow(want runtime.SyncRequest, run runtime.SyncRun, begun bool) {
	o.s.follows(&want, o.m.Run, &run, begun)
	o.m.Run = &run
}

// Parts is parts, with a deployment that was synced last.
func (o *Operations) Parts(op runtime.DeploymentOperation, last runtime.Deployment) (gone func()) {
	m := o.m
	m.Last, _ = json.Marshal(last)
	rec := keep.Record{ID: "d"}
	rec.Own, _ = m.pack()
	rec.Farewell, _ = json.Marshal(op)
	return o.s.parts(rec)
}

// Restart is the next life of the agent, which has written down what there was to know
// and shown nothing of it. Gone: the removal was over by then.
func (o *Operations) Restart(d runtime.Deployment, gone *runtime.DeploymentOperation) {
	rec := keep.Record{ID: "d"}
	rec.Body, _ = json.Marshal(d)
	rec.Own, _ = o.m.pack()
	if gone != nil {
		rec = keep.Record{ID: "d", Delete: true, Gone: true}
		rec.Farewell, _ = json.Marshal(gone)
	}
	o.s.ops = newOperations(o.s)
	o.s.retell(rec)
}

// Depart is depart.
func (o *Operations) Depart(ctx context.Context, op runtime.DeploymentOperation) {
	rec := keep.Record{ID: "d"}
	rec.Farewell, _ = json.Marshal(op)
	o.s.depart(ctx, rec)
}

// Flush is flush, Sweep is sweep.
func (o *Operations) Flush(ctx context.Context) bool { return o.s.ops.flush(ctx) }
func (o *Operations) Sweep(ctx context.Context)      { o.s.ops.sweep(ctx) }

// Shown is how many the last Sweep has left.
func (o *Operations) Shown() int64 { return o.s.ops.shown.Load() }

// Count is count, of Applications that a watch has told of.
func Count(ctx context.Context, objects dynamic.Interface, apps []*unstructured.Unstructured, shown int64, now time.Time) runtime.Engine {
	o := OpenOperations(objects, func() time.Time { return now }, slog.New(slog.DiscardHandler))
	o.s.ops.shown.Store(shown)
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{}, &unstructured.Unstructured{}, 0, cache.Indexers{})
	for _, app := range apps {
		_ = informer.GetStore().Add(app)
	}
	o.s.caches = map[kind]cache.SharedIndexInformer{applications: informer}
	return o.s.count(ctx)
}
