package document_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/droverhq/drover/internal/document"
	"github.com/droverhq/drover/internal/fault"
)

// cat is a kind of document with a field of every type.
type cat struct {
	Name   string            `json:"name"`
	Tame   bool              `json:"tame,omitempty"`
	Shy    *bool             `json:"shy,omitempty"`
	Legs   int64             `json:"legs"`
	Naps   document.Duration `json:"naps"`
	Born   time.Time         `json:"born"`
	Toys   []string          `json:"toys"`
	Labels map[string]string `json:"labels"`
	Free   map[string]any    `json:"free"`
	Raw    *document.Node    `json:"raw"`
	Kin    []cat             `json:"kin"`
}

var form = document.Form{Kind: "cat"}

func unchecked(*document.File) {}

func TestRead(t *testing.T) {
	yes := true
	want := cat{
		Name: "Tom", Tame: true, Shy: &yes, Legs: 4, Naps: document.Duration(90 * time.Minute), Born: time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC),
		Toys: []string{"ball", "two\nlines\n"}, Labels: map[string]string{"8080": "a"}, Free: map[string]any{"a": []any{int64(1), 1.5, nil, int64(2)}}, Kin: []cat{{Name: "Tim"}},
	}
	for name, c := range map[string]struct{ reason, data string }{
		"Block": {"YAML as people write it", "name: Tom\ntame: true\nshy: true\nlegs: 4\nnaps: 1h30m\nborn: 2030-01-31T12:00:00Z\ntoys:\n- ball\n- |\n  two\n  lines\nlabels:\n  8080: a\nfree:\n  a: [1, 1.5, null, 2.0]\nraw: {x: 1}\nkin:\n- name: Tim\n  toys:\n"},
		"JSON":  {"JSON with tabs", "{\n\t\"name\": \"Tom\", \"tame\": true, \"shy\": true, \"legs\": 4, \"naps\": \"1h30m\", \"born\": \"2030-01-31T12:00:00Z\",\n\t\"toys\": [\"ball\", \"two\\nlines\\n\"], \"labels\": {\"8080\": \"a\"}, \"free\": {\"a\": [1, 1.5, null, 2.0]}, \"raw\": {\"x\": 1}, \"kin\": [{\"name\": \"Tim\"}]}"},
	} {
		t.Run(name, func(t *testing.T) {
			var got cat
			if err := document.Read("f", []byte(c.data), form, &got, unchecked); err != nil {
				t.Fatalf("%s: %v", c.reason, err)
			}
			if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(cat{}, "Raw")); diff != "" {
				t.Errorf("%s: -want +got\n%s", c.reason, diff)
			}
			if diff := cmp.Diff(map[string]any{"x": int64(1)}, got.Raw.Plain()); diff != "" {
				t.Errorf("%s: a node is taken as it is: -want +got\n%s", c.reason, diff)
			}
		})
	}
}

