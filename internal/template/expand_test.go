package template_test

import (
	"strings"
	"testing"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/source"
	"github.com/droverhq/drover/internal/template"
)

// edges writes a layout for people: "db; web[0] < db".
func edges(l *template.Layout) string {
	var out []string
	for _, n := range l.Nodes {
		text := n.Address
		if len(n.Needs) > 0 {
			text += " < " + strings.Join(n.Needs, " ")
		}
		out = append(out, text)
	}
	return strings.Join(out, "; ")
}

const counted = `
  parameters: {properties: {n: {type: integer, default: 3}, on: {type: boolean, default: false}, which: {type: integer, default: 0}}}
`

func TestExpand(t *testing.T) {
	cases := []struct {
		reason, spec string
		params       map[string]any
		want         string // edges
		wrong        string // part of the message; the default parameters are tried by Parse
	}{
		{"a count has indexes", `
  resources: [{name: web, executor: file, count: '${params.n}', with: {path: 'w${index}'}}]`, nil, "web[0]; web[1]; web[2]", ""},
		{"a count of one has an index too", `
  resources: [{name: web, executor: file, count: 1, with: {path: w}}]`, nil, "web[0]", ""},
		{"no count, no index", `
  resources: [{name: web, executor: file, with: {path: w}}]`, nil, "web", ""},
		{"each needs the one before it", `
  resources: [{name: web, executor: file, count: 3, with: {path: '${index == 0 ? "first" : web[index - 1].outputs.path}'}}]`, nil,
			"web[0]; web[1] < web[0]; web[2] < web[1]", ""},
		{"pairs", `
  resources:
    - {name: a, executor: file, count: 2, with: {path: a}}
    - {name: b, executor: file, count: 2, with: {path: '${a[index].outputs.path}'}}`, nil,
			"a[0]; a[1]; b[0] < a[0]; b[1] < a[1]", ""},
		{"an index from parameters", `
  resources:
    - {name: a, executor: file, count: 2, with: {path: a}}
    - {name: b, executor: file, with: {path: '${a[params.which].outputs.path}'}}`, map[string]any{"which": 1},
			"a[0]; a[1]; b < a[1]", ""},
		{"an index from an output may be any", `
  resources:
    - {name: pick, executor: file, with: {path: p}}
    - {name: a, executor: file, count: 2, with: {path: a}}
    - {name: b, executor: file, with: {path: '${a[pick.outputs.size].outputs.path}'}}`, nil,
			"pick; a[0]; a[1]; b < a[0] a[1] pick", ""},
		{"a loop uses all", `
  resources:
    - {name: a, executor: file, count: 2, with: {path: a}}
    - {name: b, executor: file, with: {path: '${a.map(x, x.outputs.path).join(" ")}'}}`, nil, "a[0]; a[1]; b < a[0] a[1]", ""},
		{"a variable of a loop hides a resource", `
  resources:
    - {name: a, executor: file, with: {path: a}}
    - {name: b, executor: file, with: {path: '${["x"].map(a, a).join("")}'}}`, nil, "a; b", ""},
		{"an address is known before", `
  resources:
    - {name: a, executor: file, with: {path: a}}
    - {name: b, executor: file, with: {path: '${a.address}'}}`, nil, "a; b", ""},
		{"both branches are edges", `
  resources:
    - {name: a, executor: file, with: {path: a}}
    - {name: b, executor: file, with: {path: '${params.on ? a.outputs.path : "none"}'}}`, nil, "a; b < a", ""},
		{"needs of every form", `
  resources:
    - {name: a, executor: file, count: 2, with: {path: a}}
    - {name: b, executor: file, needs: ['a[1]'], with: {path: b}}
    - {name: c, executor: file, needs: [front], with: {path: c}}
    - {name: d, executor: file, needs: ['${params.on ? "a" : ""}', '${["b", "front.api"]}', front.api], with: {path: d}}
    - {name: e, executor: file, count: 2, needs: ['a[${index}]'], with: {path: d}}
  groups: [{name: front, needs: [b], resources: [{name: api, executor: file, with: {path: x}}]}]`, nil,
			"a[0]; a[1]; b < a[1]; e[0] < a[0]; e[1] < a[1]; front.api < b; c < front.api; d < b front.api", ""},
		{"a condition takes it away", `
  resources:
    - {name: a, executor: file, when: params.on, with: {path: a}}
    - {name: b, executor: file, when: '${!params.on}', needs: [a], with: {path: b}}`, nil, "b", ""},
		{"a condition of a group", `
  resources: [{name: a, executor: file, needs: [front], with: {path: a}}]
  groups: [{name: front, when: params.on, resources: [{name: api, executor: file, with: {path: x}}]}]`, nil, "a", ""},
		{"what is not there cannot be read", `
  resources:
    - {name: a, executor: file, when: params.on, with: {path: a}}
    - {name: b, executor: file, with: {path: '${a.outputs.path}'}}`, nil, "", "a is not there with these parameters (its condition is false); guard it with has(a.outputs)"},
		{"guarded by has", `
  resources:
    - {name: a, executor: file, when: params.on, with: {path: a}}
    - {name: b, executor: file, with: {path: '${has(a.outputs) ? a.outputs.path : "none"}', content: '${has(a.outputs.path) ? a.outputs.path : "none"}'}}`, nil, "b", ""},
		{"guarded by the same condition", `
  resources:
    - {name: a, executor: file, when: params.on, with: {path: a}}
    - {name: b, executor: file, with: {path: '${params.on ? a.outputs.path : "none"}'}}`, nil, "b", ""},
		{"in the group that is not there", `
  resources: [{name: b, executor: file, with: {path: '${front.api.outputs.path}'}}]
  groups: [{name: front, when: params.on, resources: [{name: api, executor: file, with: {path: x}}]}]`, nil, "", "front.api is not there"},
		{"a count of none", `
  resources:
    - {name: a, executor: file, count: 0, with: {path: a}}
    - {name: b, executor: file, with: {path: '${a[0].outputs.path}'}}`, nil, "", "a is not there with these parameters (its count is 0); guard it with size(a) > 0"},
		{"a count of none, guarded", `
  resources:
    - {name: a, executor: file, count: 0, with: {path: a}}
    - {name: b, executor: file, with: {path: '${size(a) > 0 ? a[0].outputs.path : "none"}'}}`, nil, "b", ""},
		{"beyond the count", `
  resources:
    - {name: a, executor: file, count: 2, with: {path: a}}
    - {name: b, executor: file, with: {path: '${a[2].outputs.path}'}}`, nil, "", "there is no a[2]: the count is 2"},
		{"a need beyond the count", `
  resources:
    - {name: a, executor: file, count: 2, with: {path: a}}
    - {name: b, executor: file, needs: ['a[2]'], with: {path: b}}`, nil, "", "there is no a[2]: the count is 2"},
		{"a cycle that only many have", `
  resources:
    - {name: a, executor: file, count: '${params.n}', needs: ['${params.n > 2 ? "b" : ""}'], with: {path: a}}
    - {name: b, executor: file, with: {path: '${a[0].outputs.path}'}}`, map[string]any{"n": 2}, "", "these need each other: a[0] → b → a[0]"},
		{"itself", `
  resources: [{name: a, executor: file, count: 2, with: {path: '${a[index].outputs.path}'}}]`, nil, "", "these need each other: a[0] → a[0]"},
		{"a negative count", `
  resources: [{name: a, executor: file, count: '${params.n - 4}', with: {path: a}}]`, nil, "", "count is -1, and must be from 0 to 10000"},
		{"too many", `
  resources: [{name: a, executor: file, count: 6000, with: {path: a}}, {name: b, executor: file, count: 6000, with: {path: b}}]`, nil, "", "there would be more than 10000 resources"},
		{"too many edges", `
  resources: [{name: a, executor: file, count: 1000, with: {path: a}}, {name: b, executor: file, count: 1000, needs: [a], with: {path: b}}]`, nil, "", "more than 200000 edges"},
		{"an input that does not fit with these parameters", `
  resources: [{name: a, executor: file, with: {path: '${params.n > 2 ? "" : "x"}'}}]`, nil, "", "a: with.path: must have at least 1 characters"},
		{"an expression that does too much", `
  resources: [{name: a, executor: file, count: 9000, with: {path: '${lists.range(9999).map(i, lists.range(9999)).size() > params.n ? "a" : "b"}'}}]`, nil, "", "it does too much work"},
	}
	for _, c := range cases {
		tm, err := spec(t, counted+c.spec)
		var l *template.Layout
		if err == nil {
			var params map[string]any
			if params, err = tm.Validate(c.params); err == nil {
				l, err = tm.Expand(t.Context(), template.Given{Params: params})
			}
		}
		switch {
		case c.wrong == "" && err != nil:
			t.Errorf("%s: %v", c.reason, err)
		case c.wrong == "":
			if got := edges(l); got != c.want {
				t.Errorf("%s: got %s, want %s", c.reason, got, c.want)
			}
		case !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), c.wrong) || !strings.HasPrefix(err.Error(), "template.yaml:"):
			t.Errorf("%s: got %v", c.reason, err)
		}
	}
}

