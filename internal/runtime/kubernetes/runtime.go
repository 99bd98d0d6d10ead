package kubernetes

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "k8s.io/api/core/v1"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/manifest"
	"github.com/droverhq/drover/internal/runtime"
)

// Runtime applies items to one cluster. It implements runtime.Runtime.
type Runtime struct {
	cfg     Config
	cluster *manifest.Client
	keep    keeper
	changed chan struct{}
	guard   *guard
	facts   facts

	mu    sync.Mutex
	shift *shift // nil: another replica is at work, or none
}

// shift is the time during which this replica is at work. What it knows of
// items ends with it, since the next one may be another's.
type shift struct {
	r     *Runtime
	term  int64
	queue queue
	watch *watcher
	done  sync.WaitGroup
	stop  context.CancelFunc

	mu    sync.Mutex
	items map[string]*entry
	marks map[string]string // owner labels to ids
}

// entry is one item. Whoever changes the record or the cluster holds busy.
type entry struct {
	busy    sync.Mutex
	was     kept
	record  record
	applied bool   // by this shift
	told    bool   // to this shift: nobody vouches for what lay in a Secret
	message string // of the last failure, told once to the log

	// Guarded by the shift's mu.
	seen    runtime.Observed
	listed  []string // what its inventory has, or is about to have
	touched bool     // something of it was changed in the cluster
}

var _ runtime.Runtime = (*Runtime)(nil)

// New prepares a runtime. Without a lease it starts to work at once; with one
// the work is done inside Lead.
func New(cfg Config) (*Runtime, error) {
	cfg = cfg.defaults()
	g := &guard{next: cfg.Wrap}
	cluster, err := manifest.Open(manifest.Config{Kubeconfig: cfg.Kubeconfig, Wrap: g.wrap})
	if err != nil {
		return nil, err
	}
	r := &Runtime{cfg: cfg, cluster: cluster, guard: g, changed: make(chan struct{}, 1),
		keep: keeper{kube: cluster.Kube(), namespace: cfg.Namespace}}
	if cfg.Lease == "" {
		g.open(func() error { return nil })
	}
	return r, nil
}

// Close stops the work; what was applied stays.
func (r *Runtime) Close() { r.end() }

// current returns the shift, and begins one where there are no replicas.
func (r *Runtime) current(ctx context.Context) (*shift, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.shift != nil {
		return r.shift, nil
	}
	if r.cfg.Lease != "" {
		return nil, fault.New(fault.Unavailable, "another replica of the agent is at work on this cluster").Because("not-leading")
	}
	return r.beginLocked(ctx, 0, func() error { return nil })
}

// beginLocked reads what is kept and starts to work on it. A record of a later
// term than ours means that another replica has taken over, or that terms have
// begun anew because somebody removed the lease: held tells which.
func (r *Runtime) beginLocked(ctx context.Context, term int64, held func() error) (*shift, error) {
	if err := r.ensureNamespace(ctx); err != nil {
		return nil, err
	}
	all, err := r.keep.all(ctx, "item")
	if err != nil {
		return nil, err
	}
	s := &shift{r: r, term: term, items: map[string]*entry{}, marks: map[string]string{}}
	for name, k := range all {
		rec, err := unpack(k.parts)
		if err != nil {
			// The others go on; this one is told again by the control plane.
			r.cfg.Logger.Error("a kept item cannot be read", "secret", name)
			continue
		}
		s.term = max(s.term, rec.Term)
		s.items[rec.ID] = &entry{was: k, record: rec, seen: rec.Seen, listed: rec.Inventory}
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
	r.shift = s
	return s, nil
}

func (r *Runtime) end() {
	r.mu.Lock()
	s := r.shift
	r.shift = nil
	r.mu.Unlock()
	if s != nil {
		s.stop()
		s.queue.close()
		s.done.Wait()
	}
}

func (r *Runtime) ensureNamespace(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, callTimeout)
	defer stop()
	id := manifest.ID{Kind: "Namespace", Name: r.cfg.Namespace}
	there, err := r.cluster.Look(ctx, id)
	if fault.Is(err, fault.Denied) {
		return nil // it may not look at namespaces, so somebody has made it
	}
	if err != nil || there != nil {
		return err
	}
	err = r.cluster.Kube().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.cfg.Namespace}})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return manifest.Explain(err, id)
}

// Apply implements runtime.Runtime.
func (r *Runtime) Apply(ctx context.Context, it runtime.Item) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if it.ID == "" {
		return fault.New(fault.Invalid, "an item needs an id")
	}
	if !it.Delete {
		if !valid(it.Body) {
			return fault.New(fault.Invalid, "the desired document of %s is not JSON", it.ID)
		}
		it.Body = canonical(it.Body)
	}
	s, err := r.current(ctx)
	if err != nil {
		return err
	}
	return s.apply(ctx, it)
}

