package kubeapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/resilience"
)

// Config of Controllers. Home and Service are needed.
type Config struct {
	Home    *Home
	Service Service
	// Engine is asked for the id of the cluster that carries out what a namespace
	// intends, with the namespace's label drover.dev/engine (empty: it has none). A
	// label that names no engine must get the default. nil: no engine is named.
	Engine func(label string) string
	// Admit is asked before anything is compared whether the API with this identity
	// (Home.Identity) is the home that the ledger knows; an error stops the
	// controllers until it is. nil: any is.
	Admit  func(ctx context.Context, identity string) error
	Logger *slog.Logger // default: nobody is told
	// Workers that hand intents over; default 8.
	Workers int
	// Sweep is how often what the ledger knows is compared with what is there, or up to
	// a tenth of it later; default 50 s, so that a minute is enough to put right what
	// differs: ten thousand cost half a second of one core.
	Sweep time.Duration
	// Seek is how often a Secret is asked for that is not there, or not of its type;
	// default 20 s.
	Seek time.Duration
	// Mend is how long a status that somebody changed is left so, to give another
	// replica the time to put it right; default 3 s. One that is empty is given ten
	// times as long: it may be about to be written.
	Mend time.Duration
	// Tally is what gauges of the ledger are read from, where the Controllers are
	// registered as a prometheus.Collector; nil: there are none.
	Tally ledger.Tally
	// Argo tells what the agents beside Argo CDs have counted; nil: it is not told.
	Argo func(ctx context.Context) (Argo, error)
}

// Argo is what the Argo CDs of a fleet have, of those whose agents are heard of.
type Argo struct{ Applications, Reconciled, Operations int64 }

// Controllers hand over what is intended in a home. They are one per home and
// replica; all replicas may run theirs.
type Controllers struct {
	Config
	gone    *departed
	handed  handed
	relist  chan struct{} // a watch broke: something may have been missed
	synced  atomic.Bool
	trouble atomic.Pointer[string] // why the last start failed
	meters  *meters
	// unreadable counts by key how often in a row a Secret could not be read.
	unreadable sync.Map
	// altered are those of which the ledger was seen to have something else than they
	// ask for: UIDs by key, until they are handed over.
	altered sync.Map
	strays  strays

	// Of one start, set before the goroutines that use them.
	cache cache.Cache
	queue *line
}

// key is one custom resource by its name, or the mending of its status.
type key struct {
	kind            string
	namespace, name string
	mend            bool
}

func (k key) object() client.ObjectKey {
	return client.ObjectKey{Namespace: k.namespace, Name: k.name}
}

// New makes the controllers of a home.
func New(c Config) *Controllers {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Engine == nil {
		c.Engine = func(string) string { return "" }
	}
	if c.Workers <= 0 {
		c.Workers = 8
	}
	if c.Sweep <= 0 {
		c.Sweep = 50 * time.Second
	}
	if c.Seek <= 0 {
		c.Seek = 20 * time.Second
	}
	if c.Mend <= 0 {
		c.Mend = 3 * time.Second
	}
	return &Controllers{Config: c, gone: newDeparted(), relist: make(chan struct{}, 1), meters: newMeters(c.Home.Name), strays: strays{by: map[string]Stray{}}}
}

// Synced tells whether all that is in the home was seen since the last start.
func (c *Controllers) Synced() bool { return c.synced.Load() }

// Trouble tells why the home is not followed; empty: it is, or is about to be.
func (c *Controllers) Trouble() string {
	if why := c.trouble.Load(); why != nil && !c.Synced() {
		return *why
	}
	return ""
}

// Run follows the home until ctx ends. What keeps it from starting (an API that is
// away, definitions that are not there yet) is tried again.
func (c *Controllers) Run(ctx context.Context) error {
	for {
		err := c.start(ctx)
		c.synced.Store(false)
		if ctx.Err() != nil {
			return nil
		}
		c.Logger.Warn("custom resources are not followed; trying again", "home", c.Home.Name, "error", err)
		why := fmt.Sprint(err)
		c.trouble.Store(&why)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(5 * time.Second):
		}
	}
}

