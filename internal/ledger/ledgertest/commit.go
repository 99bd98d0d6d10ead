package ledgertest

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

func testPut(r *rig) {
	ref := beast("rex")
	r.absent(ref)
	res := r.commit(by(create(ledger.Object{
		Ref: ref, Org: "acme", Name: "Rex", Spec: json.RawMessage(`{"a":1}`),
		// What the ledger sets is not the writer's to choose.
		Generation: 7, Version: 9, Created: time.Unix(1, 0), Updated: time.Unix(2, 0),
	})))
	o := res.Objects[0]
	if o.Generation != 1 || o.Version != 1 || res.Seq != 1 {
		r.Fatalf("new object has generation %d, version %d, seq %d; want 1, 1, 1", o.Generation, o.Version, res.Seq)
	}
	if time.Since(o.Created).Abs() > time.Hour || !o.Created.Equal(o.Updated) {
		r.Fatalf("new object has times %v and %v, want now", o.Created, o.Updated)
	}
	r.same(r.get(ref), o, "get after create")

	r.refused(by(create(ledger.Object{Ref: ref})), fault.Conflict, "exists")
	r.refused(by(ledger.Put{Object: ledger.Object{Ref: ref}, Expect: 2, Op: "update"}), fault.Conflict, "version")
	r.refused(by(ledger.Put{Object: ledger.Object{Ref: beast("other")}, Expect: 1, Op: "update"}), fault.NotFound, "")
	r.same(r.get(ref), o, "get after refused puts")

	steps := []struct {
		reason              string
		edit                func(*ledger.Object)
		generation, version int64
	}{
		{"intent moves both", func(o *ledger.Object) { o.Spec = json.RawMessage(`{"a":2}`) }, 2, 2},
		{"a status is no intent", func(o *ledger.Object) { o.Status = json.RawMessage(`{"ok":true}`) }, 2, 3},
		{"a phase is no intent", func(o *ledger.Object) { o.Phase = "ready" }, 2, 4},
		{"a label is no intent", func(o *ledger.Object) { o.Labels = map[string]string{"k": "v"} }, 2, 5},
		{"a link is no intent", func(o *ledger.Object) { o.Links = []string{"cage/a", "external/b"} }, 2, 6},
		{"a word is no intent", func(o *ledger.Object) { o.Words = "large, green" }, 2, 7},
		{"a field is no intent", func(o *ledger.Object) { o.Fields = ledger.Fields{"legs": 2} }, 2, 8},
		{"removing intent is a change of it", func(o *ledger.Object) { o.Spec = nil }, 3, 9},
		{"versions need no change of many columns", func(o *ledger.Object) { o.View = json.RawMessage(`1`) }, 3, 10},
	}
	for _, s := range steps {
		before := o
		s.edit(&o)
		res := r.commit(by(ledger.Put{Object: o, Expect: o.Version, Op: "update"}))
		o = res.Objects[0]
		if o.Generation != s.generation || o.Version != s.version || res.Seq != s.version {
			r.Fatalf("%s: generation %d, version %d, seq %d; want %d, %d, %d",
				s.reason, o.Generation, o.Version, res.Seq, s.generation, s.version, s.version)
		}
		if !o.Created.Equal(before.Created) || o.Updated.Before(before.Updated) {
			r.Fatalf("%s: created %v, updated %v after %v, %v", s.reason, o.Created, o.Updated, before.Created, before.Updated)
		}
		r.same(r.get(ref), o, s.reason)
	}

	res = r.commit(by(create(ledger.Object{Ref: cage("b")}), create(ledger.Object{Ref: cage("a")}), create(ledger.Object{Ref: beast("b")})))
	var order []string
	for _, o := range res.Objects {
		order = append(order, o.Ref.String())
	}
	r.same(order, []string{"cage/b", "cage/a", "beast/b"}, "results come in the order of the puts")
	if res.Seq != 13 {
		r.Fatalf("seq of three more changes is %d, want that of the last: 13", res.Seq)
	}
}

