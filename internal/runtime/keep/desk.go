package keep

import (
	"context"
	"crypto/sha256"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/manifest"
	"github.com/droverhq/drover/internal/runtime"
)

// Worker is what a runtime does with items during one shift.
type Worker interface {
	// Reconcile makes one item so, or takes it away; nobody else has the entry
	// meanwhile. It comes back after again, or with an error later and later.
	Reconcile(ctx context.Context, e *Entry) (again time.Duration, err error)
	// Sweep is called before everything is compared again.
	Sweep(ctx context.Context)
}

// Preparer is a Worker that has something to add to the record of an item that comes
// in, so that one write is enough.
type Preparer interface {
	Prepare(next *Record)
}

// Recaller is a Worker that finds what there is of an item by its id alone: removals
// of items that nothing is written down of are its, too. Without, they are done.
type Recaller interface {
	Recalls()
}

// Begin makes the worker of a shift. What it starts by Shift.Go ends with the
// context.
type Begin func(ctx context.Context, s *Shift) (Worker, error)

// Desk takes items in. It has all of runtime.Runtime but for Facts.
type Desk struct {
	cfg     Config
	begin   Begin
	cluster *manifest.Client
	keep    keeper
	changed chan struct{}
	guard   *guard

	mu    sync.Mutex
	shift *Shift // nil: another replica is at work, or none
}

// Open prepares a desk. Without a lease it starts to work with the first call;
// with one the work is done inside Lead.
func Open(cfg Config, begin Begin) (*Desk, error) {
	cfg = cfg.Defaults()
	g := &guard{next: cfg.Wrap}
	cluster, err := manifest.Open(manifest.Config{Kubeconfig: cfg.Kubeconfig, Wrap: g.wrap, Renew: cfg.Renew})
	if err != nil {
		return nil, err
	}
	d := &Desk{cfg: cfg, begin: begin, cluster: cluster, guard: g, changed: make(chan struct{}, 1),
		keep: keeper{kube: cluster.Kube(), namespace: cfg.Namespace}}
	if cfg.Lease == "" {
		g.open(func() error { return nil })
	}
	return d, nil
}

// Cluster that the desk is in. Nothing is written through it while it is another
// replica's turn.
func (d *Desk) Cluster() *manifest.Client { return d.cluster }

// Close stops the work; what was applied stays.
func (d *Desk) Close() { d.end() }

// current returns the shift, and begins one where there are no replicas.
func (d *Desk) current(ctx context.Context) (*Shift, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.shift != nil {
		return d.shift, nil
	}
	if d.cfg.Lease != "" {
		return nil, fault.New(fault.Unavailable, "another replica of the agent is at work on this cluster").Because("not-leading")
	}
	return d.beginLocked(ctx, 0, func() error { return nil })
}

// beginLocked reads what is kept and starts to work on it. A record of a later
// term than ours means that another replica has taken over, or that terms have
// begun anew because somebody removed the lease: held tells which.
func (d *Desk) beginLocked(ctx context.Context, term int64, held func() error) (*Shift, error) {
	if err := d.ensureNamespace(ctx); err != nil {
		return nil, err
	}
	all, err := d.keep.all(ctx, d.cfg.Kind, d.prefix())
	if err != nil {
		return nil, err
	}
	s := &Shift{d: d, term: term, items: map[string]*Entry{}, marks: map[string]string{}}
	for name, k := range all {
		rec, err := unpack(k.parts)
		if err != nil {
			// The others go on; this one is told again by the control plane.
			d.cfg.Logger.Error("a kept item cannot be read", "secret", name)
			s.damaged++
			continue
		}
		written := [][sha256.Size]byte{sum(k.parts)}
		s.term, k.parts = max(s.term, rec.Term), nil
		s.items[rec.ID] = &Entry{was: k, tried: written, Record: rec, seen: rec.Seen, listed: rec.Inventory, tenant: runtime.Tenant(rec.Kind, rec.Body)}
		s.marks[manifest.Mark(rec.ID)] = rec.ID
	}
	if s.term > term {
		if err := held(); err != nil {
			return nil, err
		}
		s.term++
	}
	run, stop := context.WithCancel(context.Background())
	s.stop = stop
	if err := s.start(run); err != nil {
		stop()
		return nil, err
	}
	d.shift = s
	return s, nil
}

