package ledger_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

func TestQueryCheck(t *testing.T) {
	where := func(column string, op ledger.Op, values ...any) ledger.Query {
		return ledger.Query{Where: ledger.Compare{Column: column, Op: op, Values: values}}
	}
	nested := func(n int) ledger.Query {
		e := ledger.Expr(ledger.Or{})
		for range n {
			e = ledger.And{e}
		}
		return ledger.Query{Where: e}
	}
	terms := func(n int) ledger.Query {
		var e ledger.Or
		for range n {
			e = append(e, ledger.Compare{Column: "name", Op: ledger.Eq, Values: []any{"x"}})
		}
		return ledger.Query{Where: e}
	}
	cases := []struct {
		reason string
		query  ledger.Query
		ok     bool
	}{
		{"everything", ledger.Query{}, true},
		{"the highest limit", ledger.Query{Limit: ledger.MaxPage}, true},
		{"beyond the highest limit", ledger.Query{Limit: ledger.MaxPage + 1}, false},
		{"a common column", where("phase", ledger.Eq, "ready"), true},
		{"a declared field", where("legs", ledger.Le, 4), true},
		{"an undeclared field", where("wings", ledger.Le, 4), false},
		{"a field of another name", where("Legs", ledger.Le, 4), false},
		{"numbers out of JSON", where("legs", ledger.Eq, 4.0), true},
		{"fractions are no whole numbers", where("legs", ledger.Eq, 4.5), false},
		{"times as text", where("born", ledger.Gt, "2026-01-02T03:04:05Z"), true},
		{"times that are none", where("born", ledger.Gt, "yesterday"), false},
		{"times that no database has", where("born", ledger.Gt, time.Unix(1<<56, 0)), false},
		{"in needs no value", where("name", ledger.In), true},
		{"in of mixed types", where("name", ledger.In, "a", 1), false},
		{"like needs text", where("tame", ledger.Like, "t%"), false},
		{"an escape at the end", where("name", ledger.Like, `a\`), false},
		{"an escaped escape at the end", where("name", ledger.Like, `a\\`), true},
		{"an escape is plain outside patterns", where("name", ledger.Eq, `a\`), true},
		{"the longest value", where("name", ledger.Eq, strings.Repeat("a", ledger.MaxText)), true},
		{"too long a value", where("name", ledger.Eq, strings.Repeat("a", ledger.MaxText+1)), false},
		{"a zero byte", where("name", ledger.Eq, "\x00"), false},
		{"nesting within bounds", nested(31), true},
		{"nested too deeply", nested(33), false},
		{"many terms", terms(500), true},
		{"too many terms", terms(501), false},
		{"nothing in an and", ledger.Query{Where: ledger.And{nil}}, false},
		{"scopes have types, too", ledger.Query{Scope: map[string]any{"org": 1}}, false},
		{"paging after an id", ledger.Query{AfterID: "a"}, true},
		{"paging in two ways", ledger.Query{AfterID: "a", Offset: 1}, false},
	}
	for _, c := range cases {
		err := c.query.Check(kinds()["beast"])
		if c.ok && err != nil || !c.ok && !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: got %v, want ok %v", c.reason, err, c.ok)
		}
	}
}

func TestCauses(t *testing.T) {
	ref := ledger.Ref{Kind: "beast", ID: "a@b/c"}
	if got, version, ok := ledger.ByChange(ref, 7).Change(); !ok || got != ref || version != 7 {
		t.Errorf("the cause of a change points at %v@%d, %v", got, version, ok)
	}
	for _, c := range []ledger.Cause{
		ledger.ByRequest("r"), ledger.ByReport("c", "7"), ledger.BySchedule("resync"), "", "change:", "change:a@1", "change:a/b", "change:a/b@x",
	} {
		if ref, version, ok := c.Change(); ok {
			t.Errorf("%q points at %v@%d", c, ref, version)
		}
	}
}

// TestNeeds checks that rows are named once, sorted, and only if they can exist.
func TestNeeds(t *testing.T) {
	a, b := ledger.Ref{Kind: "beast", ID: "a"}, ledger.Ref{Kind: "beast", ID: "b"}
	bad := ledger.Ref{Kind: "beast", ID: "\x00"}
	set := func(refs ...ledger.Ref) ledger.Set {
		var s ledger.Set
		for _, r := range refs {
			s.Puts = append(s.Puts, ledger.Put{Object: ledger.Object{Ref: r}})
			s.Wakes = append(s.Wakes, ledger.Wake{Ref: r})
			s.Claims = append(s.Claims, ledger.Claim{Name: ledger.Name{Space: "s", Name: r.ID}})
			s.Frees = append(s.Frees, ledger.Claim{Name: ledger.Name{Space: "r", Name: r.ID}})
			s.Counts = append(s.Counts, ledger.Count{Name: r.ID})
			s.Lease = &ledger.Lease{Ref: ledger.Ref{Kind: "lease", ID: r.ID}}
		}
		return s
	}
	got := ledger.Needs([]ledger.Set{set(b), set(bad, a), set(b, bad)})
	want := ledger.Need{
		Objects: []ledger.Ref{a, b}, Counters: []string{"a", "b"},
		Names: []ledger.Name{{Space: "r", Name: "a"}, {Space: "r", Name: "b"}, {Space: "s", Name: "a"}, {Space: "s", Name: "b"}},
		Work:  []ledger.Ref{a, b, {Kind: "lease", ID: "a"}, {Kind: "lease", ID: "b"}},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("needs (-want +got):\n%s", d)
	}
}
