package expr_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/expr"
	"github.com/droverhq/drover/internal/fault"
)

// beast is a made-up thing that documents are about.
type beast struct {
	name   string
	legs   int64
	alive  bool
	born   time.Time
	traits map[string]any
}

func newEnv(t testing.TB) *expr.Env {
	t.Helper()
	traits := &expr.Object{Name: "traits", Fields: map[string]expr.Field{}}
	for name, typ := range map[string]expr.Type{"colour": expr.String, "teeth": expr.Int, "diet": expr.Dyn} {
		traits.Fields[name] = expr.Field{Type: typ, Get: func(v any) any { return v.(map[string]any)[name] }}
	}
	env, err := expr.NewEnv(map[string]*expr.Object{"beast": {Name: "beast", Fields: map[string]expr.Field{
		"name":      {Type: expr.String, Get: func(v any) any { return v.(*beast).name }},
		"legs":      {Type: expr.Int, Get: func(v any) any { return v.(*beast).legs }},
		"alive":     {Type: expr.Bool, Get: func(v any) any { return v.(*beast).alive }},
		"born":      {Type: expr.Time, Get: func(v any) any { return v.(*beast).born }},
		"traits":    {Object: traits, Get: func(v any) any { return v.(*beast).traits }},
		"loose":     {Type: expr.Map(expr.Dyn), Get: func(v any) any { return v.(*beast).traits }},
		"namespace": {Type: expr.String, Get: func(any) any { return "forest" }},
	}}, "type": {Name: "Kind", Fields: map[string]expr.Field{
		"name": {Type: expr.String, Get: func(any) any { return "big" }},
	}}}, map[string]expr.Type{"anything": expr.Dyn})
	if err != nil {
		t.Fatal(err)
	}
	return env
}

func rex() map[string]any {
	return map[string]any{"anything": "10Gi", "type": 1, "beast": &beast{
		name: "rex", legs: 2, alive: true, born: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		traits: map[string]any{"colour": "green", "diet": map[string]any{"meat": []any{"cow", "goat"}, "n": int64(2)}},
	}}
}

