package argocd

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/manifest"
	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/keep"
)

// Runtime has an Argo CD carry deployments out. It implements runtime.Runtime.
type Runtime struct {
	*keep.Desk
	cfg     Config
	cluster *manifest.Client
	objects dynamic.Interface
	beside  runtime.Runtime
	facts   facts
	told    told
	shift   atomic.Pointer[shift] // the present one, or the last

	once sync.Once
	quit chan struct{}
}

var _ runtime.Runtime = (*Runtime)(nil)

// New prepares a runtime. Items that are no deployments go to the runtime beside;
// nil: they are refused. One goroutine passes on what that one signals, until
// Close.
func New(cfg Config, beside runtime.Runtime) (*Runtime, error) {
	cfg = cfg.defaults()
	r := &Runtime{cfg: cfg, beside: beside, quit: make(chan struct{})}
	desk, err := keep.Open(cfg.desk(), r.begin)
	if err != nil {
		return nil, err
	}
	r.Desk, r.cluster = desk, desk.Cluster()
	reach := r.cluster.REST()
	reach.WarningHandler = rest.NoWarnings{} // Argo CD's finalizer has a name that is warned about
	reach.QPS, reach.Burst = 200, 400
	if r.objects, err = dynamic.NewForConfigAndClient(reach, r.cluster.HTTP()); err != nil {
		return nil, fault.New(fault.Internal, "cannot reach the cluster's objects: %w", err)
	}
	if beside != nil {
		go r.relay()
	}
	return r, nil
}

func (r *Runtime) relay() {
	for {
		select {
		case <-r.quit:
			return
		case <-r.beside.Changed():
			r.Notify()
		}
	}
}

// Close stops the work; what was applied stays. The runtime beside is its owner's.
func (r *Runtime) Close() {
	r.once.Do(func() { close(r.quit) })
	r.Desk.Close()
}

// holder is a runtime beside that may have had deployments itself, before there was an
// Argo CD: what it applied stays, and is Argo CD's from now on.
type holder interface {
	Holds(ctx context.Context, id string) (bool, error)
	Release(ctx context.Context, id string) error
}

// ours reports whether an item is for Argo CD. A removal may not say what it is of, and
// is for whoever has it.
func (r *Runtime) ours(ctx context.Context, it runtime.Item) (bool, error) {
	if !it.Delete {
		return it.Kind == runtime.KindDeployment, nil
	}
	if held, err := r.Holds(ctx, it.ID); err != nil || held {
		return held, err
	}
	if beside, ok := r.beside.(holder); ok {
		if held, err := beside.Holds(ctx, it.ID); err != nil || held {
			return false, err
		}
	}
	return it.Kind == runtime.KindDeployment, nil
}

// Apply implements runtime.Runtime.
func (r *Runtime) Apply(ctx context.Context, it runtime.Item) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ours, err := r.ours(ctx, it)
	switch {
	case err != nil:
		return err
	case ours || r.beside == nil && it.Delete:
		if err := r.Desk.Apply(ctx, it); err != nil {
			return err
		}
		return r.inherit(ctx, it)
	case r.beside == nil:
		return fault.New(fault.Invalid, "this agent carries deployments out, and nothing else")
	}
	return r.beside.Apply(ctx, it)
}

// inherit has the runtime beside let go of a deployment that is Argo CD's by now.
func (r *Runtime) inherit(ctx context.Context, it runtime.Item) error {
	beside, ok := r.beside.(holder)
	if !ok || it.Delete {
		return nil
	}
	held, err := beside.Holds(ctx, it.ID)
	if err != nil || !held {
		return err
	}
	r.cfg.Logger.InfoContext(ctx, "a deployment that this agent carried out itself is Argo CD's from now on", "item", it.ID)
	return beside.Release(ctx, it.ID)
}

// Observe implements runtime.Runtime. What both have is told as it is here.
func (r *Runtime) Observe(ctx context.Context) ([]runtime.Observed, error) {
	all, err := r.Desk.Observe(ctx)
	if err != nil || r.beside == nil {
		return all, err
	}
	more, err := r.beside.Observe(ctx)
	here := make(map[string]bool, len(all))
	for _, o := range all {
		here[o.ID] = true
	}
	return append(all, slices.DeleteFunc(more, func(o runtime.Observed) bool { return here[o.ID] })...), err
}

// Forget implements runtime.Runtime.
func (r *Runtime) Forget(ctx context.Context, id string) error {
	ours, err := r.Holds(ctx, id)
	if err != nil {
		return err
	}
	if ours || r.beside == nil {
		return r.Desk.Forget(ctx, id)
	}
	return r.beside.Forget(ctx, id)
}
