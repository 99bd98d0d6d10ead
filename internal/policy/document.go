package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/droverhq/drover/internal/fault"
)

const (
	apiVersion   = "drover.dev/v1"
	maxFile      = 4 << 20
	maxDocument  = 200 << 10 // an object of the ledger has room for it, and for its status
	maxDocuments = 1000
	maxMistakes  = 50
)

// Document is one policy, checked.
type Document struct {
	Kind   string // of the ledger: "quota"
	Name   string
	Labels map[string]string
	Spec   json.RawMessage
	value  any // *Quota, *DenyList, *AccessList or *Terms
}

// written names the kinds as files write them.
var written = map[string]string{"Quota": KindQuota.Name, "DenyList": KindDenyList.Name, "AccessList": KindAccessList.Name, "Terms": KindTerms.Name}

// blank returns an empty spec of a kind.
func blank(kind string) any {
	switch kind {
	case KindQuota.Name:
		return &Quota{}
	case KindDenyList.Name:
		return &DenyList{}
	case KindAccessList.Name:
		return &AccessList{}
	case KindTerms.Name:
		return &Terms{}
	}
	return nil
}

// Parse reads the policies of a file, YAML or JSON, several with --- between
// them. The fault is Invalid and tells all mistakes with their lines.
func Parse(source string, data []byte) ([]Document, error) {
	r := &reading{source: source}
	if len(data) > maxFile {
		r.report(nil, fmt.Sprintf("the file has more than %d MiB", maxFile>>20))
	} else if !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 {
		r.report(nil, "the file is not UTF-8 text")
	} else {
		if json.Valid(data) {
			data = bytes.ReplaceAll(data, []byte("\t"), []byte(" ")) // only between its values, where YAML knows no tabs
		}
		r.file(data)
	}
	if len(r.mistakes) > 0 {
		slices.SortStableFunc(r.mistakes, func(a, b mistake) int { return a.line - b.line })
		lines := make([]string, len(r.mistakes))
		for i, m := range r.mistakes {
			lines[i] = m.text
		}
		return nil, fault.New(fault.Invalid, "%s", strings.Join(lines, "\n"))
	}
	return r.documents, nil
}

type mistake struct {
	line int
	text string
}

type reading struct {
	source    string
	documents []Document
	mistakes  []mistake
}

func (r *reading) report(t *token.Token, message string) {
	line, column := 1, 1
	if t != nil && t.Position != nil {
		line, column = t.Position.Line, t.Position.Column
	}
	if len(r.mistakes) < maxMistakes {
		r.mistakes = append(r.mistakes, mistake{line, fmt.Sprintf("%s:%d:%d: %s", r.source, line, column, message)})
	}
}

func (r *reading) file(data []byte) {
	defer func() {
		if recover() != nil { // the library gives up like this on some broken input
			r.report(nil, "the file cannot be read as YAML")
		}
	}()
	tokens := lexer.Tokenize(string(data))
	for _, t := range tokens {
		switch t.Type {
		case token.AnchorType, token.AliasType, token.MergeKeyType, token.TagType:
			r.report(t, "anchors, aliases, merge keys and tags are not supported: write it out")
			return
		}
	}
	// Keys that are there twice are told with the other mistakes.
	parsed, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		r.report(explain(err))
		return
	}
	seen := map[string]bool{}
	for _, d := range parsed.Docs {
		if d.Body == nil || d.Body.Type() == ast.NullType {
			continue
		}
		if len(r.documents) == maxDocuments {
			r.report(d.Body.GetToken(), fmt.Sprintf("a file holds at most %d documents", maxDocuments))
			return
		}
		doc, ok := r.document(d.Body)
		if !ok {
			continue
		}
		key := doc.Kind + "/" + doc.Name
		if seen[key] {
			r.report(place(d.Body, "metadata", "name"), doc.Kind+" "+doc.Name+" is in the file twice")
		}
		seen[key] = true
		r.documents = append(r.documents, doc)
	}
	if len(r.documents) == 0 && len(r.mistakes) == 0 {
		r.report(nil, "the file is empty")
	}
}

type header struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name   string            `json:"name"`
		Labels map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec ast.Node `json:"spec"`
}

var plain = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$`)

// document reads one, with as many mistakes as it has.
func (r *reading) document(body ast.Node) (Document, bool) {
	before := len(r.mistakes)
	var h header
	r.walk(body, reflect.TypeFor[header]())
	_ = yaml.NodeToValue(body, &h) // the walk has told what is wrong; the rest may be right
	if h.APIVersion != apiVersion {
		r.report(place(body, "apiVersion"), "apiVersion: want "+apiVersion)
	}
	kind, known := written[h.Kind]
	if !known {
		r.report(place(body, "kind"), fmt.Sprintf("kind: %.64q is none of AccessList, DenyList, Quota, Terms", h.Kind))
		return Document{}, false
	}
	if !plain.MatchString(h.Metadata.Name) {
		r.report(place(body, "metadata", "name"), "metadata.name: 1 to 63 lower-case letters, digits, - and .")
	}
	value := blank(kind)
	if h.Spec == nil {
		r.report(place(body), "spec: is missing")
	} else {
		r.decode(h.Spec, value)
	}
	if len(r.mistakes) > before {
		return Document{}, false
	}
	check(value, func(message string, path ...any) {
		r.report(place(h.Spec, path...), "spec."+dotted(path)+": "+message)
	})
	spec, err := encode(value)
	if err != nil {
		r.report(place(body), "the spec cannot be stored")
	}
	if len(spec) > maxDocument {
		r.report(place(body), fmt.Sprintf("the document has more than %d KiB: make several of it", maxDocument>>10))
	}
	return Document{Kind: kind, Name: h.Metadata.Name, Labels: h.Metadata.Labels, Spec: spec, value: value}, len(r.mistakes) == before
}

// decode reads a value, if the walk has found nothing wrong with it.
func (r *reading) decode(n ast.Node, into any) {
	before := len(r.mistakes)
	r.walk(n, reflect.TypeOf(into).Elem())
	if len(r.mistakes) > before {
		return
	}
	if err := yaml.NodeToValue(n, into, yaml.Strict()); err != nil {
		r.report(explain(err))
	}
}

func explain(err error) (*token.Token, string) {
	var wrong yaml.Error
	if errors.As(err, &wrong) {
		return wrong.GetToken(), wrong.GetMessage()
	}
	return nil, "the file cannot be read as YAML: " + err.Error()
}

// place is where a path stands, or as much of it as there is.
func place(n ast.Node, path ...any) *token.Token {
	for _, step := range path {
		next := ast.Node(nil)
		switch x := n.(type) {
		case *ast.MappingNode:
			for _, v := range x.Values {
				if v.Key.GetToken().Value == step {
					next = v.Value
				}
			}
		case *ast.SequenceNode:
			if i, ok := step.(int); ok && i < len(x.Values) {
				next = x.Values[i]
			}
		}
		if next == nil {
			break
		}
		n = next
	}
	if m, ok := n.(*ast.MappingNode); ok && len(m.Values) > 0 {
		return m.Values[0].Key.GetToken()
	}
	return n.GetToken()
}

func dotted(path []any) string {
	var b strings.Builder
	for _, step := range path {
		switch s := step.(type) {
		case int:
			fmt.Fprintf(&b, "[%d]", s)
		case string:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(s)
		}
	}
	return b.String()
}

func encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
