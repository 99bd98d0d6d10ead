package httpapi

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"time"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/ledger"
)

// encodeChange writes a change as somebody sees it, in one line of JSON. Everybody who
// follows the log has every change written, beside those who commit: it is a fifth of
// the work of encoding/json, whose result it has, but for documents. Those are JSON
// already and are not read again.
func encodeChange(c *ledger.Change, offerings Offerings, who access.Principal) (json.RawMessage, error) {
	w := wireChange(c, offerings, who)
	e := encoder{buf: make([]byte, 0, 1024+len(w.Object.Spec)+len(w.Object.Status))}
	e.change(&w)
	return e.buf, e.err
}

// encoder appends JSON to its buffer, until something cannot be written.
type encoder struct {
	buf []byte
	err error
}

func (e *encoder) change(c *v1.Change) {
	e.name('{', "seq")
	e.number(c.Seq)
	e.name(',', "at")
	e.time(c.At)
	e.name(',', "actor")
	e.text(c.Actor)
	e.name(',', "cause")
	e.text(c.Cause)
	e.name(',', "op")
	e.text(c.Op)
	e.name(',', "object")
	e.object(&c.Object)
	e.buf = append(e.buf, '}')
}

func (e *encoder) object(o *v1.Object) {
	e.name('{', "kind")
	e.text(o.Kind)
	e.name(',', "id")
	e.text(o.ID)
	for _, f := range [...][2]string{{"resource", o.Resource}, {"org", o.Org}, {"owner", o.Owner}, {"name", o.Name}, {"phase", o.Phase}, {"parent", o.Parent}} {
		if f[1] != "" {
			e.name(',', f[0])
			e.text(f[1])
		}
	}
	if len(o.Labels) > 0 {
		e.name(',', "labels")
		sorted(e, o.Labels, e.text)
	}
	if len(o.Fields) > 0 {
		e.name(',', "fields")
		sorted(e, o.Fields, e.value)
	}
	e.name(',', "generation")
	e.number(o.Generation)
	e.name(',', "version")
	e.number(o.Version)
	e.document("spec", o.Spec)
	e.document("status", o.Status)
	e.name(',', "created")
	e.time(o.Created)
	e.name(',', "updated")
	e.time(o.Updated)
	if o.Deleted != nil {
		e.name(',', "deleted")
		e.time(*o.Deleted)
	}
	e.buf = append(e.buf, '}')
}

// sorted appends an object, its members in the order of their names.
func sorted[V any](e *encoder, m map[string]V, value func(V)) {
	before := byte('{')
	for _, k := range slices.Sorted(maps.Keys(m)) {
		e.buf = append(e.buf, before)
		e.text(k)
		e.buf = append(e.buf, ':')
		value(m[k])
		before = ','
	}
	e.buf = append(e.buf, '}')
}

// name appends that of a member, which needs no escapes, after what is before it.
func (e *encoder) name(before byte, name string) {
	e.buf = append(append(append(e.buf, before, '"'), name...), '"', ':')
}

func (e *encoder) number(n int64) { e.buf = strconv.AppendInt(e.buf, n, 10) }

func (e *encoder) time(t time.Time) {
	b, err := t.AppendText(append(e.buf, '"'))
	if err != nil {
		e.err = err
		return
	}
	e.buf = append(b, '"')
}

// text appends a string. One that has anything but plain characters is seldom.
func (e *encoder) text(s string) {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			e.other(s)
			return
		}
	}
	e.buf = append(append(append(e.buf, '"'), s...), '"')
}

func (e *encoder) value(v any) {
	switch x := v.(type) {
	case string:
		e.text(x)
	case int64:
		e.number(x)
	case bool:
		e.buf = strconv.AppendBool(e.buf, x)
	case time.Time:
		e.time(x)
	default:
		e.other(v)
	}
}

func (e *encoder) other(v any) {
	b, err := json.Marshal(v)
	if err != nil {
		e.err = err
	}
	e.buf = append(e.buf, b...)
}

// document appends a member that is JSON already. The lines of one that somebody has
// broken are made one: a line ends an event of a stream.
func (e *encoder) document(name string, doc json.RawMessage) {
	if len(doc) == 0 {
		return
	}
	e.name(',', name)
	if bytes.IndexByte(doc, '\n') < 0 && bytes.IndexByte(doc, '\r') < 0 {
		e.buf = append(e.buf, doc...)
		return
	}
	var one bytes.Buffer
	if err := json.Compact(&one, doc); err != nil {
		e.err = err
	}
	e.buf = append(e.buf, one.Bytes()...)
}
