package document

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Place in a file, both from 1; the column counts characters.
type Place struct{ Line, Column int }

// start is the place of what has none of its own.
var start = Place{1, 1}

// Node is a value with its place.
type Node struct {
	At      Place
	Value   any  // nil, string, bool, int64, float64, []*Node or []Member
	literal bool // text of a | block
}

// Member of a map, in the order of the file.
type Member struct {
	Key   string
	At    Place // of the key
	Value *Node
}

// Find follows keys and indexes (an index may be written as text) as far as
// they lead.
func (n *Node) Find(path []any) *Node {
	for _, step := range path {
		next := n.step(step)
		if next == nil {
			return n
		}
		n = next
	}
	return n
}

func (n *Node) step(step any) *Node {
	switch v := n.Value.(type) {
	case []Member:
		for _, m := range v {
			if m.Key == step {
				return m.Value
			}
		}
	case []*Node:
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

// Plain is the value without places, as encoding/json would have it but for
// whole numbers, which are int64.
func (n *Node) Plain() any {
	switch v := n.Value.(type) {
	case []Member:
		out := make(map[string]any, len(v))
		for _, m := range v {
			out[m.Key] = m.Value.Plain()
		}
		return out
	case []*Node:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = e.Plain()
		}
		return out
	}
	return n.Value
}

// what names the type of the value for people.
func (n *Node) what() string {
	switch n.Value.(type) {
	case nil:
		return "nothing"
	case string:
		return "text"
	case bool:
		return "true or false"
	case int64, float64:
		return "a number"
	case []*Node:
		return "a list"
	}
	return "a map"
}

// locate finds the place of a byte of a text. Where the text is not written as
// it reads (escapes, folded lines) it is the text's own place.
func (f *File) locate(n *Node, offset int) Place {
	s, ok := n.Value.(string)
	if !ok || offset > len(s) || n.At.Line > len(f.lines) {
		return n.At
	}
	before := s[:offset]
	if n.literal {
		start := strings.LastIndexByte(before, '\n') + 1
		line := n.At.Line + 1 + strings.Count(before, "\n")
		if line > len(f.lines) {
			return n.At
		}
		text := f.lines[line-1]
		first, _, _ := strings.Cut(s[start:], "\n")
		at := strings.Index(text, first)
		if at < 0 {
			return n.At
		}
		return Place{line, utf8.RuneCountInString(text[:at]+before[start:]) + 1}
	}
	rest := []rune(f.lines[n.At.Line-1])
	if n.At.Column > len(rest) {
		return n.At
	}
	text, column := string(rest[n.At.Column-1:]), n.At.Column
	if text[0] == '"' || text[0] == '\'' {
		text, column = text[1:], column+1
	}
	if !strings.HasPrefix(text, before) {
		return n.At
	}
	return Place{n.At.Line, column + utf8.RuneCountInString(before)}
}
