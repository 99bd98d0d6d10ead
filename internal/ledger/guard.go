package ledger

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/droverhq/drover/internal/fault"
)

// MaxText is the longest value of an indexed text column, in bytes. Beyond it
// an index entry would not fit, and the database would refuse the whole batch.
const MaxText = 1024

// MaxGone is how many objects of a kind one set of the loop's may soft-delete. The
// loop works on one object at a time: a set that ends many is a mistake, whoever
// made it, and what removes by rule counts each removal where it is bounded.
const MaxGone = 20

// check tests every guard of a set and writes nothing.
func (b *batch) check(s *Set) error {
	if s.Actor == "" || s.Cause == "" {
		return fault.New(fault.Invalid, "a set needs an actor and a cause")
	}
	if !plain(s.Actor) || !plain(string(s.Cause)) || s.From != "" && (!plain(s.From) || len(s.From) > MaxOrigin) {
		return fault.New(fault.Invalid, "actor or cause is not plain text of at most %d bytes", MaxText)
	}
	if s.Trace != "" && !traceable(s.Trace) {
		return fault.New(fault.Invalid, "the trace is no traceparent")
	}
	if s.Finish != nil && s.Lease == nil {
		return fault.New(fault.Invalid, "only leased work can be finished")
	}
	if f := s.Finish; f != nil && (f.Dirty < 0 || f.Attempts < 0 || f.Attempts > math.MaxInt32) {
		return fault.New(fault.Invalid, "a finish counts from zero")
	}
	if s.Take != nil && (s.Finish == nil || s.Take.Lease <= 0) {
		return fault.New(fault.Invalid, "only who finishes takes more, and a lease must last")
	}
	if s.Lease != nil {
		// Token 0 is the mark of work that nobody has leased, so it is no lease.
		if w, ok := b.work(s.Lease.Ref); !ok || w.Token != s.Lease.Token || w.Token == 0 {
			return fault.New(fault.Conflict, "the lease on %.128s was lost", s.Lease.Ref).Because("lease-lost")
		}
	}
	seen := map[Ref]bool{}
	gone := map[string]int{}
	for i := range s.Puts {
		p := &s.Puts[i]
		if seen[p.Object.Ref] {
			return fault.New(fault.Invalid, "%.128s is written twice in one set", p.Object.Ref)
		}
		seen[p.Object.Ref] = true
		if err := b.checkPut(p); err != nil {
			return err
		}
		if s.Actor != "system" || p.Object.Deleted.IsZero() {
			continue
		}
		if gone[p.Object.Kind]++; gone[p.Object.Kind] > MaxGone {
			return fault.New(fault.Invalid, "nothing but a request removes more than %d %ss at once", MaxGone, p.Object.Kind).Because("breaker")
		}
	}
	if err := b.checkNames(s); err != nil {
		return err
	}
	if err := b.checkBlobs(s); err != nil {
		return err
	}
	for _, w := range s.Wakes {
		if _, ok := b.kinds[w.Kind]; !ok || w.ID == "" || !plain(w.ID) || !plain(w.Org) || w.Trace != "" && !traceable(w.Trace) {
			return fault.New(fault.Invalid, "cannot wake %.128q: no such kind, or not plain text", w.Ref)
		}
	}
	return b.checkCounts(s.Counts)
}

func (b *batch) checkNames(s *Set) error {
	for _, c := range slices.Concat(s.Claims, s.Frees) {
		if !plain(c.Space) || !plain(c.Name.Name) || c.Name.Name == "" {
			return fault.New(fault.Invalid, "a claimed name must be plain text of 1 to %d bytes", MaxText)
		}
		if !plain(c.Holder.Kind) || !plain(c.Holder.ID) || c.Holder.Kind == "" || c.Holder.ID == "" {
			return fault.New(fault.Invalid, "name %q needs a holder of plain text", c.Name.Name)
		}
	}
	taken := map[Name]Ref{}
	for _, c := range s.Claims {
		h, held := b.holder(c.Name)
		if !held {
			h, held = taken[c.Name]
		}
		if held && h != c.Holder {
			return fault.New(fault.Conflict, "%q is taken", c.Name.Name).Because("name-taken")
		}
		taken[c.Name] = c.Holder
	}
	return nil
}

func (b *batch) checkCounts(counts []Count) error {
	values := map[string]int64{}
	for _, c := range counts {
		if !plain(c.Name) || c.Name == "" {
			return fault.New(fault.Invalid, "a counter needs a name of plain text")
		}
		v, ok := values[c.Name]
		if !ok {
			v = b.counter(c.Name)
		}
		reason := "counter:" + c.Name
		switch { // v is never negative, so only the addition can overflow
		case c.Delta > 0 && (v > math.MaxInt64-c.Delta || c.Max >= 0 && v+c.Delta > c.Max):
			return fault.New(fault.Exhausted, "%s: %d of %d in use", c.Name, v, c.Max).Because(reason)
		case v+c.Delta < 0:
			return fault.New(fault.Conflict, "counter %s would fall below zero", c.Name).Because(reason)
		}
		values[c.Name] = v + c.Delta
	}
	return nil
}

func (b *batch) checkPut(p *Put) error {
	o := &p.Object
	kind, ok := b.kinds[o.Kind]
	if !ok || o.ID == "" {
		return fault.New(fault.Invalid, "%.128q is not a known kind with an id", o.Ref)
	}
	for _, s := range []string{o.ID, o.Org, o.Owner, o.Name, o.Phase, o.Parent} {
		if !plain(s) {
			return fault.New(fault.Invalid, "%s: a column is not plain text of at most %d bytes", o.Kind, MaxText)
		}
	}
	if !storable(o.Deleted) {
		return fault.New(fault.Invalid, "%s: the time of deletion is out of range", o.Ref)
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
	if err := kind.checkFound(o); err != nil {
		return err
	}
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

// storable reports whether both databases, and JSON in the log, can hold the time.
func storable(t time.Time) bool {
	year := t.UTC().Year()
	return year >= 1 && year <= 9999
}
