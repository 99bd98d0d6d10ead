package ledger_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/ledger"
)

func TestTotalKey(t *testing.T) {
	key := func(v any) string { return ledger.TotalKey("beast", []string{"x"}, func(string) any { return v }) }
	at := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	same := [][]any{
		{nil, "", 0, int64(0), 0.0, false, time.Time{}},
		{1, int64(1), 1.0},
		{1_000_000, 1e6},
		{at, at.In(time.FixedZone("", 7200)), at.Add(999)},
		{true},
		{"1/y=2"},
		{`"`},
		{`\"`},
	}
	seen := map[string]int{}
	for i, group := range same {
		if i == 1 {
			group = append(group, "1") // columns have one type, so text and number never meet
		}
		for _, v := range group {
			k := key(v)
			if j, ok := seen[k]; ok && j != i {
				t.Errorf("%v (%T) shares its counter with group %d: %s", v, v, j, k)
			}
			if k != key(group[0]) {
				t.Errorf("%v and %v are one value with two counters: %s, %s", group[0], v, key(group[0]), k)
			}
			seen[k] = i
		}
	}
	two := func(a, b string) string {
		return ledger.TotalKey("beast", []string{"x", "y"}, func(c string) any { return map[string]any{"x": a, "y": b}[c] })
	}
	if two(`1"/y="2`, "") == two("1", `2"/y="`) {
		t.Error("a value can pretend to be another column")
	}
}

// TestTotalValues reads values back out of the names of their counters.
func TestTotalValues(t *testing.T) {
	columns := []string{"x", "y"}
	rapid.Check(t, func(t *rapid.T) {
		want := []string{rapid.String().Draw(t, "x"), rapid.String().Draw(t, "y")}
		key := ledger.TotalKey("beast", columns, func(c string) any { return want[map[string]int{"x": 0, "y": 1}[c]] })
		got, ok := ledger.TotalValues(key, "beast", columns)
		if diff := cmp.Diff(want, got); diff != "" || !ok {
			t.Fatalf("%s: %t %s", key, ok, diff)
		}
		for _, c := range []struct {
			kind    string
			columns []string
		}{{"bea", columns}, {"beasts", columns}, {"beast", columns[:1]}, {"beast", nil}, {"beast", []string{"y", "x"}}, {"beast", []string{"x", "y", "z"}}} {
			if values, ok := ledger.TotalValues(key, c.kind, c.columns); ok {
				t.Fatalf("%s is taken for a total of %s by %v: %q", key, c.kind, c.columns, values)
			}
		}
	})
}
