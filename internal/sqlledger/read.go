package sqlledger

import (
	"context"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// Get implements ledger.Reader.
func (l *Ledger) Get(ctx context.Context, ref ledger.Ref) (ledger.Object, error) {
	s, err := l.store(ref.Kind)
	if err != nil {
		return ledger.Object{}, err
	}
	if _, err := constant(ledger.Text, "id", ref.ID); err != nil {
		return ledger.Object{}, fault.New(fault.NotFound, "%.100q does not exist", ref)
	}
	if scan, known := l.engine.row(s.table, []any{ref.ID}); known && scan != nil && ctx.Err() == nil {
		r, ok := s.readings.Get().(*reading)
		if !ok {
			r = s.reading(false)
		}
		defer s.readings.Put(r)
		return r.next(scan)
	}
	if !l.dialect.alone && ctx.Err() == nil {
		return l.gathered(ctx, s, ref.ID)
	}
	ctx, cancel := l.patient(ctx)
	defer cancel()
	var o ledger.Object
	found := false
	r := s.reading(false)
	err = l.engine.read(ctx, s.get, []any{ref.ID}, func(scan scanner) error {
		o, err = r.next(scan)
		found = true
		return err
	})
	if err == nil && !found {
		err = fault.New(fault.NotFound, "%s does not exist", ref)
	}
	return o, err
}

// List implements ledger.Reader.
func (l *Ledger) List(ctx context.Context, q ledger.Query) ([]ledger.Object, error) {
	ctx, cancel := l.patient(ctx)
	defer cancel()
	t, err := l.translate(q)
	if err != nil {
		return nil, err
	}
	sql, err := t.page(q)
	if err != nil {
		return nil, err
	}
	var out []ledger.Object
	r := t.s.reading(q.Brief)
	err = l.engine.read(ctx, sql, t.args, func(scan scanner) error {
		o, err := r.next(scan)
		out = append(out, o)
		return err
	})
	return out, err
}

// totalTime bounds the counting of what a filter matches.
const totalTime = 3 * time.Second

// Total implements ledger.Reader. What must be counted shares a few places, so
// that counting never takes the connections that everyone else reads with.
func (l *Ledger) Total(ctx context.Context, q ledger.Query) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, totalTime)
	defer cancel()
	t, err := l.translate(q)
	if err != nil {
		return 0, err
	}
	var n int64
	count := func(scan scanner) error { return scan(&n) }
	if key, ok := t.s.total(q); ok {
		err := l.engine.read(ctx, "SELECT value FROM totals WHERE name = $1", []any{key}, count)
		return n, err
	}
	select {
	case l.totals <- struct{}{}:
		defer func() { <-l.totals }()
	case <-ctx.Done():
		return 0, fault.New(fault.Unavailable, "too many totals are being counted: %w", ctx.Err()).Because("database-busy")
	}
	q.AfterID = ""
	where, err := t.condition(q)
	if err != nil {
		return 0, err
	}
	err = l.engine.read(ctx, "SELECT count(*) FROM "+t.s.table.name+" WHERE "+where, t.args, count)
	return n, err
}

// total names the counter that holds the query's total, if there is one.
func (s *store) total(q ledger.Query) (string, bool) {
	if and, ok := q.Where.(ledger.And); q.Deleted || q.Where != nil && !(ok && len(and) == 0) {
		return "", false
	}
	for _, scope := range s.kind.Totals {
		same := len(scope) == len(q.Scope)
		for _, c := range scope {
			_, ok := q.Scope[c]
			same = same && ok
		}
		if same {
			return ledger.TotalKey(s.kind.Name, scope, func(c string) any { return q.Scope[c] }), true
		}
	}
	return "", false
}

// Lookup implements ledger.Reader.
func (l *Ledger) Lookup(ctx context.Context, name ledger.Name) (ledger.Ref, error) {
	ctx, cancel := l.patient(ctx)
	defer cancel()
	var ref ledger.Ref
	for _, text := range []string{name.Space, name.Name} {
		if _, err := constant(ledger.Text, "name", text); err != nil {
			return ref, fault.New(fault.NotFound, "%.100q is free", name.Name)
		}
	}
	err := l.engine.read(ctx, "SELECT kind, id FROM names WHERE space = $1 AND name = $2", []any{name.Space, name.Name}, func(scan scanner) error {
		return scan(&ref.Kind, &ref.ID)
	})
	if err == nil && ref.ID == "" {
		err = fault.New(fault.NotFound, "%q is free", name.Name)
	}
	return ref, err
}

// Counter implements ledger.Reader.
func (l *Ledger) Counter(ctx context.Context, name string) (int64, error) {
	ctx, cancel := l.patient(ctx)
	defer cancel()
	var n int64
	if _, err := constant(ledger.Text, "name", name); err != nil {
		return 0, nil // such a counter was never moved
	}
	err := l.engine.read(ctx, "SELECT value FROM counters WHERE name = $1", []any{name}, func(scan scanner) error { return scan(&n) })
	return n, err
}
