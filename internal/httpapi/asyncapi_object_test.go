package httpapi

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// fill gives everything in a value a value, to some depth.
func fill(v reflect.Value, depth int) {
	if v.Type() == reflect.TypeFor[time.Time]() {
		v.Set(reflect.ValueOf(time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)))
		return
	}
	if v.Type() == reflect.TypeFor[json.RawMessage]() {
		v.SetBytes([]byte(`{"a":1}`))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(7)
	case reflect.Float32, reflect.Float64:
		v.SetFloat(0.5)
	case reflect.Pointer:
		if depth > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem(), depth-1)
		}
	case reflect.Slice:
		if depth > 0 {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			fill(v.Index(0), depth-1)
		}
	case reflect.Map:
		if depth > 0 && v.Type().Key().Kind() == reflect.String {
			v.Set(reflect.MakeMap(v.Type()))
			one := reflect.New(v.Type().Elem()).Elem()
			fill(one, depth-1)
			v.SetMapIndex(reflect.ValueOf("k").Convert(v.Type().Key()), one)
		}
	case reflect.Interface:
		if v.NumMethod() == 0 {
			v.Set(reflect.ValueOf("anything"))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fill(v.Field(i), depth)
			}
		}
	}
}

// Whatever is in the documents of objects, empty or full, is as their schema says, which names
// every member and no secret. What is of another type is not.
func TestDocumentsAreAsTheirSchemasSay(t *testing.T) {
	for kind, of := range shown {
		s := shapes{}
		members := s.documentsOf(kind)
		for member, typ := range map[string]reflect.Type{"spec": of.spec, "status": of.status} {
			if typ == nil {
				continue
			}
			text, err := json.Marshal(node{"components": node{"schemas": node(s)}, "allOf": []any{members[member]}})
			if err != nil {
				t.Fatal(err)
			}
			doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			c := jsonschema.NewCompiler()
			if err := c.AddResource("doc.json", doc); err != nil {
				t.Fatal(err)
			}
			schema, err := c.Compile("doc.json")
			if err != nil {
				t.Fatalf("%s of %s: %v", member, kind, err)
			}
			properties := s[called(typ)].(node)["properties"].(node)
			for _, depth := range []int{0, 4} {
				v := reflect.New(typ)
				if depth > 0 {
					fill(v.Elem(), depth)
				}
				body, err := json.Marshal(v.Interface())
				if err != nil {
					t.Fatalf("%s of %s: %v", member, kind, err)
				}
				value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				if err := schema.Validate(value); err != nil {
					t.Errorf("%s of %s: %v\n%s", member, kind, err, body)
				}
				hidden := slices.Concat(sealed[kind].spec, sealed[kind].status)
				for name := range value.(map[string]any) {
					if properties[name] == nil && !slices.Contains(hidden, name) {
						t.Errorf("%s of %s has %s, and its schema does not", member, kind, name)
					}
				}
			}
			for name, of := range properties {
				if of, ok := of.(node); ok && of["type"] == "string" && schema.Validate(map[string]any{name: json.Number("7")}) == nil {
					t.Errorf("%s of %s: %s may be a number", member, kind, name)
				}
			}
		}
	}
}
