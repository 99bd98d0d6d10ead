package ledgertest

import (
	"encoding/json"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

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
		"a trace that is none":   with(func(s *ledger.Set) { s.Trace = "00-x" }),
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
		"link to nothing":        put(func(o *ledger.Object) { o.Links = []string{"cage/a", ""} }),
		"link to a zero byte":    put(func(o *ledger.Object) { o.Links = []string{"a\x00"} }),
		"link to bad text":       put(func(o *ledger.Object) { o.Links = []string{"\xff"} }),
		"endless link":           put(func(o *ledger.Object) { o.Links = []string{strings.Repeat("l", ledger.MaxLink+1)} }),
		"too many links":         put(func(o *ledger.Object) { o.Links = slices.Repeat([]string{"a"}, ledger.MaxLinks+1) }),
		"links of a cage":        put(func(o *ledger.Object) { o.Kind, o.Links = "cage", []string{"a"} }),
		"words of a cage":        put(func(o *ledger.Object) { o.Kind, o.Words = "cage", "a" }),
		"too many words":         put(func(o *ledger.Object) { o.Words = strings.Repeat("w", ledger.MaxWords+1) }),
		"zero byte in the words": put(func(o *ledger.Object) { o.Words = "a\x00" }),
		"invalid words":          put(func(o *ledger.Object) { o.Words = "\xff" }),
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
			"Counter":  func() error { _, err := r.Counter(r.ctx, bad); return orMissing(err) },
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

// orMissing takes a value of nothing for not found.
func orMissing(err error) error {
	if err == nil {
		return fault.New(fault.NotFound, "nothing there")
	}
	return err
}
