package sqlledger

import (
	"context"
	"slices"
	"strings"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// Totals implements ledger.Tally. The totals of a scope lie together in the
// primary key, because their names begin alike.
func (l *Ledger) Totals(ctx context.Context, kind string, scope []string) ([]ledger.Total, error) {
	ctx, cancel := l.patient(ctx)
	defer cancel()
	s, err := l.store(kind)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(s.kind.Totals, func(columns []string) bool { return slices.Equal(columns, scope) }) {
		return nil, fault.New(fault.Invalid, "kind %s keeps no totals of %s", kind, strings.Join(scope, ", "))
	}
	from := ledger.TotalKey(kind, nil, nil)
	until := from + "\x01"
	if len(scope) > 0 {
		from += "/" + scope[0] + "="
		until = following(from)
	}
	var out []ledger.Total
	err = l.engine.read(ctx, "SELECT name, value FROM totals WHERE name >= $1 AND name < $2 AND value <> 0 ORDER BY name",
		[]any{from, until}, func(scan scanner) error {
			var name string
			var t ledger.Total
			if err := scan(&name, &t.N); err != nil {
				return err
			}
			var ours bool
			if t.Values, ours = ledger.TotalValues(name, kind, scope); ours {
				out = append(out, t)
			}
			return nil
		})
	slices.SortFunc(out, func(a, b ledger.Total) int { return slices.Compare(a.Values, b.Values) })
	return out, err
}

// Counters implements ledger.Tally.
func (l *Ledger) Counters(ctx context.Context, prefix string) (map[string]int64, error) {
	ctx, cancel := l.patient(ctx)
	defer cancel()
	if _, err := constant(ledger.Text, "name", prefix); err != nil {
		return nil, nil // no counter was ever named so
	}
	sql, args := "SELECT name, value FROM counters WHERE name >= $1 AND value <> 0", []any{prefix}
	if until := following(prefix); until != "" {
		sql, args = sql+" AND name < $2", append(args, until)
	}
	out := map[string]int64{}
	err := l.engine.read(ctx, sql, args, func(scan scanner) error {
		var name string
		var n int64
		err := scan(&name, &n)
		out[name] = n
		return err
	})
	return out, err
}

// CountersOf implements ledger.Tally.
func (l *Ledger) CountersOf(ctx context.Context, names []string) (map[string]int64, error) {
	ctx, cancel := l.patient(ctx)
	defer cancel()
	out := make(map[string]int64, len(names))
	list := make([]any, 0, len(names))
	for _, name := range names {
		if v, err := constant(ledger.Text, "name", name); err == nil { // no other was ever named so
			list = append(list, v)
		}
	}
	if len(list) == 0 {
		return out, nil
	}
	var b binder
	sql := "SELECT name, value FROM counters WHERE " + l.dialect.among("name", list, true, &b) + " AND value <> 0"
	err := l.engine.read(ctx, sql, b.args, func(scan scanner) error {
		var name string
		var n int64
		err := scan(&name, &n)
		out[name] = n
		return err
	})
	return out, err
}

// following is the first text behind all that begin with a prefix; "" if there
// is none. Texts compare byte by byte, and whole characters keep them valid.
func following(prefix string) string {
	runes := []rune(prefix)
	for i := len(runes) - 1; i >= 0; i-- {
		next := runes[i] + 1
		if next == 0xD800 {
			next = 0xE000 // halves of characters are none
		}
		if next <= 0x10FFFF {
			return string(append(runes[:i:i], next))
		}
	}
	return ""
}
