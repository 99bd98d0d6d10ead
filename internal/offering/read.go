package offering

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

const (
	maxFile  = 128 << 10
	maxDepth = 48
)

// read turns a file into nodes. It returns no root if that cannot be done.
func read(source string, data []byte) *file {
	f := &file{source: source, lines: strings.Split(string(data), "\n"), root: &node{at: place{1, 1}}}
	switch {
	case len(data) > maxFile:
		f.report(place{1, 1}, nil, fmt.Sprintf("the file has more than %d KiB", maxFile>>10))
	case !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0:
		f.report(place{1, 1}, nil, "the file is not UTF-8 text")
	case json.Valid(data):
		if jsonDepth(data) > maxDepth {
			f.report(place{1, 1}, nil, "nested too deeply")
			return f
		}
		r := jsonReader{f: f, data: data, d: json.NewDecoder(bytes.NewReader(data)), line: 1}
		r.d.UseNumber()
		f.root = r.node(nil)
	default:
		readYAML(f, data)
	}
	return f
}

func readYAML(f *file, data []byte) {
	defer func() {
		if recover() != nil { // the library gives up like this on some broken input
			f.report(place{1, 1}, nil, "the file cannot be read as YAML")
		}
	}()
	tokens := lexer.Tokenize(string(data))
	if t, reason := refused(tokens); t != nil {
		f.report(place{t.Position.Line, t.Position.Column}, nil, reason)
		return
	}
	parsed, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		at, message := place{1, 1}, "the file cannot be read as YAML"
		var wrong *yaml.SyntaxError
		if errors.As(err, &wrong) {
			message = wrong.Message
			if wrong.Token != nil {
				at = place{wrong.Token.Position.Line, wrong.Token.Position.Column}
			}
		}
		if at.line <= len(f.lines) && strings.Contains(f.lines[at.line-1], "${") {
			message += ` (an expression with ": ", " #" or quotes in it needs quotes around it)`
		}
		f.report(at, nil, message)
		return
	}
	var body ast.Node
	for _, doc := range parsed.Docs {
		if doc.Body == nil {
			continue
		}
		if body != nil {
			f.report(placeOf(doc.Body), nil, "a file holds one offering, this is the second document")
			return
		}
		body = doc.Body
	}
	if body == nil {
		f.report(place{1, 1}, nil, "the file is empty")
		return
	}
	f.root = f.yaml(body, nil)
}

// refused finds what would let a short file grow without bound, or nest deeper
// than anybody can read. It looks at tokens, before a tree is made of them.
func refused(tokens token.Tokens) (*token.Token, string) {
	depth, dashes, line := 0, 0, 0
	for _, t := range tokens {
		switch t.Type {
		case token.AnchorType, token.AliasType, token.MergeKeyType:
			return t, "anchors, aliases and merge keys are not supported: write it out"
		case token.TagType, token.DirectiveType, token.MappingKeyType:
			return t, "tags, directives and ? keys are not supported"
		case token.MappingStartType, token.SequenceStartType:
			depth++
		case token.MappingEndType, token.SequenceEndType:
			depth--
		case token.SequenceEntryType:
			if t.Position.Line != line {
				dashes, line = 0, t.Position.Line
			}
			dashes++
		}
		if depth > maxDepth || dashes > maxDepth || t.Position.IndentLevel > maxDepth {
			return t, "nested too deeply"
		}
	}
	return nil, ""
}

func placeOf(n ast.Node) place {
	if m, ok := n.(*ast.MappingNode); ok && len(m.Values) > 0 && !m.IsFlowStyle {
		return placeOf(m.Values[0].Key)
	}
	if m, ok := n.(*ast.MappingValueNode); ok {
		return placeOf(m.Key)
	}
	t := n.GetToken()
	if t == nil || t.Position == nil {
		return place{1, 1}
	}
	return place{t.Position.Line, t.Position.Column}
}

