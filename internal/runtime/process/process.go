package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/program"
	"github.com/droverhq/drover/internal/runtime"
)

// Config of a Runtime. Only Dir has no default.
type Config struct {
	Dir      string        // holds a directory per instance; one runtime at a time
	Self     string        // what the command "drover" runs; default: this executable
	Capacity int64         // instances that fit; default 100
	Grace    time.Duration // between the request to end and the kill; default 10 s
	Interval time.Duration // between probes of a ready instance; default 1 s
	Patience time.Duration // before a start without a healthy answer is an error; default 10 s
	Hang     time.Duration // of unanswered probes before a restart; default 1 min
	LogLimit int64         // bytes of output kept, twice; default 1 MiB
	Logger   *slog.Logger  // default: none

	step func(string) // tests end the process here
}

// Runtime runs instances as child processes. It implements runtime.Runtime.
type Runtime struct {
	cfg     Config
	lock    *flock.Flock
	probe   *http.Client
	changed chan struct{}

	ctx    context.Context // ends the supervisors, not the children
	cancel context.CancelFunc
	wg     sync.WaitGroup // one supervisor per instance that is not removed

	mu        sync.RWMutex // taken after an instance's
	closed    bool
	instances map[string]*instance
	places    map[string]bool // ids that take up capacity
	hosts     map[string][]*instance
	ports     map[int]bool // given to instances that may not listen yet
}

var _ runtime.Runtime = (*Runtime)(nil)

// Open takes the directory, adopts the processes that still run and goes on
// with everything that was asked before.
func Open(cfg Config) (*Runtime, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(cfg.Dir, deletedDir), 0o700); err != nil {
		return nil, fmt.Errorf("cannot make the directory of instances: %w", err)
	}
	lock := flock.New(filepath.Join(cfg.Dir, ".lock"))
	switch ok, err := lock.TryLock(); {
	case err != nil:
		return nil, fmt.Errorf("cannot lock the directory of instances: %w", err)
	case !ok:
		return nil, fault.New(fault.Conflict, "another agent uses %s: stop it, or choose another directory", cfg.Dir)
	}
	r := &Runtime{
		cfg: cfg, lock: lock, probe: newProbe(), changed: make(chan struct{}, 1),
		instances: map[string]*instance{}, places: map[string]bool{},
		hosts: map[string][]*instance{}, ports: map[int]bool{},
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	if err := r.restore(); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func (cfg *Config) complete() error {
	if cfg.Dir == "" {
		return fault.New(fault.Invalid, "the process runtime needs a directory")
	}
	var err error
	if cfg.Dir, err = filepath.Abs(cfg.Dir); err != nil {
		return fmt.Errorf("cannot resolve the directory of instances: %w", err)
	}
	if cfg.Self == "" {
		if cfg.Self, err = os.Executable(); err != nil {
			return fmt.Errorf("cannot find this executable: %w", err)
		}
	}
	cfg.Capacity = or(cfg.Capacity, 100)
	cfg.Grace = or(cfg.Grace, 10*time.Second)
	cfg.Interval = or(cfg.Interval, time.Second)
	cfg.Patience = or(cfg.Patience, 10*time.Second)
	cfg.Hang = or(cfg.Hang, time.Minute)
	cfg.LogLimit = or(cfg.LogLimit, 1<<20)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.step == nil {
		cfg.step = func(string) {}
	}
	return nil
}

func or[T int64 | time.Duration](v, def T) T {
	if v <= 0 {
		return def
	}
	return v
}

// restore brings back what the directory tells, before anything is started.
func (r *Runtime) restore() error {
	items, err := r.load()
	if err != nil {
		return err
	}
	running, err := program.Scan()
	if err != nil {
		return fmt.Errorf("cannot look for running instances: %w", err)
	}
	for _, it := range items {
		in := newInstance(r, it.ID)
		in.restore(it, slices.DeleteFunc(slices.Clone(running), func(f program.Found) bool { return f.Nonce != it.Nonce }))
		r.instances[it.ID] = in
		if !it.Delete && !it.Rejected && it.Kind != step {
			r.places[it.ID] = true
		}
	}
	for _, in := range r.instances {
		if !in.item.buried {
			r.supervise(in)
		}
	}
	return nil
}

// supervise starts the one goroutine of an instance; Close ends it.
func (r *Runtime) supervise(in *instance) {
	r.wg.Go(func() { in.supervise(r.ctx) })
}

// Close stops watching. The processes keep running, for the next Open to adopt.
func (r *Runtime) Close() error {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.cancel()
	r.wg.Wait()
	return r.lock.Unlock()
}

// Apply implements runtime.Runtime. It returns when the item is on disk.
func (r *Runtime) Apply(ctx context.Context, it runtime.Item) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := checkID(it.ID); err != nil {
		return err
	}
	body, err := normal(it)
	if err != nil {
		return err
	}
	it.Body = body
	for {
		in, err := r.instance(it.ID)
		if err != nil {
			return err
		}
		if again, err := in.apply(it); !again {
			return err
		}
	}
}

func (r *Runtime) instance(id string) (*instance, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, fault.New(fault.Unavailable, "the runtime is closed")
	}
	in, ok := r.instances[id]
	if !ok {
		in = newInstance(r, id)
		r.instances[id] = in
	}
	return in, nil
}

// place takes up one unit of capacity for the id, if there is one.
func (r *Runtime) place(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.places[id] && int64(len(r.places)) >= r.cfg.Capacity {
		return false
	}
	r.places[id] = true
	return true
}

func (r *Runtime) vacate(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.places, id)
}

// Observe implements runtime.Runtime; sorted by id.
func (r *Runtime) Observe(ctx context.Context) ([]runtime.Observed, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r.mu.RLock()
	all := make([]*instance, 0, len(r.instances))
	for _, in := range r.instances {
		all = append(all, in)
	}
	r.mu.RUnlock()
	seen := make([]runtime.Observed, 0, len(all))
	for _, in := range all {
		if o, known := in.observe(); known {
			seen = append(seen, o)
		}
	}
	slices.SortFunc(seen, func(a, b runtime.Observed) int { return strings.Compare(a.ID, b.ID) })
	return seen, nil
}

// Forget implements runtime.Runtime.
func (r *Runtime) Forget(ctx context.Context, id string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r.mu.RLock()
	in, ok := r.instances[id]
	r.mu.RUnlock()
	if !ok {
		return nil
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.item.buried || in.dropped {
		return nil
	}
	if err := os.Remove(r.tombstone(id)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("cannot forget %s: %w", id, err)
	}
	in.dropped = true
	r.drop(id)
	r.notify()
	return nil
}

func (r *Runtime) drop(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.instances, id)
}

// Changed implements runtime.Runtime.
func (r *Runtime) Changed() <-chan struct{} { return r.changed }

// Facts implements runtime.Runtime.
func (r *Runtime) Facts(context.Context) (runtime.Facts, error) {
	return runtime.Facts{Capacity: r.cfg.Capacity, Kind: "process", Routes: "proxy"}, nil
}

func (r *Runtime) notify() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}
