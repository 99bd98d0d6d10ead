package offering

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// place in a file, both from 1; the column counts characters.
type place struct{ line, column int }

// node is a value with its place.
type node struct {
	at      place
	value   any  // nil, string, bool, int64, float64, []*node or []member
	literal bool // text of a | block
}

type member struct {
	key   string
	at    place
	value *node
}

// find follows keys and indexes (an index may be written as text) as far as
// they lead.
func (n *node) find(path []any) *node {
	for _, step := range path {
		next := n.step(step)
		if next == nil {
			return n
		}
		n = next
	}
	return n
}

func (n *node) step(step any) *node {
	switch v := n.value.(type) {
	case []member:
		for _, m := range v {
			if m.key == step {
				return m.value
			}
		}
	case []*node:
		i, ok := step.(int)
		if s, text := step.(string); text {
			n, err := strconv.Atoi(s)
			i, ok = n, err == nil
		}
		if ok && i >= 0 && i < len(v) {
			return v[i]
		}
	}
	return nil
}

// plain is the value without places.
func (n *node) plain() any {
	switch v := n.value.(type) {
	case []member:
		out := make(map[string]any, len(v))
		for _, m := range v {
			out[m.key] = m.value.plain()
		}
		return out
	case []*node:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = e.plain()
		}
		return out
	}
	return n.value
}

// what names the type of the value for people.
func (n *node) what() string {
	switch n.value.(type) {
	case nil:
		return "nothing"
	case string:
		return "text"
	case bool:
		return "true or false"
	case int64, float64:
		return "a number"
	case []*node:
		return "a list"
	}
	return "a map"
}

// locate finds the place of a byte of a text. Where the text is not written as
// it reads (escapes, folded lines) it is the text's own place.
func (f *file) locate(n *node, offset int) place {
	s, ok := n.value.(string)
	if !ok || offset > len(s) || n.at.line > len(f.lines) {
		return n.at
	}
	before := s[:offset]
	if n.literal {
		start := strings.LastIndexByte(before, '\n') + 1
		line := n.at.line + 1 + strings.Count(before, "\n")
		if line > len(f.lines) {
			return n.at
		}
		text := f.lines[line-1]
		first, _, _ := strings.Cut(s[start:], "\n")
		at := strings.Index(text, first)
		if at < 0 {
			return n.at
		}
		return place{line, utf8.RuneCountInString(text[:at]+before[start:]) + 1}
	}
	rest := []rune(f.lines[n.at.line-1])
	if n.at.column > len(rest) {
		return n.at
	}
	text, column := string(rest[n.at.column-1:]), n.at.column
	if text[0] == '"' || text[0] == '\'' {
		text, column = text[1:], column+1
	}
	if !strings.HasPrefix(text, before) {
		return n.at
	}
	return place{n.at.line, column + utf8.RuneCountInString(before)}
}
