package offering

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"
)

// encode writes JSON with sorted keys and readable angle brackets.
func encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// encodeTree writes the same bytes as encode for a rendered document, in a
// third of the time: it happens on every write of an instance.
func encodeTree(v any) (json.RawMessage, error) { return appendTree(make([]byte, 0, 1024), v) }

func appendTree(b []byte, v any) (_ []byte, err error) {
	switch x := v.(type) {
	case nil:
		return append(b, "null"...), nil
	case bool:
		return strconv.AppendBool(b, x), nil
	case int64:
		return strconv.AppendInt(b, x, 10), nil
	case string:
		return appendText(b, x)
	case []any:
		b = append(b, '[')
		for i, member := range x {
			if i > 0 {
				b = append(b, ',')
			}
			if b, err = appendTree(b, member); err != nil {
				return nil, err
			}
		}
		return append(b, ']'), nil
	case map[string]any:
		var few [16]string
		keys := slices.AppendSeq(few[:0], maps.Keys(x))
		slices.Sort(keys)
		b = append(b, '{')
		for i, k := range keys {
			if i > 0 {
				b = append(b, ',')
			}
			if b, err = appendText(b, k); err != nil {
				return nil, err
			}
			b = append(b, ':')
			if b, err = appendTree(b, x[k]); err != nil {
				return nil, err
			}
		}
		return append(b, '}'), nil
	}
	return appendSlow(b, v)
}

// appendText writes plain ASCII itself and leaves the rest to the library.
func appendText(b []byte, s string) ([]byte, error) {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf || c == 0x7f {
			return appendSlow(b, s)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"'), nil
}

func appendSlow(b []byte, v any) ([]byte, error) {
	data, err := encode(v)
	return append(b, data...), err
}
