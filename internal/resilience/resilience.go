// Package resilience is the one policy for every call that leaves the process:
// a deadline, retries with jitter and a budget, a circuit breaker and a bulkhead.
//
// It owns when a call is made, made again, or not made at all, and the fault
// that says so. It must not know what is called, nor how.
package resilience

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/budget"
	"github.com/failsafe-go/failsafe-go/bulkhead"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/retrypolicy"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/trace"
)

// Config of a Policy.
type Config struct {
	// Name is what users read of: "the identity provider".
	Name string
	// Timeout of one attempt; default 10 s.
	Timeout time.Duration
	// Retries after a first attempt, by Do alone; default 2, negative: none.
	Retries int
	// Pause before the first retry, doubling up to 20 times as much; default
	// 100 ms. Each is moved by up to a quarter, so that callers do not return
	// in step.
	Pause time.Duration
	// Failures in a row after which nothing is tried for Rest; default 5, negative:
	// it is always tried, because whoever asks counts failures itself.
	Failures int
	// Rest of an open breaker, moved by up to a quarter; default 10 s. One call
	// is then let through to see whether the other side is back.
	Rest time.Duration
	// AtOnce bounds the calls under way; default 32. Others wait for at most
	// Queue, default 1 s.
	AtOnce int
	Queue  time.Duration
	// Each bounds the calls that one tenant has under way (see For) while another one
	// calls too, so that a flood of one does not make every call of all others slow;
	// default: it is not bound. They wait as those of AtOnce do.
	Each int
	// Tell whoever is refused by the open breaker what the last call failed with.
	// Those words may be another caller's: only where all callers may read them.
	Tell bool
	// Observer of calls and of the breaker; nil: none.
	Observer Observer
}

// Observer is told what happened, for metrics. It must not block.
type Observer interface {
	// Called is one attempt that was made, or one that was refused: "ok",
	// "failed" (the other side was away), "refused" (it answered with an error),
	// "open", "full", "canceled".
	Called(name, outcome string, took time.Duration)
	// Breaker tells that one of this name changed its state: "closed", which is how
	// each begins, "open", "half-open".
	Breaker(name, from, to string)
	// Retried is one attempt that is made again, or, with spent, one that is not
	// because the budget of retries is used up.
	Retried(name string, spent bool)
}

// Planner is an Observer that is told besides of what each policy is to do, with the
// defaults filled in, before there is a call.
type Planner interface {
	Planned(c Config)
}

// planned fills in what is not said, and tells whoever wants to know.
func (c Config) planned() Config {
	if c.Name == "" {
		c.Name = "the other side"
	}
	c.Timeout = positive(c.Timeout, 10*time.Second)
	c.Pause = positive(c.Pause, 100*time.Millisecond)
	c.Rest = positive(c.Rest, 10*time.Second)
	c.Queue = positive(c.Queue, time.Second)
	if c.Retries == 0 {
		c.Retries = 2
	}
	if c.Failures == 0 {
		c.Failures = 5
	}
	if c.AtOnce <= 0 {
		c.AtOnce = 32
	}
	if p, ok := c.Observer.(Planner); ok {
		p.Planned(c)
	}
	return c
}

// Policy is one side's; all calls to it share it. It has no goroutines of its own.
type Policy struct {
	cfg     Config
	title   string // of its spans
	breaker circuitbreaker.CircuitBreaker[any]
	once    failsafe.Executor[any]
	again   failsafe.Executor[any]
	// last is what the other side failed with last: whoever is refused by the open
	// breaker reads it.
	last atomic.Pointer[string]
	// forgotten by its Group: the observer hears no more of it.
	forgotten atomic.Bool
	idle      idle
	shares    shares
}

// New makes a policy.
func New(c Config) *Policy {
	c = c.planned()
	p := &Policy{cfg: c, title: "call " + c.Name, shares: shares{each: c.Each}}
	breaker := circuitbreaker.NewBuilder[any]().
		WithFailureThreshold(uint(max(c.Failures, 1))).
		WithSuccessThreshold(1).
		WithDelay(c.Rest).WithJitterFactor(0.25)
	if c.Observer != nil {
		breaker = breaker.OnStateChanged(func(e circuitbreaker.StateChangedEvent) {
			if !p.forgotten.Load() {
				c.Observer.Breaker(c.Name, e.OldState.String(), e.NewState.String())
			}
			if e.NewState == circuitbreaker.OpenState {
				p.watch()
			}
		})
	}
	p.breaker = breaker.Build()
	full := bulkhead.NewBuilder[any](uint(c.AtOnce)).WithMaxWaitTime(c.Queue).Build()
	p.once = failsafe.With[any](full)
	p.again = p.once
	if c.Retries > 0 {
		retry := retrypolicy.NewBuilder[any]().
			HandleIf(func(_ any, err error) bool { return failed(err) && !errors.As(err, new(final)) }).
			WithMaxRetries(c.Retries).
			WithBackoff(c.Pause, 20*c.Pause).WithJitterFactor(0.25).
			WithBudget(budget.NewBuilder().WithMaxRate(0.2).WithMinConcurrency(3).Build()).
			ReturnLastFailure().Build()
		p.again = failsafe.With[any](retry, full)
	}
	return p
}

func positive(d, otherwise time.Duration) time.Duration {
	if d <= 0 {
		return otherwise
	}
	return d
}

// Do makes a call that may be made twice: it is tried again while the other
// side is away. Faults: Unavailable, besides those of the call.
func (p *Policy) Do(ctx context.Context, call func(ctx context.Context) error) error {
	return p.run(ctx, p.again, call)
}

// Final marks a failure that Do does not try again, where only the call itself can
// tell: it may have been carried out. To the breaker it is a failure as any other.
func Final(err error) error { return final{err} }

