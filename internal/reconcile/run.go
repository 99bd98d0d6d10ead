package reconcile

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

const (
	firstBackoff = 200 * time.Millisecond
	// One object cannot hold a worker forever: after so many rounds it takes
	// its turn again like all others.
	maxRounds    = 64
	maxConflicts = 16
	// Conflicts up to here are bad luck; beyond it the other writer is busy.
	freeConflicts = 3
	conflictPause = 10 * time.Millisecond
	commitPause   = 20 * time.Millisecond
	maxPause      = 500 * time.Millisecond
)

// work runs one object's reconciler until it has nothing more to do now, and goes
// on with what that made due.
func (l *Loop) work(r *run) {
	for r != nil {
		l.reconcile(r)
		r = l.handOver(r)
	}
}

func (l *Loop) reconcile(r *run) {
	task := Task{
		Ref: r.work.Ref, Org: r.work.Org, Cause: r.work.Cause,
		Attempts: r.work.Attempts, Token: r.work.Token,
	}
	l.follow(r)
	for again := true; again; {
		began := time.Now()
		r.rounds++
		result, err := l.call(r.ctx, task)
		var outcome Outcome
		outcome, again, err = l.conclude(r, result, err)
		l.cfg.Observer.Ran(task.Kind, outcome, time.Since(began), err)
		if !again {
			r.told(outcome, err)
		}
		if again && r.conflicts > freeConflicts {
			d := backoff(conflictPause, maxPause, r.conflicts-freeConflicts)
			pause(r.ctx, l.jitter(d/2, d)) // call looks whether ctx lasted
		}
	}
}

type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("panic: %v", p.value) }

// stack returns the log attribute that only a panic has.
func stack(err error) []any {
	var p *panicked
	if errors.As(err, &p) {
		return []any{"stack", string(p.stack)}
	}
	return nil
}

// call runs the reconciler, unless its time is over.
func (l *Loop) call(ctx context.Context, task Task) (result Result, err error) {
	if ctx.Err() != nil {
		return Result{}, context.Cause(ctx)
	}
	defer func() {
		if v := recover(); v != nil {
			result, err = Result{}, &panicked{v, debug.Stack()}
		}
	}()
	reconciler, ok := l.cfg.Reconcilers[task.Kind]
	if !ok {
		return Result{}, fault.New(fault.Internal, "nothing reconciles %s", task.Kind)
	}
	return reconciler.Reconcile(ctx, task)
}

// conclude writes what a round has left to write, and the end of the run with
// it in the same commit. It reports whether another round follows, and the
// error that the round failed with.
func (l *Loop) conclude(r *run, result Result, err error) (outcome Outcome, again bool, _ error) {
	if !r.held() {
		return l.lost(r, err)
	}
	if err != nil && r.ctx.Err() != nil { // shutdown: another replica goes on at once
		l.release(r.lease, []ledger.Lease{r.work.Lease})
		return Retried, false, err
	}
	finish := ledger.Finish{Dirty: r.work.Dirty}
	switch {
	case IsTerminal(err):
		outcome = Failed
	case err != nil:
		outcome = Retried
		finish = l.retry(r)
		if rest, ok := resumes(err); ok { // nothing was tried, so nothing has failed
			finish.Attempts, finish.After = r.work.Attempts, rest+l.jitter(0, min(rest/4, maxPause))
		}
		finish.Note = result.Why
	case result.Again:
		outcome = Succeeded
		again = l.mayGoOn(r)
		finish.Next = true // after the last round: due again, in its turn
	case result.Next:
		outcome = Waiting
		finish.Next, finish.After, finish.Note = true, result.After, result.Why
	default:
		outcome = Succeeded
	}
	set := result.Write
	if !again {
		set.Finish = &finish
		set.Take = l.takes(r, set)
	}
	switch refused := l.commit(r, set); {
	case refused == nil:
		if again {
			r.conflicts = 0
			return outcome, true, nil
		}
		l.report(r, finish, err)
		return outcome, false, err
	case !r.held() || fault.Reason(refused) == "lease-lost":
		return l.lost(r, refused)
	case fault.Is(refused, fault.Conflict) && fault.Reason(refused) == "version":
		return l.conflict(r, refused)
	default:
		return l.refuse(r, fmt.Errorf("cannot write the result: %w", refused))
	}
}

// mayGoOn reports whether a run may go another round under its lease.
func (l *Loop) mayGoOn(r *run) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return r.rounds < maxRounds && !l.closing
}

