package httpapi

import (
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

const (
	maxJoins  = 10      // AND and OR of one search
	maxParens = 16      // open at once
	maxIn     = 100     // values of an IN
	maxSearch = 8 << 10 // bytes
)

// parseSearch reads the search language of the offerings' lists:
//
//	search = and { OR and } .
//	and    = term { AND term } .
//	term   = "(" search ")" | column op value | column [NOT] IN "(" value { "," value } ")" .
//	op     = "=" | "<>" | LIKE | ILIKE .
//	value  = bare | "'" quoted "'" .
//
// Words are case-insensitive. A bare value ends at a space or a parenthesis; in
// quotes \' stands for a quote, and every other \ for itself. Nothing of the
// text ever becomes SQL: columns come from the map, values stay values.
// An empty search is no condition.
func parseSearch(text string, columns map[string]string, kind ledger.Kind) (ledger.Expr, error) {
	p := &searchParser{text: text, columns: columns, kind: kind}
	if len(text) > maxSearch {
		return nil, p.fail("it is longer than %d bytes", maxSearch)
	}
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return nil, p.fail("it is not plain text")
	}
	if p.space(); p.done() {
		return nil, nil
	}
	e, err := p.any(0)
	if err != nil {
		return nil, err
	}
	if p.space(); !p.done() {
		return nil, p.fail("AND, OR or the end is expected")
	}
	return e, nil
}

type searchParser struct {
	text    string
	at      int
	joins   int
	columns map[string]string
	kind    ledger.Kind
}

func (p *searchParser) any(depth int) (ledger.Expr, error) { return p.joined("OR", depth) }

// joined reads terms with one word between them; AND binds closer than OR.
func (p *searchParser) joined(word string, depth int) (ledger.Expr, error) {
	var terms []ledger.Expr
	for {
		var e ledger.Expr
		var err error
		if word == "OR" {
			e, err = p.joined("AND", depth)
		} else {
			e, err = p.term(depth)
		}
		if err != nil {
			return nil, err
		}
		terms = append(terms, e)
		if p.space(); !p.word(word) {
			break
		}
		if p.joins++; p.joins > maxJoins {
			return nil, p.fail("more than %d AND and OR", maxJoins)
		}
	}
	switch {
	case len(terms) == 1:
		return terms[0], nil
	case word == "OR":
		return ledger.Or(terms), nil
	}
	return ledger.And(terms), nil
}

func (p *searchParser) term(depth int) (ledger.Expr, error) {
	p.space()
	if !p.take('(') {
		return p.compare()
	}
	if depth++; depth > maxParens {
		return nil, p.fail("more than %d parentheses are open", maxParens)
	}
	e, err := p.any(depth)
	if err != nil {
		return nil, err
	}
	if p.space(); !p.take(')') {
		return nil, p.fail("a closing parenthesis is expected")
	}
	return e, nil
}

func (p *searchParser) compare() (ledger.Expr, error) {
	start := p.at
	name := strings.ToLower(p.identifier())
	column, ok := p.columns[name]
	if !ok {
		p.at = start
		return nil, p.fail("one of the columns %s is expected", strings.Join(sortedKeys(p.columns), ", "))
	}
	p.space()
	op, err := p.operator()
	if err != nil {
		return nil, err
	}
	typ, ok := p.kind.Column(column)
	if !ok || typ != ledger.Text && (op == ledger.Like || op == ledger.ILike) {
		return nil, p.fail("column %s cannot be searched with %s", name, op)
	}
	c := ledger.Compare{Column: column, Op: op}
	if op != ledger.In && op != ledger.NotIn {
		p.space()
		v, err := p.value(typ, op, false)
		c.Values = []any{v}
		return c, err
	}
	if p.space(); !p.take('(') {
		return nil, p.fail("an opening parenthesis is expected")
	}
	for {
		p.space()
		v, err := p.value(typ, op, true)
		if err != nil {
			return nil, err
		}
		if c.Values = append(c.Values, v); len(c.Values) > maxIn {
			return nil, p.fail("more than %d values", maxIn)
		}
		p.space()
		if p.take(')') {
			return c, nil
		}
		if !p.take(',') {
			return nil, p.fail("a comma or a closing parenthesis is expected")
		}
	}
}

