package httpapi_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/httpapi"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/ledger"
)

var columns = map[string]string{
	"name": "name", "status": "phase", "cloud_provider": "provider", "region": "region", "owner": "owner",
	"multi_az": "multi_az", "created_at": "created",
}

func eq(column, value string) ledger.Compare { return is(column, ledger.Eq, value) }

func is(column string, op ledger.Op, values ...any) ledger.Compare {
	return ledger.Compare{Column: column, Op: op, Values: values}
}

func TestParseSearch(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		text   string
		want   ledger.Expr
	}{
		"empty":          {"no search is no condition", "", nil},
		"blank":          {"nor are spaces", "   ", nil},
		"equal":          {"the simplest", "name = rex", eq("name", "rex")},
		"tight":          {"spaces around = are optional", "name=rex", eq("name", "rex")},
		"unequal":        {"<> is the other sign", "status <> ready", is("phase", ledger.Ne, "ready")},
		"wire name":      {"the API's names are not the ledger's", "cloud_provider = aws", eq("provider", "aws")},
		"case":           {"words have no case", "NAME like re% AnD status = READY", ledger.And{is("name", ledger.Like, "re%"), eq("phase", "READY")}},
		"ilike":          {"ILIKE is passed on", "name ILIKE %rex", is("name", ledger.ILike, "%rex")},
		"in":             {"lists", "region IN (a, 'b c',d)", is("region", ledger.In, "a", "b c", "d")},
		"not in":         {"lists that exclude", "region not  in(a)", is("region", ledger.NotIn, "a")},
		"precedence":     {"AND binds closer than OR", "name = a OR name = b AND owner = c", ledger.Or{eq("name", "a"), ledger.And{eq("name", "b"), eq("owner", "c")}}},
		"parentheses":    {"unless there are parentheses", "(name = a OR name = b) AND owner = c", ledger.And{ledger.Or{eq("name", "a"), eq("name", "b")}, eq("owner", "c")}},
		"nested":         {"parentheses in parentheses", "((name = a))", eq("name", "a")},
		"quoted":         {"spaces need quotes", "name = 'a b'", eq("name", "a b")},
		"escaped":        {`\' is a quote`, `name = 'it\'s'`, eq("name", "it's")},
		"pattern escape": {`every other \ belongs to the value`, `name LIKE 'a\_b\\'`, is("name", ledger.Like, `a\_b\\`)},
		"empty value":    {"the empty value can be looked for", "owner = ''", eq("owner", "")},
		"odd bare":       {"a bare value holds all but spaces and parentheses", "name = a=b<>'c,d", eq("name", "a=b<>'c,d")},
		"keyword value":  {"a keyword is a value where one is expected", "name = AND", eq("name", "AND")},
		"quoted SQL":     {"SQL in a value is just a value", `name = '\'; DROP TABLE object; --'`, eq("name", "'; DROP TABLE object; --")},
		"bool":           {"values get the column's type", "multi_az = true", is("multi_az", ledger.Eq, true)},
		"unicode":        {"text is text", "name = 'Tyrannosaurus räx'", eq("name", "Tyrannosaurus räx")},
		"ten joins":      {"ten are allowed", "name = a" + strings.Repeat(" OR name = a", 10), or(11)},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := httpapi.ParseSearch(tc.text, columns, instance.Kind)
			if err != nil {
				t.Fatalf("%s: %v", tc.reason, err)
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("%s: %s", tc.reason, d)
			}
		})
	}
}

func or(n int) ledger.Or {
	var o ledger.Or
	for range n {
		o = append(o, eq("name", "a"))
	}
	return o
}

func TestParseSearchRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		reason   string
		text     string
		position string
	}{
		"unknown column":  {"only the offering's columns exist", "secret = a", "position 1:"},
		"ledger's name":   {"the ledger's name of a column is not the API's", "phase = ready", "position 1:"},
		"no operator":     {"a column alone says nothing", "name", "position 5:"},
		"bad operator":    {"there is no >", "name > a", "position 6:"},
		"no value":        {"nothing to compare with", "name = ", "position 8:"},
		"value is )":      {"a parenthesis is no value", "name = )", "position 8:"},
		"open quote":      {"the quote has no end", "name = 'a", "position 8:"},
		"escaped end":     {"an escaped quote does not end it", `name = 'a\'`, "position 8:"},
		"open paren":      {"one parenthesis too few", "(name = a", "position 10:"},
		"close paren":     {"one too many", "name = a)", "position 9:"},
		"dangling and":    {"AND needs a second term", "name = a AND", "position 13:"},
		"two values":      {"two values need quotes", "name = a b", "position 10:"},
		"injection":       {"SQL does not parse", "name = a; DROP TABLE object", "position 11:"},
		"union":           {"nor does this", "name = 'a' UNION SELECT 1", "position 12:"},
		"comment":         {"nor this", "name = 'a' --", "position 12:"},
		"or 1=1":          {"a number is no column", "name = 'a' OR 1=1", "position 15:"},
		"not":             {"NOT goes with IN", "name NOT LIKE a", "position 10:"},
		"in without list": {"IN needs a list", "name IN a", "position 9:"},
		"in open":         {"which ends", "name IN (a, b", "position 14:"},
		"in empty":        {"and holds something", "name IN ()", "position 10:"},
		"eleven joins":    {"ten are the limit", "name = a" + strings.Repeat(" AND name = a", 11), "more than 10"},
		"deep":            {"parentheses are bounded", strings.Repeat("(", 100000/16) + "name = a", "parentheses"},
		"long":            {"a search is short", "name = " + strings.Repeat("a", 10_000), "longer than"},
		"long value":      {"a value fits a column", "name = " + strings.Repeat("a", 1025), "longer than"},
		"zero byte":       {"no database takes it", "name = a\x00b", "plain text"},
		"invalid utf-8":   {"text is UTF-8", "name = a\xff", "plain text"},
		"like bool":       {"a flag has no pattern", "multi_az LIKE t%", "cannot be searched"},
		"bad bool":        {"maybe is no flag", "multi_az = maybe", "does not fit"},
		"bad time":        {"yesterday is no time", "created_at = yesterday", "does not fit"},
		"hanging escape":  {`a pattern cannot end in \`, `name LIKE a\`, "must not end"},
		"many values":     {"a list is short", "name IN (" + strings.Repeat("a,", 200) + "a)", "more than 100"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := httpapi.ParseSearch(tc.text, columns, instance.Kind)
			if !fault.Is(err, fault.Invalid) || fault.Reason(err) != "search" {
				t.Fatalf("%s: got %v, %v", tc.reason, got, err)
			}
			if !strings.Contains(err.Error(), tc.position) {
				t.Errorf("%s: want %q in %q", tc.reason, tc.position, err)
			}
		})
	}
}

// FuzzParseSearch: whatever parses is a query that the ledger accepts, and only
// over the allowed columns.
func FuzzParseSearch(f *testing.F) {
	for _, s := range []string{
		"", "name = rex", "name LIKE '%a\\'b%' AND (region = x OR status <> 'ready')", "region NOT IN (a,'b')",
		"((((name=a))))", "name = 'a' OR 1=1", "'", "(", "name ilike \\", "created_at = 2030-01-01T00:00:00Z", "multi_az=true",
	} {
		f.Add(s)
	}
	allowed := map[string]bool{}
	for _, c := range columns {
		allowed[c] = true
	}
	f.Fuzz(func(t *testing.T, text string) {
		e, err := httpapi.ParseSearch(text, columns, instance.Kind)
		if err != nil {
			if fault.Reason(err) != "search" {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		if err := (ledger.Query{Kind: "instance", Where: e}).Check(instance.Kind); err != nil {
			t.Fatalf("%q parses into what the ledger refuses: %v", text, err)
		}
		walk(e, func(c ledger.Compare) {
			if !allowed[c.Column] {
				t.Fatalf("%q reaches column %q", text, c.Column)
			}
		})
	})
}

func walk(e ledger.Expr, visit func(ledger.Compare)) {
	switch e := e.(type) {
	case ledger.And:
		for _, x := range e {
			walk(x, visit)
		}
	case ledger.Or:
		for _, x := range e {
			walk(x, visit)
		}
	case ledger.Compare:
		visit(e)
	}
}
