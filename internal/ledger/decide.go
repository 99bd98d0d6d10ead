package ledger

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/droverhq/drover/internal/fault"
)

// MaxText is the longest value of an indexed text column, in bytes. Beyond it
// an index entry would not fit, and the database would refuse the whole batch.
const MaxText = 1024

// State is what a store has loaded, and on PostgreSQL locked, for a batch.
type State struct {
	Now      time.Time
	Objects  map[Ref]Object
	Names    map[Name]Ref
	Counters map[string]int64
	Work     map[Ref]WorkRow
}

// WorkRow is one object's due work as it is stored.
type WorkRow struct {
	Ref
	Org      string
	Dirty    int64
	Attempts int
	Due      time.Time
	Turn     time.Time // order of claims; see Lanes
	Token    int64     // of the lease; 0 = not leased
	Until    time.Time // end of the lease
	Cause    Cause
	Note     string
}

// Need lists what Decide must find in the State, sorted, so that stores lock
// rows in one order and never deadlock.
type Need struct {
	Objects  []Ref
	Names    []Name
	Counters []string
	Work     []Ref
}

// Needs collects what a batch of sets touches.
func Needs(sets []Set) Need {
	var n Need
	for _, s := range sets {
		for _, p := range s.Puts {
			n.Objects = append(n.Objects, p.Object.Ref)
		}
		for _, c := range s.Claims {
			n.Names = append(n.Names, c.Name)
		}
		for _, c := range s.Frees {
			n.Names = append(n.Names, c.Name)
		}
		for _, c := range s.Counts {
			n.Counters = append(n.Counters, c.Name)
		}
		for _, w := range s.Wakes {
			n.Work = append(n.Work, w.Ref)
		}
		if s.Lease != nil {
			n.Work = append(n.Work, s.Lease.Ref)
		}
	}
	n.Objects, n.Work = sorted(n.Objects, compareRef), sorted(n.Work, compareRef)
	n.Counters = sorted(n.Counters, strings.Compare)
	n.Names = sorted(n.Names, func(a, b Name) int {
		if c := strings.Compare(a.Space, b.Space); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	return n
}

func compareRef(a, b Ref) int {
	if c := strings.Compare(a.Kind, b.Kind); c != 0 {
		return c
	}
	return strings.Compare(a.ID, b.ID)
}

func sorted[T comparable](s []T, compare func(a, b T) int) []T {
	slices.SortFunc(s, compare)
	return slices.Compact(s)
}

// Decision is what a store must write for a batch, and what to tell each caller.
type Decision struct {
	Outcomes []Outcome // in the order of the sets

	Objects  map[Ref]ObjectWrite
	Changes  []Change // in order; Seq counts from 1 and is to be moved behind the head
	Claims   map[Name]Ref
	Frees    map[Name]bool
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
	return len(d.Changes) == 0 && len(d.Claims) == 0 && len(d.Frees) == 0 &&
		len(d.Counters) == 0 && len(d.Work) == 0 && len(d.Done) == 0
}

// Decide applies the sets to the state one after the other. A set that fails a
// guard leaves no trace; those after it are decided as if it had not been sent.
func Decide(kinds map[string]Kind, lanes *Lanes, state State, sets []Set) Decision {
	b := batch{
		kinds: kinds, lanes: lanes, now: state.Now.UTC().Truncate(time.Microsecond), state: state,
		d: Decision{
			Outcomes: make([]Outcome, len(sets)),
			Objects:  map[Ref]ObjectWrite{}, Claims: map[Name]Ref{}, Frees: map[Name]bool{},
			Counters: map[string]int64{}, Work: map[Ref]WorkRow{}, Done: map[Ref]bool{}, Totals: map[string]int64{},
		},
	}
	for i, set := range sets {
		if err := b.check(&set); err != nil {
			b.d.Outcomes[i].Err = err
			continue
		}
		b.d.Outcomes[i].Result = b.apply(&set)
	}
	return b.d
}

type batch struct {
	kinds map[string]Kind
	lanes *Lanes
	now   time.Time
	state State // what was loaded; d overlays it
	d     Decision
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

// check tests every guard of a set and writes nothing.
func (b *batch) check(s *Set) error {
	if s.Actor == "" || s.Cause == "" {
		return fault.New(fault.Invalid, "a set needs an actor and a cause")
	}
	if !plain(s.Actor) || !plain(string(s.Cause)) {
		return fault.New(fault.Invalid, "actor or cause is not plain text of at most %d bytes", MaxText)
	}
	if s.Finish != nil && s.Lease == nil {
		return fault.New(fault.Invalid, "only leased work can be finished")
	}
	if s.Lease != nil {
		if w, ok := b.work(s.Lease.Ref); !ok || w.Token != s.Lease.Token {
			return fault.New(fault.Conflict, "the lease on %s was lost", s.Lease.Ref).Because("lease-lost")
		}
	}
	seen := map[Ref]bool{}
	for i := range s.Puts {
		p := &s.Puts[i]
		if seen[p.Object.Ref] {
			return fault.New(fault.Invalid, "%s is written twice in one set", p.Object.Ref)
		}
		seen[p.Object.Ref] = true
		if err := b.checkPut(p); err != nil {
			return err
		}
	}
	taken := map[Name]Ref{}
	for _, c := range s.Claims {
		if !plain(c.Space) || !plain(c.Name.Name) || c.Name.Name == "" {
			return fault.New(fault.Invalid, "a claimed name must be plain text of 1 to %d bytes", MaxText)
		}
		h, held := b.holder(c.Name)
		if !held {
			h, held = taken[c.Name]
		}
		if held && h != c.Holder {
			return fault.New(fault.Conflict, "%q is taken", c.Name.Name).Because("name-taken")
		}
		taken[c.Name] = c.Holder
	}
	for _, w := range s.Wakes {
		if _, ok := b.kinds[w.Kind]; !ok || w.ID == "" || !plain(w.ID) || !plain(w.Org) {
			return fault.New(fault.Invalid, "cannot wake %s: no such kind", w.Ref)
		}
	}
	sums := map[string]int64{}
	for _, c := range s.Counts {
		if !plain(c.Name) || c.Name == "" {
			return fault.New(fault.Invalid, "a counter needs a name")
		}
		sums[c.Name] += c.Delta
		v := b.counter(c.Name) + sums[c.Name]
		if c.Delta > 0 && c.Max >= 0 && v > c.Max {
			return fault.New(fault.Exhausted, "%s: %d of %d in use", c.Name, v-c.Delta, c.Max).Because("counter:" + c.Name)
		}
		if v < 0 {
			return fault.New(fault.Conflict, "counter %s would fall below zero", c.Name).Because("counter:" + c.Name)
		}
	}
	return nil
}

func (b *batch) checkPut(p *Put) error {
	o := &p.Object
	kind, ok := b.kinds[o.Kind]
	if !ok || o.ID == "" {
		return fault.New(fault.Invalid, "%q is not a known kind with an id", o.Ref)
	}
	if p.Op == "" || !plain(p.Op) {
		return fault.New(fault.Invalid, "a put needs the name of its operation")
	}
	before := b.object(o.Ref)
	switch {
	case before == nil && p.Expect != 0:
		return fault.New(fault.NotFound, "%s does not exist", o.Ref)
	case before != nil && p.Expect == 0:
		return fault.New(fault.Conflict, "%s exists already", o.Ref).Because("exists")
	case before != nil && before.Version != p.Expect:
		return fault.New(fault.Conflict, "%s was changed meanwhile (version %d, not %d)", o.Ref, before.Version, p.Expect).Because("version")
	}
	for _, s := range []string{o.ID, o.Org, o.Owner, o.Name, o.Phase, o.Parent} {
		if !plain(s) {
			return fault.New(fault.Invalid, "%s: a column is not plain text of at most %d bytes", o.Kind, MaxText)
		}
	}
	fields, err := kind.coerce(o.Fields)
	if err != nil {
		return err
	}
	for name, v := range fields {
		if s, ok := v.(string); ok && !plain(s) {
			return fault.New(fault.Invalid, "field %q is not plain text of at most %d bytes", name, MaxText)
		}
	}
	o.Fields = fields
	size := 0
	for k, v := range o.Labels {
		if !plain(k) || !plain(v) {
			return fault.New(fault.Invalid, "label %.64q is not plain text of at most %d bytes", k, MaxText)
		}
		size += len(k) + len(v)
	}
	for _, raw := range []json.RawMessage{o.Spec, o.Status, o.View} {
		if len(raw) > 0 && (!json.Valid(raw) || !utf8.Valid(raw)) {
			return fault.New(fault.Invalid, "%s: spec, status and view must be JSON", o.Ref)
		}
		size += len(raw)
	}
	if size > MaxObject {
		return fault.New(fault.Invalid, "%s has %d bytes; an object holds at most %d", o.Ref, size, MaxObject).Because("too-large")
	}
	return nil
}

// plain reports whether both databases can store and index the text.
func plain(s string) bool {
	return len(s) <= MaxText && utf8.ValidString(s) && strings.IndexByte(s, 0) < 0
}

// apply writes a set that has passed check.
func (b *batch) apply(s *Set) Result {
	var r Result
	orgs := map[Ref]string{}
	for _, p := range s.Puts {
		o, changed := b.put(&p)
		orgs[o.Ref] = o.Org
		if changed {
			c := Change{Seq: int64(len(b.d.Changes)) + 1, At: b.now, Actor: s.Actor, Cause: s.Cause, Op: p.Op, Object: o}
			b.d.Changes = append(b.d.Changes, c)
			r.Seq = c.Seq
		}
		r.Objects = append(r.Objects, o)
	}
	for _, c := range s.Claims {
		delete(b.d.Frees, c.Name)
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
		}
	}
	for _, c := range s.Counts {
		b.d.Counters[c.Name] = b.counter(c.Name) + c.Delta
	}
	for _, w := range s.Wakes {
		if w.Org == "" {
			w.Org = orgs[w.Ref]
		}
		b.wake(w, s.Cause)
	}
	if s.Finish != nil {
		b.finish(s.Lease.Ref, *s.Finish)
	}
	return r
}

// put stores an object and reports whether that changed anything.
func (b *batch) put(p *Put) (Object, bool) {
	o, before := p.Object, b.object(p.Object.Ref)
	o.Deleted = o.Deleted.UTC().Truncate(time.Microsecond)
	if before == nil {
		o.Generation, o.Version, o.Created = 1, 1, b.now
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
	o.Updated = b.now
	w := ObjectWrite{Object: o, Before: before}
	if earlier, ok := b.d.Objects[o.Ref]; ok {
		w.Before = earlier.Before
	}
	b.d.Objects[o.Ref] = w
	b.total(before, -1)
	b.total(&o, +1)
	return o, true
}

func same(a, b *Object) bool {
	return a.Org == b.Org && a.Owner == b.Owner && a.Name == b.Name && a.Phase == b.Phase && a.Parent == b.Parent &&
		a.Deleted.Equal(b.Deleted) && bytes.Equal(a.Spec, b.Spec) && bytes.Equal(a.Status, b.Status) &&
		bytes.Equal(a.View, b.View) && maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Fields, b.Fields)
}

func (b *batch) total(o *Object, by int64) {
	if o == nil || !o.Deleted.IsZero() {
		return
	}
	for _, columns := range b.kinds[o.Kind].Totals {
		key := TotalKey(o.Kind, columns, o.Value)
		if b.d.Totals[key] += by; b.d.Totals[key] == 0 {
			delete(b.d.Totals, key)
		}
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
		row.Dirty, row.Attempts, row.Note = 0, f.Attempts, f.Note
		row.Due = b.now.Add(max(f.After, 0)).Truncate(time.Microsecond)
	default:
		delete(b.d.Work, ref)
		b.d.Done[ref] = true
		return
	}
	row.Turn = b.lanes.turn(row.Org, b.now, row.Due)
	b.keep(row)
}

func (b *batch) keep(row WorkRow) {
	delete(b.d.Done, row.Ref)
	b.d.Work[row.Ref] = row
}