// There marks a failure of one that has answered: Do tries again, and the breaker, which
// is for one that is away, does not count it.
func There(err error) error { return there{err} }

type there struct{ error }

func (t there) Unwrap() error { return t.error }

type final struct{ error }

func (f final) Unwrap() error { return f.error }

// Once makes a call that must not be made twice.
func (p *Policy) Once(ctx context.Context, call func(ctx context.Context) error) error {
	return p.run(ctx, p.once, call)
}

// State of the breaker: "closed", "open", "half-open".
func (p *Policy) State() string { return p.breaker.State().String() }

func (p *Policy) run(ctx context.Context, with failsafe.Executor[any], call func(ctx context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, span := trace.Child(ctx, p.title, trace.Client)
	tries, err := p.made(ctx, with, call)
	if span != nil {
		told(span, tries, err)
	}
	return err
}

// made makes the call as often as it takes, and tells how often that was.
func (p *Policy) made(ctx context.Context, with failsafe.Executor[any], call func(ctx context.Context) error) (tries int, err error) {
	done, err := p.shares.take(ctx, p.cfg.Queue)
	if errors.Is(err, bulkhead.ErrFull) {
		return 0, p.full()
	}
	if err != nil {
		return 0, err
	}
	defer done()
	var last error // what the budget's error hides
	err = with.WithContext(ctx).RunWithExecution(func(e failsafe.Execution[any]) error {
		if e.Retries() > 0 && p.cfg.Observer != nil {
			p.cfg.Observer.Retried(p.cfg.Name, false)
		}
		tries++
		if last = p.attempt(e.Context(), call); failed(last) {
			text := last.Error()
			p.last.Store(&text)
		}
		return last
	})
	switch {
	case err == nil:
		return tries, nil
	case errors.Is(err, budget.ErrExceeded) && last != nil:
		if p.cfg.Observer != nil {
			p.cfg.Observer.Retried(p.cfg.Name, true)
		}
		err = last
	case errors.Is(err, circuitbreaker.ErrOpen):
		p.observe("open", 0)
		why := ""
		if last := p.last.Load(); last != nil && p.cfg.Tell {
			why = " (" + *last + ")"
		}
		return tries, resting{fault.New(fault.Unavailable, "%s does not answer%s; it is tried again by itself", p.cfg.Name, why).Because("breaker-open"), p.rest()}
	case errors.Is(err, bulkhead.ErrFull):
		return tries, p.full()
	}
	if errors.Is(err, errSlow) {
		return tries, fault.New(fault.Unavailable, "%s did not answer within %s; it is tried again by itself", p.cfg.Name, p.cfg.Timeout).Because("timeout")
	}
	return tries, err
}

// full is the refusal of a call for which there was no room in time.
func (p *Policy) full() error {
	p.observe("full", 0)
	return fault.New(fault.Unavailable, "%s has too many requests under way; it is tried again by itself", p.cfg.Name).Because("bulkhead-full")
}

// resting is the refusal of an open breaker. Nothing was tried, so it says nothing
// new about the other side: whoever counts failures need not count it, and knows
// when to come back.
type resting struct {
	error
	rest time.Duration
}

func (r resting) Unwrap() error { return r.error }

// Resumes is the time until the other side is tried again.
func (r resting) Resumes() time.Duration { return r.rest }

// rest is what is left of the breaker's. While one call is under way to see
// whether the other side is back, nobody knows: a tenth of the whole will do.
func (p *Policy) rest() time.Duration {
	return max(p.breaker.RemainingDelay(), p.cfg.Rest/10)
}

// errSlow is what a call that took too long becomes, whatever it made of it.
var errSlow = errors.New("timeout")

// attempt makes one call if the breaker lets it, and tells the breaker what came
// of it. A caller who left says nothing about the other side, except that a
// breaker which waits for this very call must not wait for ever.
func (p *Policy) attempt(ctx context.Context, call func(ctx context.Context) error) (err error) {
	defer p.idle.busy()()
	if !p.breaker.TryAcquirePermit() {
		return circuitbreaker.ErrOpen
	}
	start := time.Now()
	within, cancel := context.WithTimeoutCause(ctx, p.cfg.Timeout, errSlow)
	defer cancel()
	ended := false
	defer func() {
		outcome := outcome(err)
		if !ended { // it panicked
			outcome = "failed"
		}
		switch {
		case p.cfg.Failures < 0:
		case outcome == "failed":
			p.breaker.RecordFailure()
		case outcome != "canceled":
			p.breaker.RecordSuccess()
		case p.breaker.IsHalfOpen():
			p.breaker.RecordFailure()
		}
		p.observe(outcome, time.Since(start))
	}()
	err = call(within)
	if err != nil && errors.Is(context.Cause(within), errSlow) {
		if errors.As(err, new(final)) {
			err = final{errSlow}
		} else {
			err = errSlow
		}
	}
	ended = true
	return err
}

func (p *Policy) observe(outcome string, took time.Duration) {
	if p.cfg.Observer != nil {
		p.cfg.Observer.Called(p.cfg.Name, outcome, took)
	}
}

func outcome(err error) string {
	switch {
	case err == nil:
		return "ok"
	case failed(err) && !errors.As(err, new(there)):
		return "failed"
	case errors.Is(err, context.Canceled):
		return "canceled"
	}
	return "refused"
}

// failed reports whether an error means that the other side is away. One that
// says no is there, and a caller who left says nothing about it.
func failed(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, circuitbreaker.ErrOpen) || errors.Is(err, bulkhead.ErrFull) {
		return false
	}
	var timed net.Error
	return fault.Is(err, fault.Unavailable) || errors.Is(err, errSlow) ||
		errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timed) && timed.Timeout()
}
