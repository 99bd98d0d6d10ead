package httpapi_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/httpapi"
)

func TestBodies(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		body   string
		want   []string // members; nil = refused
	}{
		"object":       {"an object is read in its order", `{"b": 1, "a": {"c": [2]}}`, []string{"b=1", `a={"c": [2]}`}},
		"empty object": {"nothing in it is fine here", `{}`, []string{}},
		"spaces":       {"white space is JSON's", " \n{ }\t ", []string{}},
		"empty":        {"no body is no object", ``, nil},
		"null":         {"null is no object", `null`, nil},
		"array":        {"nor is a list", `[{"a":1}]`, nil},
		"text":         {"nor is text", `"{}"`, nil},
		"cut":          {"half an object", `{"a": 1`, nil},
		"cut value":    {"half a value", `{"a": tru`, nil},
		"comma":        {"a comma too many", `{"a": 1,}`, nil},
		"comment":      {"JSON has no comments", `{/* */}`, nil},
		"single":       {"nor single quotes", `{'a': 1}`, nil},
		"no colon":     {"nor members without values", `{"a"}`, nil},
		"two objects":  {"one request has one body", `{"a":1}{"a":2}`, nil},
		"trailing":     {"nothing follows", `{"a":1} x`, nil},
		"twice":        {"which of the two was meant?", `{"a":1,"a":2}`, nil},
		"twice hidden": {"also when one is written with an escape", `{"a":1,"\u0061":2}`, nil},
		"utf-8":        {"bytes that are no text", "{\"a\":\"\xff\"}", nil},
		"nan":          {"NaN is no JSON", `{"a":NaN}`, nil},
		"deep":         {"nothing is that deep", strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 100), nil},
		"very deep":    {"nor that deep", `{"a":` + strings.Repeat("[", 1<<20), nil},
		"brackets":     {"brackets within text are no depth", `{"a":"` + strings.Repeat("[", 100) + `\"["}`, []string{`a="` + strings.Repeat("[", 100) + `\"["`}},
	} {
		t.Run(name, func(t *testing.T) {
			got := []string{}
			err := httpapi.EachMember([]byte(tc.body), func(name string, v json.RawMessage) error {
				got = append(got, name+"="+string(v))
				return nil
			})
			if tc.want == nil {
				if !fault.Is(err, fault.Invalid) || fault.Reason(err) != "body" {
					t.Fatalf("%s: read %v, %v", tc.reason, got, err)
				}
				return
			}
			if err != nil {
				t.Fatalf("%s: %v", tc.reason, err)
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("%s: %s", tc.reason, d)
			}
		})
	}
}

// FuzzBodies: what is accepted is one valid object, with just the members that
// the standard library finds in it.
func FuzzBodies(f *testing.F) {
	for _, s := range []string{
		`{}`, `{"name":"rex","multi_az":true}`, `{"a":1}{"a":2}`, `{"a":1,"a":2}`, `{"a":[{"b":null}]} `, `{"a":"\ud800"}`,
		"{\"a\":\"\xff\"}", `[`, `{"a":1e999}`, `null`, ``, `{"\u0061":0}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got := map[string]json.RawMessage{}
		err := httpapi.EachMember(data, func(name string, v json.RawMessage) error {
			got[name] = v
			return nil
		})
		if err != nil {
			if fault.Reason(err) != "body" {
				t.Fatalf("%q: %v", data, err)
			}
			return
		}
		var want map[string]json.RawMessage
		if !json.Valid(data) || !utf8.Valid(data) || json.Unmarshal(data, &want) != nil {
			t.Fatalf("%q was accepted", data)
		}
		if len(got) != len(want) {
			t.Fatalf("%q: read %v, want %v", data, got, want)
		}
	})
}
