package ledgertest

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/ledger"
)

func (h hand) search(q ledger.Search) []ledger.Found {
	h.tb.Helper()
	got, err := h.Search(h.ctx, q)
	if err != nil {
		h.tb.Fatalf("cannot search %+v: %v", q, err)
	}
	for i := range got {
		if i > 0 && got[i].Rank > got[i-1].Rank {
			h.tb.Fatalf("%s with rank %v comes after %s with %v", got[i].Ref, got[i].Rank, got[i-1].Ref, got[i-1].Rank)
		}
	}
	return got
}

func foundIDs(found []ledger.Found) string {
	var out []string
	for _, f := range found {
		out = append(out, f.ID)
	}
	return strings.Join(out, " ")
}

func testSearch(r *rig) {
	for _, o := range []ledger.Object{
		{Ref: beast("1"), Name: "shop-staging/db", Org: "acme", Owner: "ann", Parent: "e1", Words: "PostgreSQL for Payments, tag:data"},
		{Ref: beast("2"), Name: "shop-staging/web[0]", Org: "acme", Owner: "bob", Parent: "e1", Words: "talks to the db"},
		{Ref: beast("3"), Name: "db", Org: "umbrella", Owner: "eve", Parent: "e2", Words: "shop"},
		{Ref: beast("4"), Name: "payments_gateway", Org: "umbrella", Owner: "ann", Words: "Größe ЖУК 日本"},
		{Ref: beast("5"), Name: "dbadmin", Org: "acme"},
	} {
		r.put(o, 0, "create")
	}
	r.put(ledger.Object{Ref: cage("6"), Name: "db"}, 0, "create") // of a kind that is not searched
	scope := func(column, value string) map[string]any { return map[string]any{column: value} }
	for _, c := range []struct {
		reason string
		search ledger.Search
		want   string
	}{
		{"a part of the name", ledger.Search{Text: "staging"}, "1 2"},
		{"the whole name, then a word of it, then the beginning of one, then other words", ledger.Search{Text: "db"}, "3 1 5 2"},
		{"all words must be there", ledger.Search{Text: "shop db"}, "1 3 2"},
		{"names as people write them", ledger.Search{Text: "shop-staging/db"}, "1 2"},
		{"the last word may go on", ledger.Search{Text: "shop stag"}, "1 2"},
		{"a longer beginning, too", ledger.Search{Text: "paymen"}, "4 1"},
		{"the others may not", ledger.Search{Text: "sho staging"}, ""},
		{"case is nothing", ledger.Search{Text: "POSTGRESQL PAYMENTS"}, "1"},
		{"nor is it beyond ASCII", ledger.Search{Text: "größe жук"}, "4"},
		{"signs are nothing", ledger.Search{Text: `"data" OR`}, ""},
		{"signs stand between words", ledger.Search{Text: `web[0]`}, "2"},
		{"a beginning beyond ASCII", ledger.Search{Text: "日"}, "4"},
		{"of an organisation", ledger.Search{Text: "db", Scope: scope("org", "acme")}, "1 5 2"},
		{"of an owner", ledger.Search{Text: "payments", Scope: scope("owner", "ann")}, "4 1"},
		{"of a parent", ledger.Search{Text: "db", Scope: scope("parent", "e1")}, "1 2"},
		{"of both", ledger.Search{Text: "db", Scope: map[string]any{"parent": "e1", "owner": "bob"}}, "2"},
		{"of nobody", ledger.Search{Text: "db", Scope: scope("org", "none")}, ""},
		{"of a kind", ledger.Search{Text: "db", Kinds: []string{"beast"}}, "3 1 5 2"},
		{"the best", ledger.Search{Text: "db", Limit: 2}, "3 1"},
		{"nothing", ledger.Search{Text: "nothing"}, ""},
	} {
		if got := foundIDs(r.search(c.search)); got != c.want {
			r.Errorf("%s: %q found %q, want %q", c.reason, c.search.Text, got, c.want)
		}
	}
	r.same(r.search(ledger.Search{Text: "postgresql"})[0].Object, r.get(beast("1")), "a whole object", lenient)

	edit := func(id string, edit func(o *ledger.Object)) {
		o := r.get(beast(id))
		edit(&o)
		r.put(o, o.Version, "edit")
	}
	for _, c := range []struct {
		reason string
		edit   func(o *ledger.Object)
		text   string
		scope  map[string]any
		want   string
	}{
		{"a phase is not found", func(o *ledger.Object) { o.Phase = "ready" }, "ready", nil, ""},
		{"and loses nothing", func(o *ledger.Object) { o.Phase = "failed" }, "postgresql", nil, "1"},
		{"gone", func(o *ledger.Object) { o.Deleted = time.Unix(1, 0) }, "postgresql", nil, ""},
		{"changed while gone", func(o *ledger.Object) { o.Name = "shop-prod/db" }, "prod", nil, ""},
		{"back", func(o *ledger.Object) { o.Deleted = time.Time{} }, "prod", nil, "1"},
		{"with its old name gone", func(o *ledger.Object) { o.Status = []byte("1") }, "staging", nil, "2"},
		{"with other words", func(o *ledger.Object) { o.Words = "mysql" }, "postgresql", nil, ""},
		{"which it is found by", func(o *ledger.Object) { o.Status = nil }, "mysql", nil, "1"},
		{"of another organisation", func(o *ledger.Object) { o.Org = "umbrella" }, "mysql", scope("org", "umbrella"), "1"},
		{"and no longer of its old one", func(o *ledger.Object) { o.Status = []byte("2") }, "mysql", scope("org", "acme"), ""},
		{"of another owner", func(o *ledger.Object) { o.Owner = "zoe" }, "mysql", scope("owner", "zoe"), "1"},
		{"of another parent", func(o *ledger.Object) { o.Parent = "e9" }, "mysql", scope("parent", "e9"), "1"},
	} {
		edit("1", c.edit)
		if got := foundIDs(r.search(ledger.Search{Text: c.text, Scope: c.scope})); got != c.want {
			r.Errorf("%s: %q found %q, want %q", c.reason, c.text, got, c.want)
		}
	}
	r.hand.Ledger = r.store.Reopen(r.T)
	if got := foundIDs(r.search(ledger.Search{Text: "db"})); got != "3 1 5 2" {
		r.Errorf("after it was opened anew: %q", got)
	}
}

