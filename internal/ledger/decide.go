package ledger

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"time"
)

// Decision is what a store must write for a batch, and what to tell each caller.
type Decision struct {
	Outcomes []Outcome // in the order of the sets

	Objects map[Ref]ObjectWrite
	Changes []Change // in order; Seq counts from 1 and is to be moved behind the head
	Claims  map[Name]Ref
	Frees   map[Name]bool
	// Passing names were free, then claimed and freed again in this batch. They
	// must be inserted and removed, so that the constraint sees them: another
	// replica may have claimed them meanwhile.
	Passing  map[Name]Ref
	Counters map[string]int64 // new values
	Work     map[Ref]WorkRow  // rows to insert or update
	Done     map[Ref]bool     // rows to remove
	Totals   map[string]int64 // by how much to move
}

// ObjectWrite is an object's new state; Before is nil if it is new.
type ObjectWrite struct {
	Object
	Before *Object
}

// Outcome is the answer to one set.
type Outcome struct {
	Result
	Err error
}

// Empty reports whether there is nothing to write.
func (d *Decision) Empty() bool {
	return len(d.Changes) == 0 && len(d.Claims) == 0 && len(d.Frees) == 0 && len(d.Passing) == 0 &&
		len(d.Counters) == 0 && len(d.Work) == 0 && len(d.Done) == 0
}

// Decide applies the sets to the state one after the other. A set that fails a
// guard leaves no trace; those after it are decided as if it had not been sent.
func Decide(kinds map[string]Kind, lanes *Lanes, state State, sets []Set) Decision {
	now := state.Now.UTC().Truncate(time.Microsecond)
	b := batch{
		kinds: kinds, lanes: lanes, now: now, logged: now, state: state,
		d: Decision{
			Outcomes: make([]Outcome, len(sets)),
			Objects:  map[Ref]ObjectWrite{}, Claims: map[Name]Ref{}, Frees: map[Name]bool{}, Passing: map[Name]Ref{},
			Counters: map[string]int64{}, Work: map[Ref]WorkRow{}, Done: map[Ref]bool{}, Totals: map[string]int64{},
		},
	}
	if state.Logged.After(now) {
		b.logged = state.Logged.UTC()
	}
	for i, set := range sets {
		set.Puts = slices.Clone(set.Puts) // check gives fields their types; the caller's stay as they are
		if err := b.check(&set); err != nil {
			b.d.Outcomes[i].Err = err
			continue
		}
		b.d.Outcomes[i].Result = b.apply(&set)
	}
	return b.d
}

type batch struct {
	kinds  map[string]Kind
	lanes  *Lanes
	now    time.Time
	logged time.Time // now, or the log's newest time if the clock went back
	state  State     // what was loaded; d overlays it
	d      Decision
}

func (b *batch) object(ref Ref) *Object {
	if w, ok := b.d.Objects[ref]; ok {
		return &w.Object
	}
	if o, ok := b.state.Objects[ref]; ok {
		return &o
	}
	return nil
}

func (b *batch) holder(n Name) (Ref, bool) {
	if b.d.Frees[n] {
		return Ref{}, false
	}
	if r, ok := b.d.Claims[n]; ok {
		return r, true
	}
	r, ok := b.state.Names[n]
	return r, ok
}

func (b *batch) counter(name string) int64 {
	if v, ok := b.d.Counters[name]; ok {
		return v
	}
	return b.state.Counters[name]
}

func (b *batch) work(ref Ref) (WorkRow, bool) {
	if b.d.Done[ref] {
		return WorkRow{}, false
	}
	if w, ok := b.d.Work[ref]; ok {
		return w, true
	}
	w, ok := b.state.Work[ref]
	return w, ok
}

// apply writes a set that has passed check.
func (b *batch) apply(s *Set) Result {
	var r Result
	orgs := map[Ref]string{}
	for _, p := range s.Puts {
		o, changed := b.put(&p)
		orgs[o.Ref] = o.Org
		if changed {
			c := Change{Seq: int64(len(b.d.Changes)) + 1, At: b.logged, Actor: s.Actor, Cause: s.Cause, Op: p.Op, From: s.From, Trace: s.Trace, Object: o}
			b.d.Changes = append(b.d.Changes, c)
			r.Seq = c.Seq
		}
		r.Objects = append(r.Objects, o)
	}
	for _, c := range s.Claims {
		delete(b.d.Frees, c.Name)
		delete(b.d.Passing, c.Name)
		if b.state.Names[c.Name] != c.Holder {
			b.d.Claims[c.Name] = c.Holder
		}
	}
	for _, c := range s.Frees {
		if h, ok := b.holder(c.Name); !ok || h != c.Holder {
			continue // someone else's by now, or free already
		}
		delete(b.d.Claims, c.Name)
		if _, stored := b.state.Names[c.Name]; stored {
			b.d.Frees[c.Name] = true
		} else {
			b.d.Passing[c.Name] = c.Holder
		}
	}
	for _, c := range s.Counts {
		if c.Delta != 0 {
			b.d.Counters[c.Name] = b.counter(c.Name) + c.Delta
		}
	}
	for _, w := range s.Wakes {
		if w.Org == "" {
			w.Org = orgs[w.Ref]
		}
		if w.Trace == "" {
			w.Trace = s.Trace
		}
		b.wake(w, s.Cause)
	}
	if s.Finish != nil {
		b.finish(s.Lease.Ref, *s.Finish)
	}
	if s.Take != nil {
		r.Taken = b.take(s)
	}
	return r
}