func testRoundTrip(r *rig) {
	long := strings.Repeat("ü", ledger.MaxText/2)
	big := json.RawMessage(`"` + strings.Repeat("x", ledger.MaxObject-2) + `"`)
	born := time.Date(2026, 2, 3, 4, 5, 6, 7_008_999, time.FixedZone("", 3600))
	cases := []struct {
		reason string
		object ledger.Object
	}{
		{"nothing but an id", ledger.Object{}},
		{"every column", ledger.Object{
			Org: "acme", Owner: "ann", Name: "Rex", Phase: "ready", Parent: "p1",
			Labels: map[string]string{"a": "1", "b": ""},
			Fields: ledger.Fields{"species": "t-rex", "legs": int64(2), "tame": true, "born": born},
			Spec:   json.RawMessage(`{"x":1}`), Status: json.RawMessage(`[]`), View: json.RawMessage(`"v"`),
			Links: []string{"beast/b", "external/c", "beast/b"}, Words: "large\tgreen",
			Deleted: born,
		}},
		{"empty values are no nulls lost on the way", ledger.Object{
			Fields: ledger.Fields{"species": "", "legs": 0, "tame": false}}},
		{"text that SQL, JSON or Go might mangle", ledger.Object{
			Org: `o'r"g`, Owner: `back\slash`, Name: "tab\tline\nreturn\r", Phase: "☃ 😀 \u2028", Parent: " sp ",
			Labels: map[string]string{"": "empty key", "k'": `"<&>`},
			Fields: ledger.Fields{"species": "%_\\'; DROP TABLE objects; --"},
			Spec:   json.RawMessage(`{ "html":"<&>", "zero":"\u0000", "sur":"\ud800", "big":123456789012345678901234567890.10, "dup":1,"dup":2 }`),
		}},
		{"links and words that might be mangled", ledger.Object{
			Links: []string{`a"b`, `c\d`, "e\nf", "<&>", "'", "☃", strings.Repeat("l", ledger.MaxLink)}, Words: "'\" \\ <&> \u2028 ☃ % * : -- ( AND"}},
		{"the most links", ledger.Object{Links: slices.Repeat([]string{"external/x", "external/y"}, ledger.MaxLinks/2)}},
		{"the most words", ledger.Object{Words: strings.Repeat("word ", ledger.MaxWords/5)}},
		{"the longest org", ledger.Object{Org: long}},
		{"the longest owner", ledger.Object{Owner: long}},
		{"the longest name", ledger.Object{Name: long}},
		{"the longest phase", ledger.Object{Phase: long}},
		{"the longest parent", ledger.Object{Parent: long}},
		{"the longest field", ledger.Object{Fields: ledger.Fields{"species": long}}},
		{"the largest numbers", ledger.Object{Fields: ledger.Fields{"legs": int64(math.MaxInt64)}}},
		{"the smallest numbers", ledger.Object{Fields: ledger.Fields{"legs": int64(math.MinInt64)}}},
		{"early times", ledger.Object{Fields: ledger.Fields{"born": time.Date(1, 1, 2, 0, 0, 0, 0, time.UTC)}}},
		{"late times", ledger.Object{Fields: ledger.Fields{"born": time.Date(9999, 12, 30, 23, 0, 0, 0, time.UTC)}}},
		{"fields out of JSON", ledger.Object{Fields: ledger.Fields{"legs": 4.0, "born": "2026-01-02T03:04:05.123456789Z"}}},
		{"the largest object", ledger.Object{Spec: big}},
		{"JSON null", ledger.Object{Spec: json.RawMessage("null")}},
	}
	for i, c := range cases {
		o := c.object
		o.Ref = beast(id("rt", i))
		res := r.commit(by(create(o)))
		want := stored(o)
		want.Generation, want.Version, want.Created, want.Updated = 1, 1, res.Objects[0].Created, res.Objects[0].Updated
		r.same(res.Objects[0], want, c.reason+": result", lenient)
		got := r.get(o.Ref)
		r.same(got, want, c.reason+": get", lenient)
		listed := r.list(ledger.Query{Kind: "beast", Scope: map[string]any{"id": o.ID}, Deleted: true})
		r.same(listed, []ledger.Object{want}, c.reason+": list", lenient)
		logged := r.changes(ledger.ChangeQuery{Kind: "beast", ID: o.ID})
		if len(logged) != 1 {
			r.Fatalf("%s: %d changes in the log, want 1", c.reason, len(logged))
		}
		r.same(logged[0].Object, want, c.reason+": log", lenient, sameJSON)
		// What was read and is written back has not changed.
		if again := r.commit(by(ledger.Put{Object: got, Expect: 1, Op: "update"})); again.Seq != 0 {
			r.Fatalf("%s: writing back what was read made a change", c.reason)
		}
	}
}

