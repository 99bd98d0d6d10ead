package schema_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/schema"
)

func tree(t testing.TB, text string) map[string]any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var out map[string]any
	if err := d.Decode(&out); err != nil {
		t.Fatal(err)
	}
	return out
}

const beast = `{
	"type": "object", "additionalProperties": false, "required": ["name"],
	"properties": {
		"name": {"type": "string", "minLength": 2, "maxLength": 8, "pattern": "^[a-z]+$"},
		"species": {"enum": ["trex", "stego"], "default": "trex"},
		"teeth": {"type": "integer", "minimum": 0, "maximum": 60, "multipleOf": 2},
		"mail": {"type": "string", "format": "email"},
		"cage": {"$ref": "#/$defs/cage"},
		"food": {"type": "array", "items": {"type": "string"}, "uniqueItems": true, "maxItems": 2},
		"home": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
		"size": {"type": "number", "exclusiveMinimum": 0.5}
	},
	"$defs": {"cage": {"type": "object", "default": {"width": 3}, "properties": {
		"width": {"type": "number"}, "locked": {"type": "boolean", "default": true}}}}
}`

func compile(t testing.TB, text string) *schema.Schema {
	t.Helper()
	s, err := schema.Compile(tree(t, text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestValidate(t *testing.T) {
	s := compile(t, beast)
	for name, c := range map[string]struct{ reason, in, want string }{
		"Defaults":    {"what is not said has its default, inside default objects too", `{"name":"rex"}`, `{"name":"rex","species":"trex","cage":{"width":3,"locked":true}}`},
		"Said":        {"what is said stays", `{"name":"rex","species":"stego","cage":{"locked":false}}`, `{"name":"rex","species":"stego","cage":{"locked":false}}`},
		"WholeNumber": {"2.0 is an integer", `{"name":"rex","teeth":2.0,"cage":{}}`, `{"name":"rex","species":"trex","teeth":2,"cage":{"locked":true}}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := s.Validate(tree(t, c.in))
			if err != nil {
				t.Fatalf("%s: %v", c.reason, err)
			}
			data, _ := json.Marshal(got)
			var a, b any
			_ = json.Unmarshal(data, &a)
			_ = json.Unmarshal([]byte(c.want), &b)
			if diff := cmp.Diff(b, a); diff != "" {
				t.Errorf("%s: -want +got\n%s", c.reason, diff)
			}
		})
	}
}

func TestValidateLeavesTheInputAlone(t *testing.T) {
	in := map[string]any{"name": "rex", "cage": map[string]any{}}
	if _, err := compile(t, beast).Validate(in); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"name": "rex", "cage": map[string]any{}}, in); diff != "" {
		t.Error(diff)
	}
}

func TestValidateNamesEveryMistake(t *testing.T) {
	in := `{"name":"S3CRET-VALUE-7","species":"S3CRET","teeth":77,"mail":"S3CRET","food":["a","a","S3CRET"],"home":{"a":"S3CRET"},"cage":{"width":"S3CRET"},"weight":"S3CRET","size":0.1}`
	_, err := compile(t, beast).Validate(tree(t, in))
	if !fault.Is(err, fault.Invalid) {
		t.Fatalf("got %v", err)
	}
	want := strings.Join([]string{
		"cage.width: must be number, not string",
		"food: entries 0 and 1 are the same", "food: must have at most 2 entries",
		"home: matches none of the allowed forms",
		"mail: is not a valid email",
		"name: does not match the pattern ^[a-z]+$", "name: must have at most 8 characters",
		"size: must be more than 1/2",
		`species: must be one of "trex", "stego"`,
		"teeth: must be a multiple of 2", "teeth: must be at most 60",
		"weight: is not a known parameter",
	}, "; ")
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if strings.Contains(err.Error(), "S3CRET") {
		t.Error("a rejected value is never repeated")
	}
	if _, err := compile(t, beast).Validate(nil); err == nil || err.Error() != "name: is required" {
		t.Errorf("nothing at all lacks what is required, got %v", err)
	}
}

func TestCompileRefuses(t *testing.T) {
	for name, c := range map[string]struct{ reason, in, path string }{
		"Type":      {"an unknown type", `{"type":"strnig"}`, "type"},
		"Inner":     {"deep inside", `{"properties":{"a":{"minimum":"x"}}}`, "properties.a.minimum"},
		"Pattern":   {"a bad regular expression", `{"properties":{"a":{"pattern":"("}}}`, "properties.a.pattern"},
		"Remote":    {"nothing is loaded from the network", `{"$ref":"https://example.org/x.json"}`, ""},
		"File":      {"nor from disk", `{"$ref":"file:///etc/passwd"}`, ""},
		"Dangling":  {"a reference to nowhere", `{"properties":{"a":{"$ref":"#/$defs/none"}}}`, ""},
		"Default":   {"a default that is not valid itself", `{"properties":{"a":{"type":"string","default":3}}}`, "properties.a.default"},
		"HugeValue": {"numbers that would blow up exact arithmetic", `{"minimum":1e999999999}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := schema.Compile(tree(t, c.in))
			var problems schema.Problems
			if !fault.Is(err, fault.Invalid) || !errors.As(err, &problems) || len(problems) == 0 {
				t.Fatalf("%s: got %v", c.reason, err)
			}
			if problems[0].Where() != c.path {
				t.Errorf("%s: at %q, want %q (%v)", c.reason, problems[0].Where(), c.path, err)
			}
		})
	}
}

func TestHugeNumbersAreRefused(t *testing.T) {
	_, err := compile(t, beast).Validate(tree(t, `{"name":"rex","teeth":1e999999999}`))
	if !fault.Is(err, fault.Invalid) {
		t.Errorf("got %v", err)
	}
}

func TestShape(t *testing.T) {
	got := compile(t, beast).Shape()
	if !got.Closed || got.Type != "object" || got.Members["teeth"].Type != "integer" || got.Members["species"].Type != "" {
		t.Errorf("got %+v", got)
	}
	if cage := got.Members["cage"]; cage.Type != "object" || cage.Closed || cage.Members["locked"].Type != "boolean" {
		t.Errorf("a reference is followed, got %+v", cage)
	}
}

func TestValidatedValuesStayValid(t *testing.T) {
	s := compile(t, beast)
	rapid.Check(t, func(t *rapid.T) {
		in := map[string]any{"name": rapid.StringMatching(`[a-z]{2,8}`).Draw(t, "name")}
		if rapid.Bool().Draw(t, "teeth?") {
			in["teeth"] = float64(2 * rapid.IntRange(0, 30).Draw(t, "teeth"))
		}
		if rapid.Bool().Draw(t, "cage?") {
			in["cage"] = map[string]any{"width": rapid.Float64Range(0, 9).Draw(t, "width")}
		}
		once, err := s.Validate(in)
		if err != nil {
			t.Fatal(err)
		}
		twice, err := s.Validate(once)
		if diff := cmp.Diff(once, twice); err != nil || diff != "" {
			t.Fatalf("filling in defaults is done once and for all: %v %s", err, diff)
		}
	})
}