func TestRender(t *testing.T) {
	for name, c := range map[string]struct {
		reason string
		in     any
		want   any
	}{
		"Whole":        {"a string that is one expression keeps the type", "${beast.legs}", int64(2)},
		"WholeBool":    {"the same for booleans", "${!beast.alive}", false},
		"WholeTime":    {"times become text as JSON has no times", "${beast.born}", "2026-01-02T03:04:05Z"},
		"TimeText":     {"CEL writes the same text", "${string(beast.born)}", "2026-01-02T03:04:05Z"},
		"Text":         {"anything around it makes text", "${beast.name} has ${beast.legs} legs", "rex has 2 legs"},
		"TextSpace":    {"even a space does", " ${beast.legs}", " 2"},
		"Escaped":      {"$${ is a literal ${", "$${beast.name} is ${beast.name}", "${beast.name} is rex"},
		"Dollars":      {"other dollars are nothing special", "$5 $$ {x} $", "$5 $$ {x} $"},
		"Braces":       {"braces of a map literal do not end the expression", `${ {"a": {"b": beast.legs}} }`, map[string]any{"a": map[string]any{"b": int64(2)}}},
		"BraceInText":  {"a brace in a CEL string does not end it", `${"}" + beast.name + '{'}`, "}rex{"},
		"RawText":      {"a backslash in a raw string escapes nothing", `${r"\" + "}"}`, `\}`},
		"Triple":       {"triple quotes may hold quotes", `${"""a"}b"""}`, `a"}b`},
		"Comment":      {"a comment hides a brace", "${beast.name // }\n}", "rex"},
		"Nested":       {"trees keep their shape", map[string]any{"a": []any{"${beast.legs}", 1.5, nil}, "b": true}, map[string]any{"a": []any{int64(2), 1.5, nil}, "b": true}},
		"Typed":        {"fields of a nested object are read", "${beast.traits.colour}", "green"},
		"Loose":        {"maps of unknown content too", "${beast.loose.diet.meat[1]}", "goat"},
		"Deep":         {"a whole subtree can be taken over", "${beast.loose.diet}", map[string]any{"meat": []any{"cow", "goat"}, "n": int64(2)}},
		"Has":          {"has() looks before reading", "${has(beast.traits.teeth) ? beast.traits.teeth : 32}", int64(32)},
		"Optional":     {"optional syntax does the same", "${beast.traits.?teeth.orValue(32)}", int64(32)},
		"None":         {"an optional without value is null", "${beast.traits.?teeth}", nil},
		"Reserved":     {"a reserved word of CEL can be a field", "${beast.namespace}", "forest"},
		"TypeVariable": {"a variable may be called type", "${type.name}", "big"},
		"Extensions": {"kafka-size documents need string, list, math, set and encoder functions",
			`${base64.encode(b"x") + "," + ["b","a"].sort().join("-") + "," + string(math.greatest(1, 2)) + "," + string(sets.contains([1], [1])) + "," + "A-B".lowerAscii().replace("-", "_") + "," + "%s:%d".format(["p", 9092])}`,
			"eA==,a-b,2,true,a_b,p:9092"},
		"Comprehension": {"lists are mapped and filtered", `${beast.loose.diet.meat.map(m, m.upperAscii()).filter(m, m != "COW")}`, []any{"GOAT"}},
		"MapFrom":       {"maps are made of lists", `${beast.loose.diet.meat.transformMapEntry(i, m, {m: i})}`, map[string]any{"cow": int64(0), "goat": int64(1)}},
		"Bind":          {"a value can be named once", `${cel.bind(n, beast.name, n + n)}`, "rexrex"},
		"Quantity":      {"amounts can be compared", `${quantity(anything) > quantity("9000Mi") && !isQuantity("ten")}`, true},
		"Seconds":       {"and so can times", `${duration("48h").getSeconds()}`, int64(172800)},
		"Object":        {"an object becomes a map of what is set", "${beast.traits}", map[string]any{"colour": "green", "diet": map[string]any{"meat": []any{"cow", "goat"}, "n": int64(2)}}},
	} {
		t.Run(name, func(t *testing.T) {
			tmpl, err := expr.Compile(c.in, newEnv(t))
			if err != nil {
				t.Fatalf("%s: %v", c.reason, err)
			}
			got, err := tmpl.Render(t.Context(), rex())
			if err != nil {
				t.Fatalf("%s: %v", c.reason, err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s: -want +got\n%s", c.reason, diff)
			}
		})
	}
}

func TestQuantity(t *testing.T) {
	for name, c := range map[string]struct {
		reason, in string
		want       int64
		ok         bool
	}{
		"Binary":   {"powers of 1024", "1000Gi", 1000 << 30, true},
		"Decimal":  {"powers of 1000", "3M", 3_000_000, true},
		"Kilo":     {"k is small and Ki is large", "2Ki", 2048, true},
		"Plain":    {"no unit", "7", 7, true},
		"Fraction": {"parts are rounded up", "1.0000001Ki", 1025, true},
		"Half":     {"a fraction that comes out even", "1.5Gi", 3 << 29, true},
		"Huge":     {"more than a number holds", "9Ei", 0, false},
		"Unit":     {"a unit that there is not", "5Zi", 0, false},
		"Sign":     {"less than nothing", "-5Gi", 0, false},
		"Space":    {"a space", "5 Gi", 0, false},
		"Empty":    {"nothing", "", 0, false},
		"Long":     {"digits without end", strings.Repeat("9", 40), 0, false},
	} {
		if got, ok := expr.Quantity(c.in); got != c.want || ok != c.ok {
			t.Errorf("%s: %s: got %d, %v", name, c.reason, got, ok)
		}
	}
}

func TestSecretsAreWholeValues(t *testing.T) {
	env, err := newEnv(t).WithSecrets("den", "key.pem")
	if err != nil {
		t.Fatal(err)
	}
	tmpl, err := expr.Compile(map[string]any{
		"a": `${secret("den")}`, "b": `${beast.alive ? optional.of({"k": secret("key.pem")}) : optional.none()}`,
		"c": `${[1, 2].map(i, secret("den"))}`, "text": "secret(\"den\")",
	}, env)
	if err != nil {
		t.Fatal(err)
	}
	got, err := tmpl.Render(t.Context(), rex())
	want := map[string]any{
		"a": expr.Secret("den"), "b": map[string]any{"k": expr.Secret("key.pem")},
		"c": []any{expr.Secret("den"), expr.Secret("den")}, "text": "secret(\"den\")",
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v -want +got\n%s", err, diff)
	}
	for name, c := range map[string]struct{ reason, in string }{
		"Unknown": {"a secret that there is not", `${secret("bone")}`},
		"Made":    {"a name that is made up on the way", `${secret(beast.name)}`},
		"Joined":  {"a name in two parts", `${secret("de" + "n")}`},
		"Text":    {"inside text", `x ${secret("den")}`},
		"Added":   {"as a part of text", `${"x" + secret("den")}`},
		"String":  {"as text", `${string(secret("den"))}`},
		"Length":  {"its length", `${size(secret("den"))}`},
		"Hidden":  {"in a branch that is never taken", `${beast.alive ? "a" : dyn(secret("bone"))}`},
	} {
		if _, err := expr.Compile(c.in, env); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %s: got %v", name, c.reason, err)
		}
	}
	if _, err := expr.Compile(`${secret("den")}`, newEnv(t)); !fault.Is(err, fault.Invalid) {
		t.Errorf("where there are no secrets none can be said, got %v", err)
	}
}