func testNoop(r *rig) {
	o := r.put(ledger.Object{Ref: beast("a"), Org: "acme", Labels: map[string]string{"k": "v"}, Spec: json.RawMessage(`{"a":1}`),
		Fields: ledger.Fields{"born": time.Now(), "legs": 3, "species": "x"}}, 0, "create")
	before := r.head()
	for _, c := range []struct {
		reason string
		edit   func(*ledger.Object)
	}{
		{"the same again", func(*ledger.Object) {}},
		{"what the ledger sets is not compared", func(o *ledger.Object) { o.Generation, o.Version, o.Created, o.Updated = 0, 0, time.Time{}, time.Time{} }},
		{"no status and an empty status", func(o *ledger.Object) { o.Status = json.RawMessage{} }},
		{"a null field is a missing one", func(o *ledger.Object) {
			o.Fields = ledger.Fields{"born": o.Fields["born"], "legs": 3.0, "species": "x", "tame": nil}
		}},
	} {
		p := o
		c.edit(&p)
		res := r.commit(by(ledger.Put{Object: p, Expect: 1, Op: "update"}))
		if res.Seq != 0 {
			r.Fatalf("%s: seq %d, want 0 for no change", c.reason, res.Seq)
		}
		r.same(res.Objects, []ledger.Object{o}, c.reason)
	}
	r.same(r.get(o.Ref), o, "object after puts without a change")
	if after := r.head(); after.Seq != before.Seq {
		r.Fatalf("the log grew from %d to %d", before.Seq, after.Seq)
	}
	r.refused(by(ledger.Put{Object: o, Expect: 2, Op: "update"}), fault.Conflict, "version")

	// Beside a real change in one set, only the change is logged.
	res := r.commit(by(ledger.Put{Object: o, Expect: 1, Op: "update"}, create(ledger.Object{Ref: cage("c")})))
	if res.Seq != before.Seq+1 || res.Objects[0].Version != 1 {
		r.Fatalf("got seq %d and version %d, want %d and 1", res.Seq, res.Objects[0].Version, before.Seq+1)
	}
}

