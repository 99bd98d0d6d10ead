package ledger

import "github.com/droverhq/drover/internal/fault"

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
	Brief   bool   // leave Spec, Status and Labels out: enough for a list of views
}

// Order sorts by a column.
type Order struct {
	Column string
	Desc   bool
}

// Expr is a condition: And, Or or Compare.
type Expr interface{ check(k Kind, depth int) error }

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

const maxDepth = 32

// Check reports whether the query can be asked of the kind, so that a store
// meets only columns that exist and values of their types.
func (q Query) Check(k Kind) error {
	for column, v := range q.Scope {
		t, ok := k.Column(column)
		if !ok {
			return fault.New(fault.Invalid, "%s has no column %q", k.Name, column)
		}
		if _, ok := convert(t, v); !ok {
			return fault.New(fault.Invalid, "column %q: wrong type of value", column)
		}
	}
	for _, o := range q.Order {
		if _, ok := k.Column(o.Column); !ok {
			return fault.New(fault.Invalid, "%s has no column %q to sort by", k.Name, o.Column)
		}
	}
	if q.Offset < 0 || q.Limit < 0 || q.Limit > MaxPage {
		return fault.New(fault.Invalid, "offset and limit must be between 0 and %d", MaxPage)
	}
	if q.AfterID != "" && (len(q.Order) > 0 || q.Offset > 0) {
		return fault.New(fault.Invalid, "paging after an id goes without order and offset")
	}
	if q.Where == nil {
		return nil
	}
	return q.Where.check(k, 0)
}

func (e And) check(k Kind, depth int) error { return checkAll(e, k, depth) }
func (e Or) check(k Kind, depth int) error  { return checkAll(e, k, depth) }

func checkAll(es []Expr, k Kind, depth int) error {
	if depth >= maxDepth {
		return fault.New(fault.Invalid, "condition is nested too deeply")
	}
	for _, e := range es {
		if err := e.check(k, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (c Compare) check(k Kind, _ int) error {
	t, ok := k.Column(c.Column)
	if !ok {
		return fault.New(fault.Invalid, "%s has no column %q", k.Name, c.Column)
	}
	switch c.Op {
	case Eq, Ne, Lt, Le, Gt, Ge:
		ok = len(c.Values) == 1
	case Like, ILike:
		ok = len(c.Values) == 1 && t == Text
	case In, NotIn:
		ok = true
	default:
		ok = false
	}
	if !ok {
		return fault.New(fault.Invalid, "operator %q does not fit column %q", c.Op, c.Column)
	}
	for _, v := range c.Values {
		if _, ok := convert(t, v); !ok {
			return fault.New(fault.Invalid, "column %q: wrong type of value", c.Column)
		}
	}
	return nil
}
