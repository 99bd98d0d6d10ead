package ledgertest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// Words that lists are made of: few, so that they repeat, and awkward, so that
// collation, case, wildcards and quotes show.
var words = []string{
	"", "a", "A", "b", "B", "ab", "aB", "Ab", "AB", "abc", "a%c", "a_c", `a\c`, `a\%`, "a'c", `"q"`, "a b", " a", "_", "%", `\`,
	"ä", "Ä", "äb", "z", "Z", "😀", "é", "e\u0301", "t-rex", "T-Rex", "triceratops", "rex", "rexxxx", "~", "0", "10", "9",
}

var days = []time.Time{
	time.Date(1969, 12, 31, 23, 59, 59, 999_999_000, time.UTC), time.Unix(0, 0).UTC(), time.Date(2026, 1, 1, 0, 0, 0, 1000, time.UTC),
	time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9000, 1, 1, 0, 0, 0, 0, time.UTC),
}

// herd writes n random beasts and returns them as stored.
func herd(r *rig, n int) []ledger.Object {
	rnd := rand.New(rand.NewPCG(11, uint64(n)))
	word := func() string { return words[rnd.IntN(len(words))] }
	var all []ledger.Object
	for len(all) < n {
		set := by()
		for i := range min(40, n-len(all)) {
			o := ledger.Object{Ref: beast(fmt.Sprintf("%s%d", word(), len(all)+i)), Org: []string{"acme", "umbrella", ""}[rnd.IntN(3)],
				Owner: word(), Name: word(), Phase: word(), Parent: word(), Labels: map[string]string{"l": word()},
				Spec: json.RawMessage(`{"s":1}`), Status: json.RawMessage(`{"t":2}`), View: json.RawMessage(fmt.Sprintf(`{"n":%d}`, i)),
				Fields: ledger.Fields{}}
			if rnd.IntN(3) > 0 {
				o.Fields["species"] = word()
			}
			if rnd.IntN(3) > 0 {
				o.Fields["legs"] = int64(rnd.IntN(5) - 2)
			}
			if rnd.IntN(3) > 0 {
				o.Fields["tame"] = rnd.IntN(2) == 0
			}
			if rnd.IntN(3) > 0 {
				o.Fields["born"] = days[rnd.IntN(len(days))]
			}
			if rnd.IntN(5) == 0 {
				o.Deleted = days[3]
			}
			set.Puts = append(set.Puts, create(o))
		}
		all = append(all, r.commit(set).Objects...)
	}
	r.commit(by(create(ledger.Object{Ref: cage("c"), Org: "acme"}))) // of another kind
	return all
}

func testList(r *rig) {
	all := herd(r, 150)
	alive := selectObjects(all, ledger.Query{Kind: "beast", Limit: 1000})
	r.same(r.list(ledger.Query{Kind: "beast"}), alive[:100], "a page has 100 objects by default", lenient)
	r.same(r.list(ledger.Query{Kind: "beast", Limit: ledger.MaxPage}), alive, "all of them", lenient)
	r.same(r.list(ledger.Query{Kind: "beast", Offset: len(alive)}), []ledger.Object(nil), "beyond the end", lenient, emptySlices)
	r.same(r.list(ledger.Query{Kind: "cage", Brief: true})[0].ID, "c", "kinds are apart")
	for i, o := range r.list(ledger.Query{Kind: "beast", Brief: true, Limit: 3}) {
		r.same(o, brief(alive[i]), "a brief object", lenient)
	}
}

// testListAgrees asks random questions, and filters in Go besides.
func testListAgrees(r *rig) {
	all := herd(r, 120)
	check(r.T, 100, func(t *rapid.T) {
		h := hand{tb: t, ctx: r.ctx, Ledger: r.hand.Ledger}
		for range 4 {
			q := drawQuery(t)
			h.same(h.list(q), selectObjects(all, q), fmt.Sprintf("list of %+v", q), lenient, emptySlices)
			everything := q
			everything.Offset, everything.Limit, everything.AfterID = 0, ledger.MaxPage, ""
			if q.AfterID == "" {
				h.same(h.total(q), int64(len(selectObjects(all, everything))), fmt.Sprintf("total of %+v", q))
			}
		}
	})
}

func testListInvalid(r *rig) {
	herd(r, 10)
	deep := ledger.Expr(ledger.And{})
	for range 5000 {
		deep = ledger.And{deep}
	}
	var wide ledger.Or
	for range 100_000 {
		wide = append(wide, ledger.Compare{Column: "name", Op: ledger.Eq, Values: []any{"x"}})
	}
	many := make([]any, 200_000)
	for i := range many {
		many[i] = "x"
	}
	where := func(e ledger.Expr) ledger.Query { return ledger.Query{Kind: "beast", Where: e} }
	compare := func(column string, op ledger.Op, values ...any) ledger.Query {
		return where(ledger.Compare{Column: column, Op: op, Values: values})
	}
	for reason, q := range map[string]ledger.Query{
		"no kind":               {},
		"unknown kind":          {Kind: "unicorn"},
		"limit too high":        {Kind: "beast", Limit: ledger.MaxPage + 1},
		"negative limit":        {Kind: "beast", Limit: -1},
		"negative offset":       {Kind: "beast", Offset: -1},
		"after and offset":      {Kind: "beast", Offset: 1, AfterID: "a"},
		"after and order":       {Kind: "beast", Order: []ledger.Order{{Column: "name"}}, AfterID: "a"},
		"after a zero byte":     {Kind: "beast", AfterID: "\x00"},
		"order by nothing":      {Kind: "beast", Order: []ledger.Order{{Column: "wings"}}},
		"order by SQL":          {Kind: "beast", Order: []ledger.Order{{Column: "name; DROP TABLE objects"}}},
		"scope of nothing":      {Kind: "beast", Scope: map[string]any{"wings": 1}},
		"scope of a wrong type": {Kind: "beast", Scope: map[string]any{"legs": "two"}},
		"scope of a zero byte":  {Kind: "beast", Scope: map[string]any{"org": "\x00"}},
		"unknown column":        compare("wings", ledger.Eq, 1),
		"a column of SQL":       compare("name' OR '1'='1", ledger.Eq, "x"),
		"unknown operator":      compare("name", "~", "x"),
		"an operator of SQL":    compare("name", "= '' OR 1=1 --", "x"),
		"wrong type":            compare("legs", ledger.Eq, "x"),
		"no value":              compare("name", ledger.Eq),
		"two values":            compare("name", ledger.Eq, "x", "y"),
		"null":                  compare("name", ledger.Eq, nil),
		"like of a number":      compare("legs", ledger.Like, "1%"),
		"like a number":         compare("name", ledger.Like, 1),
		"open escape":           compare("name", ledger.ILike, `x\`),
		"zero byte":             compare("name", ledger.Eq, "a\x00"),
		"zero byte in a list":   compare("name", ledger.In, "a", "a\x00"),
		"invalid text":          compare("name", ledger.Like, "\xff%"),
		"endless pattern":       compare("name", ledger.Like, strings.Repeat("%a", 1<<20)),
		"too deep":              where(deep),
		"too wide":              where(wide),
		"too many values":       compare("name", ledger.In, many...),
		"empty part":            where(ledger.And{nil}),
	} {
		if _, err := r.List(r.ctx, q); !fault.Is(err, fault.Invalid) {
			r.Errorf("list, %s: got %.200v, want invalid", reason, err)
		}
		if _, err := r.Total(r.ctx, q); !fault.Is(err, fault.Invalid) {
			r.Errorf("total, %s: got %.200v, want invalid", reason, err)
		}
	}
	if got := len(r.list(ledger.Query{Kind: "beast", Deleted: true})); got != 10 {
		r.Fatalf("%d beasts are left of 10", got)
	}
}

// testPages reads on after the last id while others write: what was there all
// the time is seen exactly once.
func testPages(r *rig) {
	all := herd(r, 100)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() { // one writer, stopped below
		defer close(stopped)
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := r.Commit(r.ctx, by(create(ledger.Object{Ref: beast(fmt.Sprint("new ", n))}))); err != nil {
				r.Errorf("cannot write beside a reader: %v", err)
				return
			}
		}
	}()
	for range 5 {
		seen := map[string]int{}
		for after := ""; ; {
			page := r.list(ledger.Query{Kind: "beast", AfterID: after, Limit: 7, Deleted: true})
			for _, o := range page {
				seen[o.ID]++
			}
			if len(page) < 7 {
				break
			}
			after = page[len(page)-1].ID
		}
		for _, o := range all {
			if seen[o.ID] != 1 {
				r.Errorf("%q was seen %d times", o.ID, seen[o.ID])
			}
		}
	}
	close(stop)
	<-stopped
}

// testTextSearch asks each pattern of every column that has a trigram index, and
// of one that has none: an index must not change an answer.
func testTextSearch(r *rig) {
	all := herd(r, 200)
	patterns := []string{
		"", "%", "%%", "_", "__", "%_%", "a", "A", "a%", "%a", "%a%", "ab%", "%AB%", "a_c", "a%c", `a\_c`, `a\%c`, `a\\c`, `%\%%`, `%\_%`, `%\\%`,
		"%'%", `%"%`, "%ä%", "%Ä%", "ä_", "😀", "_😀%", "%é%", "e_", "%rex%", "rex", "REX", "%REX", "t-rex", "%t-r%", "%-%", "%tops", "tri%tops",
		"%rexx%", "%rexxxx%", "%xxx%", "%ceratop%", "%a b%", "% a%", "%AND%", "%OR%", "%NOT a%", "*", "%*%", "%^%", "%(%", "%a AND b%", "%~%",
		`%" OR "a%`, "%t%x%", "%tr_cer%", `%t\-rex%`, `\r\e\x`,
	}
	for _, column := range []string{"name", "owner", "species", "phase"} {
		for _, p := range patterns {
			for _, op := range []ledger.Op{ledger.Like, ledger.ILike} {
				q := ledger.Query{Kind: "beast", Limit: 1000, Where: ledger.Compare{Column: column, Op: op, Values: []any{p}}}
				r.same(ids(r.list(q)), ids(selectObjects(all, q)), fmt.Sprintf("%s %s %q", column, op, p), emptySlices)
			}
		}
	}
	// The index follows its objects.
	o := r.put(ledger.Object{Ref: beast("moving"), Name: "brachiosaurus"}, 0, "create")
	find := func(p string) int {
		return len(r.list(ledger.Query{Kind: "beast", Where: ledger.Compare{Column: "name", Op: ledger.ILike, Values: []any{p}}}))
	}
	o.Name = "stegosaurus"
	o = r.put(o, 1, "rename")
	if find("%BRACHIO%") != 0 || find("%STEGO%") != 1 {
		r.Fatal("text search finds an object by the name that it had")
	}
	o.Deleted = days[3]
	r.put(o, 2, "delete")
	if find("%stego%") != 0 {
		r.Fatal("text search finds a deleted object")
	}
}

