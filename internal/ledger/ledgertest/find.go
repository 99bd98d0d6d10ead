package ledgertest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

func (h hand) reach(q ledger.Reach) []ledger.Reached {
	h.tb.Helper()
	got, err := h.Reach(h.ctx, q)
	if err != nil {
		h.tb.Fatalf("cannot follow links %+v: %v", q, err)
	}
	return got
}

// ways writes what was reached as "end<via@depth".
func ways(reached []ledger.Reached) []string {
	var out []string
	for _, r := range reached {
		out = append(out, fmt.Sprintf("%s<%s@%d", r.End, r.Via, r.Depth))
	}
	return out
}

// link writes beasts that lead to ends: "a: b c" has beast/a lead to beast/b and
// beast/c, and to whatever has a / in it.
func (r *rig) link(lines ...string) {
	r.Helper()
	for _, line := range lines {
		name, rest, _ := strings.Cut(line, ":")
		o := ledger.Object{Ref: beast(name)}
		if old, err := r.Get(r.ctx, o.Ref); err == nil {
			o = old
		}
		o.Links = nil
		for _, end := range strings.Fields(rest) {
			if !strings.Contains(end, "/") {
				end = "beast/" + end
			}
			o.Links = append(o.Links, end)
		}
		r.put(o, o.Version, "link")
	}
}

func testReach(r *rig) {
	// web and api need db; db needs the network and something outside; the two
	// of the circle need each other.
	r.link("web: api db", "api: db", "db: net external/payments", "net:", "left: right", "right: left net", "lone:")
	r.put(ledger.Object{Ref: cage("c")}, 0, "create")
	for _, c := range []struct {
		reason string
		reach  ledger.Reach
		want   []string
	}{
		{"all that it needs, nearest first, each once", ledger.Reach{From: "beast/web"},
			[]string{"beast/api<beast/web@1", "beast/db<beast/web@1", "beast/net<beast/db@2", "external/payments<beast/db@2"}},
		{"all that need it", ledger.Reach{From: "beast/net", Back: true},
			[]string{"beast/db<beast/net@1", "beast/right<beast/net@1", "beast/api<beast/db@2", "beast/web<beast/db@2", "beast/left<beast/right@2"}},
		{"what needs something outside", ledger.Reach{From: "external/payments", Back: true, Depth: 1}, []string{"beast/db<external/payments@1"}},
		{"a circle ends", ledger.Reach{From: "beast/left"}, []string{"beast/right<beast/left@1", "beast/net<beast/right@2"}},
		{"a circle ends on the way back", ledger.Reach{From: "beast/left", Back: true}, []string{"beast/right<beast/left@1"}},
		{"one link far", ledger.Reach{From: "beast/web", Depth: 1}, []string{"beast/api<beast/web@1", "beast/db<beast/web@1"}},
		{"as many as were asked for", ledger.Reach{From: "beast/net", Back: true, Limit: 3},
			[]string{"beast/db<beast/net@1", "beast/right<beast/net@1", "beast/api<beast/db@2"}},
		{"no links", ledger.Reach{From: "beast/lone"}, nil},
		{"no such object", ledger.Reach{From: "beast/none", Back: true}, nil},
		{"text that SQL might mangle", ledger.Reach{From: `'; DROP TABLE edges; --`}, nil},
	} {
		r.same(ways(r.reach(c.reach)), c.want, c.reason)
	}
	for _, x := range r.reach(ledger.Reach{From: "beast/web"}) {
		if outside := x.End == "external/payments"; outside != (x.Object == nil) || !outside && x.Object.Ref.String() != x.End {
			r.Errorf("%s came with %+v", x.End, x.Object)
		}
	}
	r.same(*r.reach(ledger.Reach{From: "beast/api"})[0].Object, r.get(beast("db")), "a whole object", lenient)

	db := r.get(beast("db"))
	db.Deleted = time.Unix(1, 0)
	db = r.put(db, db.Version, "delete")
	got := r.reach(ledger.Reach{From: "beast/web"})
	r.same(ways(got), []string{"beast/api<beast/web@1", "beast/db<beast/web@1"}, "what is gone is not passed through")
	if o := got[1].Object; o == nil || o.Deleted.IsZero() {
		r.Errorf("what is gone came as %+v", o)
	}
	r.same(ways(r.reach(ledger.Reach{From: "beast/net", Back: true})), []string{"beast/right<beast/net@1", "beast/left<beast/right@2"}, "nor on the way back")
	r.same(ways(r.reach(ledger.Reach{From: "beast/db", Back: true})), []string{"beast/api<beast/db@1", "beast/web<beast/db@1"}, "who needs what is gone")
	db.Deleted = time.Time{}
	r.put(db, db.Version, "restore")
	r.same(len(r.reach(ledger.Reach{From: "beast/web"})), 4, "what has come back is passed through")
	r.link("db: net", "web: db db db cage/c")
	r.same(ways(r.reach(ledger.Reach{From: "beast/web"})), []string{"beast/db<beast/web@1", "cage/c<beast/web@1", "beast/net<beast/db@2"}, "links that were moved")

	// Many that all lead to the same: there are more edges than ends by far.
	mesh := by()
	for i := range 60 {
		o := ledger.Object{Ref: beast(id("m", i)), Links: []string{"beast/mesh"}}
		for j := range 60 {
			o.Links = append(o.Links, "external/"+id("e", j))
		}
		if i == 59 {
			o.Links = append(o.Links, "external/last")
		}
		mesh.Puts = append(mesh.Puts, create(o))
	}
	mesh.Puts = append(mesh.Puts, create(ledger.Object{Ref: beast("all"), Links: func() (all []string) {
		for i := range 60 {
			all = append(all, "beast/"+id("m", i))
		}
		return all
	}()}))
	r.commit(mesh)
	if got := ways(r.reach(ledger.Reach{From: "beast/all"})); len(got) != 122 || got[121] != "external/last<beast/m00059@2" || got[60] != "beast/mesh<beast/m00000@2" {
		r.Fatalf("a mesh led to %d ends: %v", len(got), got)
	}

	// A star with more points than are asked for, and a long way.
	set := by()
	for i := range 1500 {
		o := ledger.Object{Ref: beast(id("s", i)), Links: []string{"beast/star"}}
		if i < 300 {
			o.Links = append(o.Links, "beast/"+id("s", i+1))
		}
		set.Puts = append(set.Puts, create(o))
	}
	r.commit(set)
	got = r.reach(ledger.Reach{From: "beast/star", Back: true})
	if len(got) != 1000 || got[0].End != "beast/s00000" || got[999].End != "beast/s00999" {
		r.Fatalf("a star of 1500 gave %d, not the first 1000 in order", len(got))
	}
	if got = r.reach(ledger.Reach{From: "beast/s00000", Limit: 10_000}); len(got) != 301 || got[300].Depth != 300 {
		r.Fatalf("a way of 300 links led to %d ends", len(got))
	}
}

