package ledgertest

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/go-cmp/cmp"

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
		{"a field is no intent", func(o *ledger.Object) { o.Fields = ledger.Fields{"legs": 2} }, 2, 6},
		{"removing intent is a change of it", func(o *ledger.Object) { o.Spec = nil }, 3, 7},
		{"versions need no change of many columns", func(o *ledger.Object) { o.View = json.RawMessage(`1`) }, 3, 8},
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
	if res.Seq != 11 {
		r.Fatalf("seq of three more changes is %d, want that of the last: 11", res.Seq)
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
		{"the longest text", ledger.Object{Org: long, Owner: long, Name: long, Phase: long, Parent: long,
			Fields: ledger.Fields{"species": long}}},
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

// badSets are sets that are refused for what they say, whatever the state is.
func badSets(n int) map[string]ledger.Set {
	ref := beast(id("bad", n))
	put := func(edit func(*ledger.Object)) ledger.Set {
		o := ledger.Object{Ref: ref, Name: "fine"}
		edit(&o)
		return by(create(o))
	}
	with := func(edit func(*ledger.Set)) ledger.Set {
		s := by(create(ledger.Object{Ref: ref}))
		edit(&s)
		return s
	}
	mega, holder := strings.Repeat("n", 1<<20), ledger.Claim{Name: ledger.Name{Space: "s", Name: id("bad", n)}, Holder: ref}
	return map[string]ledger.Set{
		"no actor":               with(func(s *ledger.Set) { s.Actor = "" }),
		"no cause":               with(func(s *ledger.Set) { s.Cause = "" }),
		"zero byte in the actor": with(func(s *ledger.Set) { s.Actor = "a\x00" }),
		"invalid cause":          with(func(s *ledger.Set) { s.Cause = "\xff" }),
		"no op":                  with(func(s *ledger.Set) { s.Puts[0].Op = "" }),
		"zero byte in the op":    with(func(s *ledger.Set) { s.Puts[0].Op = "\x00" }),
		"unknown kind":           put(func(o *ledger.Object) { o.Kind = "unicorn" }),
		"no id":                  put(func(o *ledger.Object) { o.ID = "" }),
		"zero byte in the id":    put(func(o *ledger.Object) { o.ID = "a\x00b" }),
		"invalid id":             put(func(o *ledger.Object) { o.ID = "\xc3(" }),
		"endless id":             put(func(o *ledger.Object) { o.ID = mega }),
		"zero byte in the name":  put(func(o *ledger.Object) { o.Name = "a\x00b" }),
		"invalid name":           put(func(o *ledger.Object) { o.Name = "\xff\xfe" }),
		"endless name":           put(func(o *ledger.Object) { o.Name = mega }),
		"endless org":            put(func(o *ledger.Object) { o.Org = mega }),
		"zero byte in the owner": put(func(o *ledger.Object) { o.Owner = "\x00" }),
		"invalid parent":         put(func(o *ledger.Object) { o.Parent = "\x80" }),
		"invalid phase":          put(func(o *ledger.Object) { o.Phase = "\xf8" }),
		"zero byte in a label":   put(func(o *ledger.Object) { o.Labels = map[string]string{"k\x00": "v"} }),
		"invalid label":          put(func(o *ledger.Object) { o.Labels = map[string]string{"k": "\xff"} }),
		"undeclared field":       put(func(o *ledger.Object) { o.Fields = ledger.Fields{"wings": 2} }),
		"a column as a field":    put(func(o *ledger.Object) { o.Fields = ledger.Fields{"name": "x"} }),
		"wrong type of field":    put(func(o *ledger.Object) { o.Fields = ledger.Fields{"legs": "four"} }),
		"fraction of a leg":      put(func(o *ledger.Object) { o.Fields = ledger.Fields{"legs": 3.5} }),
		"too many legs":          put(func(o *ledger.Object) { o.Fields = ledger.Fields{"legs": 1e300} }),
		"odd type of field":      put(func(o *ledger.Object) { o.Fields = ledger.Fields{"legs": []int{1}} }),
		"zero byte in a field":   put(func(o *ledger.Object) { o.Fields = ledger.Fields{"species": "\x00"} }),
		"endless field":          put(func(o *ledger.Object) { o.Fields = ledger.Fields{"species": mega} }),
		"time out of range":      put(func(o *ledger.Object) { o.Fields = ledger.Fields{"born": time.Unix(1<<55, 0)} }),
		"deleted out of range":   put(func(o *ledger.Object) { o.Deleted = time.Unix(1<<55, 0) }),
		"no JSON":                put(func(o *ledger.Object) { o.Spec = json.RawMessage(`{`) }),
		"invalid JSON text":      put(func(o *ledger.Object) { o.Status = json.RawMessage("\"\xff\"") }),
		"two JSON values":        put(func(o *ledger.Object) { o.View = json.RawMessage(`1 2`) }),
		"too large":              put(func(o *ledger.Object) { o.Spec = json.RawMessage(`"` + strings.Repeat("x", ledger.MaxObject) + `"`) }),
		"written twice":          with(func(s *ledger.Set) { s.Puts = append(s.Puts, s.Puts[0]) }),
		"finish without a lease": with(func(s *ledger.Set) { s.Finish = &ledger.Finish{} }),
		"claim of no name":       with(func(s *ledger.Set) { s.Claims = []ledger.Claim{{Holder: ref}} }),
		"claim by nobody":        with(func(s *ledger.Set) { s.Claims = []ledger.Claim{{Name: holder.Name}} }),
		"claim of a zero byte":   with(func(s *ledger.Set) { holder.Name.Name = "a\x00"; s.Claims = []ledger.Claim{holder} }),
		"claim in a bad space":   with(func(s *ledger.Set) { holder.Space = "\xff"; s.Claims = []ledger.Claim{holder} }),
		"claim by a bad holder": with(func(s *ledger.Set) {
			s.Claims = []ledger.Claim{{Name: ledger.Name{Space: "s", Name: "n"}, Holder: beast("\x00")}}
		}),
		"free of a zero byte":     with(func(s *ledger.Set) { s.Frees = []ledger.Claim{{Name: ledger.Name{Name: "\x00"}, Holder: ref}} }),
		"count of no name":        with(func(s *ledger.Set) { s.Counts = []ledger.Count{{Delta: 1, Max: -1}} }),
		"count of a zero byte":    with(func(s *ledger.Set) { s.Counts = []ledger.Count{{Name: "\x00", Delta: 1, Max: -1}} }),
		"wake of an unknown kind": with(func(s *ledger.Set) { s.Wakes = []ledger.Wake{{Ref: ledger.Ref{Kind: "unicorn", ID: "u"}}} }),
		"wake of no id":           with(func(s *ledger.Set) { s.Wakes = []ledger.Wake{{Ref: beast("")}} }),
		"wake of a zero byte":     with(func(s *ledger.Set) { s.Wakes = []ledger.Wake{{Ref: beast("\x00")}} }),
		"wake for a bad org":      with(func(s *ledger.Set) { s.Wakes = []ledger.Wake{{Ref: ref, Org: "\xff"}} }),
	}
}

func testInvalid(r *rig) {
	for reason, set := range badSets(0) {
		_, err := r.Commit(r.ctx, set)
		if !fault.Is(err, fault.Invalid) {
			r.Errorf("%s: got %v (%.200v), want invalid", reason, fault.Of(err), err)
		}
		if err != nil && len(err.Error()) > 8<<10 {
			r.Errorf("%s: the error repeats %d bytes of bad input", reason, len(err.Error()))
		}
	}
	r.absent(beast(id("bad", 0)))
	if seq := r.head().Seq; seq != 0 {
		r.Fatalf("refused sets left %d changes", seq)
	}
	r.refused(badSets(0)["too large"], fault.Invalid, "too-large")
}

// testGarbage reads with names that cannot exist.
func testGarbage(r *rig) {
	for _, bad := range []string{"", "a\x00b", "\xff\xfe", strings.Repeat("x", 1<<20), `'; DROP TABLE objects; --`} {
		calls := map[string]func() error{
			"Get":      func() error { _, err := r.Get(r.ctx, beast(bad)); return err },
			"Get kind": func() error { _, err := r.Get(r.ctx, ledger.Ref{Kind: bad, ID: "x"}); return err },
			"At":       func() error { _, err := r.At(r.ctx, beast(bad), ledger.Moment{Seq: 1}); return err },
			"Lookup":   func() error { _, err := r.Lookup(r.ctx, ledger.Name{Space: bad, Name: bad}); return err },
			"Blob":     func() error { _, err := r.Blob(r.ctx, bad); return err },
			"Unseal":   func() error { _, err := r.Unseal(r.ctx, bad); return err },
			"Unseal 2": func() error { _, err := r.Unseal(r.ctx, "secret:"+bad); return err },
		}
		for name, call := range calls {
			if err := call(); !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.Invalid) {
				r.Errorf("%s of %.20q: got %v (%.200v), want not found or invalid", name, bad, fault.Of(err), err)
			}
		}
		if got, err := r.Changes(r.ctx, ledger.ChangeQuery{Kind: "beast", ID: bad, Org: bad}); err == nil && len(got) > 0 ||
			err != nil && !fault.Is(err, fault.Invalid) {
			r.Errorf("Changes of %.20q: got %v, %.200v", bad, got, err)
		}
		lease := ledger.Lease{Ref: beast(bad), Token: 1}
		lost, err := r.Renew(r.ctx, []ledger.Lease{lease}, time.Hour)
		if err == nil && len(lost) != 1 || err != nil && !fault.Is(err, fault.Invalid) {
			r.Errorf("Renew of %.20q: got %v, %.200v; want it lost", bad, lost, err)
		}
		if err := r.Release(r.ctx, []ledger.Lease{lease}); err != nil && !fault.Is(err, fault.Invalid) {
			r.Errorf("Release of %.20q: %.200v", bad, err)
		}
		set := by()
		set.Lease = &lease
		if _, err := r.Commit(r.ctx, set); !fault.Is(err, fault.Conflict) && !fault.Is(err, fault.Invalid) {
			r.Errorf("Commit leased on %.20q: %.200v", bad, err)
		}
	}
}