// canonical is the body as it comes back from where it is kept.
func canonical(body json.RawMessage) json.RawMessage {
	var compact, escaped bytes.Buffer
	if json.Compact(&compact, body) != nil {
		return body
	}
	json.HTMLEscape(&escaped, compact.Bytes())
	return escaped.Bytes()
}

func (s *shift) apply(ctx context.Context, it runtime.Item) error {
	e, fresh := s.entry(it.ID)
	e.busy.Lock()
	defer e.busy.Unlock()
	if !s.holds(it.ID, e) {
		return fault.New(fault.Unavailable, "the item was being forgotten; it is applied when it is told again").Because("forgotten")
	}
	if e.record.ID != "" {
		same, err := e.record.fence(it)
		if err != nil {
			return err
		}
		if same && e.record.Seen.State != runtime.Rejected {
			if !e.told {
				e.told = true
				s.queue.add(it.ID)
			}
			return nil
		}
	}
	next := e.record
	if next.ID == "" && it.Delete {
		next.Gone, next.Seen = true, runtime.Observed{ID: it.ID, Kind: it.Kind, Generation: it.Generation, State: runtime.Deleted}
		next.Delete, next.Generation = true, it.Generation
	}
	next.take(it)
	if err := s.save(ctx, e, next); err != nil {
		if fresh {
			s.forget(it.ID, e)
		}
		return err
	}
	e.applied, e.told = false, true
	s.show(e, next.Seen)
	s.queue.add(it.ID)
	return nil
}

// entry of an id, made if there is none.
func (s *shift) entry(id string) (e *entry, fresh bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e = s.items[id]; e == nil {
		e, fresh = &entry{}, true
		s.items[id], s.marks[manifest.Mark(id)] = e, id
	}
	return e, fresh
}

// holds reports whether the entry is still the id's: it may have been forgotten
// while somebody waited for it.
func (s *shift) holds(id string, e *entry) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.items[id] == e
}

func (s *shift) forget(id string, e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.items[id] == e {
		delete(s.items, id)
		delete(s.marks, manifest.Mark(id))
	}
}

// save writes the record down; the entry has it afterwards.
func (s *shift) save(ctx context.Context, e *entry, next record) error {
	next.Term = s.term
	parts, err := pack(next)
	if err != nil {
		return err
	}
	name := named("drover-item-", next.ID)
	s.mu.Lock()
	e.listed = manifest.Union(e.listed, next.Inventory)
	s.mu.Unlock()
	was, err := s.r.keep.put(ctx, "item", name, parts, e.was)
	if fault.Reason(err) == "written-meanwhile" {
		// A newer replica has, or a write of ours arrived whose answer did not.
		if err := s.reread(ctx, e, name, next); err != nil {
			return err
		}
		was, err = s.r.keep.put(ctx, "item", name, parts, e.was)
	}
	if err != nil {
		return err
	}
	e.was, e.record = was, next
	s.mu.Lock()
	e.listed = next.Inventory
	s.mu.Unlock()
	return nil
}

// reread finds out what the Secret holds by now.
func (s *shift) reread(ctx context.Context, e *entry, name string, next record) error {
	now, there, err := s.r.keep.get(ctx, name)
	if err != nil {
		return err
	}
	if e.was = now; !there {
		return nil
	}
	if kept, err := unpack(now.parts); err == nil {
		if kept.Term > s.term {
			return fault.New(fault.Conflict, "a newer replica of the agent is at work on this cluster").Because("fenced")
		}
		if _, err := kept.fence(runtime.Item{Epoch: next.Epoch, Token: next.Token}); err != nil {
			return err
		}
	}
	return nil
}

// show tells what is seen of an item from now on.
func (s *shift) show(e *entry, seen runtime.Observed) {
	s.mu.Lock()
	e.seen = seen
	s.mu.Unlock()
	s.r.notify()
}

// Observe implements runtime.Runtime; in no order.
func (r *Runtime) Observe(ctx context.Context) ([]runtime.Observed, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s, err := r.current(ctx)
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
func (r *Runtime) Forget(ctx context.Context, id string) error {
	s, err := r.current(ctx)
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
	if !e.record.Gone {
		return nil
	}
	if err := r.keep.drop(ctx, named("drover-item-", id), e.was); err != nil {
		return err
	}
	s.forget(id, e)
	r.notify()
	return nil
}

// Changed implements runtime.Runtime.
func (r *Runtime) Changed() <-chan struct{} { return r.changed }

func (r *Runtime) notify() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}
