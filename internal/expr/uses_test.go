package expr_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/droverhq/drover/internal/expr"
)

// written writes uses for people: "db.outputs.host web[0].outputs.host".
func written(uses []expr.Use) string {
	var out []string
	for _, u := range uses {
		text := u.Root
		for _, s := range u.Steps {
			switch {
			case s.Key != "":
				text += "." + s.Key
			case s.Index >= 0:
				text += fmt.Sprintf("[%d]", s.Index)
			case s.Computed != nil:
				text += "[" + written(s.Computed.Uses()) + "]"
			default:
				text += "[*]"
			}
		}
		if u.Test {
			text += "?"
		}
		if u.Over {
			text += "#"
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

func TestUses(t *testing.T) {
	cases := []struct{ reason, doc, want string }{
		{"text without expressions", "db.outputs.host", ""},
		{"a select", "${db.outputs.host}", "db.outputs.host"},
		{"several in one text", "${db.outputs.host}:${db.outputs.port}", "db.outputs.host db.outputs.port"},
		{"both branches", "${params.a ? db.outputs.host : gone.outputs.host}", "params.a db.outputs.host gone.outputs.host"},
		{"a constant index", "${web[1].outputs.host}", "web[1].outputs.host"},
		{"an index by text", "${params['a'].b}", "params.a.b"},
		{"an empty text", "${params['']}", "params[*]"},
		{"a computed index", "${web[index + params.n].outputs.host}", "index params.n web[index params.n].outputs.host"},
		{"an index that is a variable of a loop", "${[0, 1].map(i, web[i].outputs.host)}", "web[*].outputs.host"},
		{"a member of what a loop goes over", "${web.map(w, w.outputs.host)}", "web# web[*].outputs.host"},
		{"a filter", "${web.filter(w, w.outputs.open).size()}", "web# web[*].outputs.open web[*]"},
		{"two variables", "${web.transformList(i, w, w.outputs.host + string(i))}", "web# web[*].outputs.host"},
		{"a loop in a loop", "${web.map(w, w.outputs.tags.map(t, t))}", "web# web[*].outputs.tags# web[*].outputs.tags[*]"},
		{"a variable that hides another", "${['x'].map(db, db)}", ""},
		{"how many", "${size(web) + web.size()}", "web# web#"},
		{"whether it is there", "${has(db.outputs.host)}", "db.outputs.host?"},
		{"an optional one", "${db.?outputs.?host.orValue('')}", "db.outputs.host"},
		{"an alias", "${cel.bind(x, db, x.outputs.host)}", "db"},
		{"a list", "${[db][0].outputs.host}", "db"},
		{"a map", "${{'a': db.outputs.host, params.k: 1}}", "db.outputs.host params.k"},
		{"arguments", "${db.outputs.host.replace(params.a, 'b')}", "db.outputs.host params.a"},
	}
	for _, c := range cases {
		compiled, err := expr.Compile(c.doc, resources(t))
		if err != nil {
			t.Errorf("%s: %v", c.reason, err)
			continue
		}
		got := strings.Fields(strings.ReplaceAll(written(compiled.Uses()), "[index params.n]", "[index,params.n]"))
		want := strings.Fields(strings.ReplaceAll(c.want, "[index params.n]", "[index,params.n]"))
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", c.reason, got, want)
		}
	}
}

func TestUsesTellWhere(t *testing.T) {
	compiled, err := expr.Compile(map[string]any{"a": []any{"x", "at ${db.outputs.host}"}}, resources(t))
	if err != nil {
		t.Fatal(err)
	}
	u := compiled.Uses()[0]
	if expr.Where(u.Path) != "a[1]" || u.At != 5 {
		t.Errorf("got %v, %d", u.Path, u.At)
	}
	compiled, err = expr.Compile("${web[index + 1].outputs.host}", resources(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range compiled.Uses() {
		if u.Root == "web" {
			if got, err := u.Steps[0].Computed.Render(t.Context(), map[string]any{"index": int64(2)}); got != int64(3) || err != nil {
				t.Errorf("got %v, %v", got, err)
			}
		}
	}
}

// What is known with something unknown is the same as when all is known, and
// nothing that is refused then comes out.
func FuzzRenderPartial(f *testing.F) {
	for _, seed := range []string{
		"${db.outputs.host}", "a ${db.outputs.host} b", "${web.map(w, w.outputs.host).join(',')}", "${params.n > 0 ? 'a' : db.outputs.host}",
		"${web[index].outputs.host}", "${has(gone.outputs) ? 1 : 2}", "${cel.bind(x, db, x.outputs.port + 1)}", "${lists.range(10000).map(i, lists.range(10000))}",
		"${db.outputs.open && false}", "${[db.outputs.host, 'x'].exists(h, h == 'x')}", "${{'a': db}.a.outputs.port}", "${1 / 0}", "${web[?3].?outputs}",
	} {
		f.Add(seed)
	}
	env := resources(f)
	f.Fuzz(func(t *testing.T, doc string) {
		compiled, err := expr.Compile(doc, env)
		if err != nil {
			return
		}
		partial, partialErr := compiled.RenderPartial(t.Context(), vars(), [][]any{{"db", "outputs", "host"}, {"web", nil, "outputs"}})
		whole, wholeErr := compiled.Render(t.Context(), vars())
		if partialErr == nil && wholeErr == nil && !holdsUnknown(partial) && fmt.Sprint(partial) != fmt.Sprint(whole) {
			t.Errorf("%q is %v, and %v without what is unknown", doc, whole, partial)
		}
		if wholeErr != nil && partialErr == nil && !holdsUnknown(partial) && !strings.Contains(wholeErr.Error(), "too") {
			t.Errorf("%q is refused (%v), and %v without what is unknown", doc, wholeErr, partial)
		}
	})
}

func holdsUnknown(v any) bool {
	switch x := v.(type) {
	case expr.Unknown:
		return true
	case []any:
		return slices.ContainsFunc(x, holdsUnknown)
	case map[string]any:
		for _, v := range x {
			if holdsUnknown(v) {
				return true
			}
		}
	}
	return false
}
