package template_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/template"
)

// What a hostile repository may hold is refused, clearly and soon.
func TestHostile(t *testing.T) {
	laughs := "  a: &a [x, x, x, x, x, x, x, x]\n"
	for i := 'b'; i < 'l'; i++ {
		laughs += fmt.Sprintf("  %c: &%c [*%c, *%c, *%c, *%c, *%c, *%c, *%c, *%c]\n", i, i, i-1, i-1, i-1, i-1, i-1, i-1, i-1, i-1)
	}
	one := func(with string) string {
		return "  resources: [{name: a, executor: open, count: 2000, with: {x: '" + with + "'}}]\n"
	}
	cases := []struct{ reason, spec, wrong string }{
		{"billion laughs", laughs, "anchors, aliases and merge keys are not supported"},
		{"too deep", "  resources: " + strings.Repeat("[", 500) + strings.Repeat("]", 500), "nested too deeply"},
		{"too long", "  description: " + strings.Repeat("x", 1<<20), "more than 1 MiB"},
		{"no text", "  description: \xff", "not UTF-8"},
		{"too many expressions", "  resources:\n" + strings.Repeat("    - {name: a, executor: file, with: {path: '${1}${1}${1}'}}\n", 7000), "at most 20000 expressions"},
		{"a loop without an end", one("${lists.range(10000).all(a, lists.range(10000).all(b, lists.range(10000).all(c, a + b + c >= 0)))}"), "a + b + c >= 0)))}: it "},
		{"a text without an end", one(`${"aaaaaaaaaaaaaaaa".replace("", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa").replace("", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa").replace("", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa").replace("", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")}`), "too large"},
		{"a long expression", one("${" + strings.Repeat("1+", 5000) + "1}"), "an expression has at most"},
		{"many resources", "  resources: [{name: a, executor: open, count: 100000}]", "count is 100000"},
		{"many through templates", "  resources: [{name: a, executor: open, count: 9999}]\n  groups: [{name: g, resources: [{name: b, executor: open, count: 9999}]}]", "more than 10000 resources"},
		{"a large schema", "  parameters: {description: " + strings.Repeat("x", 70<<10) + "}\n" + simple, "have at most 64 KiB"},
		{"a schema from elsewhere", "  parameters: {properties: {a: {$ref: 'http://127.0.0.1:1/schema'}}}\n" + simple, "must not refer to other files"},
		{"an app from elsewhere", simple + "  actions: [{name: a, app: {name: a, url: 'file:../../etc/passwd'}, command: [a]}]", `no file "../../etc/passwd"`},
		{"an app of the machine", simple + "  actions: [{name: a, app: {name: a, url: 'file:/bin/sh'}, command: [a]}]", `no file "/bin/sh"`},
		{"an app without a digest", simple + "  actions: [{name: a, app: {name: a, url: 'https://example.org/a'}, command: [a]}]", "SHA-256"},
		{"an app with a password", simple + "  actions: [{name: a, app: {name: a, url: 'https://u:p@example.org/a'}, command: [a]}]", "without a password"},
		{"a program of a shell", simple + `  actions: [{name: a, app: {name: a}, parameters: {properties: {x: {type: string}}}, command: [/bin/bash, -c, 'ls ${args.x}']}]`, "bash would run what is put in here"},
		{"a program that is chosen", simple + `  actions: [{name: a, app: {name: a}, parameters: {properties: {x: {type: string}}}, command: ['${args.x}']}]`, "cannot be chosen by an expression"},
	}
	for _, c := range cases {
		_, err := spec(t, c.spec)
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s: got %.400v", c.reason, err)
		} else if len(err.Error()) > 64<<10 {
			t.Errorf("%s: it takes %d bytes to say so", c.reason, len(err.Error()))
		}
	}
	if _, err := template.Parse(t.Context(), tree(map[string]string{"readme": ""}), "x", around); !fault.Is(err, fault.Invalid) {
		t.Errorf("no file at all: %v", err)
	}
}