func (p *searchParser) operator() (ledger.Op, error) {
	switch {
	case strings.HasPrefix(p.text[p.at:], "<>"):
		p.at += 2
		return ledger.Ne, nil
	case p.take('='):
		return ledger.Eq, nil
	case p.word("LIKE"):
		return ledger.Like, nil
	case p.word("ILIKE"):
		return ledger.ILike, nil
	case p.word("IN"):
		return ledger.In, nil
	case p.word("NOT"):
		if p.space(); p.word("IN") {
			return ledger.NotIn, nil
		}
		return "", p.fail("IN is expected")
	}
	return "", p.fail("one of the operators =, <>, LIKE, ILIKE, IN, NOT IN is expected")
}

// value reads a constant and gives it the column's type.
func (p *searchParser) value(typ ledger.Type, op ledger.Op, listed bool) (any, error) {
	start := p.at
	s, err := p.constant(listed)
	if err != nil {
		return nil, err
	}
	var v any = s
	switch typ {
	case ledger.Bool:
		v, err = strconv.ParseBool(s)
	case ledger.Int:
		v, err = strconv.ParseInt(s, 10, 64)
	case ledger.Time:
		v, err = time.Parse(time.RFC3339, s)
	}
	if err != nil {
		p.at = start
		return nil, p.fail("the value does not fit the column")
	}
	if len(s) > ledger.MaxText {
		p.at = start
		return nil, p.fail("the value is longer than %d bytes", ledger.MaxText)
	}
	if op == ledger.Like || op == ledger.ILike {
		if n := len(s) - len(strings.TrimRight(s, `\`)); n%2 == 1 {
			return nil, p.fail(`a pattern must not end in a single \`)
		}
	}
	return v, nil
}

func (p *searchParser) constant(listed bool) (string, error) {
	if p.take('\'') {
		return p.quoted()
	}
	end := " \t\r\n()"
	if listed {
		end += ","
	}
	n := strings.IndexAny(p.text[p.at:], end)
	if n < 0 {
		n = len(p.text) - p.at
	}
	if n == 0 {
		return "", p.fail("a value is expected")
	}
	s := p.text[p.at : p.at+n]
	p.at += n
	return s, nil
}

func (p *searchParser) quoted() (string, error) {
	start := p.at
	var b strings.Builder
	for p.at < len(p.text) {
		c := p.text[p.at]
		p.at++
		switch {
		case c == '\'':
			return b.String(), nil
		case c == '\\' && p.at < len(p.text) && p.text[p.at] == '\'':
			b.WriteByte('\'')
			p.at++
		case c == '\\' && p.at < len(p.text) && p.text[p.at] == '\\':
			b.WriteString(`\\`)
			p.at++
		default:
			b.WriteByte(c)
		}
	}
	p.at = start - 1
	return "", p.fail("the quote is not closed")
}

func (p *searchParser) done() bool { return p.at >= len(p.text) }

func (p *searchParser) space() {
	for p.at < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.at]) >= 0 {
		p.at++
	}
}

func (p *searchParser) take(c byte) bool {
	if p.done() || p.text[p.at] != c {
		return false
	}
	p.at++
	return true
}

func (p *searchParser) identifier() string {
	start := p.at
	for p.at < len(p.text) && isLetter(p.text[p.at]) {
		p.at++
	}
	return p.text[start:p.at]
}

// word takes a keyword that is not merely the beginning of a longer one.
func (p *searchParser) word(w string) bool {
	end := p.at + len(w)
	if end > len(p.text) || !strings.EqualFold(p.text[p.at:end], w) || end < len(p.text) && isLetter(p.text[end]) {
		return false
	}
	p.at = end
	return true
}

func isLetter(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_'
}

func (p *searchParser) fail(format string, args ...any) error {
	args = append([]any{p.at + 1}, args...)
	return fault.New(fault.Invalid, "unable to parse the search at position %d: "+format, args...).Because("search")
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