// testAtomic lets each guard fail in a set that does everything else, too.
func testAtomic(r *rig) {
	old := r.put(ledger.Object{Ref: beast("old"), Org: "acme"}, 0, "create")
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
		{"exists", func(s *ledger.Set) { s.Puts = append(s.Puts, create(old)) }, fault.Conflict, "exists"},
		{"version", func(s *ledger.Set) { s.Puts = append(s.Puts, ledger.Put{Object: old, Expect: 5, Op: "x"}) }, fault.Conflict, "version"},
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
	// The counter named new was never moved, full is still at its bound, and
	// the lease holds with the dirty count that was claimed.
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

// testFailsAlone commits good and bad sets at once: they share database commits.
func testFailsAlone(r *rig) {
	var bad []ledger.Set
	for _, set := range badSets(1) {
		bad = append(bad, set)
	}
	r.commit(func() ledger.Set {
		s := by()
		s.Claims = []ledger.Claim{{Name: ledger.Name{Space: "s", Name: "taken"}, Holder: cage("x")}}
		return s
	}())
	const n = 400
	var failed atomic.Int64
	race(r.replicas(2), n, func(i int, l ledger.Ledger) {
		if i%2 == 1 {
			set, want := bad[i/2%len(bad)], fault.Invalid
			if i%10 == 1 {
				set, want = by(create(ledger.Object{Ref: beast(id("taken", i))})), fault.Conflict
				set.Claims = []ledger.Claim{{Name: ledger.Name{Space: "s", Name: "taken"}, Holder: beast("y")}}
			}
			if _, err := l.Commit(r.ctx, set); !fault.Is(err, want) {
				r.Errorf("bad set %d: got %.200v, want %v", i, err, want)
			}
			failed.Add(1)
			return
		}
		set := by(create(ledger.Object{Ref: beast(id("good", i)), Org: "acme"}))
		set.Claims = []ledger.Claim{{Name: ledger.Name{Space: "s", Name: id("good", i)}, Holder: beast(id("good", i))}}
		if _, err := l.Commit(r.ctx, set); err != nil {
			r.Errorf("good set %d failed beside bad ones: %v", i, err)
		}
	})
	if got := r.head().Seq; got != n/2 {
		r.Fatalf("the log has %d changes, want one for each of the %d good sets", got, n/2)
	}
	for i, o := range r.list(ledger.Query{Kind: "beast", Limit: n}) {
		if want := id("good", 2*i); o.ID != want {
			r.Fatalf("object %d is %s, want %s", i, o.ID, want)
		}
	}
}

func testNames(r *rig) {
	a, b := beast("a"), beast("b")
	host := ledger.Name{Space: "host", Name: "rex.example.org"}
	claim := func(n ledger.Name, h ledger.Ref) ledger.Set {
		s := by()
		s.Claims = []ledger.Claim{{Name: n, Holder: h}}
		return s
	}
	free := func(n ledger.Name, h ledger.Ref) ledger.Set {
		s := by()
		s.Frees = []ledger.Claim{{Name: n, Holder: h}}
		return s
	}
	holder := func(n ledger.Name, want ledger.Ref) {
		r.Helper()
		got, err := r.Lookup(r.ctx, n)
		if want == (ledger.Ref{}) {
			r.wantFault(err, fault.NotFound, "")
		} else if err != nil || got != want {
			r.Fatalf("%v is held by %v (%v), want %v", n, got, err, want)
		}
	}
	holder(host, ledger.Ref{})
	r.commit(claim(host, a))
	holder(host, a)
	r.commit(claim(host, a)) // the same holder again is no conflict
	r.refused(claim(host, b), fault.Conflict, "name-taken")
	r.refused(claim(host, cage("a")), fault.Conflict, "name-taken") // the kind is part of the holder
	r.commit(claim(ledger.Name{Space: "bucket", Name: host.Name}, b))
	r.commit(claim(ledger.Name{Space: host.Space, Name: "REX.example.org"}, b)) // names are compared byte by byte
	holder(host, a)

	r.commit(free(host, b)) // b does not hold it
	holder(host, a)
	r.refused(claim(host, b), fault.Conflict, "name-taken")
	r.commit(free(ledger.Name{Space: host.Space, Name: "never"}, a)) // nothing to free

	// Nothing but a free gives a name back: not the end of its holder.
	o := r.put(ledger.Object{Ref: a}, 0, "create")
	o.Deleted = time.Now()
	r.put(o, 1, "delete")
	r.refused(claim(host, b), fault.Conflict, "name-taken")
	r.commit(free(host, a))
	holder(host, ledger.Ref{})
	r.commit(claim(host, b))
	holder(host, b)

	two := by()
	two.Claims = []ledger.Claim{{Name: ledger.Name{Space: "s", Name: "1"}, Holder: a}, {Name: ledger.Name{Space: "s", Name: "1"}, Holder: a}}
	two.Frees = []ledger.Claim{{Name: host, Holder: b}}
	r.commit(two)
	holder(ledger.Name{Space: "s", Name: "1"}, a)
	holder(host, ledger.Ref{})
}

// testNameRace lets many want one name, over and over.
func testNameRace(r *rig) {
	ledgers := r.replicas(3)
	const rounds, n = 5, 24
	var last ledger.Claim
	for round := range rounds {
		name := ledger.Name{Space: "host", Name: "wanted"}
		var winner atomic.Pointer[ledger.Ref]
		race(ledgers, n, func(i int, l ledger.Ledger) {
			ref := beast(fmt.Sprintf("r%d-%d", round, i))
			set := by(create(ledger.Object{Ref: ref}))
			set.Claims = []ledger.Claim{{Name: name, Holder: ref}}
			_, err := l.Commit(r.ctx, set)
			if err == nil {
				if before := winner.Swap(&ref); before != nil {
					r.Errorf("%s and %s both got the name", before, ref)
				}
			} else if !fault.Is(err, fault.Conflict) || fault.Reason(err) != "name-taken" {
				r.Errorf("loser got %v, want a taken name", err)
			}
		})
		if winner.Load() == nil {
			r.Fatalf("nobody got the name in round %d", round)
		}
		last = ledger.Claim{Name: name, Holder: *winner.Load()}
		if h, err := r.Lookup(r.ctx, name); err != nil || h != last.Holder {
			r.Fatalf("the name is held by %v (%v), want the winner %v", h, err, last.Holder)
		}
		if got := r.head().Seq; got != int64(round+1) {
			r.Fatalf("the log has %d changes after round %d: a loser has written", got, round)
		}
		set := by()
		set.Frees = []ledger.Claim{last}
		r.commit(set)
	}
}

func testCounters(r *rig) {
	count := func(cs ...ledger.Count) ledger.Set {
		s := by()
		s.Counts = cs
		return s
	}
	r.commit(count(ledger.Count{Name: "c", Delta: 3, Max: 3}))
	r.refused(count(ledger.Count{Name: "c", Delta: 1, Max: 3}), fault.Exhausted, "counter:c")
	r.commit(count(ledger.Count{Name: "c", Delta: 1, Max: 4}))                                                                           // the bound is the set's
	r.refused(count(ledger.Count{Name: "c", Delta: 1, Max: 2}), fault.Exhausted, "counter:c")                                            // a bound that was lowered below the value
	r.commit(count(ledger.Count{Name: "c", Delta: -1, Max: 0}))                                                                          // does not keep it from falling
	r.commit(count(ledger.Count{Name: "c", Delta: 100, Max: -1}))                                                                        // no bound
	r.refused(count(ledger.Count{Name: "c", Delta: -104}), fault.Conflict, "counter:c")                                                  // 103 are there
	r.commit(count(ledger.Count{Name: "c", Delta: -103}))                                                                                // down to zero
	r.refused(count(ledger.Count{Name: "c", Delta: -1}), fault.Conflict, "counter:c")                                                    // and no further
	r.refused(count(ledger.Count{Name: "c", Delta: 2, Max: 3}, ledger.Count{Name: "c", Delta: 2, Max: 3}), fault.Exhausted, "counter:c") // they add up within a set
	r.commit(count(ledger.Count{Name: "c", Delta: 3, Max: 3}, ledger.Count{Name: "c", Delta: -1}, ledger.Count{Name: "c", Delta: 1, Max: 3}))
	r.refused(count(ledger.Count{Name: "c", Delta: math.MaxInt64, Max: -1}), fault.Exhausted, "counter:c") // no wrapping around
	r.refused(count(ledger.Count{Name: "d", Delta: math.MaxInt64, Max: -1}, ledger.Count{Name: "d", Delta: math.MaxInt64, Max: -1}), fault.Exhausted, "counter:d")
	r.refused(count(ledger.Count{Name: "d", Delta: 1, Max: 0}), fault.Exhausted, "counter:d") // a bound of zero is a bound
}

func testCounterRace(r *rig) {
	const n, bound = 60, 13
	var won atomic.Int64
	race(r.replicas(3), n, func(i int, l ledger.Ledger) {
		set := by(create(ledger.Object{Ref: cage(id("c", i)), Org: "acme"}))
		set.Counts = []ledger.Count{{Name: "quota", Delta: 1, Max: bound}}
		_, err := l.Commit(r.ctx, set)
		switch {
		case err == nil:
			won.Add(1)
		case !fault.Is(err, fault.Exhausted) || fault.Reason(err) != "counter:quota":
			r.Errorf("got %v, want an exhausted quota", err)
		}
	})
	if won.Load() != bound {
		r.Fatalf("%d sets passed a bound of %d", won.Load(), bound)
	}
	if got := r.total(ledger.Query{Kind: "cage", Scope: map[string]any{"org": "acme"}}); got != bound {
		r.Fatalf("%d objects were written, want %d", got, bound)
	}
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

// stored is the object as a store returns it: fields have their types, times
// are cut to microseconds, nulls are gone.
func stored(o ledger.Object) ledger.Object {
	fields := ledger.Fields{}
	for name, v := range o.Fields {
		switch x := v.(type) {
		case nil:
			continue
		case int:
			v = int64(x)
		case float64:
			v = int64(x)
		case time.Time:
			v = x.UTC().Truncate(time.Microsecond)
		case string:
			if at, err := time.Parse(time.RFC3339Nano, x); err == nil && name == "born" {
				v = at.UTC().Truncate(time.Microsecond)
			}
		}
		fields[name] = v
	}
	o.Fields = fields
	o.Deleted = o.Deleted.UTC().Truncate(time.Microsecond)
	return o
}

// lenient takes missing and empty maps and JSON for the same.
var lenient = cmp.Options{
	cmp.Transformer("fields", func(f ledger.Fields) map[string]any { return orEmpty(f) }),
	cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Labels" },
		cmp.Comparer(func(a, b map[string]string) bool { return cmp.Equal(orEmpty(a), orEmpty(b)) })),
	cmp.Transformer("raw", func(m json.RawMessage) string { return string(m) }),
}

func orEmpty[M ~map[string]V, V any](m M) map[string]V {
	if m == nil {
		return map[string]V{}
	}
	return m
}

// sameJSON takes JSON that means the same for the same: the log may re-encode it.
var sameJSON = cmp.FilterValues(func(a, b string) bool { return json.Valid([]byte(a)) && json.Valid([]byte(b)) },
	cmp.Comparer(func(a, b string) bool { return a == b || meaning(a) == meaning(b) }))

func meaning(s string) string {
	dec := json.NewDecoder(strings.NewReader(s))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return s
	}
	out, err := json.Marshal(v)
	if err != nil {
		return s
	}
	return string(out)
}
