package ledger_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/ledger/ledgertest"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func kinds() map[string]ledger.Kind {
	out := map[string]ledger.Kind{}
	for _, k := range ledgertest.Kinds() {
		out[k.Name] = k
	}
	return out
}

// memory is a store that holds what decisions say, and checks what they must
// not say.
type memory struct {
	t        rapid.TB
	state    ledger.State
	lanes    ledger.Lanes
	log      []ledger.Change
	totals   map[string]int64
	tokens   int64
	answered int
}

func newMemory(t rapid.TB) *memory {
	return &memory{t: t, totals: map[string]int64{}, state: ledger.State{
		Now: start, Objects: map[ledger.Ref]ledger.Object{}, Names: map[ledger.Name]ledger.Ref{},
		Counters: map[string]int64{}, Work: map[ledger.Ref]ledger.WorkRow{},
	}}
}

// decide loads only what Needs asks for, as a database would, and writes the decision.
func (m *memory) decide(sets ...ledger.Set) []ledger.Outcome {
	m.t.Helper()
	need := ledger.Needs(sets)
	loaded := ledger.State{
		Now: m.state.Now, Logged: m.state.Logged, Objects: pick(m.state.Objects, need.Objects), Names: pick(m.state.Names, need.Names),
		Counters: pick(m.state.Counters, need.Counters), Work: pick(m.state.Work, need.Work),
	}
	d := ledger.Decide(kinds(), &m.lanes, loaded, sets)
	m.checkWrites(d)
	for ref, w := range d.Objects {
		m.state.Objects[ref] = w.Object
	}
	base := int64(len(m.log))
	for _, c := range d.Changes {
		c.Seq += base
		m.log = append(m.log, c)
	}
	for name := range d.Frees {
		delete(m.state.Names, name)
	}
	maps.Copy(m.state.Names, d.Claims)
	maps.Copy(m.state.Counters, d.Counters)
	for ref := range d.Done {
		delete(m.state.Work, ref)
	}
	maps.Copy(m.state.Work, d.Work)
	for key, by := range d.Totals {
		if m.totals[key] += by; m.totals[key] == 0 {
			delete(m.totals, key)
		}
	}
	for i := range d.Outcomes {
		if d.Outcomes[i].Seq > 0 {
			d.Outcomes[i].Seq += base
		}
	}
	return d.Outcomes
}

// checkWrites tests what a store relies on.
func (m *memory) checkWrites(d ledger.Decision) {
	m.t.Helper()
	nothing := len(d.Changes)+len(d.Claims)+len(d.Frees)+len(d.Passing)+len(d.Counters)+len(d.Work)+len(d.Done) == 0
	if d.Empty() != nothing || d.Empty() && len(d.Objects)+len(d.Totals) > 0 {
		m.t.Fatalf("empty is %v of %+v", d.Empty(), d)
	}
	for ref, w := range d.Objects {
		before, existed := m.state.Objects[ref]
		if existed != (w.Before != nil) || existed && !cmp.Equal(*w.Before, before) {
			m.t.Fatalf("%s: before is %+v, stored is %+v", ref, w.Before, before)
		}
	}
	for name := range d.Frees {
		if _, held := m.state.Names[name]; !held || d.Claims[name] != (ledger.Ref{}) {
			m.t.Fatalf("%v is freed, but not held or claimed as well", name)
		}
	}
	for name, holder := range d.Claims {
		if m.state.Names[name] == holder {
			m.t.Fatalf("%v is claimed for %v, who has it", name, holder)
		}
	}
	for name := range d.Passing {
		if _, held := m.state.Names[name]; held || d.Claims[name] != (ledger.Ref{}) || d.Frees[name] {
			m.t.Fatalf("%v is only passing, but held, claimed or freed as well", name)
		}
	}
	for ref := range d.Done {
		if _, exists := m.state.Work[ref]; !exists {
			m.t.Fatalf("%s is done without having been there", ref)
		}
		if _, both := d.Work[ref]; both {
			m.t.Fatalf("%s is both done and written", ref)
		}
	}
	for name, v := range d.Counters {
		if v < 0 {
			m.t.Fatalf("counter %s is %d", name, v)
		}
	}
	for i, c := range d.Changes {
		if c.Seq != int64(i)+1 {
			m.t.Fatalf("change %d has sequence %d", i, c.Seq)
		}
	}
}

func pick[K comparable, V any](all map[K]V, keys []K) map[K]V {
	out := map[K]V{}
	for _, k := range keys {
		if v, ok := all[k]; ok {
			out[k] = v
		}
	}
	return out
}

// claim leases what is due, for an hour or for no time at all.
func (m *memory) claim(model *ledgertest.Model, limit int, lapse bool) []ledger.Work {
	var out []ledger.Work
	refs := slices.SortedFunc(maps.Keys(m.state.Work), func(a, b ledger.Ref) int { return strings.Compare(a.String(), b.String()) })
	for _, ref := range refs {
		row := m.state.Work[ref]
		if len(out) == limit || row.Due.After(m.state.Now) || row.Token != 0 && row.Until.After(m.state.Now) {
			continue
		}
		m.tokens++
		row.Token, row.Until = m.tokens, m.state.Now.Add(time.Hour)
		if lapse {
			row.Until = m.state.Now
		}
		m.state.Work[ref] = row
		p := model.Work[ref]
		p.Token = m.tokens
		model.Work[ref] = p
		out = append(out, ledger.Work{Lease: ledger.Lease{Ref: ref, Token: row.Token}, Dirty: row.Dirty})
	}
	return out
}

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