func TestMistakes(t *testing.T) {
	deep := strings.Repeat("[", 60) + strings.Repeat("]", 60)
	for name, c := range map[string]struct {
		reason, data string
		want         []string
	}{
		"Types": {"every value of another type is told, from top to bottom", "name: 5\ntame: perhaps\nlegs: four\nnaps: 48\nborn: tomorrow\ntoys: {}\nlabels: []\nkin: [1, {legs: 1.5}, ~]\n", []string{
			"f:1:7: name: must be text, not a number: put it in quotes", "f:2:7: tame: must be true or false, not text", "f:3:7: legs: must be a whole number, not text",
			"f:4:7: naps: must be a duration such as 48h or 30s", "f:5:7: born: must be a time such as 2030-01-31T12:00:00Z",
			"f:6:7: toys: must be a list, not a map", "f:7:9: labels: must be a map, not a list",
			"f:8:7: kin[0]: must be a map, not a number", "f:8:17: kin[1].legs: must be a whole number, not a number", "f:8:23: kin[2]: must not be empty",
		}},
		"JSONTypes":    {"JSON has places too, in characters", "{\"name\": \"é\", \"toys\": [\n 3], \"kin\": [{\"nmae\": 1}]}", []string{"f:2:2: toys[0]: must be text, not a number: put it in quotes", "f:2:15: kin[0].nmae: there is no such field; did you mean name?"}},
		"Unknown":      {"what nobody knows is told, with what was meant", "nmae: Tom\nwhiskers: 3\n\"\": 1\n", []string{"f:1:1: nmae: there is no such field; did you mean name?", "f:2:1: whiskers: there is no such field", "f:3:1: there is no such field"}},
		"Negative":     {"time does not run backwards", "naps: -1h\n", []string{"f:1:7: naps: must be a duration such as 48h or 30s"}},
		"Twice":        {"the later of two would win in silence", "legs: 4\nlegs: 3\n", []string{"f:2:1: legs: the key is there twice"}},
		"TwiceJSON":    {"in JSON too", `{"legs": 4, "legs": 3}`, []string{"f:1:13: legs: the key is there twice"}},
		"Second":       {"a form with a kind is of one document", "name: a\n---\nname: b\n", []string{"f:3:1: a file holds one cat, this is the second document"}},
		"Empty":        {"nothing", "# later\n", []string{"f:1:1: the file is empty"}},
		"Anchor":       {"a bomb is made of these", "name: &a Tom\ntoys: [*a]\n", []string{"f:1:7: anchors, aliases and merge keys are not supported: write it out"}},
		"Tag":          {"values are what they look like", "name: !!str 5\n", []string{"f:1:7: tags, directives and ? keys are not supported"}},
		"Deep":         {"deeper than anybody reads", "toys: " + deep, []string{"nested too deeply"}},
		"DeepJSON":     {"in JSON too", deep, []string{"f:1:1: nested too deeply"}},
		"Large":        {"a file without end", strings.Repeat("# x\n", 1<<16), []string{"f:1:1: the file has more than 128 KiB"}},
		"NotText":      {"bytes", "name: \xff", []string{"f:1:1: the file is not UTF-8 text"}},
		"NullKey":      {"a key of nothing", "~: 1\n", []string{"f:1:1: a key must be text"}},
		"Infinite":     {"a value that JSON does not have", "free: {a: .inf}\n", []string{"f:1:11: free.a: this kind of YAML value is not supported"}},
		"HugeJSON":     {"a number without end", `{"free": {"a": 1e999}}`, []string{"f:1:16: free.a: the number is too large"}},
		"Syntax":       {"no YAML", "name: [\n", []string{"f:1:"}},
		"Unquoted":     {"an expression that YAML reads as something else", "name: ${a: b}: c\n", []string{"needs quotes around it"}},
		"NotDocuments": {"a word alone", "hello", []string{"f:1:1: must be a map, not text"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := document.Read("f", []byte(c.data), form, &cat{}, unchecked)
			var mistakes document.Mistakes
			if !fault.Is(err, fault.Invalid) || fault.Reason(err) != "cat" || !errors.As(err, &mistakes) {
				t.Fatalf("%s: got %v", c.reason, err)
			}
			if len(mistakes) != len(c.want) {
				t.Fatalf("%s: want %q, got\n%v", c.reason, c.want, err)
			}
			for i, m := range mistakes {
				if !strings.Contains(m.String(), c.want[i]) {
					t.Errorf("%s: want %q, got %q", c.reason, c.want[i], m)
				}
			}
		})
	}
}

