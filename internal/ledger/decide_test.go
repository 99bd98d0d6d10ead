package ledger_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/ledger/ledgertest"
)

// TestDecideAgreesWithTheModel sends random batches to Decide and, one by one,
// to the model.
func TestDecideAgreesWithTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, model := newMemory(t), ledgertest.NewModel()
		var claimed []ledger.Work
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) { agree(t, m, model) },
			"batch": func(t *rapid.T) {
				var sets []ledger.Set
				for range rapid.IntRange(1, 5).Draw(t, "sets") {
					set := ledgertest.DrawSet(t, model, "p")
					if len(claimed) > 0 && rapid.Bool().Draw(t, "finishing") {
						w := rapid.SampledFrom(claimed).Draw(t, "work")
						set.Lease = &w.Lease
						set.Finish = &ledger.Finish{Dirty: w.Dirty, Next: rapid.Bool().Draw(t, "next"), Attempts: rapid.IntRange(0, 9).Draw(t, "attempts"),
							After: rapid.SampledFrom([]time.Duration{0, time.Second, time.Hour}).Draw(t, "after")}
						set.Take = ledgertest.DrawTake(t, time.Hour, 0)
					}
					sets = append(sets, set)
				}
				kept := fmt.Sprintf("%+v", sets)
				got := m.decide(sets...)
				if now := fmt.Sprintf("%+v", sets); now != kept {
					t.Fatalf("Decide has changed the caller's sets from %s to %s", kept, now)
				}
				for i, set := range sets {
					want, failures := model.Commit(m.state.Now, set)
					model.Took(want.Taken, got[i].Taken, false)
					claimed = append(claimed, got[i].Taken...)
					err := got[i].Err
					if (err != nil) != (len(failures) > 0) ||
						err != nil && !slices.Contains(failures, ledgertest.Failure{Kind: fault.Of(err), Reason: fault.Reason(err)}) {
						t.Fatalf("set %d of %+v: got %v, want %+v", i, sets, err, failures)
					}
					if d := cmp.Diff(want, got[i].Result, loose); d != "" {
						t.Fatalf("set %d of %+v (-want +got):\n%s", i, sets, d)
					}
				}
			},
			"claim": func(t *rapid.T) {
				claimed = append(claimed, m.claim(model, rapid.IntRange(1, 3).Draw(t, "limit"), rapid.Bool().Draw(t, "lapse"))...)
			},
			"time": func(t *rapid.T) {
				m.state.Now = m.state.Now.Add(rapid.SampledFrom([]time.Duration{time.Microsecond, time.Second, 2 * time.Hour}).Draw(t, "passes"))
			},
		})
	})
}

// loose takes missing for empty.
var loose = cmpopts.EquateEmpty()

// agree compares all that the two hold, and the totals with a recount.
func agree(t *rapid.T, m *memory, model *ledgertest.Model) {
	for _, c := range []struct {
		what      string
		got, want any
	}{
		{"objects", m.state.Objects, model.Objects},
		{"log", m.log, model.Log},
		{"names", m.state.Names, model.Names},
	} {
		if d := cmp.Diff(c.want, c.got, loose); d != "" {
			t.Fatalf("%s (-model +decided):\n%s", c.what, d)
		}
	}
	for name, v := range model.Counters {
		if m.state.Counters[name] != v {
			t.Fatalf("counter %s is %d, want %d", name, m.state.Counters[name], v)
		}
	}
	work := map[ledger.Ref]ledgertest.Pending{}
	for ref, w := range m.state.Work {
		work[ref] = ledgertest.Pending{Org: w.Org, Dirty: w.Dirty, Attempts: w.Attempts, Cause: w.Cause, Due: w.Due, Token: w.Token}
		if w.Ref != ref || w.Turn.Before(w.Due) && !w.Due.After(m.state.Now) || w.Turn.Sub(w.Due) > ledger.LaneHorizon {
			t.Fatalf("%s is due at %v and has its turn at %v", ref, w.Due, w.Turn)
		}
	}
	if d := cmp.Diff(model.Work, work); d != "" {
		t.Fatalf("work (-model +decided):\n%s", d)
	}
	recount := map[string]int64{}
	for _, o := range model.Objects {
		for _, scope := range kinds()[o.Kind].Totals {
			if o.Deleted.IsZero() {
				recount[ledger.TotalKey(o.Kind, scope, o.Value)]++
			}
		}
	}
	if d := cmp.Diff(recount, m.totals); d != "" {
		t.Fatalf("totals (-recount +decided):\n%s", d)
	}
}