func ids(objects []ledger.Object) []string {
	var out []string
	for _, o := range objects {
		out = append(out, o.ID)
	}
	return out
}

// testTotals moves objects between scopes, several in a batch, and recounts.
func testTotals(r *rig) {
	ledgers := r.replicas(3)
	orgs, species := []string{"acme", "umbrella", ""}, []any{"t-rex", "", nil}
	race(ledgers, 6, func(i int, l ledger.Ledger) {
		rnd := rand.New(rand.NewPCG(uint64(i), 1))
		for n := range 30 {
			set := by()
			for _, k := range rnd.Perm(12)[:1+rnd.IntN(4)] {
				ref := beast(id("o", k))
				o, err := l.Get(r.ctx, ref)
				if err != nil && !fault.Is(err, fault.NotFound) {
					r.Errorf("cannot get: %v", err)
					return
				}
				expect := o.Version
				o.Ref, o.Org, o.Phase = ref, orgs[rnd.IntN(3)], fmt.Sprint(i, n)
				o.Fields = ledger.Fields{"species": species[rnd.IntN(3)], "legs": []any{nil, 0, 1}[rnd.IntN(3)]}
				if o.Deleted = (time.Time{}); rnd.IntN(3) == 0 {
					o.Deleted = days[3]
				}
				set.Puts = append(set.Puts, ledger.Put{Object: o, Expect: expect, Op: "move"})
			}
			if _, err := l.Commit(r.ctx, set); err != nil && !fault.Is(err, fault.Conflict) {
				r.Errorf("cannot commit: %v", err)
				return
			}
		}
	})
	all := r.list(ledger.Query{Kind: "beast", Deleted: true})
	count := func(scope map[string]any) {
		r.Helper()
		q := ledger.Query{Kind: "beast", Scope: scope, Limit: 5, Offset: 1}
		recount := int64(len(selectObjects(all, ledger.Query{Kind: "beast", Scope: scope, Limit: 1000})))
		if got := r.total(q); got != recount {
			r.Fatalf("total of %v is %d, want %d", scope, got, recount)
		}
		q.Where = ledger.And{ledger.Compare{Column: "id", Op: ledger.Ge, Values: []any{""}}} // a filter: counted exactly
		if got := r.total(q); got != recount {
			r.Fatalf("exact total of %v is %d, want %d", scope, got, recount)
		}
	}
	count(nil)
	for _, org := range append(orgs, "nobody") {
		count(map[string]any{"org": org})
		for _, s := range []string{"t-rex", "", "none"} {
			count(map[string]any{"org": org, "species": s})
			count(map[string]any{"species": s})
		}
		count(map[string]any{"org": org, "legs": 0})
	}
	for _, legs := range []any{0, int64(0), 1, 1.0, int64(2)} {
		count(map[string]any{"legs": legs})
	}
}