var (
	nameParts = []string{"a", "ab", "abc", "abcdef", "abcdefg", "b", "ä", "äb", "9", "99", "日", "日本"}
	joints    = []string{" ", "-", "/", "_", "'", `"`, "*", "\u2013", "[", " AND ", ":"}
)

// testSearchAgrees compares with a look at every object.
func testSearchAgrees(r *rig) {
	runs := 0
	check(r.T, 60, func(t *rapid.T) {
		runs++
		h := hand{tb: t, ctx: r.ctx, Ledger: r.hand.Ledger}
		parent := fmt.Sprintf("run%d", runs)
		text := func(what string, least int) string {
			var b strings.Builder
			for range rapid.IntRange(least, 3).Draw(t, what) {
				b.WriteString(rapid.SampledFrom(nameParts).Draw(t, "part") + rapid.SampledFrom(joints).Draw(t, "joint"))
			}
			return b.String()
		}
		now := make([]ledger.Object, 6)
		for range rapid.IntRange(1, 3).Draw(t, "sets") {
			set := by()
			for i, o := range now {
				o.Ref, o.Parent = beast(fmt.Sprintf("%s-%d", parent, i)), parent
				switch rapid.IntRange(0, 4).Draw(t, "edit") {
				case 0:
					o.Name = text("name", 0)
				case 1:
					o.Words = text("words", 0)
				case 2:
					o.Name, o.Words = text("name", 0), text("words", 0)
				case 3:
					o.Org = rapid.SampledFrom([]string{"acme", "umbrella", ""}).Draw(t, "org")
				case 4:
					if o.Deleted = (time.Time{}); rapid.Bool().Draw(t, "gone") {
						o.Deleted = days[3]
					}
				}
				set.Puts = append(set.Puts, ledger.Put{Object: o, Expect: o.Version, Op: "edit"})
			}
			now = h.commit(set).Objects
		}
		for range 3 {
			q := ledger.Search{Text: text("text", 1), Scope: map[string]any{"parent": parent}}
			if rapid.Bool().Draw(t, "scoped") {
				q.Scope["org"] = rapid.SampledFrom([]string{"acme", ""}).Draw(t, "of")
			}
			var want []string
			for _, o := range now {
				if org, scoped := q.Scope["org"]; o.Deleted.IsZero() && (!scoped || o.Org == org) && has(o.Name+" "+o.Words, q.Text) {
					want = append(want, o.ID)
				}
			}
			found := h.search(q)
			got := strings.Fields(foundIDs(found))
			slices.Sort(got)
			h.same(strings.Join(got, " "), strings.Join(want, " "), fmt.Sprintf("%q in %+v", q.Text, now))
			named := func(f ledger.Found) bool { return has(f.Name, q.Text) }
			if i := slices.IndexFunc(found, func(f ledger.Found) bool { return !named(f) }); i >= 0 && slices.ContainsFunc(found[i:], named) {
				h.tb.Fatalf("%q: a name comes after words: %+v", q.Text, found)
			}
		}
	})
}

// has tells whether every word is there, the last one perhaps only begun.
func has(text, wanted string) bool {
	split := func(s string) []string {
		return strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return !unicode.In(r, unicode.L, unicode.N, unicode.M) })
	}
	words, there := split(wanted), split(text)
	for i, w := range words {
		if !slices.ContainsFunc(there, func(x string) bool { return x == w || i == len(words)-1 && strings.HasPrefix(x, w) }) {
			return false
		}
	}
	return true
}

// testSearchMany has more objects match than are ever ranked.
func testSearchMany(r *rig) {
	const n = 1200
	set := by()
	for i := range n {
		set.Puts = append(set.Puts, create(ledger.Object{Ref: beast(id("m", i)), Name: "herd " + id("n", i), Words: "common", Org: id("org", i%100)}))
	}
	r.commit(set)
	r.commit(by(create(ledger.Object{Ref: beast("whole"), Name: "Herd"}), create(ledger.Object{Ref: beast("named"), Name: "the common one"})))
	r.commit(by(create(ledger.Object{Ref: beast("last"), Name: "another herd", Words: "common"})))
	if got := r.search(ledger.Search{Text: "herd", Limit: 100}); len(got) != 100 || got[0].ID != "whole" {
		r.Errorf("found %d, first %s; want 100, and first the one that is called so", len(got), got[0].ID)
	}
	if got := r.search(ledger.Search{Text: "common"}); len(got) != 20 || got[0].ID != "named" {
		r.Errorf("found %d, first %s; want 20, and first the one that has it in its name", len(got), got[0].ID)
	}
	if got := foundIDs(r.search(ledger.Search{Text: "common", Scope: map[string]any{"org": "org00007"}, Limit: 3})); got != "m00007 m00107 m00207" {
		r.Errorf("an organisation has %q", got)
	}
	if got := foundIDs(r.search(ledger.Search{Text: "common herd n00777"})); got != "m00777" {
		r.Errorf("rare and common words found %q", got)
	}
}
