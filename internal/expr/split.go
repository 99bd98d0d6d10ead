package expr

import "strings"

// part of a string: literal text, or the source of an expression.
type part struct {
	text   string
	isExpr bool
	offset int // in bytes, of an expression's first byte in the string
}

// split cuts a string at its ${...}. "$${" stands for a literal "${". Braces
// and quotes inside an expression are CEL's: they end nothing.
func split(s string) ([]part, *Problem) {
	if !strings.Contains(s, "${") {
		return []part{{text: s}}, nil
	}
	var parts []part
	var text strings.Builder
	for i := 0; i < len(s); {
		switch {
		case strings.HasPrefix(s[i:], "$${"):
			text.WriteString("${")
			i += 3
		case strings.HasPrefix(s[i:], "${"):
			length := exprLength(s[i+2:])
			if length < 0 {
				return nil, &Problem{Offset: i, Message: "${ has no matching }"}
			}
			if text.Len() > 0 {
				parts = append(parts, part{text: text.String()})
				text.Reset()
			}
			parts = append(parts, part{text: s[i+2 : i+2+length], isExpr: true, offset: i + 2})
			i += length + 3
		default:
			text.WriteByte(s[i])
			i++
		}
	}
	if text.Len() > 0 || len(parts) == 0 {
		parts = append(parts, part{text: text.String()})
	}
	return parts, nil
}

// exprLength returns how many bytes come before the } that ends the expression,
// or -1 if none does.
func exprLength(s string) int {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '{':
			depth++
		case c == '}' && depth == 0:
			return i
		case c == '}':
			depth--
		case c == '/' && strings.HasPrefix(s[i:], "//"):
			end := strings.IndexByte(s[i:], '\n')
			if end < 0 {
				return -1
			}
			i += end
		case c == '"' || c == '\'':
			length := quoted(s[i:], raw(s[:i]))
			if length < 0 {
				return -1
			}
			i += length - 1
		}
	}
	return -1
}

// raw reports whether a quote after s opens a raw string: r"..", br"..".
func raw(s string) bool {
	if s == "" || s[len(s)-1]|0x20 != 'r' {
		return false
	}
	s = s[:len(s)-1]
	if s != "" && s[len(s)-1]|0x20 == 'b' {
		s = s[:len(s)-1]
	}
	return s == "" || !wordByte(s[len(s)-1])
}

func wordByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
}

// quoted returns the length of the string literal that s begins with, or -1 if
// it does not end.
func quoted(s string, raw bool) int {
	mark := s[:1]
	if triple := strings.Repeat(mark, 3); strings.HasPrefix(s, triple) {
		mark = triple
	}
	for i := len(mark); i < len(s); i++ {
		if s[i] == '\\' && !raw {
			i++
			continue
		}
		if strings.HasPrefix(s[i:], mark) {
			return i + len(mark)
		}
	}
	return -1
}
