package sqlledger

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/ledger"
)

// batch is one transaction in the making.
type batch struct {
	l        *Ledger
	requests []*request
	sets     []ledger.Set
	state    ledger.State
	holders  map[ledger.Ref]string
	work     map[ledger.Ref]ledger.WorkRow // rows to write besides the decision's
	head     headRow
	tokens   int64 // taken from head.fence
	answers  []answer
	named    []any // blobs that are there and newly named
}

// headRow is what the log's head says. On PostgreSQL others may move it until
// it is locked, by the append to the log.
type headRow struct{ seq, at, fence int64 }

// attempt writes a batch and answers its requests; they have no answer if it
// returns an error.
func (l *Ledger) attempt(requests []*request) (changes int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), l.config.Timeout)
	defer cancel()
	b := &batch{
		l: l, requests: requests, answers: make([]answer, len(requests)),
		state: ledger.State{
			Objects: map[ledger.Ref]ledger.Object{}, Names: map[ledger.Name]ledger.Ref{},
			Counters: map[string]int64{}, Work: map[ledger.Ref]ledger.WorkRow{},
		},
		holders: map[ledger.Ref]string{}, work: map[ledger.Ref]ledger.WorkRow{},
	}
	for _, r := range requests {
		if r.set != nil {
			b.sets = append(b.sets, *r.set)
		}
	}
	defer l.engine.abandon()
	known := l.head
	l.head = nil // until it is certain again
	if err := b.load(ctx, known); err != nil {
		return 0, err
	}
	stored := map[ledger.Ref][]any{}
	for ref, w := range b.state.Work {
		stored[ref] = b.workRow(w)
	}
	if err := b.naming(ctx); err != nil {
		return 0, err
	}
	b.lease()
	b.fresh()
	d := ledger.Decide(l.kinds, &l.lanes, b.state, b.sets)
	for i, o := range d.Outcomes {
		for _, w := range o.Taken {
			b.holders[w.Ref] = b.sets[i].Take.Holder
		}
	}
	base := logBase{seq: b.head.seq, at: max(b.head.at, micros(b.state.Now))}
	statements, err := b.statements(&d, stored, &base)
	if err != nil {
		return 0, err
	}
	// Claims and renewals leave nothing that others wait for.
	hint := slices.ContainsFunc(requests, func(r *request) bool { return r.set != nil || r.release != nil }) && len(statements) > 0
	if len(statements) > 0 {
		if err := l.engine.save(ctx, statements, hint); err != nil {
			return 0, err
		}
	} else {
		// Before the answer: whoever gets it may have another replica claim at
		// once, and that passes over rows which are still locked here.
		l.engine.abandon()
	}
	b.remember(len(d.Changes), &base)
	b.answer(&d, base.seq)
	if hint {
		l.hints.signal()
	}
	return len(d.Changes), nil
}

// remember keeps the head that was committed, where no one else moves it.
func (b *batch) remember(changes int, base *logBase) {
	if b.l.dialect.alone {
		if changes > 0 {
			b.head.seq, b.head.at = base.seq+int64(changes), base.at
		}
		b.head.fence += b.tokens
		b.l.head = &b.head
	}
}