// What a check finds is told with what the types have found, at its place.
func TestChecksKnowThePlaces(t *testing.T) {
	data := "name: 'Tom ${x}'\ntoys:\n- |\n  one\n  two ${y}\nlegs: many\nfree:\n  a: \"\\u0041 ${z}\"\n"
	err := document.Read("f", []byte(data), form, &cat{}, func(f *document.File) {
		f.Inside([]any{"name"}, 4, "in quotes")
		f.Inside([]any{"toys", 0}, 8, "in a block")
		f.Inside([]any{"free", "a"}, 2, "not written as it reads")
		f.At([]any{"toys", "0", "more"}, "as far as it leads: %d", 1)
		f.Missing([]any{"legs"}, "not told: it is wrong already")
		f.Missing([]any{"kin"}, "is not there")
	})
	want := strings.Join([]string{
		"f:1:1: kin: is not there", "f:1:12: name: in quotes", "f:3:3: toys[0].more: as far as it leads: 1", "f:5:7: toys[0]: in a block",
		"f:6:7: legs: must be a whole number, not text", "f:8:6: free.a: not written as it reads",
	}, "\n")
	got := strings.ReplaceAll(err.Error(), "toys.0.more", "toys[0].more")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestFormsDiffer(t *testing.T) {
	many := document.Form{Bytes: 1 << 20, Mistakes: 2, NoPaths: true, Words: func(m document.Misfit) string {
		return "want " + m.Want + m.Key
	}}
	f := document.Open("f", []byte("name: a\n---\nlegs: x\n---\n---\nnmae: b\n---\ntoys: 1\n"), many)
	if len(f.Documents) != 4 { // an empty one is none, and hides none
		t.Fatalf("got %d documents", len(f.Documents))
	}
	for _, d := range f.Documents {
		f.Decode(d, &cat{}, nil)
	}
	if err := f.Err(); fault.Reason(err) != "" || err.Error() != "f:3:7: want a whole number\nf:6:1: want nmae" {
		t.Errorf("a kind's own words, and only as many as it asks for: got %v", err)
	}
	if err := document.Open("f", make([]byte, 1<<20+1), many).Err(); err == nil || err.Error() != "f:1:1: the file has more than 1 MiB" {
		t.Errorf("got %v", err)
	}
}

func TestNearest(t *testing.T) {
	known := map[string]int{"name": 0, "names": 0, "multiAZ": 0}
	for got, want := range map[string]string{"nmae": "name", "MULTIaz": "multiAZ", "namess": "names", "x": "", strings.Repeat("n", 100): ""} {
		if near := document.Nearest(got, known); near != want {
			t.Errorf("%s: got %q, want %q", got, near, want)
		}
	}
}

func TestDurationInJSON(t *testing.T) {
	data, err := document.Encode(map[string]any{"b": document.Duration(time.Minute), "a": "<&>"})
	if err != nil || string(data) != `{"a":"<&>","b":"1m0s"}` {
		t.Errorf("got %s, %v", data, err)
	}
	var d document.Duration
	if err := d.UnmarshalJSON([]byte("5")); err == nil {
		t.Error("a number has no unit")
	}
	if err := d.UnmarshalJSON([]byte(`"48h"`)); err != nil || d != document.Duration(48*time.Hour) {
		t.Errorf("got %v, %v", d, err)
	}
}

// Whatever a file holds, it is read or refused, every mistake stands at a place
// of the file, and what was read means the same when it is written as JSON.
func FuzzRead(f *testing.F) {
	for _, s := range []string{
		"", "{}", "a: b", "- a", "? a\n: b", "a: &x b\nc: *x", "a: |\n  ${x}\n", "a: >\n  b\n  c\n", "name: Tom\nlegs: 4\ntoys: [a, b]\nkin:\n- name: Tim\n  born: 2030-01-31T12:00:00Z\n",
		`{"name":"Tom","kin":[{"legs":4}],"free":{"a":[1,1.5,null]}}`, "a: 'b\n  c'", "\"\\ud83d\": 1", "a: !!binary x", "%YAML 1.2\n---\na: b", "a: .inf", "1: 2", "~: 1", "[a: b]",
		"a: 1\n---\nb: 2\n", "legs: 0x10", "legs: 99999999999999999999", "naps: -1h", "name: é\nnmae: x", "{\n\t\"name\": 1}", "name: ${a: b}: c", "a: [", "- - - -", "<<: {a: b}", "a\rb: 1",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, form := range []document.Form{form, {Bytes: 1 << 20, Mistakes: 10}} {
			file := document.Open("fuzz", data, form)
			for _, d := range file.Documents {
				file.Decode(d, &cat{}, nil)
				file.Inside([]any{"name"}, 3, "x")
			}
			var mistakes document.Mistakes
			if err := file.Err(); err != nil && (!fault.Is(err, fault.Invalid) || !errors.As(err, &mistakes)) {
				t.Fatalf("whatever a file holds, it is the file's fault: %v", err)
			}
			for _, m := range mistakes {
				if m.Line < 1 || m.Column < 1 || m.Line > strings.Count(string(data), "\n")+strings.Count(string(data), "\r")+1 {
					t.Errorf("no such place: %v", m)
				}
			}
		}
		file := document.Open("fuzz", data, form)
		if !file.Sound() {
			return
		}
		plain := file.Root().Plain()
		encoded, err := document.Encode(plain)
		if err != nil {
			t.Fatalf("what was read can be kept: %v", err)
		}
		again := document.Open("again", encoded, document.Form{Kind: "cat", Bytes: 1 << 20})
		if diff := cmp.Diff(plain, again.Root().Plain()); diff != "" || !again.Sound() {
			t.Errorf("%v, -read +kept\n%s", again.Err(), diff)
		}
	})
}

// A long file whose blocks end several at once is no deeper at its end than at its
// beginning.
func TestLongIsNotDeep(t *testing.T) {
	text := "toys:\n" + strings.Repeat("  - name: a\n    parts:\n      - of:\n          what:\n            - wood\n", 200)
	f := document.Open("f", []byte(text), document.Form{Bytes: 1 << 20, Mistakes: 5})
	if err := f.Err(); err != nil || len(f.Documents) != 1 {
		t.Errorf("it is refused: %v", err)
	}
}