// put stores an object and reports whether that changed anything.
func (b *batch) put(p *Put) (Object, bool) {
	o, before := p.Object, b.object(p.Object.Ref)
	o.Deleted = o.Deleted.UTC().Truncate(time.Microsecond)
	if before == nil {
		o.Generation, o.Version, o.Created = 1, 1, b.logged
	} else {
		o.Generation, o.Version, o.Created, o.Updated = before.Generation, before.Version, before.Created, before.Updated
		if same(&o, before) {
			return *before, false
		}
		o.Version++
		if !bytes.Equal(o.Spec, before.Spec) {
			o.Generation++
		}
	}
	o.Updated = b.logged
	if before != nil && before.Updated.After(b.logged) {
		o.Updated = before.Updated // another replica wrote it after this one had read its clock
	}
	w := ObjectWrite{Object: o, Before: before}
	if earlier, ok := b.d.Objects[o.Ref]; ok {
		w.Before = earlier.Before
	}
	b.d.Objects[o.Ref] = w
	b.count(before, &o)
	return o, true
}

func same(a, b *Object) bool {
	return a.Org == b.Org && a.Owner == b.Owner && a.Name == b.Name && a.Phase == b.Phase && a.Parent == b.Parent &&
		a.Deleted.Equal(b.Deleted) && bytes.Equal(a.Spec, b.Spec) && bytes.Equal(a.Status, b.Status) &&
		bytes.Equal(a.View, b.View) && a.Words == b.Words && slices.Equal(a.Links, b.Links) && maps.Equal(a.Labels, b.Labels) && maps.EqualFunc(a.Fields, b.Fields, equalValue)
}

// equalValue compares values of one column. Two times may show the same moment
// and still differ in how they were made.
func equalValue(a, b any) bool {
	x, ok := a.(time.Time)
	if y, both := b.(time.Time); ok && both {
		return x.Equal(y)
	}
	return a == b
}

// count moves the totals of the scopes in which the object has another place
// than before, which few writes bring about.
func (b *batch) count(before, after *Object) {
	was, is := before != nil && before.Deleted.IsZero(), after.Deleted.IsZero()
	for _, columns := range b.kinds[after.Kind].Totals {
		if was && is && !moved(columns, before, after) {
			continue
		}
		if was {
			b.total(before, columns, -1)
		}
		if is {
			b.total(after, columns, +1)
		}
	}
}

func moved(columns []string, before, after *Object) bool {
	for _, c := range columns {
		if !equalValue(before.Value(c), after.Value(c)) {
			return true
		}
	}
	return false
}

func (b *batch) total(o *Object, columns []string, by int64) {
	key := TotalKey(o.Kind, columns, o.Value)
	if b.d.Totals[key] += by; b.d.Totals[key] == 0 {
		delete(b.d.Totals, key)
	}
}

// wake marks work dirty. What is leased stays leased: the finish of the run
// will see that the count has moved.
func (b *batch) wake(w Wake, cause Cause) {
	row, ok := b.work(w.Ref)
	if ok && w.IfIdle {
		return
	}
	due := b.now.Add(max(w.After, 0)).Truncate(time.Microsecond)
	if !ok {
		row = WorkRow{Ref: w.Ref, Org: w.Org, Due: due}
	}
	if !ok || due.Before(row.Due) {
		row.Due = due
		row.Turn = b.lanes.turn(row.Org, b.now, due)
		row.Note = ""
	}
	row.Dirty++
	row.Cause = cause
	if w.Trace != "" { // else what somebody waits for is still to be run
		row.Trace = w.Trace
	}
	b.keep(row)
}

func (b *batch) finish(ref Ref, f Finish) {
	row, _ := b.work(ref)
	row.Token, row.Until, row.Note = 0, time.Time{}, ""
	switch {
	case row.Dirty > f.Dirty:
		row.Dirty -= f.Dirty
		row.Due, row.Attempts = b.now, f.Attempts
	case f.Next:
		row.Dirty, row.Attempts, row.Note = 0, f.Attempts, readable(f.Note)
		row.Due = b.now.Add(max(f.After, 0)).Truncate(time.Microsecond)
		if f.After > tracedWithin {
			row.Trace = ""
		}
	default:
		delete(b.d.Work, ref)
		b.d.Done[ref] = true
		return
	}
	row.Turn = b.lanes.turn(row.Org, b.now, row.Due)
	b.keep(row)
}

// take leases what a set has woken. What was leased before and ran out is left to
// claims.
func (b *batch) take(s *Set) (out []Work) {
	for _, w := range s.Wakes {
		row, ok := b.work(w.Ref)
		if !ok || row.Token != 0 || row.Due.After(b.now) || !slices.Contains(s.Take.Kinds, w.Kind) {
			continue
		}
		if len(out) >= s.Take.Limit || len(b.state.Tokens) == 0 {
			break
		}
		row.Token, b.state.Tokens = b.state.Tokens[0], b.state.Tokens[1:]
		row.Until = b.now.Add(s.Take.Lease).Truncate(time.Microsecond)
		b.keep(row)
		out = append(out, Work{Lease: Lease{Ref: row.Ref, Token: row.Token}, Org: row.Org, Dirty: row.Dirty,
			Attempts: row.Attempts, Cause: row.Cause, Trace: row.Trace, Due: row.Due})
	}
	return out
}

func (b *batch) keep(row WorkRow) {
	delete(b.d.Done, row.Ref)
	b.d.Work[row.Ref] = row
}

// readable makes a note storable: it may quote whatever an executor printed,
// and must not keep the run from ending.
func readable(note string) string {
	note = strings.ReplaceAll(strings.ToValidUTF8(note, ""), "\x00", "")
	if len(note) > MaxText {
		note = strings.ToValidUTF8(note[:MaxText], "")
	}
	return note
}
