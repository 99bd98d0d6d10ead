package sqlledger

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

var noTime time.Time

// micros is how times are stored; an unset deletion is 0.
func micros(t time.Time) int64 { return t.UnixMicro() }

func instant(m int64) time.Time { return time.UnixMicro(m).UTC() }

func deletion(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return micros(t)
}

// row lays an object out in the order of its table's columns.
func (s *store) row(o *ledger.Object) ([]any, error) {
	labels, err := encodeLabels(o.Labels)
	if err != nil {
		return nil, err
	}
	row := make([]any, len(s.table.columns))
	row[colID], row[colOrg], row[colOwner], row[colName] = o.ID, o.Org, o.Owner, o.Name
	row[colPhase], row[colParent] = o.Phase, o.Parent
	row[colGeneration], row[colVersion] = o.Generation, o.Version
	row[colCreated], row[colUpdated], row[colDeleted] = micros(o.Created), micros(o.Updated), deletion(o.Deleted)
	row[colLabels], row[colSpec], row[colStatus], row[colView] = labels, string(o.Spec), string(o.Status), string(o.View)
	if s.links > 0 {
		row[s.links] = encodeLinks(o.Links)
	}
	if s.word > 0 {
		row[s.word] = o.Words
	}
	present := make([]string, 0, len(o.Fields))
	for i, f := range s.kind.Fields {
		v, ok := o.Fields[f.Name]
		if !ok {
			row[s.first+i] = emptyField(f.Type)
			continue
		}
		present = append(present, f.Name)
		if row[s.first+i], ok = plainValue(f.Type, v); !ok {
			return nil, fmt.Errorf("field %q of %s has an unexpected type", f.Name, o.Ref)
		}
	}
	slices.Sort(present)
	row[colPresent] = strings.Join(present, ",")
	return row, nil
}

// textRow lays out what the trigram index holds of an object.
func (s *store) textRow(row []any) []any {
	out := []any{row[colID]}
	for _, c := range s.texts.columns[1:] {
		out = append(out, row[slices.IndexFunc(s.table.columns, func(x column) bool { return x.name == c.name })])
	}
	return out
}

// indexed is the size of the texts that share a covering index entry.
func (s *store) indexed(o *ledger.Object) int {
	n := len(o.ID) + len(o.Org) + len(o.Owner) + len(o.Name) + len(o.Phase) + len(o.Parent)
	for _, v := range o.Fields {
		if t, ok := v.(string); ok {
			n += len(t)
		}
	}
	return n
}

// check refuses what the contract allows but an index entry cannot hold.
func (l *Ledger) check(set *ledger.Set) error {
	for i := range set.Puts {
		o := &set.Puts[i].Object
		if s := l.stores[o.Kind]; s != nil && s.indexed(o) > maxIndexed {
			return fault.New(fault.Invalid, "the searchable texts of %.100s have more than %d bytes together", o.Ref, maxIndexed).Because("too-large")
		}
	}
	return nil
}

func emptyField(t ledger.Type) any {
	switch t {
	case ledger.Text:
		return ""
	case ledger.Time:
		return micros(noTime)
	}
	return int64(0)
}

// plainValue turns a value of a column's type into what the database holds:
// a string or an int64.
func plainValue(t ledger.Type, v any) (any, bool) {
	switch x := v.(type) {
	case string:
		if t == ledger.Time {
			at, err := time.Parse(time.RFC3339Nano, x)
			return micros(at), err == nil
		}
		return x, t == ledger.Text
	case bool:
		if x {
			return int64(1), t == ledger.Bool
		}
		return int64(0), t == ledger.Bool
	case int:
		return int64(x), t == ledger.Int
	case int64:
		return x, t == ledger.Int
	case float64:
		return int64(x), t == ledger.Int && x == float64(int64(x))
	case time.Time:
		return micros(x), t == ledger.Time
	}
	return nil, false
}

// fieldValue is the way back, from *string or *int64.
func fieldValue(t ledger.Type, p any) any {
	switch x := p.(type) {
	case *string:
		return *x
	case *int64:
		switch t {
		case ledger.Bool:
			return *x != 0
		case ledger.Time:
			return instant(*x)
		}
		return *x
	}
	return nil
}

// reading decodes rows of an object table; one per query.
type reading struct {
	store                     *store
	brief                     bool
	o                         ledger.Object
	created, updated, deleted int64
	present, labels, links    string
	view, spec, status        []byte
	fields, dest              []any
}

// selected lists the columns that a reading expects.
func (s *store) selected(brief bool, prefix string) string {
	cs := s.table.columns
	if brief {
		return names(concat(cs[:colParent], cs[colCreated:colPresent], cs[colView:colLabels]), prefix)
	}
	return names(cs, prefix)
}

func (s *store) reading(brief bool) *reading {
	r := &reading{store: s, brief: brief}
	if brief {
		r.dest = []any{&r.o.ID, &r.o.Org, &r.o.Owner, &r.o.Name, &r.o.Phase, &r.created, &r.updated, &r.deleted, &r.view}
		return r
	}
	r.dest = []any{&r.o.ID, &r.o.Org, &r.o.Owner, &r.o.Name, &r.o.Phase, &r.o.Parent, &r.o.Generation, &r.o.Version,
		&r.created, &r.updated, &r.deleted, &r.present, &r.view, &r.labels, &r.spec, &r.status}
	if s.links > 0 {
		r.dest = append(r.dest, &r.links)
	}
	if s.word > 0 {
		r.dest = append(r.dest, &r.o.Words)
	}
	for _, f := range s.kind.Fields {
		if f.Type == ledger.Text {
			r.fields = append(r.fields, new(string))
		} else {
			r.fields = append(r.fields, new(int64))
		}
	}
	r.dest = append(r.dest, r.fields...)
	return r
}

func (r *reading) next(scan scanner) (ledger.Object, error) {
	r.view, r.spec, r.status = nil, nil, nil
	if err := scan(r.dest...); err != nil {
		return ledger.Object{}, err
	}
	o := r.o
	o.Kind = r.store.kind.Name
	o.Created, o.Updated = instant(r.created), instant(r.updated)
	if r.deleted != 0 {
		o.Deleted = instant(r.deleted)
	}
	o.View, o.Spec, o.Status = document(r.view), document(r.spec), document(r.status)
	if r.labels != "" && !r.brief {
		if err := json.Unmarshal([]byte(r.labels), &o.Labels); err != nil {
			return o, fmt.Errorf("cannot read the labels of %s: %w", o.Ref, err)
		}
	}
	if r.links != "" && !r.brief {
		if err := json.Unmarshal([]byte(r.links), &o.Links); err != nil {
			return o, fmt.Errorf("cannot read the links of %s: %w", o.Ref, err)
		}
	}
	if r.present != "" && !r.brief {
		list := presentNames(r.present)
		o.Fields = make(ledger.Fields, len(list))
		for _, name := range list {
			if i, ok := r.store.field[name]; ok {
				o.Fields[name] = fieldValue(r.store.kind.Fields[i].Type, r.fields[i])
			}
		}
	}
	return o, nil
}

func document(raw []byte) json.RawMessage {
	if len(raw) == 0 {
		return nil
	}
	return raw
}

// presentNames splits a list of field names; there are few different ones.
func presentNames(list string) []string {
	if v, ok := presents.Load(list); ok {
		return v.([]string)
	}
	v := strings.Split(list, ",")
	presents.Store(list, v)
	return v
}

var presents sync.Map
