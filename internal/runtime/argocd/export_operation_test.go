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

// Opened is opened, Forget is forget.
func (o *Operations) Opened(ops ...runtime.DeploymentOperation) {
	o.s.opened(runtime.Deployment{Opened: ops})
}

// Refused is opened with those that have failed.
func (o *Operations) Refused(ops ...runtime.DeploymentOperation) {
	o.s.opened(runtime.Deployment{Refused: ops})
}

func (o *Operations) Forget() int {
	o.s.ops.forget()
	return len(o.s.ops.opened)
}

// Prepared is what is written down of an item when it comes, and what its operation
// would have be written before the Application. Own is what is known of it.
func (o *Operations) Prepared(d runtime.Deployment, own string) (with, before string) {
	rec := keep.Record{ID: "d", Own: json.RawMessage(own)}
	rec.Body, _ = json.Marshal(d)
	o.s.Prepare(&rec)
	m := remember(rec.Own)
	if d, err := read(rec.Body); err == nil {
		o.s.announce(d, &m, false)
	}
	next, _ := m.pack()
	return string(rec.Own), string(next)
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

// Leftovers names, after the watch has told of all Applications, those that no item is
// about; since are those that an item is about by the time they are counted.
func Leftovers(apps []*unstructured.Unstructured, ours, since []string, told bool) string {
	s := &shift{r: &Runtime{cfg: Config{Logger: slog.New(slog.DiscardHandler)}.defaults()}, left: map[string]bool{}}
	s.needs = newNeeds(s.r.cfg)
	for _, name := range ours {
		s.needs.apps[name] = name
	}
	var all []any
	for _, app := range apps {
		if _, ours := s.needs.application(app.GetName()); !ours {
			s.leftover(app, true)
		}
		all = append(all, app)
	}
	for _, name := range since {
		s.needs.apps[name] = name
	}
	if told {
		s.r.told.hear(nil)
	}
	return s.leftovers(all)
}