// load reads, and locks where others may write, all that the decision needs.
// The order of the locks is the same in every replica: objects, names,
// counters, work, each sorted; claims do not wait.
func (b *batch) load(ctx context.Context, head *headRow) error {
	need := ledger.Needs(b.sets)
	for _, r := range b.requests {
		for _, lease := range concat(r.renew, r.release) {
			if _, err := constant(ledger.Text, "id", lease.ID); err == nil && b.l.stores[lease.Kind] != nil {
				need.Work = append(need.Work, lease.Ref) // anything else cannot be there
			}
		}
	}
	slices.SortFunc(need.Work, compareRef)
	need.Work = slices.Compact(need.Work)

	var clock int64
	var queries []query
	if head != nil {
		b.head = *head
	}
	now := b.l.dialect.clock
	if now == "" {
		now = "0"
	}
	queries = append(queries, query{known: head != nil, sql: "SELECT seq, at, fence, " + now + " FROM head", each: func(scan scanner) error {
		return scan(&b.head.seq, &b.head.at, &b.head.fence, &clock)
	}})
	for i := 0; i < len(need.Objects); {
		kind := need.Objects[i].Kind
		var keys [][]any
		for ; i < len(need.Objects) && need.Objects[i].Kind == kind; i++ {
			keys = append(keys, []any{need.Objects[i].ID})
		}
		s := b.l.stores[kind]
		if s == nil {
			continue
		}
		r := s.reading(false)
		queries = append(queries, query{table: s.table, keys: keys, each: func(scan scanner) error {
			o, err := r.next(scan)
			b.state.Objects[o.Ref] = o
			return err
		}})
	}
	if len(need.Names) > 0 {
		q := query{table: nameTable, each: func(scan scanner) error {
			var n ledger.Name
			var holder ledger.Ref
			err := scan(&n.Space, &n.Name, &holder.Kind, &holder.ID)
			b.state.Names[n] = holder
			return err
		}}
		for _, n := range need.Names {
			q.keys = append(q.keys, []any{n.Space, n.Name})
		}
		queries = append(queries, q)
	}
	if len(need.Counters) > 0 {
		q := query{table: counterTable, each: func(scan scanner) error {
			var name string
			var v int64
			err := scan(&name, &v)
			b.state.Counters[name] = v
			return err
		}}
		for _, n := range need.Counters {
			q.keys = append(q.keys, []any{n})
		}
		queries = append(queries, q)
	}
	if len(need.Work) > 0 {
		q := query{table: workTable, each: b.loadWork}
		for _, r := range need.Work {
			q.keys = append(q.keys, []any{r.Kind, r.ID})
		}
		queries = append(queries, q)
	}
	for i, r := range b.requests {
		if r.claim != nil {
			queries = append(queries, b.claims(i, r.claim)...)
		}
	}
	if n := ledger.Takes(b.sets); n > 0 && !b.l.dialect.alone {
		queries = append(queries, query{sql: "SELECT " + b.l.dialect.fence + " FROM generate_series(1, $1)", args: []any{int64(n)}, each: func(scan scanner) error {
			var token int64
			err := scan(&token)
			b.state.Tokens = append(b.state.Tokens, token)
			return err
		}})
	}
	if err := b.l.engine.load(ctx, queries); err != nil {
		return err
	}
	if clock == 0 {
		clock = micros(b.l.config.Now())
	}
	b.state.Now, b.state.Logged = instant(clock), instant(b.head.at)
	return nil
}

// statements lists the writes in the order in which locks must be taken; the
// log's head is the last.
func (b *batch) statements(d *ledger.Decision, stored map[ledger.Ref][]any, base *logBase) ([]statement, error) {
	out, err := b.objects(d)
	if err != nil {
		return nil, err
	}
	out = append(out, b.found(d)...)
	write := func(o op, t *table, rows [][]any) {
		if len(rows) > 0 {
			out = append(out, statement{op: o, table: t, rows: rows})
		}
	}
	var fresh, moved, gone [][]any
	for _, n := range slices.SortedFunc(maps.Keys(d.Claims), compareName) {
		row := []any{n.Space, n.Name, d.Claims[n].Kind, d.Claims[n].ID}
		if _, ok := b.state.Names[n]; ok {
			moved = append(moved, row)
		} else {
			fresh = append(fresh, row)
		}
	}
	for _, n := range slices.SortedFunc(maps.Keys(d.Frees), compareName) {
		gone = append(gone, []any{n.Space, n.Name})
	}
	var passing [][]any
	for _, n := range slices.SortedFunc(maps.Keys(d.Passing), compareName) {
		fresh = append(fresh, []any{n.Space, n.Name, d.Passing[n].Kind, d.Passing[n].ID})
		passing = append(passing, []any{n.Space, n.Name})
	}
	slices.SortFunc(fresh, compareKey)
	write(remove, nameTable, gone)
	write(update, nameTable, moved)
	write(insert, nameTable, fresh)
	write(remove, nameTable, passing)

	fresh, moved, gone = nil, nil, nil
	for _, n := range slices.Sorted(maps.Keys(d.Counters)) {
		row := []any{n, d.Counters[n]}
		if old, ok := b.state.Counters[n]; !ok {
			fresh = append(fresh, row)
		} else if old != d.Counters[n] {
			moved = append(moved, row)
		}
	}
	write(update, counterTable, moved)
	write(insert, counterTable, fresh)

	fresh = nil
	for ref, w := range d.Work {
		b.work[ref] = w
	}
	for ref := range d.Done {
		delete(b.work, ref)
		if _, ok := stored[ref]; ok {
			gone = append(gone, []any{ref.Kind, ref.ID})
		}
	}
	slices.SortFunc(gone, compareKey)
	touched := statement{op: update, table: workTable}
	for _, ref := range slices.SortedFunc(maps.Keys(b.work), compareRef) {
		row := b.workRow(b.work[ref])
		if old, ok := stored[ref]; !ok {
			fresh = append(fresh, row)
		} else if changed := difference(row, old); changed != 0 {
			touched.rows, touched.changed = append(touched.rows, row), append(touched.changed, changed)
		}
	}
	write(remove, workTable, gone)
	if len(touched.rows) > 0 {
		out = append(out, touched)
	}
	write(insert, workTable, fresh)

	out = append(out, b.touches()...)
	for _, r := range b.requests {
		out = append(out, r.exec...)
	}
	if b.tokens > 0 {
		out = append(out, statement{op: raw, sql: "UPDATE head SET fence = $1", args: []any{b.head.fence + b.tokens}})
	}
	var totals [][]any
	for _, name := range slices.Sorted(maps.Keys(d.Totals)) {
		totals = append(totals, []any{name, d.Totals[name]})
	}
	write(add, totalTable, totals)
	if len(d.Changes) > 0 {
		rows := make([][]any, len(d.Changes))
		for i := range d.Changes {
			c := &d.Changes[i]
			rows[i] = []any{c.Actor, ledger.TracedCause(c.Cause, c.Trace), c.Op, c.Object.Kind, c.Object.ID, c.Object.Org, c.Object.Version, encodeState(&c.Object), c.From}
		}
		out = append(out, statement{op: appendLog, table: logTable, rows: rows, base: base})
	}
	return out, nil
}

