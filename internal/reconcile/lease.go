package reconcile

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/trace"
)

var (
	errShutdown   = errors.New("the replica is shutting down")
	errLeaseEnded = errors.New("the lease could not be renewed in time")
	errLeaseLost  = errors.New("the lease was taken by another replica")
)

// run is one piece of leased work in flight.
type run struct {
	work ledger.Work
	// lease ends when the lease may no longer be used: the run's commits go
	// under it. ctx, which the reconciler gets, ends then or at shutdown.
	lease context.Context
	lose  context.CancelCauseFunc
	ctx   context.Context
	stop  context.CancelCauseFunc

	rounds, conflicts int  // of the worker alone
	handed            int  // how many runs its worker has gone on with
	taken             *run // what its worker goes on with
	wrote             bool // anything but its end

	followed *trace.Span // nil: it is not
	trace    string      // by which what it writes and wakes goes on

	mu      sync.Mutex
	span    time.Duration
	sent    time.Time   // when the lease was last asked for
	end     *time.Timer // calls lose; monotonic, like every time.Now difference
	writing bool        // a commit is under way
}

func newRun(ctx context.Context, w ledger.Work, sent time.Time, span time.Duration) *run {
	r := &run{work: w, span: span, sent: sent}
	// For what is logged and written on the way.
	ctx = ledger.WithOrg(ledger.WithCause(ctx, cmp.Or(w.Cause, ledger.BySchedule("reconcile"))), w.Org)
	// Not under the loop's context: shutdown gives a run its grace.
	r.lease, r.lose = context.WithCancelCause(context.WithoutCancel(ctx))
	r.ctx, r.stop = context.WithCancelCause(r.lease)
	r.end = time.AfterFunc(time.Until(sent.Add(span)), func() { r.lose(errLeaseEnded) })
	return r
}

func (r *run) close() {
	r.end.Stop()
	r.stop(nil)
	r.lose(nil)
}

// held reports whether the lease may still be used. It looks at the clock too:
// after a stall the timer may be as late as the worker.
func (r *run) held() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lease.Err() == nil && time.Since(r.sent) < r.span
}

// extend moves the end after a renewal that was sent at that time.
func (r *run) extend(sent time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent = sent
	r.end.Reset(time.Until(sent.Add(r.span)))
}

// write marks that a commit is under way or over. Meanwhile the lease is not
// renewed: the commit has until the lease's end, and since a finish gives the
// lease up, a renewal that misses it would prove nothing.
func (r *run) write(on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writing = on
}

// renewable returns when the lease was last asked for, unless a commit is under way.
func (r *run) renewable() (time.Time, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sent, !r.writing && r.lease.Err() == nil
}

// renew prolongs the leases of runs that have used up a third of theirs, many
// in one call.
func (l *Loop) renew(ctx context.Context) {
	step := l.cfg.Lease / 12
	failing := false
	for ctx.Err() == nil {
		oldest, any := l.oldest()
		if !any {
			select {
			case <-ctx.Done():
			case <-l.began:
			}
			continue
		}
		if !pause(ctx, max(step, time.Until(oldest.Add(l.cfg.Lease/3)))) {
			return
		}
		err := l.renewOnce(ctx, l.cfg.Lease/3-step)
		if err != nil && !failing && ctx.Err() == nil {
			l.log.Warn("cannot renew leases; trying again", "err", err)
		}
		failing = err != nil
	}
}

// oldest returns when the oldest lease in use was asked for.
func (l *Loop) oldest() (oldest time.Time, any bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for r := range l.runs {
		if sent, ok := r.renewable(); !any || ok && sent.Before(oldest) {
			oldest, any = sent, true
		}
	}
	return oldest, any
}

// renewOnce renews what is older than age. Only an answer extends a run, and
// only from before the question: while it travels, the lease runs already.
func (l *Loop) renewOnce(ctx context.Context, age time.Duration) error {
	sent := time.Now()
	due := map[ledger.Lease]*run{}
	var leases []ledger.Lease
	l.mu.Lock()
	for r := range l.runs {
		if asked, ok := r.renewable(); ok && sent.Sub(asked) >= age {
			due[r.work.Lease] = r
			leases = append(leases, r.work.Lease)
		}
	}
	l.mu.Unlock()
	if len(leases) == 0 {
		return nil
	}
	asking, cancel := context.WithTimeout(ctx, l.cfg.Lease/3)
	defer cancel()
	lost, err := l.cfg.Ledger.Renew(asking, leases, l.cfg.Lease)
	if err != nil {
		return err
	}
	for _, lease := range lost {
		r := due[lease]
		delete(due, lease)
		if r == nil {
			continue
		}
		if _, ok := r.renewable(); ok {
			r.lose(errLeaseLost)
		}
	}
	for _, r := range due {
		r.extend(sent)
	}
	return nil
}
