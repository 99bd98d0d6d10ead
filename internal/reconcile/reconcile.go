// Package reconcile is the one loop: it claims due work from the ledger, runs
// the reconciler of its kind, and writes what is left to do.
//
// It owns claiming, workers, leases, back-off and fences. It must not know any
// kind of object: a reconciler decides what to do, the loop when it runs.
package reconcile

import (
	"context"
	"errors"
	"time"

	"github.com/droverhq/drover/internal/ledger"
)

// Reconciler brings one object closer to what is wanted. It is called for one
// object at a time, never concurrently for the same object while leases hold.
// ctx ends before the lease does: everything started under it must stop then.
// An error with Resumes() time.Duration in its chain tells that nothing was tried
// and when that will be so again: it counts as no attempt.
type Reconciler interface {
	Reconcile(ctx context.Context, task Task) (Result, error)
}

// Task is one run's right to work on an object. It carries an id, never an event.
type Task struct {
	ledger.Ref
	Org      string
	Cause    ledger.Cause // of the set that woke it last
	Attempts int          // failed runs before this one
	Token    int64        // of the lease
}

// Fence is handed to whatever has effects outside the ledger. A port remembers
// the highest fence of an object and refuses a lower one, so that a worker that
// was stalled past its lease can no longer harm.
type Fence struct {
	ID         string
	Generation int64
	Token      int64
}

// Fence of this run for the generation that the reconciler has read.
func (t Task) Fence(generation int64) Fence {
	return Fence{ID: t.ID, Generation: generation, Token: t.Token}
}

// Before reports whether the fence is older than another of the same object.
func (f Fence) Before(other Fence) bool { return f.Token < other.Token }

// Result is what a run has to write and what comes next. The write shares one
// commit with the end of the run and is guarded by its lease; if the object was
// changed meanwhile it is dropped, and the object is run again at once. It is
// written beside an error too, which then decides what comes next.
type Result struct {
	Write ledger.Set
	// Again runs the reconciler once more under the same lease, at once.
	Again bool
	// Next asks for another run After this time; Why tells people what it waits for.
	Next  bool
	After time.Duration
	Why   string
}

// Done writes and leaves nothing to do.
func Done(write ledger.Set) Result { return Result{Write: write} }

// Again writes and goes on at once.
func Again(write ledger.Set) Result { return Result{Write: write, Again: true} }

// Wait writes and comes back later; no worker is held meanwhile.
func Wait(write ledger.Set, d time.Duration, why string) Result {
	return Result{Write: write, Next: true, After: d, Why: why}
}

// Terminal marks an error that no retry will mend: the work ends here until the
// object changes.
func Terminal(err error) error {
	if err == nil {
		return nil
	}
	return terminal{err}
}

// IsTerminal reports whether err was marked by Terminal.
func IsTerminal(err error) bool {
	var t terminal
	return errors.As(err, &t)
}

type terminal struct{ error }

func (t terminal) Unwrap() error { return t.error }

// Outcome is how a run ended, for metrics.
type Outcome string

const (
	Succeeded Outcome = "succeeded"
	Retried   Outcome = "retried"
	Waiting   Outcome = "waiting"
	Failed    Outcome = "terminal"
	Conflict  Outcome = "conflict"
	LeaseLost Outcome = "lease_lost"
)

// Observer sees every call of a reconciler, with the time until its result was
// written. The loop calls it from its workers.
type Observer interface {
	Ran(kind string, outcome Outcome, d time.Duration, err error)
}
