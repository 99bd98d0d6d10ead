package ledgertest

import (
	"cmp"
	"slices"
	"strings"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/ledger"
)

// emptySlices takes no slice and an empty one for the same.
var emptySlices = gocmp.Options{
	gocmp.FilterValues(func(a, b []ledger.Object) bool { return len(a) == 0 && len(b) == 0 }, gocmp.Ignore()),
	gocmp.FilterValues(func(a, b []ledger.Change) bool { return len(a) == 0 && len(b) == 0 }, gocmp.Ignore()),
}

// selectObjects is what a Query means, done the simple way.
func selectObjects(all []ledger.Object, q ledger.Query) []ledger.Object {
	var out []ledger.Object
	for _, o := range all {
		if o.Kind == q.Kind && (q.Deleted || o.Deleted.IsZero()) && (q.AfterID == "" || o.ID > q.AfterID) && inScope(o, q.Scope) && holds(o, q.Where) {
			out = append(out, o)
		}
	}
	slices.SortFunc(out, func(a, b ledger.Object) int {
		for _, order := range q.Order {
			c := compareValues(value(a, order.Column), value(b, order.Column))
			if order.Desc {
				c = -c
			}
			if c != 0 {
				return c
			}
		}
		return strings.Compare(a.ID, b.ID)
	})
	out = out[min(q.Offset, len(out)):]
	limit := q.Limit
	if limit == 0 {
		limit = 100
	}
	out = out[:min(limit, len(out))]
	for i := range out {
		if o := &out[i]; q.Brief {
			*o = brief(*o)
		}
	}
	return out
}

// brief is what a brief list keeps of an object.
func brief(o ledger.Object) ledger.Object {
	return ledger.Object{Ref: o.Ref, Org: o.Org, Owner: o.Owner, Name: o.Name, Phase: o.Phase,
		View: o.View, Created: o.Created, Updated: o.Updated, Deleted: o.Deleted}
}

func inScope(o ledger.Object, scope map[string]any) bool {
	for column, v := range scope {
		if compareValues(value(o, column), typed(column, v)) != 0 {
			return false
		}
	}
	return true
}

func holds(o ledger.Object, e ledger.Expr) bool {
	switch e := e.(type) {
	case nil:
		return true
	case ledger.And:
		return !slices.ContainsFunc(e, func(e ledger.Expr) bool { return !holds(o, e) })
	case ledger.Or:
		return slices.ContainsFunc(e, func(e ledger.Expr) bool { return holds(o, e) })
	}
	c := e.(ledger.Compare)
	v := value(o, c.Column)
	against := func(i int) int { return compareValues(v, typed(c.Column, c.Values[i])) }
	listed := func() bool {
		for i := range c.Values {
			if against(i) == 0 {
				return true
			}
		}
		return false
	}
	switch c.Op {
	case ledger.Eq:
		return against(0) == 0
	case ledger.Ne:
		return against(0) != 0
	case ledger.Lt:
		return against(0) < 0
	case ledger.Le:
		return against(0) <= 0
	case ledger.Gt:
		return against(0) > 0
	case ledger.Ge:
		return against(0) >= 0
	case ledger.In:
		return listed()
	case ledger.NotIn:
		return !listed()
	case ledger.Like:
		return like([]rune(v.(string)), []rune(c.Values[0].(string)))
	case ledger.ILike:
		return like([]rune(lower(v.(string))), []rune(lower(c.Values[0].(string))))
	}
	panic("unknown operator " + string(c.Op))
}

// value is the object's value, the empty one for null.
func value(o ledger.Object, column string) any {
	if v := o.Value(column); v != nil {
		return v
	}
	switch columnType(column) {
	case ledger.Int:
		return int64(0)
	case ledger.Bool:
		return false
	case ledger.Time:
		return time.Time{}
	}
	return ""
}

// typed gives a constant of a query the type of its column.
func typed(column string, v any) any {
	switch x := v.(type) {
	case int:
		return int64(x)
	case float64:
		return int64(x)
	case string:
		if columnType(column) == ledger.Time {
			at, _ := time.Parse(time.RFC3339Nano, x)
			return at
		}
	}
	return v
}

func compareValues(a, b any) int {
	switch x := a.(type) {
	case string:
		return strings.Compare(x, b.(string))
	case int64:
		return cmp.Compare(x, b.(int64))
	case time.Time:
		return x.Compare(b.(time.Time))
	}
	x, y := a.(bool), b.(bool)
	if x == y {
		return 0
	}
	if y {
		return -1
	}
	return 1
}

// like matches % with any text, _ with one character, and \ makes plain.
func like(s, p []rune) bool {
	if len(p) == 0 {
		return len(s) == 0
	}
	switch {
	case p[0] == '%':
		return like(s, p[1:]) || len(s) > 0 && like(s[1:], p)
	case len(s) == 0:
		return false
	case p[0] == '_':
		return like(s[1:], p[1:])
	case p[0] == '\\' && len(p) > 1:
		p = p[1:]
	}
	return s[0] == p[0] && like(s[1:], p[1:])
}

// lower folds the case of ASCII letters alone.
func lower(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}