// start follows until ctx ends or until something fails that only another start
// mends. Its goroutines (informers, workers, one that sweeps) end with it.
func (c *Controllers) start(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	var working sync.WaitGroup
	defer working.Wait()
	defer stop()
	if err := c.admit(ctx); err != nil {
		return err
	}
	c.queue = newLine()
	handed := false // to the controller, which then shuts it down
	defer func() {
		if !handed {
			c.queue.ShutDown()
		}
	}()
	workers, err := c.workers()
	if err != nil {
		return err
	}
	if c.cache, err = c.newCache(); err != nil {
		return err
	}
	c.strays.forget()
	handled, err := c.listen(ctx)
	if err != nil {
		return err
	}
	failed := make(chan error, 2)
	working.Go(func() { failed <- c.cache.Start(ctx) })
	secrets, err := c.followSecrets(ctx, &working)
	if err != nil {
		return err
	}
	if !c.cache.WaitForCacheSync(ctx) || !toolscache.WaitForCacheSync(ctx.Done(), append(handled, secrets...)...) {
		return errors.New("the custom resources could not be listed")
	}
	c.synced.Store(true)
	handed = true
	working.Go(func() { failed <- workers.Start(ctx) })
	working.Go(func() { c.sweepAll(ctx) })
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-failed:
		return err
	}
}

func (c *Controllers) admit(ctx context.Context) error {
	if c.Admit == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	id, err := c.Home.Identity(ctx)
	if err != nil {
		return err
	}
	return c.Admit(ctx, id)
}

// patience bounds a call of the API.
const patience = 15 * time.Second

func (c *Controllers) newCache() (cache.Cache, error) {
	by := map[client.Object]cache.ByObject{}
	for _, r := range resources() {
		by[r.one()] = cache.ByObject{Transform: slim}
	}
	forget := func(in any) (any, error) {
		if o, ok := in.(client.Object); ok {
			o.SetManagedFields(nil)
			o.SetAnnotations(nil)
		}
		return in, nil
	}
	by[namespaceMeta()] = cache.ByObject{Transform: forget}
	return cache.New(c.Home.rest, cache.Options{
		HTTPClient: c.Home.cluster.HTTP(), Mapper: c.Home.cluster.Mapper(), Scheme: c.Home.scheme, ByObject: by,
		ReaderFailOnMissingInformer: true,
		DefaultWatchErrorHandler: func(_ context.Context, _ *toolscache.Reflector, err error) {
			c.broke(err)
		},
	})
}

// broke notes that a watch ended: what was missed is looked for soon.
func (c *Controllers) broke(err error) {
	c.Logger.Debug("a watch ended", "home", c.Home.Name, "error", err)
	select {
	case c.relist <- struct{}{}:
	default:
	}
}

func namespaceMeta() *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return o
}

// listen has every event of custom resources and namespaces put into the queue.
func (c *Controllers) listen(ctx context.Context) (handled []toolscache.InformerSynced, err error) {
	add := func(o client.Object, h toolscache.ResourceEventHandler) error {
		informer, err := c.cache.GetInformer(ctx, o, cache.BlockUntilSynced(false))
		if err != nil {
			return err
		}
		registered, err := informer.AddEventHandler(h)
		if err == nil {
			handled = append(handled, registered.HasSynced)
		}
		return err
	}
	if err := add(namespaceMeta(), c.onNamespace(ctx)); err != nil {
		return nil, err
	}
	for _, r := range resources() {
		if r.secret != nil {
			index := func(o client.Object) []string { return []string{r.secret(o)} }
			if err := c.cache.IndexField(ctx, r.one(), secretField, index); err != nil {
				return nil, err
			}
		}
		if err := add(r.one(), c.onResource(ctx, r)); err != nil {
			return nil, err
		}
	}
	return handled, nil
}

// workers hand over what is due. They are put together without a manager: that
// would bring another cache, another server of metrics and leader election, and
// every replica works here.
func (c *Controllers) workers() (controller.TypedController[key], error) {
	several := true // homes, and starts of one
	return controller.NewTypedUnmanaged("gitops", controller.TypedOptions[key]{
		Reconciler: reconcile.TypedFunc[key](c.take), MaxConcurrentReconciles: c.Workers, SkipNameValidation: &several,
		NewQueue: func(string, workqueue.TypedRateLimiter[key]) workqueue.TypedRateLimitingInterface[key] {
			return c.queue
		},
	})
}

func (c *Controllers) take(ctx context.Context, k key) (reconcile.Result, error) {
	ctx = resilience.For(ledger.WithCause(ctx, ledger.ByResource(c.Home.Name, k.kind, k.namespace, k.name)), k.namespace)
	err := c.reconcile(ctx, k)
	c.meters.count(k, err)
	if err != nil && ctx.Err() == nil {
		c.Logger.WarnContext(ctx, "an intent could not be taken; it is tried again", "home", c.Home.Name,
			"kind", k.kind, "namespace", k.namespace, "name", k.name, "error", err)
	}
	return reconcile.Result{}, err
}

func (c *Controllers) enqueue(rank int, keys ...key) { c.queue.put(rank, keys...) }