func (f *file) yaml(n ast.Node, path []any) *node {
	out := &node{at: placeOf(n)}
	if len(path) > maxDepth {
		f.report(out.at, path, "nested too deeply")
		return out
	}
	switch x := n.(type) {
	case *ast.NullNode:
	case *ast.StringNode:
		out.value = x.Value
	case *ast.LiteralNode:
		out.value, out.literal = x.Value.Value, x.Start.Type == token.LiteralType
	case *ast.BoolNode:
		out.value = x.Value
	case *ast.IntegerNode:
		switch v := x.Value.(type) {
		case int64:
			out.value = v
		case uint64:
			if v > math.MaxInt64 {
				f.report(out.at, path, "the number is too large")
			}
			out.value = int64(v)
		}
	case *ast.FloatNode:
		out.value = number(x.Value)
	case *ast.MappingNode:
		out.value = f.members(x.Values, path)
	case *ast.MappingValueNode:
		out.value = f.members([]*ast.MappingValueNode{x}, path)
	case *ast.SequenceNode:
		entries := make([]*node, len(x.Values))
		for i, v := range x.Values {
			entries[i] = f.yaml(v, under(path, i))
		}
		out.value = entries
	default:
		f.report(out.at, path, "this kind of YAML value is not supported")
	}
	return out
}

func (f *file) members(values []*ast.MappingValueNode, path []any) []member {
	out := make([]member, 0, len(values))
	seen := map[string]bool{}
	for _, v := range values {
		key, ok := v.Key.(*ast.StringNode)
		if !ok {
			// a key such as `8080` or `true` is meant as text
			if t := v.Key.GetToken(); t != nil {
				key, ok = &ast.StringNode{Value: t.Value}, v.Key.Type() != ast.NullType
			}
		}
		if !ok {
			f.report(placeOf(v.Key), path, "a key must be text")
			continue
		}
		at := placeOf(v.Key)
		if seen[key.Value] {
			f.report(at, under(path, key.Value), "the key is there twice")
			continue
		}
		seen[key.Value] = true
		out = append(out, member{key: key.Value, at: at, value: f.yaml(v.Value, under(path, key.Value))})
	}
	return out
}

// number gives 2.0 the type of 2, as JSON does not tell them apart and the
// ledger keeps JSON.
func number(v float64) any {
	if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
		return int64(v)
	}
	return v
}

// jsonDepth returns how deep valid JSON nests.
func jsonDepth(data []byte) int {
	d := json.NewDecoder(bytes.NewReader(data))
	depth, most := 0, 0
	for t, err := d.Token(); err == nil; t, err = d.Token() {
		switch t {
		case json.Delim('['), json.Delim('{'):
			depth++
			most = max(most, depth)
		case json.Delim(']'), json.Delim('}'):
			depth--
		}
	}
	return most
}

// jsonReader reads JSON that is known to be valid.
type jsonReader struct {
	f    *file
	data []byte
	d    *json.Decoder

	at, line, column int // how far lines and their characters are counted
}

// next returns the next token and its place.
func (r *jsonReader) next() (json.Token, place) {
	start := int(r.d.InputOffset())
	for start < len(r.data) && bytes.IndexByte([]byte(" \t\r\n,:"), r.data[start]) >= 0 {
		start++
	}
	for ; r.at < start; r.at++ {
		switch b := r.data[r.at]; {
		case b == '\n':
			r.line, r.column = r.line+1, 0
		case utf8.RuneStart(b):
			r.column++
		}
	}
	t, _ := r.d.Token() // the text is known to be valid
	return t, place{r.line, r.column + 1}
}

func (r *jsonReader) node(path []any) *node {
	t, at := r.next()
	out := &node{at: at}
	switch x := t.(type) {
	case string, bool:
		out.value = x
	case json.Number:
		if n, err := strconv.ParseInt(string(x), 10, 64); err == nil {
			out.value = n
			return out
		}
		v, err := x.Float64()
		if err != nil {
			r.f.report(at, path, "the number is too large")
		}
		out.value = number(v)
	case json.Delim:
		if x == '[' {
			entries := []*node{}
			for r.d.More() {
				entries = append(entries, r.node(under(path, len(entries))))
			}
			out.value = entries
		} else {
			out.value = r.members(path)
		}
		r.next()
	}
	return out
}

func (r *jsonReader) members(path []any) []member {
	out := []member{}
	seen := map[string]bool{}
	for r.d.More() {
		t, at := r.next()
		key, _ := t.(string)
		value := r.node(under(path, key))
		if seen[key] {
			r.f.report(at, under(path, key), "the key is there twice")
			continue
		}
		seen[key] = true
		out = append(out, member{key: key, at: at, value: value})
	}
	return out
}