// conflict drops a write that was made from an old state and looks again.
func (l *Loop) conflict(r *run, err error) (Outcome, bool, error) {
	if r.conflicts++; r.conflicts < maxConflicts && l.mayGoOn(r) {
		return Conflict, true, err
	}
	finish := ledger.Finish{Dirty: r.work.Dirty, Next: true, Attempts: r.work.Attempts, After: l.jitter(0, maxPause)}
	return l.giveUp(r, Conflict, finish, err)
}

// refuse ends a run whose write the ledger does not take; only the end is written.
func (l *Loop) refuse(r *run, err error) (Outcome, bool, error) {
	return l.giveUp(r, Retried, l.retry(r), err)
}

// retry ends a failed run: the object is due again after a while that grows
// with its failures.
func (l *Loop) retry(r *run) ledger.Finish {
	attempts := r.work.Attempts + 1
	after := l.jitter(0, backoff(firstBackoff, l.cfg.MaxBackoff, attempts))
	return ledger.Finish{Dirty: r.work.Dirty, Next: true, Attempts: attempts, After: after}
}

// resumes returns the pause that an error asks for which was no attempt: somebody
// who is away is tried again only then.
func resumes(err error) (time.Duration, bool) {
	var r interface{ Resumes() time.Duration }
	if !errors.As(err, &r) {
		return 0, false
	}
	return max(r.Resumes(), firstBackoff), true
}

// giveUp writes the end of a run without its write.
func (l *Loop) giveUp(r *run, outcome Outcome, finish ledger.Finish, err error) (Outcome, bool, error) {
	if refused := l.commit(r, ledger.Set{Finish: &finish}); refused != nil {
		return l.lost(r, refused) // the lease runs out, and the object is claimed again
	}
	l.report(r, finish, err)
	return outcome, false, err
}

// lost ends a run that may not write any more.
func (l *Loop) lost(r *run, err error) (Outcome, bool, error) {
	if cause := context.Cause(r.lease); cause != nil && !errors.Is(err, cause) {
		err = errors.Join(cause, err)
	}
	if err == nil {
		err = errLeaseEnded
	}
	l.log.WarnContext(r.ctx, "a run lost its lease; what it did not write is dropped",
		"kind", r.work.Kind, "id", r.work.ID, "attempts", r.work.Attempts, "err", err)
	return LeaseLost, false, err
}

// commit writes under the lease, and tries again while the store is away and
// the lease lasts. If an earlier try was written after all, a later one fails
// its guards: the version of what it writes, or the lease that it gave up.
func (l *Loop) commit(r *run, set ledger.Set) error {
	set.Lease = &r.work.Lease
	if set.Actor == "" {
		set.Actor = "system"
	}
	if set.Cause == "" {
		set.Cause = ledger.CauseOf(r.lease)
	}
	if set.Trace == "" {
		set.Trace = r.trace
	}
	r.wrote = r.wrote || len(set.Puts) > 0 || len(set.Wakes) > 0
	r.write(true)
	defer r.write(false)
	ctx := r.followed.Around(r.lease)
	for tries := 1; ; tries++ {
		sent := time.Now()
		done, err := l.cfg.Ledger.Commit(ctx, set)
		if err == nil && len(done.Taken) > 0 {
			r.taken = newRun(r.lease, done.Taken[0], sent, l.span)
		}
		if err == nil && set.Finish != nil && set.Finish.Next {
			// The claimer learns it here; the store need not send a hint for later work.
			l.sooner(time.Now().Add(set.Finish.After))
		}
		if !fault.Is(err, fault.Unavailable) {
			return err
		}
		d := backoff(commitPause, maxPause, tries)
		if !pause(r.lease, l.jitter(d/2, d)) {
			return err
		}
	}
}

// report logs a failed run: the one place, and one line.
func (l *Loop) report(r *run, finish ledger.Finish, err error) {
	if err == nil {
		return
	}
	args := []any{"kind", r.work.Kind, "id", r.work.ID, "attempts", r.work.Attempts + 1, "err", err}
	args = append(args, stack(err)...)
	if id := l.cfg.Request(r.lease, r.work.Cause); id != "" {
		args = append(args, "request", id)
	}
	if finish.Next {
		l.log.WarnContext(r.ctx, "reconcile failed; trying again", append(args, "next", finish.After)...)
		return
	}
	l.log.ErrorContext(r.ctx, "reconcile failed for good", args...)
}