// objects lists the writes to object tables and to their text indexes.
func (b *batch) objects(d *ledger.Decision) ([]statement, error) {
	var out []statement
	var fresh, moved, texts statement
	var s *store
	flush := func() {
		for _, st := range []statement{moved, fresh, texts} {
			if len(st.rows) > 0 {
				out = append(out, st)
			}
		}
	}
	for _, ref := range slices.SortedFunc(maps.Keys(d.Objects), compareRef) {
		if s == nil || s.kind.Name != ref.Kind {
			flush()
			s = b.l.stores[ref.Kind]
			fresh, moved = statement{op: insert, table: s.table}, statement{op: update, table: s.table}
			texts = statement{op: upsert, table: s.texts}
		}
		w := d.Objects[ref]
		row, err := s.row(&w.Object)
		if err != nil {
			return nil, err
		}
		if w.Before == nil {
			fresh.rows = append(fresh.rows, row)
			if s.texts != nil {
				texts.rows = append(texts.rows, s.textRow(row))
			}
			continue
		}
		old, err := s.row(w.Before)
		if err != nil {
			return nil, err
		}
		moved.rows, moved.changed = append(moved.rows, row), append(moved.changed, difference(row, old))
		if s.texts != nil {
			if text := s.textRow(row); !slices.Equal(text, s.textRow(old)) {
				texts.rows = append(texts.rows, text)
			}
		}
	}
	flush()
	return out, nil
}

// difference has a bit for every column in which rows differ.
func difference(a, b []any) uint64 {
	var changed uint64
	for i := range a {
		if a[i] != b[i] {
			changed |= 1 << i
		}
	}
	return changed
}

// answer tells every caller what became of its request.
func (b *batch) answer(d *ledger.Decision, base int64) {
	set := 0
	for i, r := range b.requests {
		a := b.answers[i]
		if r.set != nil {
			outcome := d.Outcomes[set]
			set++
			a.result, a.err = outcome.Result, outcome.Err
			if a.result.Seq > 0 {
				a.result.Seq += base
			}
		}
		r.done <- a
	}
}

func compareRef(a, b ledger.Ref) int {
	if c := strings.Compare(a.Kind, b.Kind); c != 0 {
		return c
	}
	return strings.Compare(a.ID, b.ID)
}

func compareName(a, b ledger.Name) int {
	if c := strings.Compare(a.Space, b.Space); c != 0 {
		return c
	}
	return strings.Compare(a.Name, b.Name)
}

func compareKey(a, b []any) int {
	return compareRef(ledger.Ref{Kind: a[0].(string), ID: a[1].(string)}, ledger.Ref{Kind: b[0].(string), ID: b[1].(string)})
}

// after is a point in time by the batch's clock.
func (b *batch) after(d time.Duration) time.Time {
	return b.state.Now.Add(d).Truncate(time.Microsecond)
}
