package document

import (
	"errors"
	"math"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

func (f *File) readYAML(data []byte) {
	defer func() {
		if recover() != nil { // the library gives up like this on some broken input
			f.Report(start, nil, "the file cannot be read as YAML")
		}
	}()
	tokens := lexer.Tokenize(string(data))
	if t, reason := refused(tokens); t != nil {
		f.Report(Place{t.Position.Line, t.Position.Column}, nil, reason)
		return
	}
	for _, part := range split(tokens) {
		parsed, err := parser.Parse(part, 0, parser.AllowDuplicateMapKey())
		if err != nil {
			f.unreadable(err)
			return
		}
		for _, doc := range parsed.Docs {
			if doc.Body == nil {
				continue
			}
			if f.form.Kind != "" && len(f.Documents) == 1 {
				f.Report(placeOf(doc.Body), nil, "a file holds one "+f.form.Kind+", this is the second document")
				return
			}
			f.Documents = append(f.Documents, f.yaml(doc.Body, nil))
		}
	}
	if len(f.Documents) == 0 {
		f.Report(start, nil, "the file is empty")
	}
}

// unreadable reports where the library gave up.
func (f *File) unreadable(err error) {
	at, message := start, "the file cannot be read as YAML"
	var wrong *yaml.SyntaxError
	if errors.As(err, &wrong) {
		message = wrong.Message
		if wrong.Token != nil {
			at = Place{wrong.Token.Position.Line, wrong.Token.Position.Column}
		}
	}
	if at.Line <= len(f.lines) && strings.Contains(f.lines[at.Line-1], "${") {
		message += ` (an expression with ": ", " #" or quotes in it needs quotes around it)`
	}
	f.Report(at, nil, message)
}

// split cuts the documents of a file apart: the library leaves out what follows
// an empty one.
func split(tokens token.Tokens) []token.Tokens {
	parts := []token.Tokens{nil}
	for _, t := range tokens {
		switch t.Type {
		case token.DocumentHeaderType, token.DocumentEndType:
			parts = append(parts, nil)
		default:
			last := &parts[len(parts)-1]
			*last = append(*last, t)
		}
	}
	return parts
}

// refused finds what would let a short file grow without bound, or nest deeper
// than anybody can read. It looks at tokens, before a tree is made of them.
func refused(tokens token.Tokens) (*token.Token, string) {
	depth, dashes, line := 0, 0, 0
	// The tokens' own level of indentation grows where several end at once.
	var columns []int
	began := 0
	for _, t := range tokens {
		if t.Position.Line != began {
			began = t.Position.Line
			for len(columns) > 0 && columns[len(columns)-1] >= t.Position.Column {
				columns = columns[:len(columns)-1]
			}
			columns = append(columns, t.Position.Column)
		}
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
		if depth > maxDepth || dashes > maxDepth || len(columns) > maxDepth {
			return t, "nested too deeply"
		}
	}
	return nil, ""
}

func placeOf(n ast.Node) Place {
	if m, ok := n.(*ast.MappingNode); ok && len(m.Values) > 0 && !m.IsFlowStyle {
		return placeOf(m.Values[0].Key)
	}
	if m, ok := n.(*ast.MappingValueNode); ok {
		return placeOf(m.Key)
	}
	t := n.GetToken()
	if t == nil || t.Position == nil {
		return start
	}
	return Place{t.Position.Line, t.Position.Column}
}

func (f *File) yaml(n ast.Node, path []any) *Node {
	out := &Node{At: placeOf(n)}
	if len(path) > maxDepth {
		f.Report(out.At, path, "nested too deeply")
		return out
	}
	switch x := n.(type) {
	case *ast.NullNode:
	case *ast.StringNode:
		out.Value = x.Value
	case *ast.LiteralNode:
		out.Value, out.literal = x.Value.Value, x.Start.Type == token.LiteralType
	case *ast.BoolNode:
		out.Value = x.Value
	case *ast.IntegerNode:
		switch v := x.Value.(type) {
		case int64:
			out.Value = v
		case uint64:
			if v > math.MaxInt64 {
				f.Report(out.At, path, "the number is too large")
			}
			out.Value = int64(v)
		}
	case *ast.FloatNode:
		out.Value = number(x.Value)
	case *ast.MappingNode:
		out.Value = f.members(x.Values, path)
	case *ast.MappingValueNode:
		out.Value = f.members([]*ast.MappingValueNode{x}, path)
	case *ast.SequenceNode:
		entries := make([]*Node, len(x.Values))
		for i, v := range x.Values {
			entries[i] = f.yaml(v, Under(path, i))
		}
		out.Value = entries
	default:
		f.Report(out.At, path, "this kind of YAML value is not supported")
	}
	return out
}

func (f *File) members(values []*ast.MappingValueNode, path []any) []Member {
	out := make([]Member, 0, len(values))
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
			f.Report(placeOf(v.Key), path, "a key must be text")
			continue
		}
		at := placeOf(v.Key)
		if seen[key.Value] {
			f.Report(at, Under(path, key.Value), "the key is there twice")
			continue
		}
		seen[key.Value] = true
		out = append(out, Member{Key: key.Value, At: at, Value: f.yaml(v.Value, Under(path, key.Value))})
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