func TestRenderText(t *testing.T) {
	shout := func(s string) string { return "<" + strings.ToUpper(s) + ">" }
	for in, want := range map[string]string{
		"${beast.name}": "<REX>", "a ${beast.name} b ${beast.legs}": "a <REX> b <2>", "plain": "plain", "$${x}": "${x}",
	} {
		tmpl, err := expr.Compile(in, newEnv(t))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := tmpl.RenderText(t.Context(), rex(), shout); err != nil || got != want {
			t.Errorf("%s: what expressions yield is escaped and nothing else is: got %q, %v", in, got, err)
		}
	}
	if got := expr.Skeleton("a ${beast.name} $${b} ${\"}\"}", "#"); got != "a # ${b} #" {
		t.Errorf("got %q", got)
	}
}

func TestCompileReportsEveryProblemWithItsPlace(t *testing.T) {
	doc := map[string]any{
		"a":       "${beast.nmae}",
		"b":       []any{"fine", "text ${beast.legs + \"x\"} more"},
		"c":       map[string]any{"d": "${beast.name", "e": "é ${beasty.name}"},
		"f":       "${}",
		"g":       "see ${beast.traits}",
		"h ${x}":  1,
		"i":       "${beast.traits.coluor}",
		"z":       "${type.nam}",
		"correct": "${beast.name}",
	}
	_, err := expr.Compile(doc, newEnv(t))
	if !fault.Is(err, fault.Invalid) {
		t.Fatalf("a wrong document is invalid, got %v", err)
	}
	var problems expr.Problems
	if !errors.As(err, &problems) {
		t.Fatalf("the problems can be taken from the error, got %T", err)
	}
	type place struct {
		Where  string
		Offset int
	}
	var got []place
	for _, p := range problems {
		got = append(got, place{expr.Where(p.Path), p.Offset})
	}
	want := []place{{"a", 7}, {"b[1]", 18}, {"c.d", 0}, {"c.e", 5}, {"f", 2}, {"g", 6}, {"h ${x}", 0}, {"i", 14}, {"z", 6}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s\n%v", diff, err)
	}
}

