package template_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/expr"
	"github.com/droverhq/drover/internal/source"
	"github.com/droverhq/drover/internal/template"
)

// kinds are executors whose rules are of several sorts.
var kinds = map[string]executor.Description{
	"file": {
		Inputs: map[string]any{"type": "object", "additionalProperties": false, "required": []any{"path"}, "properties": map[string]any{
			"path": map[string]any{"type": "string", "pattern": "^[^/]", "examples": []any{"shop/settings.ini"}}, "content": map[string]any{"type": "string"}}},
		Outputs: map[string]executor.Output{"sha256": {Type: expr.String}, "path": {Type: expr.String}},
	},
	"kv": {
		Inputs: map[string]any{"type": "object", "additionalProperties": false,
			"oneOf": []any{
				map[string]any{"required": []any{"key", "value"}, "propertyNames": map[string]any{"enum": []any{"key", "value"}}},
				map[string]any{"required": []any{"service"}, "propertyNames": map[string]any{"enum": []any{"service", "checks"}}},
			},
			"properties": map[string]any{"key": map[string]any{"type": "string"}, "value": map[string]any{"type": "string"}, "service": map[string]any{"type": "string"},
				"checks": map[string]any{"type": "array", "items": map[string]any{"type": "object", "additionalProperties": false, "properties": map[string]any{"interval": map[string]any{"type": "string"}}}}}},
		Outputs: map[string]executor.Output{"node": {Type: expr.String}},
	},
}

// What is wrong is told at its place, with what is there at that place alone.
func TestHints(t *testing.T) {
	const before = `apiVersion: drover.dev/v1
kind: Template
metadata: {name: shop}
spec:
  version: "1"
  parameters: {type: object, properties: {size: {type: string, default: small}}}
  resources:
    - {name: disk, executor: file, with: {path: a}}
    - {name: store, executor: kv, count: 2, with: {key: a, value: b}}
    - %s
  groups:
    - {name: front, resources: [{name: page, executor: file, with: {path: b}}, {name: rows, executor: kv, count: 2, with: {service: x}}]}
  policies:
    - {name: keep, effect: deny, when: '%s'}
`
	cases := []struct {
		reason, resource, policy string
		want                     string // empty: it is in order
		not                      string
	}{
		{"all is in order", `{name: x, executor: kv, with: {key: "${disk.outputs.path}", value: "${store[0].outputs.node}"}}`, "true", "", ""},
		{"an input is misspelt", `{name: x, executor: file, with: {path: a, contents: b}}`, "true", "template.yaml:10:59: spec.resources[2].with.contents: executor file has no such input; did you mean content?", ""},
		{"so is one within a list", `{name: x, executor: kv, with: {service: a, checks: [{intervall: 3s}]}}`, "true", "did you mean interval?", ""},
		{"a pattern is told with an example", `{name: x, executor: file, with: {path: /etc/passwd}}`, "true", "template.yaml:10:46: spec.resources[2].with.path: does not match the pattern ^[^/]: want such as shop/settings.ini", ""},
		{"something is missing of a form", `{name: x, executor: kv, with: {key: a}}`, "true", "template.yaml:10:37: spec.resources[2].with: executor kv wants key and value; or service, and nothing", ""},
		{"it is also where values are not known", `{name: x, executor: kv, with: {key: "${params.size}"}}`, "true", "wants key and value; or service", ""},
		{"two forms are mixed", `{name: x, executor: kv, with: {key: a, value: b, service: "${params.size}"}}`, "true", "wants key and value; or service", ""},
		{"nothing is given", `{name: x, executor: kv}`, "true", "wants key and value; or service", ""},
		{"an output is misspelt", `{name: x, executor: file, with: {path: "${disk.outputs.paht}"}}`, "true", "there is no field paht here; did you mean path?", ""},
		{"another executor has it", `{name: x, executor: file, with: {path: "${disk.outputs.node}"}}`, "true", "there is no field node here; there is path, sha256", "did you mean"},
		{"one of several", `{name: x, executor: file, with: {path: "${store[1].outputs.nod}"}}`, "true", "did you mean node?", ""},
		{"each of several", `{name: x, executor: file, with: {path: "${store.map(s, s.outputs.nodd).join(\"\")}"}}`, "true", "did you mean node?", ""},
		{"one of a group", `{name: x, executor: file, with: {path: "${front.pag.outputs.path}"}}`, "true", "there is no field pag here; did you mean page?", ""},
		{"one of several of a group", `{name: x, executor: file, with: {path: "${front.rows[0].outputs.nodes}"}}`, "true", "did you mean node?", ""},
		{"a parameter", `{name: x, executor: file, with: {path: "${params.sise}"}}`, "true", "there is no field sise here; did you mean size?", ""},
		{"what is one of env is none of params", `{name: x, executor: file, with: {path: "${params.owner}"}}`, "true", "there is no field owner here; there is size", "did you mean"},
		{"a policy knows no parameters", `{name: x, executor: file, with: {path: b}}`, `param.size == "x"`, "there is no param here; a policy knows plan and change", "did you mean"},
		{"a policy knows changes", `{name: x, executor: file, with: {path: b}}`, `chang.action == "x"`, "there is no chang here; did you mean change?", ""},
		{"and their fields", `{name: x, executor: file, with: {path: b}}`, `change.destroys == 1`, "there is no field destroys here; there is action, address", "did you mean"},
	}
	for _, c := range cases {
		text := fmt.Sprintf(before, c.resource, c.policy)
		_, err := template.Parse(t.Context(), source.Tree{Commit: "0123456789abcdef", Files: map[string]source.File{"template.yaml": {Data: []byte(text)}}}, "shop", template.Surroundings{Executors: kinds})
		said := fmt.Sprint(err)
		if (err == nil) != (c.want == "") || !strings.Contains(said, c.want) && c.want != "" || c.not != "" && strings.Contains(said, c.not) {
			t.Errorf("%s: %s", c.reason, said)
		}
	}
}