// TestDecideABatchIsItsSetsOneByOne decides the same sets in one batch and in
// batches of one.
func TestDecideABatchIsItsSetsOneByOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		model := ledgertest.NewModel() // stays empty: many guards fail
		var sets []ledger.Set
		for range rapid.IntRange(1, 12).Draw(t, "sets") {
			sets = append(sets, ledgertest.DrawSet(t, model, "p"))
		}
		whole, single := newMemory(t), newMemory(t)
		together := whole.decide(sets...)
		var good []ledger.Set
		for i, set := range sets {
			alone := single.decide(set)[0]
			if d := cmp.Diff(alone.Result, together[i].Result, loose); d != "" || fault.Reason(alone.Err) != fault.Reason(together[i].Err) || fault.Of(alone.Err) != fault.Of(together[i].Err) {
				t.Fatalf("set %d: alone %+v, in a batch %+v", i, alone, together[i])
			}
			if alone.Err == nil {
				good = append(good, set)
			}
		}
		equal(t, "one by one", whole, single)
		// Failed sets leave no trace: without them the result is the same.
		without := newMemory(t)
		without.decide(good...)
		equal(t, "without the failed sets", whole, without)
	})
}

func equal(t *rapid.T, what string, a, b *memory) {
	t.Helper()
	if d := cmp.Diff(a.state, b.state, loose); d != "" {
		t.Fatalf("state %s:\n%s", what, d)
	}
	if d := cmp.Diff(a.log, b.log, loose); d != "" {
		t.Fatalf("log %s:\n%s", what, d)
	}
	if d := cmp.Diff(a.totals, b.totals); d != "" {
		t.Fatalf("totals %s:\n%s", what, d)
	}
}

// TestNoWakeIsLost interleaves wakes with runs: as long as one wake has not been
// seen by a run that began after it, there is work.
func TestNoWakeIsLost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMemory(t)
		ref := ledger.Ref{Kind: "beast", ID: "a"}
		var unseen int // wakes since the last run began
		var run *ledger.Work
		step := func(t *rapid.T, sets ...ledger.Set) {
			for _, o := range m.decide(sets...) {
				if o.Err != nil {
					t.Fatal(o.Err)
				}
			}
		}
		wake := ledger.Set{Actor: "a", Cause: "c", Wakes: []ledger.Wake{{Ref: ref}}}
		t.Repeat(map[string]func(*rapid.T){
			"wake": func(t *rapid.T) { step(t, wake); unseen++ },
			"begin": func(t *rapid.T) {
				if run != nil {
					return
				}
				if got := m.claim(ledgertest.NewModel(), 1, false); len(got) > 0 {
					run, unseen = &got[0], 0
				}
			},
			"end": func(t *rapid.T) {
				if run == nil {
					return
				}
				end := ledger.Set{Actor: "a", Cause: "c", Lease: &run.Lease, Finish: &ledger.Finish{Dirty: run.Dirty, Next: rapid.Bool().Draw(t, "next"), After: time.Hour}}
				switch rapid.IntRange(0, 3).Draw(t, "with") {
				case 0: // a wake in the same set
					end.Wakes = wake.Wakes
					step(t, end)
					unseen++
				case 1: // a wake before it in the same batch
					step(t, wake, end)
					unseen++
				case 2: // and after
					step(t, end, wake)
					unseen++
				default:
					step(t, end)
				}
				run = nil
			},
			"": func(t *rapid.T) {
				row, exists := m.state.Work[ref]
				if unseen > 0 && run == nil && (!exists || row.Token != 0 || row.Due.After(m.state.Now)) {
					t.Fatalf("%d wakes are lost: %+v", unseen, row)
				}
				if exists && run == nil && row.Dirty != int64(unseen) {
					t.Fatalf("dirty count is %d after %d wakes", row.Dirty, unseen)
				}
			},
		})
	})
}

