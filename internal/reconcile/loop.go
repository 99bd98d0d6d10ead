package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/trace"
)

// Ledger is the part of the store that the loop uses; see ledger.Ledger.
type Ledger interface {
	Commit(ctx context.Context, set ledger.Set) (ledger.Result, error)
	Claim(ctx context.Context, request ledger.ClaimRequest) (ledger.Claimed, error)
	Renew(ctx context.Context, leases []ledger.Lease, d time.Duration) (lost []ledger.Lease, err error)
	Release(ctx context.Context, leases []ledger.Lease) error
	Hints(ctx context.Context) <-chan struct{}
}

// Config of a loop. Ledger and Reconcilers are needed, the rest has defaults.
type Config struct {
	Ledger      Ledger
	Reconcilers map[string]Reconciler // by kind; those that are a Resyncer are resynced
	Holder      string                // which replica, for people; default host name and process id
	Workers     int                   // runs at a time; default 32

	// Lease is how long a replica may be silent before others take over its
	// work; default 3 s. While Poll is shorter, fail-over takes just that long.
	Lease      time.Duration
	Poll       time.Duration // safety net for lost hints; default 2 s
	MaxBackoff time.Duration // between failed runs of one object; default 1 min
	Grace      time.Duration // for runs in flight at shutdown; default 1 s
	Resync     time.Duration // between safety wakes of unsettled objects; default 10 min, negative = never

	Observer Observer     // default: nobody looks
	Logger   *slog.Logger // default slog.Default()
	// Request finds the user's request that a cause goes back to, for the log; empty:
	// there is none. Default: a cause that is one, itself.
	Request func(ctx context.Context, cause ledger.Cause) string
	// Tracer of runs that were woken in a trace; default: none is followed.
	Tracer *trace.Tracer
	Random func() float64 // source of jitter, 0 <= x < 1; default math/rand
}

// Loop claims and runs due work until it is told to stop.
type Loop struct {
	cfg   Config
	kinds []string
	log   *slog.Logger
	// span is how long a lease may be used, counted from before it was asked
	// for. It is shorter than the lease so that what a run has started can stop
	// before another replica starts.
	span time.Duration

	freed chan struct{} // holds a signal when a run has ended or work falls due sooner
	began chan struct{} // holds a signal when runs were started
	ended sync.WaitGroup

	mu      sync.Mutex
	runs    map[*run]struct{}
	ask     time.Time // when to claim next
	closing bool      // shutdown has begun: no run goes another round
}

// New makes a loop. It does nothing until Run.
func New(c Config) *Loop {
	if c.Holder == "" {
		host, _ := os.Hostname() // only for people; an empty name does no harm
		c.Holder = fmt.Sprintf("%s/%d", host, os.Getpid())
	}
	if c.Workers <= 0 {
		c.Workers = 32
	}
	c.Lease = orDefault(c.Lease, 3*time.Second)
	c.Poll = orDefault(c.Poll, 2*time.Second)
	c.MaxBackoff = orDefault(c.MaxBackoff, time.Minute)
	c.Grace = orDefault(c.Grace, time.Second)
	if c.Resync == 0 {
		c.Resync = 10 * time.Minute
	}
	if c.Observer == nil {
		c.Observer = unobserved{}
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Request == nil {
		c.Request = func(_ context.Context, cause ledger.Cause) string { id, _ := cause.Request(); return id }
	}
	if c.Random == nil {
		c.Random = rand.Float64
	}
	return &Loop{
		cfg:   c,
		kinds: slices.Sorted(maps.Keys(c.Reconcilers)),
		log:   c.Logger,
		span:  c.Lease - c.Lease/6,
		freed: make(chan struct{}, 1),
		began: make(chan struct{}, 1),
		runs:  map[*run]struct{}{},
	}
}

func orDefault(d, other time.Duration) time.Duration {
	if d <= 0 {
		return other
	}
	return d
}

type unobserved struct{}

func (unobserved) Ran(string, Outcome, time.Duration, error) {}

// ErrAtOnce, as the cause of the end of Run's context, has runs canceled without a grace:
// somebody else may begin them soon.
var ErrAtOnce = errors.New("at once")

// Run works until ctx ends, hands back what did not finish, and returns when
// everything it started has ended. It is called once.
//
// Goroutines: the caller's claims; one renews leases, one resyncs, at most
// Workers run, and one waits for those during shutdown. The end of ctx stops
// the claims and the resync; runs then have the grace to finish and are
// canceled after it; the renewals stop last, so that nothing runs unleased.
func (l *Loop) Run(ctx context.Context) error {
	if l.cfg.Ledger == nil || len(l.kinds) == 0 {
		return fault.New(fault.Invalid, "the loop needs a ledger and at least one reconciler")
	}
	renewing, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var others sync.WaitGroup
	others.Go(func() { l.renew(renewing) })
	others.Go(func() { l.resync(ctx) })
	l.claim(ctx)
	grace := l.cfg.Grace
	if errors.Is(context.Cause(ctx), ErrAtOnce) {
		grace = 0
	}
	l.drain(grace)
	stop()
	others.Wait()
	return nil
}

// drain lets runs finish within the grace, then cancels them and waits. A run
// that ignores its context keeps its lease meanwhile: nobody else may start
// what it has not stopped.
func (l *Loop) drain(within time.Duration) {
	l.mu.Lock()
	l.closing = true
	l.mu.Unlock()
	idle := make(chan struct{})
	go func() { l.ended.Wait(); close(idle) }()
	grace := time.NewTimer(within)
	defer grace.Stop()
	select {
	case <-idle:
		return
	case <-grace.C:
	}
	l.mu.Lock()
	for r := range l.runs {
		r.stop(errShutdown)
	}
	l.mu.Unlock()
	<-idle
}

// backoff doubles from base with every failure up to limit.
func backoff(base, limit time.Duration, failures int) time.Duration {
	d := base
	for ; failures > 1 && d < limit; failures-- {
		d *= 2
	}
	return min(d, limit)
}

// jitter returns a time between low and high.
func (l *Loop) jitter(low, high time.Duration) time.Duration {
	return low + time.Duration(l.cfg.Random()*float64(high-low))
}

// pause waits and reports whether ctx lasted.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return ctx.Err() == nil
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
