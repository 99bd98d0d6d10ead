package environment

import (
	"context"
	"sync"
	"time"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

const (
	// maxWatches is how many resources one server watches; others are polled.
	maxWatches = 1000
	// wakePause is between two wakes of one resource.
	wakePause  = time.Second
	watchAgain = 2 * time.Second // after which one that ended is begun again, and longer each time
	watchRest  = time.Minute
)

// byWatch is the cause of a wake by an executor that watches.
var byWatch = ledger.BySchedule("watch")

// watches are the resources that are watched, by id.
type watches struct {
	*Service
	done sync.WaitGroup
	of   map[string]watched // touched by one goroutine: that of Watch
}

type watched struct {
	turn int64
	stop context.CancelFunc
}

// Watch has executors tell when a resource that is ready may have changed, so that
// drift is known at once, until ctx ends. There are one or two goroutines for each that
// is watched, at most two thousand, which all end with it; what it misses is polled.
func (s *Service) Watch(ctx context.Context, feed *ledger.Feed) error {
	log, ok := s.Store.(ledger.Log)
	if !ok {
		return nil
	}
	w := &watches{Service: s, of: map[string]watched{}}
	defer w.done.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	after := int64(-1)
	for ctx.Err() == nil {
		var err error
		var changes []ledger.Change
		if after < 0 {
			var head ledger.Head
			if head, err = log.Head(ctx); err == nil {
				err = w.all(ctx)
			}
			if err == nil {
				after = head.Seq
			}
		} else if changes, err = feed.Next(ctx, after); err == nil {
			for _, c := range changes {
				if after = c.Seq; c.Object.Kind == KindResource.Name {
					w.follow(ctx, c.Object)
				}
			}
		}
		if fault.Reason(err) == "truncated" { // it was away for days: look at all again
			after = -1
		}
		if err != nil {
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	}
	return nil
}

// all begins with what is there.
func (w *watches) all(ctx context.Context) error {
	for name, x := range w.Executors {
		if _, ok := x.(executor.Watcher); !ok {
			continue
		}
		for after := ""; ; {
			found, err := w.Store.List(ctx, ledger.Query{Kind: KindResource.Name, Where: equals("executor", name), AfterID: after, Limit: page})
			if err != nil {
				return err
			}
			for _, o := range found {
				w.follow(ctx, o)
			}
			if len(found) < page {
				break
			}
			after = found[len(found)-1].ID
		}
	}
	return nil
}

// follow begins or ends to watch a resource. Another turn is another watch: what it
// was made with may be something else.
func (w *watches) follow(ctx context.Context, o ledger.Object) {
	name, _ := o.Fields["executor"].(string)
	x, ok := w.Executors[name].(executor.Watcher)
	if !ok {
		return
	}
	r, err := DecodeResource(o)
	if err != nil {
		return
	}
	wanted := r.Deleted.IsZero() && r.Phase == Ready && !r.Spec.Absent && r.Spec.Drift != driftIgnore
	is, watching := w.of[o.ID]
	if watching && wanted && is.turn == r.Status.Turn {
		return
	}
	if watching {
		is.stop()
		delete(w.of, o.ID)
	}
	if !wanted || len(w.of) >= maxWatches {
		return
	}
	ctx, stop := context.WithCancel(ctx)
	w.of[o.ID] = watched{r.Status.Turn, stop}
	w.done.Go(func() { w.watch(ctx, x, r) })
}

// watch is one goroutine: it ends with ctx, or where there is nothing to watch with.
func (w *watches) watch(ctx context.Context, x executor.Watcher, r Resource) {
	for pause := watchAgain; ctx.Err() == nil; pause = min(2*pause, watchRest) {
		c, err := w.subject(ctx, r)
		began := time.Now()
		if err == nil {
			if err = x.Watch(ctx, c.resource, w.waker(ctx, r)); err == nil {
				return
			}
		}
		if time.Since(began) > watchRest {
			pause = watchAgain
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// subject is the resource as it is given to its executor.
func (w *watches) subject(ctx context.Context, r Resource) (*call, error) {
	o, err := w.Store.Get(ctx, ledger.Ref{Kind: Kind.Name, ID: r.Parent})
	if err != nil {
		return nil, err
	}
	e, err := Decode(o)
	if err != nil {
		return nil, err
	}
	inputs, err := w.keptInputs(ctx, r.Status)
	if err != nil {
		return nil, err
	}
	s := r.Spec
	return w.call(ctx, subject{id: r.ID, address: s.Address, name: s.Executor, connection: s.Connection, tags: s.Tags, environment: e.Name,
		org: e.Org, owner: e.Owner, template: e.Spec.Template, operator: e.Spec.Operator, there: &r, inputs: inputs})
}

// waker wakes a resource, once in a while at most. Every change is followed by a wake
// that is written after it: one that comes too early waits here, and not in the ledger,
// where it would become due with an earlier one, and be spent before the next change.
func (w *watches) waker(ctx context.Context, r Resource) func() {
	var mu sync.Mutex
	var last time.Time
	waits := false
	wake := func() {
		mu.Lock()
		last, waits = time.Now(), false
		mu.Unlock()
		_, _ = w.Store.Commit(ctx, ledger.Set{Actor: "system", Cause: byWatch, Wakes: []ledger.Wake{wakeOf(KindResource.Name, r.ID, r.Org)}}) // what is lost is polled
	}
	return func() {
		mu.Lock()
		first := !waits
		waits = true
		pause := wakePause - time.Since(last)
		mu.Unlock()
		switch {
		case !first: // one is on its way that is written after this change
		case pause <= 0:
			wake()
		default:
			w.done.Go(func() {
				select {
				case <-ctx.Done():
				case <-time.After(pause):
					wake()
				}
			})
		}
	}
}