func (d *Desk) end() {
	d.mu.Lock()
	s := d.shift
	d.shift = nil
	d.mu.Unlock()
	if s != nil {
		s.stop()
		s.queue.ShutDown()
		s.done.Wait()
	}
}

// prefix of the names of Secrets that items are kept in.
func (d *Desk) prefix() string { return "drover-" + d.cfg.Kind + "-" }

func (d *Desk) name(id string) string { return Named(d.prefix(), id) }

func (d *Desk) ensureNamespace(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, CallTimeout)
	defer stop()
	id := manifest.ID{Kind: "Namespace", Name: d.cfg.Namespace}
	there, err := d.cluster.Look(ctx, id)
	if fault.Is(err, fault.Denied) {
		return nil // it may not look at namespaces, so somebody has made it
	}
	if err != nil || there != nil {
		return err
	}
	err = d.cluster.Kube().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: d.cfg.Namespace}})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return manifest.Explain(err, id)
}

// Apply implements runtime.Runtime.
func (d *Desk) Apply(ctx context.Context, it runtime.Item) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if it.ID == "" {
		return fault.New(fault.Invalid, "an item needs an id")
	}
	if !it.Delete {
		if !Valid(it.Body) {
			return fault.New(fault.Invalid, "the desired document of %s is not JSON", it.ID)
		}
		it.Body = canonical(it.Body)
	}
	s, err := d.current(ctx)
	if err != nil {
		return err
	}
	return s.apply(ctx, it)
}

// Holds reports whether the desk knows an item.
func (d *Desk) Holds(ctx context.Context, id string) (bool, error) {
	s, err := d.current(ctx)
	if err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.items[id] != nil, nil
}

// Observe implements runtime.Runtime; in no order.
func (d *Desk) Observe(ctx context.Context) ([]runtime.Observed, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s, err := d.current(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]runtime.Observed, 0, len(s.items))
	for _, e := range s.items {
		if e.seen.ID != "" {
			all = append(all, e.seen)
		}
	}
	return all, nil
}

// Forget implements runtime.Runtime.
func (d *Desk) Forget(ctx context.Context, id string) error {
	return d.drop(ctx, id, func(e *Entry) bool { return e.Record.Gone })
}

// Release drops the memory of an item and leaves all that was made for it: it is
// somebody else's from now on.
func (d *Desk) Release(ctx context.Context, id string) error {
	return d.drop(ctx, id, func(*Entry) bool { return true })
}

// drop forgets an item for which that is right, once nobody works on it.
func (d *Desk) drop(ctx context.Context, id string, right func(*Entry) bool) error {
	s, err := d.current(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	e := s.items[id]
	s.mu.Unlock()
	if e == nil {
		return nil
	}
	e.busy.Lock()
	defer e.busy.Unlock()
	if !s.holds(id, e) || !right(e) {
		return nil
	}
	err = d.keep.drop(ctx, d.name(id), e.was)
	if err != nil {
		// Somebody may have labelled it since; another replica would have written it anew.
		if now, there, unread := d.keep.get(ctx, d.name(id)); unread == nil && there && now.version != e.was.version && slices.Contains(e.tried, sum(now.parts)) {
			err = d.keep.drop(ctx, d.name(id), now)
		}
	}
	if err != nil {
		return err
	}
	s.forget(id, e)
	d.Notify()
	return nil
}

// Changed implements runtime.Runtime.
func (d *Desk) Changed() <-chan struct{} { return d.changed }

// Notify signals that what Observe tells has changed.
func (d *Desk) Notify() {
	select {
	case d.changed <- struct{}{}:
	default:
	}
}