const inner = `apiVersion: drover.dev/v1
kind: Template
metadata: {name: inner}
spec:
  version: 2.0.0
  parameters: {properties: {host: {type: string}, n: {type: integer, default: 2}, extra: {type: string, default: x}}, required: [host]}
  resources:
    - {name: key, executor: vault}
    - {name: app, executor: file, count: '${params.n}', with: {path: '${params.extra}', content: 'at ${params.host}'}}
    - {name: plain, executor: file, with: {path: '${params.extra}'}}
  checks: [{http: 'http://${params.extra}/${plain.outputs.path}'}]
  outputs:
    - {name: first, value: '${app[0].outputs.path}'}
    - {name: key, value: 'key=${key.outputs.password}'}
    - {name: sizes, value: '${app.map(a, a.outputs.size)}'}
`

const outer = head + `
  resources:
    - {name: db, executor: vault}
    - {name: user, executor: file, with: {path: '${part.outputs.first}'}}
    - {name: keyed, executor: file, with: {path: k, content: '${part.outputs.key}', mode: '${part.outputs.sizes[1]}'}}
  groups:
    - name: part
      template: ./parts/inner
      needs: [base]
      with: {host: '${db.outputs.path}'}
    - name: second
      template: ./parts/inner
      with: {host: '${part.outputs.key}', n: 1}
    - name: base
      resources: [{name: dir, executor: file, with: {path: d}}]
  outputs: [{name: key, value: '${part.outputs.key}'}, {name: first, value: '${part.outputs.first}'}]
`

