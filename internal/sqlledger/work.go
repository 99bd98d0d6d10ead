package sqlledger

import (
	"context"
	"fmt"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// Claim implements ledger.Queue. It looks first and writes only if there is
// something to claim, so that an idle fleet writes nothing.
//
// A claim shares its transaction with the sets that wait at the same time: the
// disk flush costs more than the rows, and a claim of its own would be a second
// one for every round of the loop.
func (l *Ledger) Claim(ctx context.Context, want ledger.ClaimRequest) (ledger.Claimed, error) {
	if want.Lease <= 0 {
		return ledger.Claimed{}, fault.New(fault.Invalid, "a lease must last")
	}
	want.Limit = max(want.Limit, 1)
	next, err := l.next(ctx, want.Kinds)
	if err != nil || next != 0 {
		return ledger.Claimed{Next: next}, err
	}
	a, err := l.submit(ctx, &request{claim: &want})
	if err != nil {
		return ledger.Claimed{}, err
	}
	claimed := ledger.Claimed{Work: a.work}
	if len(a.work) == want.Limit {
		return claimed, nil // most likely there is more
	}
	if claimed.Next, err = l.next(ctx, want.Kinds); err != nil {
		claimed.Next, err = time.Second, nil // what was claimed must be handed out
	}
	if len(a.work) == 0 && claimed.Next == 0 {
		claimed.Next = 5 * time.Millisecond // another replica is about to take it
	}
	return claimed, err
}

// next tells how long it is until work of the kinds is due or a lease on it
// runs out: 0 = now, negative = nothing is known.
func (l *Ledger) next(ctx context.Context, kinds []string) (time.Duration, error) {
	if len(kinds) == 0 {
		return -1, nil
	}
	var b binder
	now := l.dialect.now(&b, l.config.Now)
	sql := ""
	for _, kind := range kinds {
		k := b.bind(kind)
		for _, part := range []string{
			"(SELECT due AS at FROM work WHERE token = 0 AND kind = " + k + " ORDER BY due LIMIT 1)",
			"(SELECT until AS at FROM work WHERE token <> 0 AND kind = " + k + " ORDER BY until LIMIT 1)",
		} {
			if sql != "" {
				sql += " UNION ALL "
			}
			sql += "SELECT at FROM " + part + " AS x"
		}
	}
	wait := time.Duration(-1)
	ctx, cancel := l.patient(ctx)
	defer cancel()
	err := l.engine.read(ctx, "SELECT min(at) - "+now+" FROM ("+sql+") AS y HAVING count(*) > 0", b.args, func(scan scanner) error {
		var us int64
		err := scan(&us)
		wait = max(0, time.Duration(us)*time.Microsecond)
		return err
	})
	return wait, err
}

// claims are the queries that pick work: what was leased by someone who has
// vanished, then what is due, in the order of turns.
func (b *batch) claims(i int, request *ledger.ClaimRequest) []query {
	d := b.l.dialect
	kinds := make([]any, len(request.Kinds))
	for i, k := range request.Kinds {
		kinds[i] = k
	}
	pick := func(index string, condition func(now string) string, order string) query {
		var bind binder
		now := d.now(&bind, b.l.config.Now)
		sql := fmt.Sprintf("SELECT s.*, %s FROM (SELECT %s FROM work%s WHERE %s AND %s ORDER BY %s LIMIT %s %s) AS s", d.fence,
			names(workTable.columns, ""), d.through(index), condition(now), d.among("kind", kinds, true, &bind), order, bind.bind(int64(request.Limit)), d.skipLocked)
		return query{sql: sql, args: bind.args, each: func(scan scanner) error { return b.claimed(i, request.Limit, scan) }}
	}
	return []query{
		pick("work_until", func(now string) string { return "token <> 0 AND until <= " + now }, "until"),
		// In the order of turns, or all that is due would be sorted for a few.
		pick("work_turn", func(now string) string {
			return fmt.Sprintf("token = 0 AND turn <= %s + %d AND due <= %s", now, ledger.LaneHorizon.Microseconds(), now)
		}, "turn"),
	}
}

// claimed notes a picked row; lease will lease it.
func (b *batch) claimed(i, limit int, scan scanner) error {
	var token int64
	row, holder, err := scanWork(scan, &token)
	if err != nil || len(b.answers[i].work) >= limit {
		return err
	}
	if token == 0 {
		b.tokens++
		token = b.head.fence + b.tokens
	}
	b.state.Work[row.Ref] = row
	b.holders[row.Ref] = holder
	b.answers[i].work = append(b.answers[i].work, ledger.Work{
		Lease: ledger.Lease{Ref: row.Ref, Token: token}, Org: row.Org, Dirty: row.Dirty,
		Attempts: row.Attempts, Cause: row.Cause, Trace: row.Trace, Due: row.Due,
	})
	return nil
}

// lease applies renewals, releases and claims to the loaded state, in front of
// the sets.
func (b *batch) lease() {
	for i, r := range b.requests {
		for _, lease := range r.renew {
			row, ok := b.state.Work[lease.Ref]
			if !ok || row.Token != lease.Token || row.Token == 0 {
				b.answers[i].lost = append(b.answers[i].lost, lease)
				continue
			}
			row.Until = b.after(r.lease)
			b.keep(row, b.holders[lease.Ref])
		}
		for _, lease := range r.release {
			row, ok := b.state.Work[lease.Ref]
			if !ok || row.Token != lease.Token || row.Token == 0 {
				continue
			}
			row.Token, row.Until = 0, time.Time{}
			row.Due, row.Turn = b.state.Now, b.state.Now
			b.keep(row, "")
		}
	}
	for i, r := range b.requests {
		leased := b.answers[i].work[:0]
		for _, w := range b.answers[i].work {
			row := b.state.Work[w.Ref]
			if _, touched := b.work[w.Ref]; touched {
				continue // renewed or released in this very batch: next time
			}
			if row.Token == 0 { // those that somebody was at have had their turn
				b.l.lanes.Claimed(b.state.Now, row.Turn)
			}
			row.Token, row.Until = w.Token, b.after(r.claim.Lease)
			b.keep(row, r.claim.Holder)
			leased = append(leased, w)
		}
		b.answers[i].work = leased
		if r.claim != nil && len(leased) < r.claim.Limit {
			b.l.lanes.Claimed(b.state.Now, b.state.Now) // nothing waits
		}
	}
}

// fresh are the tokens for what sets take, where they are counted by the head.
func (b *batch) fresh() {
	if !b.l.dialect.alone {
		return
	}
	for range ledger.Takes(b.sets) {
		b.tokens++
		b.state.Tokens = append(b.state.Tokens, b.head.fence+b.tokens)
	}
}

func (b *batch) keep(row ledger.WorkRow, holder string) {
	b.state.Work[row.Ref], b.work[row.Ref], b.holders[row.Ref] = row, row, holder
}

func (b *batch) loadWork(scan scanner) error {
	row, holder, err := scanWork(scan)
	b.state.Work[row.Ref], b.holders[row.Ref] = row, holder
	return err
}

func scanWork(scan scanner, more ...any) (row ledger.WorkRow, holder string, err error) {
	var due, turn, until, attempts int64
	var cause string
	err = scan(append([]any{&row.Kind, &row.ID, &row.Org, &row.Dirty, &attempts, &due, &turn, &row.Token, &until, &holder, &cause, &row.Note}, more...)...)
	row.Attempts = int(attempts)
	row.Cause, row.Trace = ledger.SplitCause(cause)
	row.Due, row.Turn = instant(due), instant(turn)
	if until != 0 {
		row.Until = instant(until)
	}
	return row, holder, err
}

func (b *batch) workRow(w ledger.WorkRow) []any {
	holder := b.holders[w.Ref]
	if w.Token == 0 {
		holder = ""
	}
	return []any{w.Kind, w.ID, w.Org, w.Dirty, int64(w.Attempts), micros(w.Due), micros(w.Turn), w.Token, deletion(w.Until), holder, ledger.TracedCause(w.Cause, w.Trace), w.Note}
}

// Renew implements ledger.Queue.
func (l *Ledger) Renew(ctx context.Context, leases []ledger.Lease, d time.Duration) ([]ledger.Lease, error) {
	if len(leases) == 0 {
		return nil, nil
	}
	if d <= 0 {
		return nil, fault.New(fault.Invalid, "a lease must last")
	}
	a, err := l.submit(ctx, &request{renew: leases, lease: d})
	return a.lost, err
}

// Release implements ledger.Queue.
func (l *Ledger) Release(ctx context.Context, leases []ledger.Lease) error {
	if len(leases) == 0 {
		return nil
	}
	_, err := l.submit(ctx, &request{release: leases})
	return err
}

// Backlog implements ledger.Queue.
func (l *Ledger) Backlog(ctx context.Context) ([]ledger.Backlog, error) {
	ctx, cancel := l.patient(ctx)
	defer cancel()
	var b binder
	now := l.dialect.now(&b, l.config.Now)
	var out []ledger.Backlog
	// What is leased beyond the lease's end is due again.
	err := l.engine.read(ctx, backlog(now), b.args, func(scan scanner) error {
		var x ledger.Backlog
		var oldest int64
		err := scan(&x.Kind, &x.Due, &x.Running, &x.Waiting, &oldest)
		x.Oldest = time.Duration(oldest) * time.Microsecond
		out = append(out, x)
		return err
	})
	return out, err
}
