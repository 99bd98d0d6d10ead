package ledgertest

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// Model is the ledger as one would explain it: maps, one set after the other,
// no batches. It shares no code with ledger.Decide, which is checked against it.
type Model struct {
	Objects  map[ledger.Ref]ledger.Object
	Log      []ledger.Change
	Names    map[ledger.Name]ledger.Ref
	Counters map[string]int64
	Work     map[ledger.Ref]Pending
}

// Pending is the work of one object.
type Pending struct {
	Org      string
	Dirty    int64
	Attempts int
	Cause    ledger.Cause
	Due      time.Time
	Token    int64 // 0 = never leased since the last finish or release
	Lapsed   bool  // the lease has run out, and nobody else has the work yet
}

// Failure is one reason to refuse a set.
type Failure struct {
	Kind   fault.Kind
	Reason string
}

// NewModel returns an empty ledger.
func NewModel() *Model {
	return &Model{
		Objects: map[ledger.Ref]ledger.Object{}, Names: map[ledger.Name]ledger.Ref{},
		Counters: map[string]int64{}, Work: map[ledger.Ref]Pending{},
	}
}

// Commit does the set at a moment, or returns every reason not to. A store may
// give any of them.
func (m *Model) Commit(now time.Time, s ledger.Set) (ledger.Result, []Failure) {
	if failures := m.refuse(s); len(failures) > 0 {
		return ledger.Result{}, failures
	}
	var res ledger.Result
	orgs := map[ledger.Ref]string{}
	for _, p := range s.Puts {
		o, changed := m.put(now, p.Object)
		if changed {
			res.Seq = int64(len(m.Log)) + 1
			m.Log = append(m.Log, ledger.Change{Seq: res.Seq, At: now, Actor: s.Actor, Cause: s.Cause, Op: p.Op, Object: o})
		}
		res.Objects = append(res.Objects, o)
		orgs[o.Ref] = o.Org
	}
	for _, c := range s.Claims {
		m.Names[c.Name] = c.Holder
	}
	for _, c := range s.Frees {
		if m.Names[c.Name] == c.Holder {
			delete(m.Names, c.Name)
		}
	}
	for _, c := range s.Counts {
		m.Counters[c.Name] += c.Delta
	}
	for _, w := range s.Wakes {
		if w.Org == "" {
			w.Org = orgs[w.Ref]
		}
		m.wake(now, w, s.Cause)
	}
	if s.Finish != nil {
		m.finish(now, s.Lease.Ref, *s.Finish)
	}
	if s.Take != nil {
		res.Taken = m.take(now, *s.Take, s.Wakes)
	}
	return res, nil
}

// take is what a set may take; which tokens that gets is the store's to say.
func (m *Model) take(now time.Time, want ledger.ClaimRequest, wakes []ledger.Wake) (out []ledger.Work) {
	for _, w := range wakes {
		p := m.Work[w.Ref]
		if len(out) < want.Limit && p.Token == 0 && !p.Due.IsZero() && !p.Due.After(now) && slices.Contains(want.Kinds, w.Kind) {
			out = append(out, ledger.Work{Lease: ledger.Lease{Ref: w.Ref}, Org: p.Org, Dirty: p.Dirty, Attempts: p.Attempts, Cause: p.Cause, Due: p.Due})
			p.Token = -1
			m.Work[w.Ref] = p
		}
	}
	return out
}

// Took gives what a set has taken the tokens that the store says.
func (m *Model) Took(want []ledger.Work, got []ledger.Work, lapsed bool) {
	for i := range min(len(want), len(got)) {
		want[i].Token = got[i].Token
		p := m.Work[want[i].Ref]
		p.Token, p.Lapsed = got[i].Token, lapsed
		m.Work[want[i].Ref] = p
	}
}

func (m *Model) put(now time.Time, o ledger.Object) (ledger.Object, bool) {
	before, exists := m.Objects[o.Ref]
	o = stored(o)
	o.Generation, o.Version, o.Created, o.Updated = before.Generation, before.Version, before.Created, before.Updated
	if exists && cmp.Equal(o, before, lenient) {
		return before, false
	}
	if !exists {
		o.Created = now
	}
	if !exists || string(o.Spec) != string(before.Spec) {
		o.Generation++
	}
	o.Version++
	o.Updated = now
	m.Objects[o.Ref] = o
	return o, true
}

func (m *Model) wake(now time.Time, w ledger.Wake, cause ledger.Cause) {
	due := now.Add(max(w.After, 0))
	p, exists := m.Work[w.Ref]
	switch {
	case exists && w.IfIdle:
		return
	case !exists:
		p = Pending{Org: w.Org, Due: due}
	case due.Before(p.Due):
		p.Due = due
	}
	p.Dirty++
	p.Cause = cause
	m.Work[w.Ref] = p
}

func (m *Model) finish(now time.Time, ref ledger.Ref, f ledger.Finish) {
	p := m.Work[ref]
	p.Token, p.Lapsed, p.Attempts = 0, false, f.Attempts
	switch {
	case p.Dirty > f.Dirty: // woken meanwhile
		p.Dirty, p.Due = p.Dirty-f.Dirty, now
	case f.Next:
		p.Dirty, p.Due = 0, now.Add(max(f.After, 0))
	default:
		delete(m.Work, ref)
		return
	}
	m.Work[ref] = p
}

// refuse collects all that is wrong with a set.
func (m *Model) refuse(s ledger.Set) (out []Failure) {
	fail := func(bad bool, kind fault.Kind, reason string) {
		if bad {
			out = append(out, Failure{kind, reason})
		}
	}
	fail(s.Actor == "" || s.Cause == "", fault.Invalid, "")
	fail(s.Finish != nil && s.Lease == nil, fault.Invalid, "")
	fail(s.Take != nil && (s.Finish == nil || s.Take.Lease <= 0), fault.Invalid, "")
	if s.Lease != nil {
		p, exists := m.Work[s.Lease.Ref]
		fail(!exists || p.Token == 0 || p.Token != s.Lease.Token, fault.Conflict, "lease-lost")
	}
	puts := map[ledger.Ref]int{}
	for _, p := range s.Puts {
		puts[p.Object.Ref]++
		before, exists := m.Objects[p.Object.Ref]
		fail(puts[p.Object.Ref] > 1 || p.Op == "" || strings.Contains(p.Object.Name, "\x00"), fault.Invalid, "")
		fail(!exists && p.Expect != 0, fault.NotFound, "")
		fail(exists && p.Expect == 0, fault.Conflict, "exists")
		fail(exists && p.Expect != 0 && p.Expect != before.Version, fault.Conflict, "version")
	}
	names := maps.Clone(m.Names)
	for _, c := range s.Claims {
		holder, held := names[c.Name]
		fail(held && holder != c.Holder, fault.Conflict, "name-taken")
		names[c.Name] = c.Holder
	}
	counters := maps.Clone(m.Counters)
	for _, c := range s.Counts {
		counters[c.Name] += c.Delta
		fail(c.Delta > 0 && c.Max >= 0 && counters[c.Name] > c.Max, fault.Exhausted, "counter:"+c.Name)
		fail(counters[c.Name] < 0, fault.Conflict, "counter:"+c.Name)
	}
	return out
}
