// Package schema checks values against JSON Schema 2020-12, fills in defaults,
// and says what is wrong in words that users understand.
//
// It never loads anything from elsewhere and never repeats a rejected value,
// which may be a secret. It must not know what the values mean.
package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/droverhq/drover/internal/fault"
)

const (
	location   = "mem:///schema"
	maxNesting = 64
)

// Schema is a compiled schema. It is immutable and safe for concurrent use.
type Schema struct{ compiled *jsonschema.Schema }

// Problem is one mistake in a value or in a schema.
type Problem struct {
	Path    []string // keys and indexes from the root
	Message string
}

// Where writes the path for people: "volumes.0.size".
func (p Problem) Where() string { return strings.Join(p.Path, ".") }

// Problems are all mistakes, in the order of their paths.
type Problems []Problem

func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Message
		if len(p.Path) > 0 {
			lines[i] = p.Where() + ": " + p.Message
		}
	}
	return strings.Join(lines, "; ")
}

type refuse struct{}

func (refuse) Load(url string) (any, error) {
	return nil, fmt.Errorf("a schema must not refer to other files (%s)", url)
}

// Compile checks a schema, its defaults included. The error is fault.Invalid
// and wraps Problems.
func Compile(doc map[string]any) (*Schema, error) {
	tree, err := clone(doc, maxNesting)
	if err != nil {
		return nil, invalid(Problems{{Message: err.Error()}})
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.UseLoader(refuse{})
	compiler.AssertFormat()
	if err := compiler.AddResource(location, tree); err != nil {
		return nil, invalid(Problems{{Message: clean(err)}})
	}
	compiled, err := compiler.Compile(location)
	if err != nil {
		var refused *jsonschema.SchemaValidationError
		var wrong *jsonschema.ValidationError
		if errors.As(err, &refused) && errors.As(refused.Err, &wrong) {
			return nil, invalid(flatten(wrong))
		}
		return nil, invalid(Problems{{Message: clean(err)}})
	}
	if problems := checkDefaults(compiled, nil, map[*jsonschema.Schema]bool{}); len(problems) > 0 {
		return nil, invalid(problems)
	}
	return &Schema{compiled: compiled}, nil
}

// clean takes the made-up address out of a message.
func clean(err error) string {
	return strings.NewReplacer(location+"#", "", location, "the schema").Replace(err.Error())
}

func invalid(problems Problems) error { return fault.New(fault.Invalid, "%w", problems) }

// Validate returns a copy of the value with defaults filled in, or everything
// that is wrong with it: the error is fault.Invalid and wraps Problems.
func (s *Schema) Validate(value map[string]any) (map[string]any, error) {
	tree, err := clone(value, maxNesting)
	if err != nil {
		return nil, invalid(Problems{{Message: err.Error()}})
	}
	out, _ := tree.(map[string]any)
	if out == nil {
		out = map[string]any{}
	}
	fill(s.compiled, out, maxNesting)
	err = s.compiled.Validate(out)
	var wrong *jsonschema.ValidationError
	if errors.As(err, &wrong) {
		return nil, invalid(flatten(wrong))
	}
	if err != nil {
		return nil, fmt.Errorf("cannot validate: %w", err)
	}
	return out, nil
}

// fill adds the defaults of an object's members that are not there. Defaults
// under anyOf, oneOf and if are not looked at: which of them holds is unknown.
func fill(s *jsonschema.Schema, object map[string]any, depth int) {
	if depth == 0 || s == nil {
		return
	}
	for _, part := range append(slices.Clone(s.AllOf), s.Ref) {
		fill(part, object, depth-1)
	}
	for name, member := range s.Properties {
		if _, there := object[name]; !there {
			d := defaultOf(member, depth)
			if d == nil {
				continue
			}
			object[name], _ = clone(*d, maxNesting)
		}
		inner, _ := object[name].(map[string]any)
		if inner != nil {
			fill(member, inner, depth-1)
		}
	}
}

func defaultOf(s *jsonschema.Schema, depth int) *any {
	if s == nil || depth == 0 {
		return nil
	}
	if s.Default != nil {
		return s.Default
	}
	return defaultOf(s.Ref, depth-1)
}

// checkDefaults finds defaults that their own schema refuses: they would make
// every value invalid that relies on them.
func checkDefaults(s *jsonschema.Schema, path []string, seen map[*jsonschema.Schema]bool) Problems {
	if s == nil || seen[s] {
		return nil
	}
	seen[s] = true
	var problems Problems
	if s.Default != nil {
		var wrong *jsonschema.ValidationError
		d, _ := clone(*s.Default, maxNesting)
		if inner, ok := d.(map[string]any); ok {
			fill(s, inner, maxNesting)
		}
		if err := s.Validate(d); errors.As(err, &wrong) {
			for _, p := range flatten(wrong) {
				problems = append(problems, Problem{append(slices.Clone(path), "default"), p.Error()})
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		problems = append(problems, checkDefaults(s.Properties[name], append(slices.Clone(path), "properties", name), seen)...)
	}
	return problems
}

func (p Problem) Error() string { return Problems{p}.Error() }

// Shape is what can be known of a value before it is there.
type Shape struct {
	Type   string // "string", "integer", "object", ...; "" if there may be several
	Closed bool   // an object that has no members beyond Members
	// Members of an object.
	Members map[string]Shape
}

// Shape of the values that the schema accepts.
func (s *Schema) Shape() Shape { return shape(s.compiled, 16) }

func shape(s *jsonschema.Schema, depth int) Shape {
	if s == nil || depth == 0 {
		return Shape{}
	}
	if s.Ref != nil && s.Types == nil && s.Properties == nil {
		return shape(s.Ref, depth-1)
	}
	var out Shape
	if s.Types != nil {
		if names := s.Types.ToStrings(); len(names) == 1 {
			out.Type = names[0]
		}
	}
	closed, isBool := s.AdditionalProperties.(bool)
	out.Closed = isBool && !closed && len(s.PatternProperties) == 0
	if out.Type == "object" {
		out.Members = map[string]Shape{}
		for name, member := range s.Properties {
			out.Members[name] = shape(member, depth-1)
		}
	}
	return out
}

var errNumber = errors.New("a number is out of range")

// clone copies a tree. Numbers become int64 or float64: the library computes
// with exact fractions, which a text like 1e999999999 would blow up.
func clone(v any, depth int) (any, error) {
	if depth == 0 {
		return nil, errors.New("nested too deeply")
	}
	switch x := v.(type) {
	case json.Number:
		if n, err := x.Int64(); err == nil {
			return n, nil
		}
		f, err := x.Float64()
		if err != nil {
			return nil, errNumber
		}
		return clone(f, depth)
	case float64:
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return nil, errNumber
		}
		if x == math.Trunc(x) && math.Abs(x) < 1<<53 {
			return int64(x), nil
		}
	case int:
		return int64(x), nil
	case map[string]any:
		out := make(map[string]any, len(x))
		for k, member := range x {
			c, err := clone(member, depth-1)
			if err != nil {
				return nil, err
			}
			out[k] = c
		}
		return out, nil
	case []any:
		out := make([]any, len(x))
		for i, member := range x {
			c, err := clone(member, depth-1)
			if err != nil {
				return nil, err
			}
			out[i] = c
		}
		return out, nil
	}
	return v, nil
}