func composed(t testing.TB) *template.Template {
	t.Helper()
	tm, err := template.Parse(t.Context(), tree(map[string]string{"template.yaml": outer, "parts/inner/template.yaml": inner}), "", around)
	if err != nil {
		t.Fatal(err)
	}
	return tm
}

func TestComposed(t *testing.T) {
	l := expand(t, composed(t), nil)
	want := "db; base.dir; part.key < base.dir; part.plain < base.dir; second.key; second.plain; " +
		"keyed < part.app[0] part.app[1] part.key; part.app[0] < base.dir db; part.app[1] < base.dir db; second.app[0] < part.key; user < part.app[0]"
	got := strings.Split(edges(l), "; ")
	for _, w := range strings.Split(want, "; ") {
		found := false
		for _, g := range got {
			found = found || g == w
		}
		if !found {
			t.Errorf("%s is not in %s", w, got)
		}
	}
	for _, p := range l.Groups {
		if p.Address == "part" && (p.Template != "inner@2.0.0" || strings.Join(p.Nodes, " ") != "part.key part.app[0] part.app[1] part.plain") {
			t.Errorf("got %+v", p)
		}
	}
	n, _ := l.Node("part.app[1]")
	if n.Template != "inner@2.0.0" || n.Group != "part" || n.Index != 1 {
		t.Errorf("got %+v", n)
	}
}

func TestNesting(t *testing.T) {
	chain := func(n int) source.Tree {
		files := map[string]string{}
		dir := ""
		for i := range n {
			text := strings.Replace(head, "name: shop", "name: t"+string(rune('a'+i)), 1) + "  resources: [{name: a, executor: file, with: {path: a}}]\n"
			if i < n-1 {
				text += "  groups: [{name: g, template: ./x}]\n"
			}
			files[dir+"template.yaml"] = text
			dir += "x/"
		}
		return tree(files)
	}
	tm, err := template.Parse(t.Context(), chain(8), "", around)
	if err != nil {
		t.Fatal(err)
	}
	if l := expand(t, tm, nil); len(l.Nodes) != 8 || l.Nodes[7].Address != "g.g.g.g.g.g.g.a" {
		t.Errorf("got %s", addresses(l))
	}
	if _, err := template.Parse(t.Context(), chain(9), "", around); err == nil || !strings.Contains(err.Error(), "templates nest at most 8 deep") {
		t.Errorf("nine deep: %v", err)
	}
	within := strings.Replace(head, "name: shop", "name: w", 1) + `  parameters: {properties: {n: {type: integer}}, required: [n]}
  resources: [{name: a, executor: file, count: '${params.n}', with: {path: a}}]
`
	given := head + "  groups: [{name: g, template: ./w, with: {n: '${1 - 2}'}}]\n"
	if _, err := template.Parse(t.Context(), tree(map[string]string{"template.yaml": given, "w/template.yaml": within}), "x", around); err == nil || !strings.HasPrefix(err.Error(), "x/w/template.yaml:7:") {
		t.Errorf("a mistake of a template within is told in its file: %v", err)
	}
	a := strings.Replace(head, "name: shop", "name: a", 1) + "  groups: [{name: g, template: ./b}]\n"
	b := strings.Replace(head, "name: shop", "name: b", 1) + "  groups: [{name: g, template: ./../}]\n"
	if _, err := template.Parse(t.Context(), tree(map[string]string{"template.yaml": a, "b/template.yaml": b}), "", around); err == nil || !strings.Contains(err.Error(), "these templates hold each other: . → b → .") {
		t.Errorf("a cycle: %v", err)
	}
	same := head + "  groups: [{name: g, template: ./b}]\n"
	twin := head + "  resources: [{name: a, executor: file, with: {path: a}}]\n"
	if _, err := template.Parse(t.Context(), tree(map[string]string{"template.yaml": same, "b/template.yaml": twin}), "", around); err == nil || !strings.Contains(err.Error(), "hold each other: shop → shop → shop") {
		t.Errorf("a template of the same name: %v", err)
	}
}
