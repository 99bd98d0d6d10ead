package sqlledger

import "strings"

// pattern is a LIKE pattern taken apart, so that both databases are asked for
// the same thing in their own words.
type pattern []piece

// piece is a run of literal text, or a wildcard.
type piece struct {
	text string
	wild byte // '%', '_', or 0 for text
}

// parsePattern reads %, _ and \ as in SQL. A backslash at the very end stands
// for itself.
func parsePattern(s string) pattern {
	var p pattern
	var run strings.Builder
	flush := func() {
		if run.Len() > 0 {
			p = append(p, piece{text: run.String()})
			run.Reset()
		}
	}
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\' && i+1 < len(s):
			i++
			run.WriteByte(s[i])
		case c == '%' || c == '_':
			flush()
			if c == '%' && len(p) > 0 && p[len(p)-1].wild == '%' {
				continue // as good as one, and much cheaper
			}
			p = append(p, piece{wild: c})
		default:
			run.WriteByte(c)
		}
	}
	flush()
	return p
}

// like writes the pattern with a backslash before what would be special.
func (p pattern) like() string {
	var sb strings.Builder
	for _, x := range p {
		if x.wild != 0 {
			sb.WriteByte(x.wild)
			continue
		}
		sb.WriteString(strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(x.text))
	}
	return sb.String()
}

// glob writes the pattern for SQLite's GLOB, which minds the case.
func (p pattern) glob() string {
	var sb strings.Builder
	for _, x := range p {
		switch x.wild {
		case '%':
			sb.WriteByte('*')
		case '_':
			sb.WriteByte('?')
		default:
			sb.WriteString(strings.NewReplacer(`*`, `[*]`, `?`, `[?]`, `[`, `[[]`).Replace(x.text))
		}
	}
	return sb.String()
}

// longest is the longest literal run.
func (p pattern) longest() string {
	best := ""
	for _, x := range p {
		if len(x.text) > len(best) {
			best = x.text
		}
	}
	return best
}
