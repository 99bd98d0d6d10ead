package ledgertest

import (
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/ledger"
)

func drawQuery(t *rapid.T) ledger.Query {
	q := ledger.Query{
		Kind: "beast", Where: drawExpr(t, 2), Deleted: rapid.Bool().Draw(t, "deleted"), Brief: rapid.Bool().Draw(t, "brief"),
		Limit: rapid.IntRange(0, 50).Draw(t, "limit"),
	}
	if rapid.Bool().Draw(t, "scoped") {
		q.Scope = map[string]any{}
		for range rapid.IntRange(1, 2).Draw(t, "scopes") {
			c := drawColumn(t)
			q.Scope[c] = drawValue(t, c)
		}
	}
	switch rapid.IntRange(0, 2).Draw(t, "paging") {
	case 0:
		q.AfterID = rapid.SampledFrom(words).Draw(t, "after")
	case 1:
		for range rapid.IntRange(0, 3).Draw(t, "orders") {
			q.Order = append(q.Order, ledger.Order{Column: drawColumn(t), Desc: rapid.Bool().Draw(t, "desc")})
		}
		q.Offset = rapid.IntRange(0, 30).Draw(t, "offset")
	}
	return q
}

func drawExpr(t *rapid.T, depth int) ledger.Expr {
	if depth > 0 {
		switch rapid.IntRange(0, 4).Draw(t, "shape") {
		case 0:
			return ledger.And(drawExprs(t, depth-1))
		case 1:
			return ledger.Or(drawExprs(t, depth-1))
		case 2:
			if depth == 2 {
				return nil
			}
		}
	}
	c := ledger.Compare{Column: drawColumn(t)}
	ops := []ledger.Op{ledger.Eq, ledger.Ne, ledger.Lt, ledger.Le, ledger.Gt, ledger.Ge, ledger.In, ledger.NotIn}
	if columnType(c.Column) == ledger.Text {
		ops = append(ops, ledger.Like, ledger.ILike, ledger.Like, ledger.ILike)
	}
	switch c.Op = rapid.SampledFrom(ops).Draw(t, "op"); c.Op {
	case ledger.In, ledger.NotIn:
		for range rapid.IntRange(0, 3).Draw(t, "values") {
			c.Values = append(c.Values, drawValue(t, c.Column))
		}
	case ledger.Like, ledger.ILike:
		c.Values = []any{drawPattern(t)}
	default:
		c.Values = []any{drawValue(t, c.Column)}
	}
	return c
}

func drawExprs(t *rapid.T, depth int) []ledger.Expr {
	var es []ledger.Expr
	for range rapid.IntRange(0, 3).Draw(t, "parts") {
		es = append(es, drawExpr(t, depth))
	}
	return es
}

func drawPattern(t *rapid.T) string {
	var sb strings.Builder
	parts := append([]string{"%", "%", "_", `\%`, `\_`, `\\`, `\a`}, words...)
	for range rapid.IntRange(0, 4).Draw(t, "parts") {
		sb.WriteString(rapid.SampledFrom(parts).Draw(t, "part"))
	}
	p := sb.String()
	if rest := strings.TrimRight(p, `\`); (len(p)-len(rest))%2 == 1 {
		p += `\`
	}
	return p
}

func drawColumn(t *rapid.T) string {
	return rapid.SampledFrom([]string{"id", "org", "owner", "name", "phase", "parent", "created", "updated", "species", "legs", "tame", "born"}).Draw(t, "column")
}

func columnType(column string) ledger.Type {
	t, _ := Kinds()[0].Column(column)
	return t
}

func drawValue(t *rapid.T, column string) any {
	switch columnType(column) {
	case ledger.Int:
		return rapid.SampledFrom([]any{int64(-2), int64(-1), int64(0), 0, 1.0, int64(1), int64(2), int64(1) << 62}).Draw(t, "int")
	case ledger.Bool:
		return rapid.Bool().Draw(t, "bool")
	case ledger.Time:
		return rapid.SampledFrom([]any{days[0], days[1], days[2], days[3], days[4], days[3].In(time.FixedZone("", -3600)),
			"2026-01-01T00:00:00Z", "2026-01-01T01:00:00.000001+01:00", time.Time{}}).Draw(t, "time")
	}
	if column == "org" {
		return rapid.SampledFrom([]string{"acme", "umbrella", "", "nobody"}).Draw(t, "org")
	}
	return rapid.SampledFrom(words).Draw(t, "word")
}
