package reconcile

import (
	"context"
	"time"

	"github.com/droverhq/drover/internal/ledger"
)

const (
	// Between a claim that found nothing and the next one, however many hints
	// come: every commit of every replica is a hint.
	emptyPause = 2 * time.Millisecond
	// Between claims that find nothing while the store says that work is due:
	// another replica is just taking it.
	contendedPause = 10 * time.Millisecond
	// Workers free up in bursts, because their finishes share commits. While more
	// is due than workers are there, a moment's patience claims for all of them.
	gatherPause    = time.Millisecond
	failedPause    = 50 * time.Millisecond
	maxFailedPause = 2 * time.Second
)

// claim takes due work whenever a worker is free for it. It claims no more than
// can start at once: what waits in a replica's memory would be out of turn, and
// its lease would run down for nothing.
func (l *Loop) claim(ctx context.Context) {
	hints := l.cfg.Ledger.Hints(ctx)
	timer := time.NewTimer(0)
	defer timer.Stop()
	var quiet time.Time // no hint makes the loop ask before this
	var failures int
	var more bool // the last claim left due work behind
	for ctx.Err() == nil {
		free, ask := l.free()
		var due <-chan time.Time // stays nil while no worker is free
		if free > 0 {
			wait := time.Until(ask)
			if wait <= 0 {
				if more {
					if free = l.gather(ctx, free); ctx.Err() != nil {
						return
					}
				}
				quiet, more = l.claimOnce(ctx, free, &failures)
				continue
			}
			timer.Reset(wait)
			due = timer.C
		}
		select {
		case <-ctx.Done():
		case <-due:
		case <-l.freed:
		case _, open := <-hints:
			if !open {
				hints = nil // the poll goes on
				continue
			}
			now := time.Now()
			if quiet.After(now) {
				now = quiet
			}
			l.sooner(now)
		}
	}
}

// gather waits a moment until half of the workers are free, and counts them.
func (l *Loop) gather(ctx context.Context, free int) int {
	enough := time.NewTimer(gatherPause)
	defer enough.Stop()
	for free < l.cfg.Workers/2 {
		select {
		case <-ctx.Done():
			return free
		case <-enough.C:
			return free
		case <-l.freed:
			free, _ = l.free()
		}
	}
	return free
}

// claimOnce claims, starts what it got, and settles when to claim next. It
// returns the time before which hints are not worth another claim, and whether
// more is due.
func (l *Loop) claimOnce(ctx context.Context, free int, failures *int) (quiet time.Time, more bool) {
	// What a claim has leased must not be lost with its answer when the loop is
	// told to stop, so the claim itself outlives ctx; the lease bounds it.
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.span)
	defer cancel()
	sent := time.Now()
	// Set before the claim, so that a run that ends meanwhile can only make it sooner.
	l.later(sent.Add(l.jitter(l.cfg.Poll*3/4, l.cfg.Poll*5/4)))
	claimed, err := l.cfg.Ledger.Claim(asking, ledger.ClaimRequest{
		Holder: l.cfg.Holder, Kinds: l.kinds, Limit: free, Lease: l.cfg.Lease,
	})
	now := time.Now()
	if err != nil {
		if *failures++; *failures == 1 {
			l.log.Error("cannot claim work; trying again", "err", err)
		}
		d := backoff(failedPause, maxFailedPause, *failures)
		l.later(now.Add(l.jitter(d/2, d)))
		return now.Add(failedPause / 2), false
	}
	if *failures > 0 {
		l.log.Info("claims work again", "failures", *failures)
		*failures = 0
	}
	switch {
	case claimed.Next > 0:
		l.sooner(now.Add(claimed.Next))
	case claimed.Next == 0 && len(claimed.Work) == 0:
		l.sooner(now.Add(l.jitter(contendedPause/2, contendedPause)))
	case claimed.Next == 0:
		l.sooner(now)
	}
	l.start(ctx, sent, claimed.Work)
	if len(claimed.Work) == 0 {
		return now.Add(emptyPause), false
	}
	return time.Time{}, claimed.Next == 0
}

// start gives every piece its worker, or hands all back if it is too late.
func (l *Loop) start(ctx context.Context, sent time.Time, work []ledger.Work) {
	if len(work) == 0 {
		return
	}
	if ctx.Err() != nil || time.Since(sent) >= l.span {
		leases := make([]ledger.Lease, len(work))
		for i, w := range work {
			leases[i] = w.Lease
		}
		l.release(ctx, leases)
		return
	}
	for _, w := range work {
		r := newRun(ctx, w, sent, l.span)
		l.mu.Lock()
		l.runs[r] = struct{}{}
		l.mu.Unlock()
		l.ended.Go(func() { l.work(r) })
	}
	signal(l.began)
}

// release hands work back. If that fails its lease runs out, which only takes longer.
func (l *Loop) release(ctx context.Context, leases []ledger.Lease) {
	releasing, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.cfg.Lease/2)
	defer cancel()
	if err := l.cfg.Ledger.Release(releasing, leases); err != nil {
		l.log.Warn("cannot hand work back; its lease will run out", "pieces", len(leases), "err", err)
	}
}

// free counts the free workers and tells when to claim next.
func (l *Loop) free() (int, time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cfg.Workers - len(l.runs), l.ask
}

func (l *Loop) later(t time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ask = t
}

// sooner moves the next claim forward; it never puts it off.
func (l *Loop) sooner(t time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.Before(l.ask) {
		l.ask = t
	}
}

// maxHanded is how many runs a worker goes on with by itself: after that it takes
// what has its turn, which may be somebody else's.
const maxHanded = 8

// takes is what a run may take that wakes others: one of them, for its worker.
func (l *Loop) takes(r *run, set ledger.Set) *ledger.ClaimRequest {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(set.Wakes) == 0 || r.handed >= maxHanded || l.closing {
		return nil
	}
	return &ledger.ClaimRequest{Holder: l.cfg.Holder, Kinds: l.kinds, Limit: 1, Lease: l.cfg.Lease}
}

// handOver takes a run that has ended off the books, and returns what its worker
// goes on with. During shutdown that is handed back.
func (l *Loop) handOver(r *run) *run {
	next := r.taken
	r.close()
	l.mu.Lock()
	delete(l.runs, r)
	refused := next != nil && (l.closing || !next.held())
	if next != nil && !refused {
		next.handed = r.handed + 1
		l.runs[next] = struct{}{}
	}
	l.mu.Unlock()
	if next != nil && !refused {
		return next
	}
	if refused {
		l.release(next.lease, []ledger.Lease{next.work.Lease})
		next.close()
	}
	signal(l.freed)
	return nil
}
