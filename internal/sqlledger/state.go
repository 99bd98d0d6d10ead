package sqlledger

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/droverhq/drover/internal/ledger"
)

// encodeState writes an object for the log. It is encoding/json's format, but
// the documents are copied byte by byte: marshalling would compact and escape
// them, and check again what was checked when the set came in.
func encodeState(o *ledger.Object) string {
	b := make([]byte, 0, 256+len(o.Spec)+len(o.Status)+len(o.View))
	b = append(b, `{"kind":`...)
	b = appendString(b, o.Kind)
	b = append(b, `,"id":`...)
	b = appendString(b, o.ID)
	for _, f := range [...]struct{ key, value string }{
		{`,"org":`, o.Org}, {`,"owner":`, o.Owner}, {`,"name":`, o.Name}, {`,"phase":`, o.Phase}, {`,"parent":`, o.Parent},
	} {
		if f.value != "" {
			b = append(b, f.key...)
			b = appendString(b, f.value)
		}
	}
	if len(o.Labels) > 0 {
		b = append(b, `,"labels":`...)
		b = appendLabels(b, o.Labels)
	}
	if len(o.Fields) > 0 {
		b = append(b, `,"fields":{`...)
		for i, k := range slices.Sorted(maps.Keys(o.Fields)) {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendString(b, k), ':')
			switch v := o.Fields[k].(type) {
			case string:
				b = appendString(b, v)
			case int64:
				b = strconv.AppendInt(b, v, 10)
			case bool:
				b = strconv.AppendBool(b, v)
			case time.Time:
				b = appendTime(b, v)
			}
		}
		b = append(b, '}')
	}
	if len(o.Links) > 0 {
		b = append(b, `,"links":`...)
		b = appendLinks(b, o.Links)
	}
	if o.Words != "" {
		b = append(b, `,"words":`...)
		b = appendString(b, o.Words)
	}
	b = append(b, `,"generation":`...)
	b = strconv.AppendInt(b, o.Generation, 10)
	b = append(b, `,"version":`...)
	b = strconv.AppendInt(b, o.Version, 10)
	for _, f := range [...]struct {
		key   string
		value json.RawMessage
	}{{`,"spec":`, o.Spec}, {`,"status":`, o.Status}, {`,"view":`, o.View}} {
		if len(f.value) > 0 {
			b = append(b, f.key...)
			b = append(b, f.value...)
		}
	}
	b = append(b, `,"created":`...)
	b = appendTime(b, o.Created)
	b = append(b, `,"updated":`...)
	b = appendTime(b, o.Updated)
	if !o.Deleted.IsZero() {
		b = append(b, `,"deleted":`...)
		b = appendTime(b, o.Deleted)
	}
	return string(append(b, '}'))
}

// decodeState reads an object from the log and gives its fields their types. The
// object may share the state's bytes.
func (l *Ledger) decodeState(state []byte) (ledger.Object, error) {
	if o, ok := l.readState(state); ok {
		return o, nil
	}
	return l.parseState(state)
}

// parseState reads a state of whatever form.
func (l *Ledger) parseState(state []byte) (ledger.Object, error) {
	var o ledger.Object
	var typed struct {
		Fields map[string]json.RawMessage `json:"fields"`
	}
	if err := json.Unmarshal(state, &o); err != nil {
		return o, fmt.Errorf("cannot read a logged state: %w", err)
	}
	s := l.stores[o.Kind]
	if s == nil || len(o.Fields) == 0 {
		return o, nil
	}
	whole := false
	for name, v := range o.Fields {
		i, ok := s.field[name]
		if !ok {
			continue
		}
		switch x := v.(type) {
		case float64:
			whole = whole || s.kind.Fields[i].Type == ledger.Int
		case string:
			if s.kind.Fields[i].Type == ledger.Time {
				at, err := time.Parse(time.RFC3339Nano, x)
				if err != nil {
					return o, fmt.Errorf("cannot read field %q of a logged state: %w", name, err)
				}
				o.Fields[name] = at.UTC()
			}
		}
	}
	if !whole {
		return o, nil
	}
	// A float64 cannot hold every int64.
	if err := json.Unmarshal(state, &typed); err != nil {
		return o, fmt.Errorf("cannot read a logged state: %w", err)
	}
	for name, v := range o.Fields {
		if _, ok := v.(float64); ok {
			n, err := strconv.ParseInt(string(typed.Fields[name]), 10, 64)
			if err != nil {
				return o, fmt.Errorf("cannot read field %q of a logged state: %w", name, err)
			}
			o.Fields[name] = n
		}
	}
	return o, nil
}

func encodeLabels(labels map[string]string) (string, error) {
	if len(labels) == 0 {
		return "", nil
	}
	return string(appendLabels(nil, labels)), nil
}

func appendLabels(b []byte, labels map[string]string) []byte {
	b = append(b, '{')
	for i, k := range slices.Sorted(maps.Keys(labels)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendString(b, k), ':')
		b = appendString(b, labels[k])
	}
	return append(b, '}')
}

func encodeLinks(links []string) string {
	if len(links) == 0 {
		return ""
	}
	return string(appendLinks(nil, links))
}

func appendLinks(b []byte, links []string) []byte {
	b = append(b, '[')
	for i, end := range links {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, end)
	}
	return append(b, ']')
}

func appendTime(b []byte, t time.Time) []byte {
	b = append(b, '"')
	b = t.UTC().AppendFormat(b, time.RFC3339Nano)
	return append(b, '"')
}

// appendString writes a JSON string. The text is valid UTF-8 by contract.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	from := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= utf8.RuneSelf || c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		b = append(b, s[from:i]...)
		from = i + 1
		if c == '"' || c == '\\' {
			b = append(b, '\\', c)
		} else {
			b = append(b, '\\', 'u', '0', '0', "0123456789abcdef"[c>>4], "0123456789abcdef"[c&15])
		}
	}
	return append(append(b, s[from:]...), '"')
}