// testAtomic lets each guard fail in a set that does everything else, too.
func testAtomic(r *rig) {
	old := r.put(ledger.Object{Ref: beast("old"), Org: "acme"}, 0, "create")
	kept := r.put(ledger.Object{Ref: cage("kept"), Org: "acme"}, 0, "create")
	held := ledger.Claim{Name: ledger.Name{Space: "host", Name: "held"}, Holder: old.Ref}
	set := waking(ledger.Wake{Ref: cage("leased")})
	set.Claims, set.Counts = []ledger.Claim{held}, []ledger.Count{{Name: "full", Delta: 3, Max: 3}}
	r.commit(set)
	w := r.one(time.Hour)
	seq := r.head().Seq

	cases := []struct {
		reason string
		spoil  func(*ledger.Set)
		kind   fault.Kind
		why    string
	}{
		{"exists", func(s *ledger.Set) { s.Puts = append(s.Puts, create(kept)) }, fault.Conflict, "exists"},
		{"version", func(s *ledger.Set) { s.Puts = append(s.Puts, ledger.Put{Object: kept, Expect: 5, Op: "x"}) }, fault.Conflict, "version"},
		{"not found", func(s *ledger.Set) {
			s.Puts = append(s.Puts, ledger.Put{Object: ledger.Object{Ref: beast("none")}, Expect: 1, Op: "x"})
		}, fault.NotFound, ""},
		{"invalid", func(s *ledger.Set) { s.Puts = append(s.Puts, create(ledger.Object{Ref: beast("\x00")})) }, fault.Invalid, ""},
		{"name taken", func(s *ledger.Set) { s.Claims = append(s.Claims, ledger.Claim{Name: held.Name, Holder: beast("new")}) }, fault.Conflict, "name-taken"},
		{"name claimed for two", func(s *ledger.Set) {
			s.Claims = append(s.Claims, ledger.Claim{Name: s.Claims[0].Name, Holder: beast("two")})
		}, fault.Conflict, "name-taken"},
		{"counter full", func(s *ledger.Set) { s.Counts = append(s.Counts, ledger.Count{Name: "full", Delta: 1, Max: 3}) }, fault.Exhausted, "counter:full"},
		{"counter below zero", func(s *ledger.Set) { s.Counts = append(s.Counts, ledger.Count{Name: "empty", Delta: -1}) }, fault.Conflict, "counter:empty"},
		{"lease of another token", func(s *ledger.Set) { s.Lease.Token++ }, fault.Conflict, "lease-lost"},
		{"lease of no token", func(s *ledger.Set) { s.Lease = &ledger.Lease{Ref: cage("idle")} }, fault.Conflict, "lease-lost"},
		{"wake of an unknown kind", func(s *ledger.Set) { s.Wakes = append(s.Wakes, ledger.Wake{Ref: ledger.Ref{Kind: "x", ID: "x"}}) }, fault.Invalid, ""},
	}
	for _, c := range cases {
		lease := w.Lease
		set := by(create(ledger.Object{Ref: beast("new"), Org: "acme"}), ledger.Put{Object: withPhase(old, "moved"), Expect: 1, Op: "move"})
		set.Claims = []ledger.Claim{{Name: ledger.Name{Space: "host", Name: "new"}, Holder: beast("new")}}
		set.Frees = []ledger.Claim{held}
		set.Counts = []ledger.Count{{Name: "new", Delta: 1, Max: 1}, {Name: "full", Delta: -1}, {Name: "full", Delta: 1, Max: 3}}
		set.Wakes = []ledger.Wake{{Ref: beast("new")}, {Ref: cage("idle")}, {Ref: cage("leased")}}
		set.Lease, set.Finish = &lease, &ledger.Finish{Dirty: w.Dirty}
		c.spoil(&set)
		r.refused(set, c.kind, c.why)

		r.absent(beast("new"))
		r.same(r.get(old.Ref), old, c.reason+": the object stays")
		_, err := r.Lookup(r.ctx, ledger.Name{Space: "host", Name: "new"})
		r.wantFault(err, fault.NotFound, "")
		if h, err := r.Lookup(r.ctx, held.Name); err != nil || h != old.Ref {
			r.Fatalf("%s: the held name is now %v, %v", c.reason, h, err)
		}
		r.none()
		if got := r.head().Seq; got != seq {
			r.Fatalf("%s: the log grew from %d to %d", c.reason, seq, got)
		}
		if got := r.total(ledger.Query{Kind: "beast", Scope: map[string]any{"org": "acme"}}); got != 1 {
			r.Fatalf("%s: total is %d, want 1", c.reason, got)
		}
	}
	r.same([]int64{r.counter("new"), r.counter("full"), r.counter("empty")}, []int64{0, 3, 0}, "counters after refused sets")
	// The lease holds, with the dirty count that was claimed.
	set = finishing(w, ledger.Finish{})
	set.Counts = []ledger.Count{{Name: "new", Delta: 1, Max: 1}, {Name: "full", Delta: -3}}
	r.commit(set)
	if next := r.none(); next >= 0 {
		r.Fatalf("work is left, due in %v", next)
	}
}

func withPhase(o ledger.Object, phase string) ledger.Object {
	o.Phase = phase
	return o
}

func testSoftDelete(r *rig) {
	o := r.put(ledger.Object{Ref: beast("a"), Org: "acme"}, 0, "create")
	acme := ledger.Query{Kind: "beast", Scope: map[string]any{"org": "acme"}}
	gone := acme
	gone.Deleted = true
	check := func(reason string, alive, all int64) {
		r.Helper()
		if a, b := int64(len(r.list(acme))), int64(len(r.list(gone))); a != alive || b != all {
			r.Fatalf("%s: lists show %d, and %d with deleted ones; want %d and %d", reason, a, b, alive, all)
		}
		if a, b := r.total(acme), r.total(gone); a != alive || b != all {
			r.Fatalf("%s: totals are %d, and %d with deleted ones; want %d and %d", reason, a, b, alive, all)
		}
	}
	check("created", 1, 1)
	o.Deleted = time.Now()
	o = r.put(o, o.Version, "delete")
	check("deleted", 0, 1)
	r.same(r.get(o.Ref), o, "a deleted object is still there")
	r.refused(by(create(ledger.Object{Ref: o.Ref})), fault.Conflict, "exists")
	o.Phase = "cleaned"
	o = r.put(o, o.Version, "clean")
	check("changed after deletion", 0, 1)
	o.Deleted = time.Time{}
	o = r.put(o, o.Version, "restore")
	check("restored", 1, 1)
	if !r.get(o.Ref).Deleted.IsZero() {
		r.Fatal("a restored object has a time of deletion")
	}
}
