package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"unicode/utf8"

	"github.com/droverhq/drover/internal/fault"
)

// maxDepth bounds the nesting of a body: nothing that we accept is deeper, and
// what walks it later need not be proof against more.
const maxDepth = 32

// readObject reads a body that is one JSON object and hands its members to set,
// in their order. It is strict, because what a lenient reader drops was meant
// by somebody: one object, each member once, valid UTF-8, nothing after it.
func readObject(r *http.Request, set func(name string, value json.RawMessage) error) error {
	data, err := io.ReadAll(r.Body)
	if err != nil {
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			return err
		}
		return fault.New(fault.Invalid, "unable to read the request body").Because("body")
	}
	return eachMember(data, set)
}

func eachMember(data []byte, set func(name string, value json.RawMessage) error) error {
	if !utf8.Valid(data) {
		return malformed("it is not UTF-8")
	}
	if tooDeep(data) {
		return malformed("it is nested too deeply")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return malformed("a JSON object is expected")
	}
	seen := map[string]bool{}
	for dec.More() {
		token, err := dec.Token()
		name, ok := token.(string)
		if err != nil || !ok {
			return malformed("it is no JSON")
		}
		if seen[name] {
			return fault.New(fault.Invalid, "field %.64q is given twice", name).Because("body")
		}
		seen[name] = true
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return malformed("it is no JSON")
		}
		if err := set(name, value); err != nil {
			return err
		}
	}
	if _, err := dec.Token(); err != nil { // the closing brace
		return malformed("it is no JSON")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return malformed("something follows the JSON object")
	}
	return nil
}

func malformed(what string) error {
	return fault.New(fault.Invalid, "invalid request format: %s", what).Because("body")
}

// tooDeep counts brackets outside of strings.
func tooDeep(data []byte) bool {
	depth, text := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case text:
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}

// into decodes a member whose type is fixed. null leaves it absent.
func into[T any](name string, value json.RawMessage, to **T) error {
	if string(value) == "null" {
		return nil
	}
	v := new(T)
	if err := json.Unmarshal(value, v); err != nil {
		return fault.New(fault.Invalid, "invalid request format: field %.64q has the wrong type", name).Because("body")
	}
	*to = v
	return nil
}

func unknownField(name string) error {
	return fault.New(fault.Invalid, "field %.64q is not known here", name).Because("field")
}