func TestCountersDoNotWrapAround(t *testing.T) {
	const most = math.MaxInt64
	for _, c := range []struct {
		reason string
		counts []int64
		kind   fault.Kind
	}{
		{"the largest value", []int64{most}, -1},
		{"one more", []int64{most, 1}, fault.Exhausted},
		{"twice the largest is minus two", []int64{most, most, 5}, fault.Exhausted},
		{"the smallest value", []int64{math.MinInt64}, fault.Conflict},
		{"there and back", []int64{most, -most, 3}, -1},
	} {
		set := ledger.Set{Actor: "a", Cause: "c"}
		for _, n := range c.counts {
			set.Counts = append(set.Counts, ledger.Count{Name: "n", Delta: n, Max: -1})
		}
		err := newMemory(t).decide(set)[0].Err
		if c.kind < 0 && err != nil || c.kind >= 0 && !fault.Is(err, c.kind) {
			t.Errorf("%s: got %v", c.reason, err)
		}
	}
}

// TestTheClockMayGoBack sets it back: times in the log stay, work goes by the clock.
func TestTheClockMayGoBack(t *testing.T) {
	m := newMemory(t)
	m.state.Logged = m.state.Now.Add(time.Hour)
	ref := ledger.Ref{Kind: "beast", ID: "a"}
	set := ledger.Set{Actor: "a", Cause: "c", Wakes: []ledger.Wake{{Ref: ref}}, Puts: []ledger.Put{{Object: ledger.Object{Ref: ref}, Op: "create"}}}
	if err := m.decide(set)[0].Err; err != nil {
		t.Fatal(err)
	}
	o, c, w := m.state.Objects[ref], m.log[0], m.state.Work[ref]
	if !o.Created.Equal(m.state.Logged) || !o.Updated.Equal(m.state.Logged) || !c.At.Equal(m.state.Logged) {
		t.Errorf("object %v, %v and change %v lie before the newest change at %v", o.Created, o.Updated, c.At, m.state.Logged)
	}
	if !w.Due.Equal(m.state.Now) {
		t.Errorf("work is due at %v, want now: %v", w.Due, m.state.Now)
	}
}

// TestVersionsDoNotGoBackInTime has a replica write an object that another one
// has written after this one read its clock.
func TestVersionsDoNotGoBackInTime(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	before := ledger.Object{Ref: ledger.Ref{Kind: "beast", ID: "a"}, Version: 4, Generation: 1, Created: now, Updated: now.Add(time.Second)}
	after := before
	after.Phase = "ready"
	d := ledger.Decide(map[string]ledger.Kind{"beast": {Name: "beast"}}, new(ledger.Lanes),
		ledger.State{Now: now, Logged: now, Objects: map[ledger.Ref]ledger.Object{before.Ref: before}},
		[]ledger.Set{{Actor: "system", Cause: "schedule:test", Puts: []ledger.Put{{Object: after, Expect: 4, Op: "ready"}}}})
	if err := d.Outcomes[0].Err; err != nil {
		t.Fatal(err)
	}
	if got := d.Outcomes[0].Objects[0]; got.Updated.Before(before.Updated) {
		t.Fatalf("version %d was updated at %v, version %d at %v", got.Version, got.Updated, before.Version, before.Updated)
	}
}