func TestHostileExpressionsAreCutOff(t *testing.T) {
	loop := func(n int) string {
		return "${[0,1,2,3,4,5,6,7,8,9]" + strings.Repeat(".map(a, [0,1,2,3,4,5,6,7,8,9]", n) + strings.Repeat(")", n) + "}"
	}
	for name, c := range map[string]struct{ reason, in, part string }{
		"Loops":        {"nested loops end at the cost limit, or on a busy machine at the clock", loop(12), "too "},
		"DoublingText": {"text that doubles is refused before it fills memory", `${["x"]` + strings.Repeat(".map(a, a + a)", 60) + "}", "too large"},
		"DoublingList": {"lists share their halves, so that cost does not see the size", `${[[1]]` + strings.Repeat(".map(a, a + a)", 60) + "}", "too large"},
		"DoublingTree": {"comparing such a tree would never end inside one step",
			`${[[1]]` + strings.Repeat(".map(a, [a, a])", 60) + ` == dyn([[2]])}`, "too large"},
		"Replace":   {"replace multiplies in one step", `${["x"]` + strings.Repeat(`.map(a, a.replace("x", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"))`, 8) + "}", "too large"},
		"Range":     {"a range is bounded", "${lists.range(1000000000)}", "cannot be evaluated"},
		"Missing":   {"a missing key is named as such", "${beast.traits.teeth}", "not there"},
		"Missing2":  {"the same in maps", "${beast.loose.nothing}", "not there"},
		"WrongType": {"types that are only known at run time", "${beast.loose.colour * 2}", "wrong type"},
		"Quantity":  {"a text that is no amount", "${quantity(beast.traits.colour)}", "no quantity"},
		"Zero":      {"division by zero", "${1 / (beast.legs - 2)}", "divides by zero"},
		"Number":    {"the value that could not be read is not echoed", `${int(beast.traits.colour)}`, "cannot be evaluated"},
		"NotJSON":   {"infinity is no JSON", `${1.0 / 0.0}`, "wrong type"},
		"IntoText":  {"a map known only at run time in the middle of text", "x ${beast.loose.diet}", "inside text"},
	} {
		t.Run(name, func(t *testing.T) {
			tmpl, err := expr.Compile(map[string]any{"at": c.in}, newEnv(t))
			if err != nil {
				t.Fatalf("%s: it compiles, got %v", c.reason, err)
			}
			start := time.Now()
			_, err = tmpl.Render(t.Context(), rex())
			if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), c.part) {
				t.Errorf("%s: got %v", c.reason, err)
			}
			if err != nil && (!strings.HasPrefix(err.Error(), "at: ") || strings.Contains(err.Error(), "green")) {
				t.Errorf("the error names the place and no value, got %v", err)
			}
			if d := time.Since(start); d > 5*time.Second {
				t.Errorf("%s: took %v", c.reason, d)
			}
		})
	}
}

func TestCompileBoundsExpressions(t *testing.T) {
	for name, c := range map[string]struct {
		reason string
		in     any
	}{
		"Long":   {"an expression has a length", "${" + strings.Repeat("1+", 10_000) + "1}"},
		"Deep":   {"and a depth", "${" + strings.Repeat("(", 500) + "1" + strings.Repeat(")", 500) + "}"},
		"Nested": {"and so has the document", deep(200)},
	} {
		if _, err := expr.Compile(c.in, newEnv(t)); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %s: got %v", name, c.reason, err)
		}
	}
}

func deep(n int) any {
	if n == 0 {
		return "${beast.name}"
	}
	return []any{deep(n - 1)}
}

func TestRenderStopsWithItsCaller(t *testing.T) {
	tmpl, err := expr.Compile("${[1,2,3,4,5,6,7,8,9,10].map(a, [1,2,3,4,5,6,7,8,9,10].map(b, [1,2,3,4,5].map(c, a*b*c))).size()}", newEnv(t))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := tmpl.Render(ctx, rex()); !fault.Is(err, fault.Unavailable) {
		t.Errorf("an evaluation whose caller has gone is not the document's fault, got %v", err)
	}
}

func TestRenderedDocumentIsBounded(t *testing.T) {
	doc := make([]any, 600)
	for i := range doc {
		doc[i] = "${beast.name}"
	}
	tmpl, err := expr.Compile(doc, newEnv(t))
	if err != nil {
		t.Fatal(err)
	}
	vars := rex()
	vars["beast"].(*beast).name = strings.Repeat("x", 1000)
	if _, err := tmpl.Render(t.Context(), vars); !fault.Is(err, fault.Invalid) {
		t.Errorf("600 times 1,000 bytes are more than a document holds, got %v", err)
	}
}

func BenchmarkRender(b *testing.B) {
	tmpl, err := expr.Compile(map[string]any{
		"a": "${beast.name}", "b": "${beast.name}.example.org", "c": []any{"${beast.traits.colour}"},
		"d": `${"teeth" in beast.loose ? beast.loose.teeth : beast.legs}`, "e": map[string]any{"f": "${string(beast.born)}", "g": "x"},
	}, newEnv(b))
	if err != nil {
		b.Fatal(err)
	}
	vars := rex()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := tmpl.Render(b.Context(), vars); err != nil {
			b.Fatal(err)
		}
	}
}
