package sqlledger

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/trace"
)

// request is one caller's part of a batch; exactly one of its parts is set.
type request struct {
	set     *ledger.Set
	claim   *ledger.ClaimRequest
	renew   []ledger.Lease
	lease   time.Duration // of renew
	release []ledger.Lease
	exec    []statement

	taken atomic.Bool // by the committer, or by a caller that has given up
	done  chan answer // has room for the one answer
}

type answer struct {
	result ledger.Result
	work   []ledger.Work
	lost   []ledger.Lease
	err    error
}

// weight is roughly the number of rows that a request reads and writes.
func (r *request) weight() int {
	n := 1 + len(r.renew) + len(r.release)
	if r.claim != nil {
		n += r.claim.Limit
	}
	if r.set != nil {
		n += 2*len(r.set.Puts) + len(r.set.Claims) + len(r.set.Frees) + len(r.set.Counts) + len(r.set.Wakes)
	}
	return n
}

// Commit implements ledger.Committer.
func (l *Ledger) Commit(ctx context.Context, set ledger.Set) (ledger.Result, error) {
	if err := l.check(&set); err != nil {
		return ledger.Result{}, err
	}
	if set.From == "" {
		set.From = ledger.OriginOf(ctx)
	}
	if set.Trace == "" {
		set.Trace = trace.Parent(ctx)
	}
	set.Puts = slices.Clone(set.Puts) // the decision converts fields in place
	// A set that only ends or wakes work says nothing that the runs do not say.
	followed := set.Trace != "" && len(set.Puts) > 0
	began := time.Now()
	a, err := l.submit(ctx, &request{set: &set})
	if followed {
		trace.Step(ctx, "ledger commit", began, err, trace.Number("drover.changes", int64(len(a.result.Objects))), trace.Number("drover.seq", a.result.Seq))
	}
	return a.result, err
}

// submit hands a request to the committer and waits for the answer.
func (l *Ledger) submit(ctx context.Context, r *request) (answer, error) {
	if err := ctx.Err(); err != nil {
		return answer{}, fault.New(fault.Unavailable, "the request was given up: %w", err)
	}
	if l.config.ReadOnly {
		return answer{}, fault.New(fault.Denied, "the ledger was opened to be read")
	}
	ctx, cancel := l.patient(ctx)
	defer cancel()
	r.done = make(chan answer, 1)
	select {
	case l.queue <- r:
	case <-ctx.Done():
		return answer{}, fault.New(fault.Unavailable, "the ledger is busy: %w", ctx.Err()).Because("database-busy")
	case <-l.closing:
		return answer{}, fault.New(fault.Unavailable, "the ledger is closed")
	}
	select {
	case a := <-r.done:
		return a, a.err
	case <-l.finished:
		select {
		case a := <-r.done:
			return a, a.err
		default:
			return answer{}, fault.New(fault.Unavailable, "the ledger is closed")
		}
	case <-ctx.Done():
	}
	if r.taken.CompareAndSwap(false, true) {
		return answer{}, fault.New(fault.Unavailable, "the ledger is busy: %w", ctx.Err()).Because("database-busy")
	}
	select {
	case a := <-r.done:
		return a, a.err
	default:
		return answer{}, fault.New(fault.Unavailable, "the ledger did not answer in time: %w", ctx.Err()).Because(ledger.ReasonUnknown)
	}
}

// work is the committer. There is one per Ledger; Close stops it.
func (l *Ledger) work() {
	defer close(l.finished)
	var held *request // did not fit into the batch before
	for {
		var batch []*request
		room := l.config.MaxBatch
		claims := false
		take := func(r *request) bool {
			// Claims in one transaction would pick the same rows.
			if len(batch) > 0 && (r.weight() > room || r.claim != nil && claims) {
				held = r
				return false
			}
			if r.taken.CompareAndSwap(false, true) {
				batch = append(batch, r)
				room -= r.weight()
				claims = claims || r.claim != nil
			}
			return true
		}
		if held != nil {
			r := held
			held = nil
			take(r)
		} else {
			select {
			case r := <-l.queue:
				take(r)
			case <-l.closing:
				return
			}
		}
	fill:
		for {
			select {
			case r := <-l.queue:
				if !take(r) {
					break fill
				}
			default:
				break fill
			}
		}
		if len(batch) > 0 {
			l.serve(batch)
		}
		select {
		case <-l.closing:
			return
		default:
		}
	}
}

// serve answers every request of a batch.
func (l *Ledger) serve(batch []*request) {
	const tries = 5
	var err error
	for range tries {
		start := time.Now()
		var changes int
		changes, err = l.attempt(batch)
		l.config.Observer.Committed(len(batch), changes, time.Since(start), err)
		if err == nil {
			return
		}
		var c clash
		if !errors.As(err, &c) {
			break
		}
	}
	if len(batch) > 1 && !fault.Is(err, fault.Unavailable) {
		for _, r := range batch { // so that what is wrong with one fails alone
			l.serve([]*request{r})
		}
		return
	}
	var c clash
	if errors.As(err, &c) {
		err = fault.New(fault.Unavailable, "other replicas keep changing the same objects: %w", c.error)
	}
	for _, r := range batch {
		r.done <- answer{err: err}
	}
}
