package expr_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/expr"
)

func TestEscapedTextRendersAsItself(t *testing.T) {
	env := newEnv(t)
	rapid.Check(t, func(t *rapid.T) {
		s := strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{"$", "{", "}", "${", "$${", "a", "\"", "'", "\\", "é"})).Draw(t, "s"), "")
		tmpl, err := expr.Compile(strings.ReplaceAll(s, "${", "$${"), env)
		if err != nil {
			t.Fatalf("%q: %v", s, err)
		}
		if got, err := tmpl.Render(t.Context(), rex()); err != nil || got != s {
			t.Fatalf("%q became %q, %v", s, got, err)
		}
	})
}

func FuzzCompile(f *testing.F) {
	for _, s := range []string{
		"", "plain", "${beast.name}", "a ${beast.legs} b", "$${x}", "$$${beast.name}", "${", "${}", "${\"}\"}", "${'''}'''}", `${r"\"}`,
		"${ {\"a\": 1} }", "${beast.loose.map(k, k)}", "${// }\n1}", "${\"\\\"}\"}", "${b'\\xff'}", "${beast.?traits.?teeth}", "${[1,2].map(x, x)}", "\xff${beast.name}\x00",
	} {
		f.Add(s)
	}
	env := newEnv(f)
	f.Fuzz(func(t *testing.T, s string) {
		tmpl, err := expr.Compile(s, env)
		if err != nil {
			return
		}
		got, err := tmpl.Render(t.Context(), rex())
		if err == nil && !strings.Contains(s, "${") && got != s {
			t.Errorf("%q holds no expression and became %v", s, got)
		}
	})
}
