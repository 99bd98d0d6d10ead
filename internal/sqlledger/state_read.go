package sqlledger

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/droverhq/drover/internal/ledger"
)

// readState reads what encodeState wrote, and nothing else: ok is false for a state
// that is written in any other way. Everybody who follows the log has every change
// read, beside those who commit, and encoding/json takes five times as long for it.
// Documents are found, not read: they were checked when the set came in.
func (l *Ledger) readState(state []byte) (o ledger.Object, ok bool) {
	r := stateReader{left: state}
	r.want(`{"kind":`)
	kind := r.quoted()
	s := l.stores[string(kind)]
	if s == nil {
		return o, false
	}
	o.Kind = s.kind.Name
	r.want(`,"id":`)
	o.ID = r.text()
	for _, f := range [...]struct {
		key   string
		value *string
	}{{`,"org":`, &o.Org}, {`,"owner":`, &o.Owner}, {`,"name":`, &o.Name}, {`,"phase":`, &o.Phase}, {`,"parent":`, &o.Parent}} {
		if r.has(f.key) {
			*f.value = r.text()
		}
	}
	if r.has(`,"labels":`) {
		o.Labels = map[string]string{}
		r.members(func(name string) { o.Labels[name] = r.text() })
	}
	if r.has(`,"fields":`) {
		o.Fields = map[string]any{}
		r.members(func(name string) { o.Fields[name] = r.field(s, name) })
	}
	if r.has(`,"links":`) {
		r.want(`[`)
		for more := !r.has(`]`); more; more = r.next(']') {
			o.Links = append(o.Links, r.text())
		}
	}
	if r.has(`,"words":`) {
		o.Words = r.text()
	}
	r.want(`,"generation":`)
	o.Generation = r.number()
	r.want(`,"version":`)
	o.Version = r.number()
	for _, f := range [...]struct {
		key   string
		value *json.RawMessage
	}{{`,"spec":`, &o.Spec}, {`,"status":`, &o.Status}, {`,"view":`, &o.View}} {
		if r.has(f.key) {
			*f.value = r.document()
		}
	}
	r.want(`,"created":`)
	o.Created = r.time()
	r.want(`,"updated":`)
	o.Updated = r.time()
	if r.has(`,"deleted":`) {
		o.Deleted = r.time()
	}
	r.want(`}`)
	return o, !r.lost && len(r.left) == 0
}

// stateReader reads from the front of what is left. Once it is lost nothing that it
// returns means anything.
type stateReader struct {
	left []byte
	lost bool
}

// has takes a text if it is next.
func (r *stateReader) has(text string) bool {
	if len(r.left) < len(text) || string(r.left[:len(text)]) != text {
		return false
	}
	r.left = r.left[len(text):]
	return true
}

func (r *stateReader) want(text string) {
	if !r.has(text) {
		r.lost = true
	}
}

// next goes on to another member; false: there is none.
func (r *stateReader) next(end byte) bool {
	if r.lost || len(r.left) == 0 || r.left[0] != ',' && r.left[0] != end {
		r.lost = true
		return false
	}
	more := r.left[0] == ','
	r.left = r.left[1:]
	return more
}

func (r *stateReader) members(read func(name string)) {
	r.want(`{`)
	for more := !r.lost; more; more = r.next('}') {
		name := r.text()
		r.want(`:`)
		read(name)
	}
}

// quoted takes a string without escapes and returns what is between its quotes, where
// it stands.
func (r *stateReader) quoted() []byte {
	r.want(`"`)
	end := bytes.IndexByte(r.left, '"')
	if r.lost || end < 0 {
		r.lost = true
		return nil
	}
	text := r.left[:end]
	for _, c := range text {
		if c < ' ' || c == '\\' {
			r.lost = true
		}
	}
	r.left = r.left[end+1:]
	return text
}

// text takes a string. Few have escapes.
func (r *stateReader) text() string {
	end := closing(r.left)
	if r.lost || end < 0 {
		r.lost = true
		return ""
	}
	whole := r.left[:end]
	r.left = r.left[end:]
	text, plain := whole[1:end-1], true
	for _, c := range text {
		plain = plain && c >= ' ' && c != '\\'
	}
	if plain && utf8.Valid(text) {
		return string(text)
	}
	var s string
	if json.Unmarshal(whole, &s) != nil {
		r.lost = true
	}
	return s
}

// closing is where a string ends, behind its quote; -1: there is none.
func closing(b []byte) int {
	if len(b) == 0 || b[0] != '"' {
		return -1
	}
	for at := 1; ; {
		quote := bytes.IndexByte(b[at:], '"')
		if quote < 0 {
			return -1
		}
		at += quote + 1
		escapes := 0
		for b[at-2-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return at
		}
	}
}

// field takes a value of a type that the kind's field has.
func (r *stateReader) field(s *store, name string) any {
	i, known := s.field[name]
	if !known || len(r.left) == 0 {
		r.lost = true
		return nil
	}
	switch t := s.kind.Fields[i].Type; {
	case r.left[0] == '"' && t == ledger.Time:
		return r.time()
	case r.left[0] == '"':
		return r.text()
	case r.has(`true`):
		return true
	case r.has(`false`):
		return false
	case t != ledger.Int:
		r.lost = true
		return nil
	}
	return r.number()
}

func (r *stateReader) number() int64 {
	end := bytes.IndexAny(r.left, ",}")
	if r.lost || end < 0 {
		r.lost = true
		return 0
	}
	n, _ := strconv.ParseInt(string(r.left[:end]), 10, 64)
	r.want(string(strconv.AppendInt(nil, n, 10))) // there are other ways to write it, none of them ours
	return n
}

func (r *stateReader) time() time.Time {
	at, err := time.Parse(time.RFC3339Nano, string(r.quoted()))
	if err != nil {
		r.lost = true
	}
	return at.UTC()
}

// document takes a JSON value and leaves it where it is: it shares the state's bytes,
// and whoever appends to it gets others.
func (r *stateReader) document() json.RawMessage {
	depth := 0
	for at := 0; at < len(r.left); at++ {
		switch c := r.left[at]; c {
		case '"':
			n := closing(r.left[at:])
			if n < 0 {
				r.lost = true
				return nil
			}
			at += n - 1
		case '{', '[':
			depth++
			continue
		case '}', ']':
			if depth--; depth < 0 { // of the state: the document is a word or a number
				return r.cut(at)
			}
		case ',':
			if depth == 0 {
				return r.cut(at)
			}
			continue
		default:
			r.lost = r.lost || depth == 0 && c <= ' ' // it is not of the document
			continue
		}
		if depth == 0 {
			return r.cut(at + 1)
		}
	}
	r.lost = true
	return nil
}

func (r *stateReader) cut(at int) json.RawMessage {
	d := json.RawMessage(r.left[:at:at])
	r.left = r.left[at:]
	if len(d) == 0 {
		r.lost = true
	}
	return d
}
