package ledgertest

import (
	"fmt"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// workOf compares everything but what the store is free to choose.
var workOf = cmpopts.IgnoreFields(ledger.Work{}, "Token", "Due")

func testWake(r *rig) {
	if next := r.none(); next >= 0 {
		r.Fatalf("an empty queue has work in %v, want a negative time for unknown", next)
	}
	set := by(create(ledger.Object{Ref: beast("a"), Org: "acme"}))
	set.Wakes = []ledger.Wake{{Ref: beast("a")}}
	set.Cause = ledger.ByRequest("first")
	r.commit(set)
	set = waking(ledger.Wake{Ref: beast("a"), Org: "ignored: the row has one"})
	set.Cause = ledger.ByReport("c1", "7")
	r.commit(set)

	w := r.one(time.Hour)
	r.same(w, ledger.Work{Lease: ledger.Lease{Ref: beast("a")}, Org: "acme", Dirty: 2, Cause: "report:c1@7"}, "work woken twice", workOf)
	if w.Token <= 0 {
		r.Fatalf("token is %d, want a positive one", w.Token)
	}
	if since := time.Since(w.Due); since.Abs() > time.Hour {
		r.Fatalf("work was due %v ago", since)
	}
	if next := r.none(); next <= 0 || next > time.Hour {
		r.Fatalf("the next lease runs out in %v, want at most an hour", next)
	}

	// A wake during the run means another run, with that wake's count alone.
	r.commit(waking(ledger.Wake{Ref: beast("a")}))
	r.commit(waking(ledger.Wake{Ref: beast("a"), After: time.Hour}))
	r.none()
	r.commit(finishing(w, ledger.Finish{Next: true, After: time.Hour, Attempts: 4}))
	again := r.one(time.Hour)
	r.same(again, ledger.Work{Lease: w.Lease, Org: "acme", Dirty: 2, Attempts: 4, Cause: "request:r1"}, "work woken during its run", workOf)
	if again.Token <= w.Token {
		r.Fatalf("token %d after %d: tokens must grow", again.Token, w.Token)
	}
	r.commit(finishing(again, ledger.Finish{}))
	if next := r.none(); next >= 0 {
		r.Fatalf("finished work is due in %v", next)
	}

	// Work needs no object, and its organisation may be given.
	r.commit(waking(ledger.Wake{Ref: cage("ghost"), Org: "umbrella"}))
	w = r.one(time.Hour)
	r.same(w, ledger.Work{Lease: ledger.Lease{Ref: cage("ghost")}, Org: "umbrella", Dirty: 1, Cause: "request:r1"}, "work without an object", workOf)

	// A wake in the set that finishes counts, too.
	set = finishing(w, ledger.Finish{})
	set.Wakes = []ledger.Wake{{Ref: cage("ghost")}}
	r.commit(set)
	r.same(r.one(time.Hour).Dirty, int64(1), "dirty count after waking in the finish")
}

func testWakeLater(r *rig) {
	r.commit(waking(ledger.Wake{Ref: beast("a"), After: time.Hour}))
	if next := r.none(); next <= 50*time.Minute || next > time.Hour {
		r.Fatalf("next piece is due in %v, want an hour", next)
	}
	r.commit(waking(ledger.Wake{Ref: beast("a"), After: 30 * time.Minute}))
	if next := r.none(); next <= 20*time.Minute || next > 30*time.Minute {
		r.Fatalf("next piece is due in %v, want the sooner of two wakes: 30 minutes", next)
	}
	r.commit(waking(ledger.Wake{Ref: beast("a"), After: 2 * time.Hour}))
	if next := r.none(); next > 30*time.Minute {
		r.Fatalf("a later wake has put off work to %v", next)
	}
	r.commit(waking(ledger.Wake{Ref: beast("a"), After: -time.Hour}))
	w := r.one(time.Hour)
	if w.Dirty != 4 {
		r.Fatalf("dirty count is %d after four wakes", w.Dirty)
	}
	r.commit(finishing(w, ledger.Finish{Next: true, After: time.Hour}))
	if next := r.none(); next <= 50*time.Minute {
		r.Fatalf("next run is due in %v, want an hour", next)
	}
	r.commit(waking(ledger.Wake{Ref: beast("a")}))
	if w := r.one(time.Hour); w.Dirty != 1 {
		r.Fatalf("dirty count is %d, want that of the one wake since the last run", w.Dirty)
	}
}

func testWakeIfIdle(r *rig) {
	resync := waking(ledger.Wake{Ref: beast("a"), IfIdle: true})
	r.commit(resync)
	w := r.one(time.Hour)
	r.commit(resync) // it runs
	r.commit(finishing(w, ledger.Finish{Next: true, After: time.Hour, Attempts: 2}))
	if next := r.none(); next <= 50*time.Minute {
		r.Fatalf("a resync of running work has left work, due in %v", next)
	}
	r.commit(resync) // it waits
	r.none()
	r.commit(waking(ledger.Wake{Ref: beast("a")}))
	r.commit(resync) // it is due
	w = r.one(time.Hour)
	if w.Dirty != 1 || w.Attempts != 2 {
		r.Fatalf("got dirty %d and attempts %d, want 1 and 2", w.Dirty, w.Attempts)
	}
	r.commit(finishing(w, ledger.Finish{}))
	r.commit(resync) // it is idle
	r.one(time.Hour)
}

func testFinish(r *rig) {
	r.commit(waking(ledger.Wake{Ref: beast("a")}))
	for attempts := range 3 { // a failed run comes back with its count
		w := r.one(time.Hour)
		if w.Attempts != attempts {
			r.Fatalf("attempts %d, want %d", w.Attempts, attempts)
		}
		// The note quotes what a program printed; it may hold anything.
		r.commit(finishing(w, ledger.Finish{Next: true, Attempts: attempts + 1, Note: "bad\x00\xff" + strings.Repeat("ü", 4000)}))
	}
	w := r.one(time.Hour)
	set := finishing(w, ledger.Finish{})
	set.Puts = []ledger.Put{create(ledger.Object{Ref: beast("a"), Org: "acme"})}
	set.Claims = []ledger.Claim{{Name: ledger.Name{Space: "s", Name: "n"}, Holder: beast("a")}}
	set.Wakes = []ledger.Wake{{Ref: cage("next")}}
	r.commit(set)
	r.get(beast("a"))
	if next := r.one(time.Hour); next.Ref != cage("next") {
		r.Fatalf("claimed %v, want what the finish has woken", next.Ref)
	}
	r.refused(set, fault.Conflict, "lease-lost") // a run ends once

	// Work that came after the end starts from nothing.
	r.commit(waking(ledger.Wake{Ref: beast("a")}))
	got := r.one(time.Hour)
	if got.Attempts != 0 || got.Dirty != 1 || got.Token <= w.Token {
		r.Fatalf("new work is %+v, want a fresh count and a greater token than %d", got, w.Token)
	}
	bad := finishing(got, ledger.Finish{Attempts: -1})
	r.refused(bad, fault.Invalid, "")
}

func testClaim(r *rig) {
	set := by()
	for i := range 10 {
		set.Wakes = append(set.Wakes, ledger.Wake{Ref: beast(id("b", i))})
	}
	set.Wakes = append(set.Wakes, ledger.Wake{Ref: cage("c")})
	r.commit(set)
	got, err := r.Claim(r.ctx, ledger.ClaimRequest{Holder: "h", Kinds: []string{"cage"}, Limit: 5, Lease: time.Hour})
	if err != nil || len(got.Work) != 1 || got.Work[0].Ref != cage("c") {
		r.Fatalf("claimed %+v (%v), want the one cage", got, err)
	}
	seen, last := map[ledger.Ref]bool{}, int64(0)
	for _, want := range []int{4, 4, 2} {
		got := r.claim(4, time.Hour)
		if len(got.Work) != want {
			r.Fatalf("claimed %d pieces, want %d", len(got.Work), want)
		}
		if more := len(seen)+want < 10; more != (got.Next == 0) {
			r.Fatalf("next is %v with more due: %v", got.Next, more)
		}
		first := last
		for _, w := range got.Work {
			if seen[w.Ref] {
				r.Fatalf("%s was claimed twice", w.Ref)
			}
			if w.Token <= first {
				r.Fatalf("token %d is not greater than %d of an earlier claim", w.Token, first)
			}
			seen[w.Ref], last = true, max(last, w.Token)
		}
	}
	r.none()
	got, err = r.Claim(r.ctx, ledger.ClaimRequest{Holder: "h", Limit: 5, Lease: time.Hour})
	if err != nil || len(got.Work) != 0 {
		r.Fatalf("a replica that can work on nothing got %+v, %v", got, err)
	}
}

// testFair gives one organisation ten thousand due pieces. Another's single
// piece must not wait for them.
func testFair(r *rig) {
	start := time.Now()
	for batch := range 10 {
		set := by()
		for i := range 1000 {
			set.Wakes = append(set.Wakes, ledger.Wake{Ref: beast(id("big", batch*1000+i)), Org: "big"})
		}
		r.commit(set)
	}
	other := r.on(r.replicas(2)[1]) // another replica has seen nothing of the flood
	other.commit(waking(ledger.Wake{Ref: cage("small"), Org: "small"}))
	// Turns of one organisation lie 5 ms apart, so as many of its pieces may go
	// first as time has passed, and not all of its ten thousand.
	before := int(time.Since(start)/(5*time.Millisecond)) + 50
	claimed := 0
	for found := false; !found; {
		got := r.claim(50, time.Hour)
		if len(got.Work) == 0 {
			r.Fatal("the small organisation's work is not there")
		}
		for _, w := range got.Work {
			if found = found || w.Ref == cage("small"); !found {
				claimed++
			}
		}
	}
	if claimed > before || claimed > 5000 {
		r.Fatalf("%d pieces of the big organisation went first, want at most %d", claimed, min(before, 5000))
	}

	// Woken at once, organisations take turns, however many pieces each has.
	set := by()
	for i := range 1000 {
		set.Wakes = append(set.Wakes, ledger.Wake{Ref: cage(id("x", i)), Org: "x"})
	}
	for i := range 3 {
		for _, org := range []string{"y", "z"} {
			set.Wakes = append(set.Wakes, ledger.Wake{Ref: cage(fmt.Sprint(org, i)), Org: org})
		}
	}
	other.commit(set)
	got, err := other.Claim(r.ctx, ledger.ClaimRequest{Holder: "h", Kinds: []string{"cage"}, Limit: 12, Lease: time.Hour})
	if err != nil {
		r.Fatal(err)
	}
	turns := map[string]int{}
	for _, w := range got.Work {
		turns[w.Org]++
	}
	if turns["y"] != 3 || turns["z"] != 3 {
		r.Fatalf("the first twelve turns went to %v, want all three of y and z among them", turns)
	}
}

func testBacklog(r *rig) {
	set := by()
	for i := range 4 {
		set.Wakes = append(set.Wakes, ledger.Wake{Ref: beast(id("due", i))})
	}
	set.Wakes = append(set.Wakes, ledger.Wake{Ref: beast("later"), After: time.Hour}, ledger.Wake{Ref: cage("c"), After: time.Hour})
	r.commit(set)
	r.claim(1, time.Hour)
	expired := r.claim(1, instant)
	if len(expired.Work) != 1 {
		r.Fatalf("claimed %+v, want one", expired)
	}
	got, err := r.Backlog(r.ctx)
	if err != nil {
		r.Fatal(err)
	}
	seen := map[string]ledger.Backlog{}
	for _, b := range got {
		if b.Oldest < 0 || b.Oldest > patience {
			r.Errorf("oldest due %s has waited %v", b.Kind, b.Oldest)
		}
		b.Oldest = 0
		if b.Due+b.Running+b.Waiting > 0 {
			seen[b.Kind] = b
		}
	}
	r.same(seen, map[string]ledger.Backlog{
		"beast": {Kind: "beast", Due: 3, Running: 1, Waiting: 1}, // what was claimed for an instant is due again
		"cage":  {Kind: "cage", Waiting: 1},
	}, "backlog")
}