// testReachAgrees compares with links followed by hand.
func testReachAgrees(r *rig) {
	runs := 0
	check(r.T, 60, func(t *rapid.T) {
		runs++
		h := hand{tb: t, ctx: r.ctx, Ledger: r.hand.Ledger}
		name := func(n int) string { return fmt.Sprintf("g%d-%d", runs, n) }
		const n = 7
		ends := []string{fmt.Sprintf("external/%d", runs)}
		for i := range n {
			ends = append(ends, "beast/"+name(i))
		}
		now := map[string]ledger.Object{}
		for range rapid.IntRange(1, 3).Draw(t, "sets") {
			set := by()
			for i := range n {
				end := "beast/" + name(i)
				o, exists := now[end]
				if exists && rapid.Bool().Draw(t, "untouched") {
					continue
				}
				o.Ref, o.Deleted = beast(name(i)), time.Time{}
				o.Links = rapid.SliceOfN(rapid.SampledFrom(ends), 0, 3).Draw(t, "links")
				if rapid.IntRange(0, 4).Draw(t, "gone") == 0 {
					o.Deleted = days[3]
				}
				set.Puts = append(set.Puts, ledger.Put{Object: o, Expect: o.Version, Op: "link"})
			}
			for _, o := range h.commit(set).Objects {
				now[o.Ref.String()] = o
			}
		}
		q := ledger.Reach{
			From: rapid.SampledFrom(ends).Draw(t, "from"), Back: rapid.Bool().Draw(t, "back"),
			Depth: rapid.IntRange(0, 4).Draw(t, "depth"), Limit: rapid.IntRange(0, 5).Draw(t, "limit"),
		}
		h.same(ways(h.reach(q)), ways(byHand(now, q)), fmt.Sprintf("%+v", q))
	})
}

func byHand(objects map[string]ledger.Object, q ledger.Reach) []ledger.Reached {
	leads := func(from, to string) bool {
		o := objects[from]
		return o.Deleted.IsZero() && slices.Contains(o.Links, to)
	}
	ends := []string{}
	for end, o := range objects {
		ends = append(append(ends, end), o.Links...)
	}
	slices.Sort(ends)
	ends = slices.Compact(ends)
	out := []ledger.Reached{{End: q.From}}
	for i := 0; i < len(out); i++ {
		for _, end := range ends {
			new := !slices.ContainsFunc(out, func(r ledger.Reached) bool { return r.End == end })
			if at := out[i]; new && (!q.Back && leads(at.End, end) || q.Back && leads(end, at.End)) && (q.Depth == 0 || at.Depth < q.Depth) {
				out = append(out, ledger.Reached{End: end, Via: at.End, Depth: at.Depth + 1})
			}
		}
	}
	if out = out[1:]; q.Limit > 0 && len(out) > q.Limit {
		out = out[:q.Limit]
	}
	return out
}

func testFindInvalid(r *rig) {
	long := strings.Repeat("w", 1<<20)
	for reason, q := range map[string]ledger.Reach{
		"from nothing": {}, "from a zero byte": {From: "a\x00"}, "from bad text": {From: "\xff"}, "from too far": {From: long},
		"negative depth": {From: "a", Depth: -1}, "negative limit": {From: "a", Limit: -1}, "too many": {From: "a", Limit: 10_001},
	} {
		if _, err := r.Reach(r.ctx, q); !fault.Is(err, fault.Invalid) {
			r.Errorf("%s: %v", reason, err)
		}
	}
	for reason, q := range map[string]ledger.Search{
		"no text": {}, "no words": {Text: ` '"*()-:^% `}, "endless text": {Text: long}, "bad text": {Text: "a\xff"},
		"too many words": {Text: strings.Repeat("a ", 17)}, "too many results": {Text: "a", Limit: 101}, "negative limit": {Text: "a", Limit: -1},
		"kind that is not searched": {Text: "a", Kinds: []string{"cage"}}, "unknown kind": {Text: "a", Kinds: []string{"unicorn"}},
		"unknown column": {Text: "a", Scope: map[string]any{"f_legs": "a"}}, "column of some kinds": {Text: "a", Scope: map[string]any{"species": "a"}},
		"scope of a wrong type": {Text: "a", Scope: map[string]any{"org": 1}}, "zero byte in the scope": {Text: "a", Scope: map[string]any{"org": "\x00"}},
	} {
		if _, err := r.Search(r.ctx, q); !fault.Is(err, fault.Invalid) {
			r.Errorf("%s: %v", reason, err)
		}
	}
}
