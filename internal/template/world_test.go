package template_test

import (
	"strings"
	"testing"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/expr"
	"github.com/droverhq/drover/internal/source"
	"github.com/droverhq/drover/internal/template"
)

// around has three executors: one that closes its inputs and outputs, one with a
// secret, and one whose outputs are only known when they are there.
var around = template.Surroundings{Executors: map[string]executor.Description{
	"file": {
		Inputs: map[string]any{
			"type": "object", "additionalProperties": false, "required": []any{"path"},
			"properties": map[string]any{
				"path": map[string]any{"type": "string", "minLength": 1}, "content": map[string]any{"type": "string"},
				"mode": map[string]any{"type": "integer"},
			},
		},
		Outputs: map[string]executor.Output{"path": {Type: expr.String}, "size": {Type: expr.Int}, "share": {Type: expr.Double}},
	},
	"vault": {
		Connects: true,
		Outputs:  map[string]executor.Output{"path": {Type: expr.String}, "password": {Type: expr.String, Secret: true}},
	},
	"open": {Open: true, Outputs: map[string]executor.Output{"id": {Type: expr.String}}},
}}

// head is what every file begins with.
const head = `apiVersion: drover.dev/v1
kind: Template
metadata: {name: shop}
spec:
  version: 1.0.0
`

func tree(files map[string]string) source.Tree {
	out := source.Tree{Commit: "0123456789abcdef0123456789abcdef01234567", Files: map[string]source.File{}}
	for name, data := range files {
		out.Files[name] = source.File{Data: []byte(data)}
	}
	return out
}

// spec reads a template whose spec is given.
func spec(t testing.TB, text string) (*template.Template, error) {
	t.Helper()
	return template.Parse(t.Context(), tree(map[string]string{"template.yaml": head + text}), "", around)
}

func must(t testing.TB, text string) *template.Template {
	t.Helper()
	out, err := spec(t, text)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func expand(t testing.TB, tm *template.Template, params map[string]any) *template.Layout {
	t.Helper()
	filled, err := tm.Validate(params)
	if err != nil {
		t.Fatal(err)
	}
	l, err := tm.Expand(t.Context(), template.Given{Params: filled, Env: template.EnvFacts{Name: "demo", ID: "e1", Org: "acme", Owner: "ann"}})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func addresses(l *template.Layout) string {
	var out []string
	for _, n := range l.Nodes {
		out = append(out, n.Address)
	}
	return strings.Join(out, " ")
}
