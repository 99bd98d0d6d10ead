package ledger

import (
	"strings"

	"github.com/droverhq/drover/internal/fault"
)

// MaxPage bounds one page of a List.
const MaxPage = 65_500

// Query selects objects of one kind.
type Query struct {
	Kind string
	// Scope holds equalities that apply besides Where: {"org": "acme"}.
	Scope   map[string]any
	Where   Expr    // nil = everything
	Order   []Order // default: by id. The id always breaks ties.
	Offset  int
	Limit   int    // default 100, at most MaxPage
	AfterID string // keyset paging by id; only without Order and Offset
	Deleted bool   // soft-deleted objects too
	Brief   bool   // only Ref, Org, Owner, Name, Phase, View and the times: enough for a list of views
}

// Order sorts by a column.
type Order struct {
	Column string
	Desc   bool
}

// Expr is a condition: And, Or or Compare.
type Expr interface {
	check(c *checker, depth int) error
}

// And holds when all hold; an empty And always does.
type And []Expr

// Or holds when any holds; an empty Or never does.
type Or []Expr

// Compare compares a column with constants. Null compares like the empty value.
type Compare struct {
	Column string
	Op     Op
	Values []any // one; any number for In and NotIn
}

// Op is an operator of Compare.
type Op string

const (
	Eq    Op = "="
	Ne    Op = "<>"
	Lt    Op = "<"
	Le    Op = "<="
	Gt    Op = ">"
	Ge    Op = ">="
	Like  Op = "LIKE"  // %, _ and \ as in SQL; case matters
	ILike Op = "ILIKE" // the same, ASCII case aside
	In    Op = "IN"
	NotIn Op = "NOT IN"
)

// Bounds of one query, well inside what the databases can parse: SQLite stops
// at 1,000 nested terms and 32,766 parameters.
const (
	maxDepth  = 32
	maxTerms  = 500
	maxValues = 10_000
)

// checker walks a condition and counts what it meets.
type checker struct {
	kind          Kind
	terms, values int
}

// Check reports whether the query can be asked of the kind, so that a store
// meets only columns that exist and values of their types.
func (q Query) Check(k Kind) error {
	c := &checker{kind: k}
	for column, v := range q.Scope {
		if err := c.value(column, v); err != nil {
			return err
		}
	}
	for _, o := range q.Order {
		if _, ok := k.Column(o.Column); !ok {
			return fault.New(fault.Invalid, "%s has no column %.64q to sort by", k.Name, o.Column)
		}
	}
	if q.Offset < 0 || q.Limit < 0 || q.Limit > MaxPage {
		return fault.New(fault.Invalid, "offset and limit must be between 0 and %d", MaxPage)
	}
	if q.AfterID != "" && (len(q.Order) > 0 || q.Offset > 0) {
		return fault.New(fault.Invalid, "paging after an id goes without order and offset")
	}
	if !plain(q.AfterID) {
		return fault.New(fault.Invalid, "the id to page after is not plain text of at most %d bytes", MaxText)
	}
	if q.Where == nil {
		return nil
	}
	return q.Where.check(c, 0)
}

func (c *checker) value(column string, v any) error {
	t, ok := c.kind.Column(column)
	if !ok {
		return fault.New(fault.Invalid, "%s has no column %.64q", c.kind.Name, column)
	}
	if c.values++; c.values > maxValues {
		return fault.New(fault.Invalid, "a condition holds at most %d values", maxValues)
	}
	v, ok = convert(t, v)
	if s, text := v.(string); !ok || text && !plain(s) {
		return fault.New(fault.Invalid, "column %q: the value has the wrong type or is not plain text of at most %d bytes", column, MaxText)
	}
	return nil
}

func (e And) check(c *checker, depth int) error { return c.all(e, depth) }
func (e Or) check(c *checker, depth int) error  { return c.all(e, depth) }

func (c *checker) all(es []Expr, depth int) error {
	if depth >= maxDepth {
		return fault.New(fault.Invalid, "condition is nested too deeply")
	}
	for _, e := range es {
		if e == nil {
			return fault.New(fault.Invalid, "condition has an empty part")
		}
		if err := e.check(c, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (e Compare) check(c *checker, _ int) error {
	t, ok := c.kind.Column(e.Column)
	if !ok {
		return fault.New(fault.Invalid, "%s has no column %.64q", c.kind.Name, e.Column)
	}
	if c.terms++; c.terms > maxTerms {
		return fault.New(fault.Invalid, "a condition holds at most %d comparisons", maxTerms)
	}
	switch e.Op {
	case Eq, Ne, Lt, Le, Gt, Ge:
		ok = len(e.Values) == 1
	case Like, ILike:
		ok = len(e.Values) == 1 && t == Text
	case In, NotIn:
		ok = true
	default:
		ok = false
	}
	if !ok {
		return fault.New(fault.Invalid, "operator %.64q does not fit column %q", e.Op, e.Column)
	}
	for _, v := range e.Values {
		if err := c.value(e.Column, v); err != nil {
			return err
		}
	}
	if e.Op != Like && e.Op != ILike {
		return nil
	}
	if s, _ := e.Values[0].(string); trailingEscape(s) {
		return fault.New(fault.Invalid, `column %q: a pattern must not end in a single \`, e.Column)
	}
	return nil
}

// trailingEscape reports whether the pattern ends in an escape with nothing to
// escape, which PostgreSQL calls an error and SQLite does not.
func trailingEscape(pattern string) bool {
	rest := strings.TrimRight(pattern, `\`)
	return (len(pattern)-len(rest))%2 == 1
}
