package document

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// Encode writes JSON with sorted keys and readable angle brackets.
func Encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// readJSON reads JSON that is known to be valid.
func (f *File) readJSON(data []byte) {
	if jsonDepth(data) > maxDepth {
		f.Report(start, nil, "nested too deeply")
		return
	}
	r := jsonReader{f: f, data: data, d: json.NewDecoder(bytes.NewReader(data)), line: 1}
	r.d.UseNumber()
	f.Documents = []*Node{r.node(nil)}
}

// jsonDepth returns how deep valid JSON nests.
func jsonDepth(data []byte) int {
	d := json.NewDecoder(bytes.NewReader(data))
	depth, most := 0, 0
	for t, err := d.Token(); err == nil; t, err = d.Token() {
		switch t {
		case json.Delim('['), json.Delim('{'):
			depth++
			most = max(most, depth)
		case json.Delim(']'), json.Delim('}'):
			depth--
		}
	}
	return most
}

// jsonReader reads JSON that is known to be valid.
type jsonReader struct {
	f    *File
	data []byte
	d    *json.Decoder

	at, line, column int // how far lines and their characters are counted
}

// next returns the next token and its place.
func (r *jsonReader) next() (json.Token, Place) {
	start := int(r.d.InputOffset())
	for start < len(r.data) && bytes.IndexByte([]byte(" \t\r\n,:"), r.data[start]) >= 0 {
		start++
	}
	for ; r.at < start; r.at++ {
		switch b := r.data[r.at]; {
		case b == '\n':
			r.line, r.column = r.line+1, 0
		case utf8.RuneStart(b):
			r.column++
		}
	}
	t, _ := r.d.Token() // the text is known to be valid
	return t, Place{r.line, r.column + 1}
}

func (r *jsonReader) node(path []any) *Node {
	t, at := r.next()
	out := &Node{At: at}
	switch x := t.(type) {
	case string, bool:
		out.Value = x
	case json.Number:
		if n, err := strconv.ParseInt(string(x), 10, 64); err == nil {
			out.Value = n
			return out
		}
		v, err := x.Float64()
		if err != nil {
			r.f.Report(at, path, "the number is too large")
		}
		out.Value = number(v)
	case json.Delim:
		if x == '[' {
			entries := []*Node{}
			for r.d.More() {
				entries = append(entries, r.node(Under(path, len(entries))))
			}
			out.Value = entries
		} else {
			out.Value = r.members(path)
		}
		r.next()
	}
	return out
}

func (r *jsonReader) members(path []any) []Member {
	out := []Member{}
	seen := map[string]bool{}
	for r.d.More() {
		t, at := r.next()
		key, _ := t.(string)
		value := r.node(Under(path, key))
		if seen[key] {
			r.f.Report(at, Under(path, key), "the key is there twice")
			continue
		}
		seen[key] = true
		out = append(out, Member{Key: key, At: at, Value: value})
	}
	return out
}
