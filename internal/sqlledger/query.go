package sqlledger

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// maxPattern bounds LIKE patterns: no column is longer than ledger.MaxText, and
// SQLite gives up at 50,000.
const maxPattern = 4 * ledger.MaxText

// translation turns a checked query into SQL. Values only ever become parameters.
type translation struct {
	binder
	s *store
	d *dialect
	// narrow: an index leaves few enough objects to look at each.
	narrow bool
}

func (l *Ledger) translate(q ledger.Query) (*translation, error) {
	s, err := l.store(q.Kind)
	if err != nil {
		return nil, err
	}
	if err := q.Check(s.kind); err != nil {
		return nil, err
	}
	t := &translation{s: s, d: l.dialect}
	for _, c := range append(s.lookups(), s.scope[0], "id") {
		if _, ok := q.Scope[c]; ok {
			t.narrow = true
		}
	}
	return t, nil
}

// condition is everything behind WHERE.
func (t *translation) condition(q ledger.Query) (string, error) {
	var parts []string
	if !q.Deleted {
		parts = append(parts, "deleted = 0")
	}
	for _, name := range slices.Sorted(maps.Keys(q.Scope)) {
		typ, _ := t.s.kind.Column(name)
		v, err := constant(typ, name, q.Scope[name])
		if err != nil {
			return "", err
		}
		parts = append(parts, t.s.column(name)+" = "+t.bind(v))
	}
	if q.AfterID != "" {
		v, err := constant(ledger.Text, "id", q.AfterID)
		if err != nil {
			return "", err
		}
		parts = append(parts, "id > "+t.bind(v))
	}
	if q.Where != nil {
		where, err := t.expr(q.Where)
		if err != nil {
			return "", err
		}
		parts = append(parts, where)
	}
	if len(parts) == 0 {
		return "1 = 1", nil
	}
	return strings.Join(parts, " AND "), nil
}

func (t *translation) expr(e ledger.Expr) (string, error) {
	switch e := e.(type) {
	case ledger.And:
		return t.joined(e, " AND ", "1 = 1")
	case ledger.Or:
		return t.joined(e, " OR ", "1 = 0")
	case ledger.Compare:
		return t.compare(e)
	}
	return "", fault.New(fault.Invalid, "unknown condition")
}

func (t *translation) joined(es []ledger.Expr, with, empty string) (string, error) {
	if len(es) == 0 {
		return empty, nil
	}
	parts := make([]string, len(es))
	for i, e := range es {
		var err error
		if parts[i], err = t.expr(e); err != nil {
			return "", err
		}
	}
	return "(" + strings.Join(parts, with) + ")", nil
}

func (t *translation) compare(c ledger.Compare) (string, error) {
	typ, _ := t.s.kind.Column(c.Column)
	column := t.s.column(c.Column)
	values := make([]any, len(c.Values))
	for i, v := range c.Values {
		var err error
		if values[i], err = constant(typ, c.Column, v); err != nil {
			return "", err
		}
	}
	switch c.Op {
	case ledger.In, ledger.NotIn:
		switch {
		case len(values) == 0 && c.Op == ledger.In:
			return "1 = 0", nil
		case len(values) == 0:
			return "1 = 1", nil
		case c.Op == ledger.In:
			return t.d.among(column, values, typ == ledger.Text, &t.binder), nil
		}
		return "NOT (" + t.d.among(column, values, typ == ledger.Text, &t.binder) + ")", nil
	case ledger.Like, ledger.ILike:
		text := values[0].(string)
		if len(text) > maxPattern {
			return "", fault.New(fault.Invalid, "a pattern has at most %d bytes", maxPattern)
		}
		p, fold := parsePattern(text), c.Op == ledger.ILike
		out := t.d.matches(column, p, fold, &t.binder)
		if !t.narrow && slices.Contains(t.s.kind.Text, c.Column) {
			if first := t.d.narrows(t.s, column, p, fold, &t.binder); first != "" {
				out = "(" + first + " AND " + out + ")"
			}
		}
		return out, nil
	}
	return fmt.Sprintf("%s %s %s", column, c.Op, t.bind(values[0])), nil
}

// constant turns a value into a parameter that both databases take.
func constant(typ ledger.Type, column string, v any) (any, error) {
	out, ok := plainValue(typ, v)
	if s, text := out.(string); !ok || text && (!utf8.ValidString(s) || strings.IndexByte(s, 0) >= 0) {
		return nil, fault.New(fault.Invalid, "column %q: the value is not plain text or of the wrong type", column)
	}
	return out, nil
}

// page is the whole SELECT. The inner part finds the ids from indexes alone;
// only the page's objects are read.
func (t *translation) page(q ledger.Query) (string, error) {
	where, err := t.condition(q)
	if err != nil {
		return "", err
	}
	limit := q.Limit
	if limit == 0 {
		limit = 100
	}
	bounds := " LIMIT " + t.bind(int64(limit))
	if q.Offset > 0 {
		bounds += " OFFSET " + t.bind(int64(q.Offset))
	}
	table := t.s.table.name
	if len(q.Order) == 0 && q.Where == nil {
		return "SELECT " + t.s.selected(q.Brief, "") + " FROM " + table + " WHERE " + where + " ORDER BY id" + bounds, nil
	}
	chosen := []string{"id"}
	var inner, outer []string
	for i, o := range q.Order {
		way := ""
		if o.Desc {
			way = " DESC"
		}
		chosen = append(chosen, fmt.Sprintf("%s AS s%d", t.s.column(o.Column), i))
		inner = append(inner, t.sorted(q, o.Column)+way)
		outer = append(outer, fmt.Sprintf("p.s%d%s", i, way))
		if o.Column == "id" {
			break // nothing is left to sort
		}
	}
	return fmt.Sprintf("SELECT %s FROM (SELECT %s FROM %s WHERE %s ORDER BY %s%s) AS p JOIN %s AS o ON o.id = p.id ORDER BY %s",
		t.s.selected(q.Brief, "o."), strings.Join(chosen, ", "), table+t.d.through(t.index(q)), where, strings.Join(append(inner, "id"), ", "), bounds,
		table, strings.Join(append(outer, "p.id"), ", ")), nil
}

// sorted is the column to sort by. Within a scope an index that only finds
// objects by the column must not be walked in its order: it holds everybody's.
func (t *translation) sorted(q ledger.Query, column string) string {
	name := t.s.column(column)
	_, scoped := q.Scope[t.s.scope[0]]
	if typ, _ := t.s.kind.Column(column); scoped && typ == ledger.Text && slices.Contains(t.s.lookups(), column) {
		return name + " || ''"
	}
	return name
}

// index is the one that a page is best read from, where that is certain: the
// covering one to filter within a scope, the ordered one to begin a list of
// everything.
func (t *translation) index(q ledger.Query) string {
	if q.Deleted {
		return "" // the indexes hold what lives
	}
	if _, scoped := q.Scope[t.s.scope[0]]; scoped && q.Where != nil {
		return t.s.cover
	}
	if !t.narrow && q.Where == nil && len(q.Order) > 0 {
		return t.s.orders[q.Order[0].Column]
	}
	return ""
}
