package ledger_test

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

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
	t      rapid.TB
	state  ledger.State
	lanes  ledger.Lanes
	log    []ledger.Change
	totals map[string]int64
	tokens int64
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
	for range ledger.Takes(sets) {
		m.tokens++
		loaded.Tokens = append(loaded.Tokens, m.tokens)
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
