package expr_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/expr"
	"github.com/droverhq/drover/internal/fault"
)

// resources is an environment like those of templates: one object, a list of
// objects, and parameters.
func resources(t testing.TB) *expr.Env {
	t.Helper()
	member := func(name string, typ expr.Type) expr.Field {
		return expr.Field{Type: typ, Get: func(v any) any { return v.(map[string]any)[name] }}
	}
	outputs := &expr.Object{Name: "outputs", Fields: map[string]expr.Field{
		"host": member("host", expr.String), "port": member("port", expr.Int), "open": member("open", expr.Bool), "tags": member("tags", expr.List(expr.String)),
	}}
	resource := &expr.Object{Name: "resource", Fields: map[string]expr.Field{
		"outputs": {Object: outputs, Get: func(v any) any {
			if o, ok := v.(map[string]any)["outputs"]; ok {
				return o
			}
			return map[string]any{}
		}, Has: func(v any) bool { _, ok := v.(map[string]any)["outputs"]; return ok }},
	}}
	env, err := expr.NewEnv(map[string]*expr.Object{"db": resource, "gone": resource}, map[string]expr.Type{
		"web": expr.List(resource.Type()), "params": expr.Map(expr.Dyn), "index": expr.Int,
	})
	if err != nil {
		t.Fatal(err)
	}
	return env
}

func vars() map[string]any {
	return map[string]any{
		"db":     map[string]any{"outputs": map[string]any{"host": "h", "port": int64(5432), "open": true, "tags": []any{"a"}}},
		"gone":   map[string]any{},
		"web":    []any{map[string]any{"outputs": map[string]any{"host": "w0"}}, map[string]any{"outputs": map[string]any{"host": "w1"}}},
		"params": map[string]any{"size": "small", "n": int64(1)},
		"index":  int64(0),
	}
}

func TestRenderPartial(t *testing.T) {
	unknown := expr.Unknown{}
	host, whole := []any{"db", "outputs", "host"}, []any{"db", "outputs"}
	cases := []struct {
		reason  string
		doc     any
		unknown [][]any
		want    any
	}{
		{"what is unknown stays so", "${db.outputs.host}", [][]any{host}, unknown},
		{"the whole text is unknown", "http://${db.outputs.host}:${db.outputs.port}/", [][]any{host}, unknown},
		{"what is beside it is known", "${db.outputs.port}", [][]any{host}, int64(5432)},
		{"only the leaf of a document", map[string]any{"a": "${db.outputs.host}", "b": []any{"${params.size}", "x"}}, [][]any{host},
			map[string]any{"a": unknown, "b": []any{"small", "x"}}},
		{"all outputs", "${db.outputs.port + 1}", [][]any{whole}, unknown},
		{"an object that is used as a whole", "${[db]}", [][]any{host}, unknown},
		{"through an alias", "${cel.bind(x, db, x.outputs.port)}", [][]any{host}, unknown},
		{"false and anything is false", "${params.size == 'large' && db.outputs.host == 'x'}", [][]any{host}, false},
		{"anything and false is false", "${db.outputs.host == 'x' && params.size == 'large'}", [][]any{host}, false},
		{"true or anything is true", "${db.outputs.open || params.size == 'small'}", [][]any{whole}, true},
		{"the branch that is not taken", "${params.size == 'small' ? 'a' : db.outputs.host}", [][]any{host}, "a"},
		{"the branch that is taken", "${params.size == 'large' ? 'a' : db.outputs.host}", [][]any{host}, unknown},
		{"a condition", "${db.outputs.open ? 'a' : 'b'}", [][]any{whole}, unknown},
		{"a list of it", "${['x', db.outputs.host]}", [][]any{host}, unknown},
		{"a map of it", "${{'x': db.outputs.host}}", [][]any{host}, unknown},
		{"one of a list", "${web[0].outputs.host}", [][]any{{"web", 0, "outputs"}}, unknown},
		{"the other of a list", "${web[1].outputs.host}", [][]any{{"web", 0, "outputs"}}, "w1"},
		{"a computed index", "${web[index].outputs.host}", [][]any{{"web", 0, "outputs"}}, unknown},
		{"another computed index", "${web[index + 1].outputs.host}", [][]any{{"web", 0, "outputs"}}, "w1"},
		{"any index", "${web[1].outputs.host}", [][]any{{"web", nil, "outputs"}}, unknown},
		{"a loop over a list", "${web.map(w, w.outputs.host)}", [][]any{{"web", 0, "outputs"}}, unknown},
		{"a loop that makes it", "${[1, 2].map(i, db.outputs.host)}", [][]any{host}, unknown},
		{"whether an alias has it", "${cel.bind(x, db, has(x.outputs.host))}", [][]any{host}, unknown},
		{"an index that is unknown", "${web[db.outputs.port].outputs.host}", [][]any{whole}, unknown},
		{"a function of it", "${size(db.outputs.host) > 3}", [][]any{host}, unknown},
		{"a method of it", "${db.outputs.host.replace('a', 'b')}", [][]any{host}, unknown},
		{"whether it is there", "${has(db.outputs.host)}", [][]any{host}, unknown},
		{"what is not there", "${has(gone.outputs) ? gone.outputs.host : 'none'}", [][]any{host}, "none"},
		{"what is not there, by its output", "${has(gone.outputs.host) ? gone.outputs.host : 'none'}", [][]any{host}, "none"},
		{"an optional one", "${web[?0].?outputs.?host.orValue('x')}", [][]any{{"web", 0, "outputs"}}, unknown},
		{"an optional one that is not there", "${web[?7].?outputs.?host.orValue('x')}", [][]any{{"web", 0, "outputs"}}, "x"},
		{"nothing is unknown", "${db.outputs.host}", nil, "h"},
		{"something else is", "${db.outputs.host}", [][]any{{"web"}}, "h"},
	}
	for _, c := range cases {
		compiled, err := expr.Compile(c.doc, resources(t))
		if err != nil {
			t.Errorf("%s: %v", c.reason, err)
			continue
		}
		got, err := compiled.RenderPartial(t.Context(), vars(), c.unknown)
		if err != nil {
			t.Errorf("%s: %v", c.reason, err)
			continue
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", c.reason, diff)
		}
	}
}

func TestRenderPartialIsBounded(t *testing.T) {
	cases := []struct{ reason, doc string }{
		{"cost", "${lists.range(10000).map(i, lists.range(10000).map(j, i * j))}"},
		{"cost before an unknown", "${lists.range(10000).all(i, lists.range(10000).all(j, i + j >= 0)) ? db.outputs.host : ''}"},
		{"size", "${['aaaaaaaaaaaaaaaa'].map(a, a.replace('a', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa')).map(a, a.replace('a', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa')).map(a, a.replace('a', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa')).map(a, a.replace('a', 'aaaaaaaaaaaaaaaa'))}"},
		{"an index beyond the list", "${web[7].outputs.host}"},
		{"what is not there", "${gone.outputs.host}"},
		{"a mistake behind an unknown", "${db.outputs.host}${1 / (params.n - 1)}"},
	}
	for _, c := range cases {
		compiled, err := expr.Compile(c.doc, resources(t))
		if err != nil {
			t.Errorf("%s: %v", c.reason, err)
			continue
		}
		ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
		got, err := compiled.RenderPartial(ctx, vars(), [][]any{{"db", "outputs"}})
		stop()
		if !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: got %v, %v", c.reason, got, err)
		}
	}
}
