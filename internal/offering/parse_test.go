package offering_test

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/offering"
	"github.com/droverhq/drover/offerings"
)

func teapot(t testing.TB) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/teapot.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func parse(t testing.TB, data []byte) *offering.Offering {
	t.Helper()
	o, err := offering.Parse("test.yaml", data)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestShippedOfferingsParse(t *testing.T) {
	files, err := fs.Glob(offerings.FS, "*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("there are offerings in the binary: %v", err)
	}
	for _, name := range files {
		data, err := offerings.FS.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		o, err := offering.Parse(name, data)
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		if o.Metadata.Name+".yaml" != name {
			t.Errorf("%s holds the offering %s", name, o.Metadata.Name)
		}
	}
}

func TestStoredDocumentIsTheSameOffering(t *testing.T) {
	o := parse(t, teapot(t))
	again, err := offering.Parse("ledger", o.Data())
	if err != nil {
		t.Fatalf("what the ledger keeps can be read again: %v", err)
	}
	if diff := cmp.Diff(o.Document, again.Document); diff != "" || o.Digest != again.Digest {
		t.Errorf("-file +ledger\n%s", diff)
	}
	spaced := parse(t, append([]byte("# a comment more\n\n"), teapot(t)...))
	if spaced.Digest != o.Digest {
		t.Error("layout and comments do not change the digest")
	}
}

// edit replaces a piece of the teapot's file, which must be there.
func edit(t testing.TB, old, new string) []byte {
	t.Helper()
	text := string(teapot(t))
	if !strings.Contains(text, old) {
		t.Fatalf("the file has no %q", old)
	}
	return []byte(strings.Replace(text, old, new, 1))
}

func TestParseFindsMistakes(t *testing.T) {
	for name, c := range map[string]struct {
		reason, old, new string
		want             string // line:column: path: part of the message
	}{
		"UnknownField":   {"a misspelt field is not ignored", "  components: [", "  componets: [", "54:3: spec.componets: there is no such field; did you mean components?"},
		"UnknownInner":   {"also deep inside", "multiAZ: true", "multiaz: true", "36:7: spec.types[0].multiaz: there is no such field; did you mean multiAZ?"},
		"WrongType":      {"text where a number belongs", "capacity: 1, quota: 1", "capacity: one, quota: 1", "38:32: spec.types[0].sizes[0].capacity: must be a whole number, not text"},
		"Unquoted":       {"a version that YAML reads as a number", `"1.0.0", "1.1.0"`, `1.0`, "54:42: spec.components[0].versions[0]: must be text, not a number: put it in quotes"},
		"NotAList":       {"a map where a list belongs", `["1.0.0", "1.1.0"]`, `{a: b}`, "spec.components[0].versions: must be a list, not a map"},
		"Duration":       {"a duration without unit", "lifespan: 48h", "lifespan: 48", "spec.types[1].sizes[0].lifespan: must be a duration"},
		"APIVersion":     {"another version of the format", "drover.dev/v1", "drover.dev/v9", "2:13: apiVersion: must be drover.dev/v1"},
		"Name":           {"a name that cannot stand in a path", "name: teapot\n", "name: Tea pot\n", "5:9: metadata.name: must be lower-case"},
		"NoName":         {"no name at all", "  name: teapot\n", "", "metadata.name: is required"},
		"Kind":           {"a kind in lower case", "kind: Teapot,", "kind: teapot,", "spec.names.kind: must be a word such as Dinosaur"},
		"Reserved":       {"a resource of the product", "plural: teapots", "plural: clusters", "spec.names.plural: is a word of the product"},
		"Group":          {"a group that hides the product's own API", "group: teapots_mgmt", "group: v1", "spec.api.group: must not look like a version"},
		"Prefix":         {"an error prefix in lower case", "TEAPOTS-MGMT", "teapots", "spec.api.errorPrefix: must be upper-case"},
		"Search":         {"a column that instances do not have", "status: phase", "status: state", `15:34: spec.api.search.status: instances have no column "state"`},
		"Order":          {"the same for sorting", "created_at: created", "created_at: born", `spec.api.order.created_at: instances have no column "born"`},
		"NoTypes":        {"nothing to sell", "  types:\n", "  types: []\n  labels:\n", "spec.types: must have at least one instance type"},
		"NoSizes":        {"a type without sizes", "      sizes:\n        - {name: x1, capacity: 1, quota: 0, lifespan: 48h, limits: {litres: 0.5, refills: 1}}", "      sizes: []", "spec.types[1].sizes: must have at least one size"},
		"TwiceSize":      {"two sizes of one name", "name: x2", "name: x1", `spec.types[0].sizes[1].name: the name "x1" is there twice`},
		"TwiceType":      {"two types of one name", "- name: trial", "- name: standard", `spec.types[1].name: the name "standard" is there twice`},
		"TwiceVersion":   {"two versions of one name", `"1.1.0"`, `"1.0.0"`, `spec.components[0].versions[1]: the name "1.0.0" is there twice`},
		"TwiceRegion":    {"two regions of one name", "name: hob-2", "name: hob-1", `spec.providers[0].regions[1].name: the name "hob-1" is there twice`},
		"TwiceKey":       {"a key twice in a map", "  components: [", "  components: []\n  components: [", "55:3: spec.components: the key is there twice"},
		"Dotted":         {"a dot would make plans ambiguous", "name: x2", "name: x.2", "spec.types[0].sizes[1].name: must be a lower-case word"},
		"Negative":       {"capacity below zero", "capacity: 2", "capacity: -2", "spec.types[0].sizes[1].capacity: must not be negative"},
		"RegionType":     {"a region that sells what does not exist", "types: [trial]", "types: [triall]", `spec.providers[0].regions[2].types[0]: there is no instance type "triall"`},
		"NoRegions":      {"a provider without regions", "      regions:\n        - {name: table}", "      regions: []", "spec.providers[1].regions: must have at least one region"},
		"NoVersions":     {"no version", `["1.0.0", "1.1.0"]`, "[]", "spec.components[0].versions: must have at least one version"},
		"Hook":           {"a phase that does not exist", "phase: preparing", "phase: cooking", "spec.hooks[0].phase: must be one of accepted"},
		"HookURL":        {"a hook with a password in its address", "https://tea.example.org", "https://me:secret@tea.example.org", "spec.hooks[0].url: must be an address"},
		"HookScheme":     {"a hook that is a file", "https://tea.example.org/prepare", "file:///etc/passwd", "spec.hooks[0].url: must be an address"},
		"HookTimeout":    {"a hook that may take for ever", "timeout: 2s", "timeout: 2h", "spec.hooks[1].timeout: must be at most 1m"},
		"Schema":         {"a schema that is none", "type: integer, minimum: 1", "type: intiger, minimum: 1", "22:20: spec.parameters.properties.cups.type: must be array, boolean, integer, null, number, object or string"},
		"SchemaKeyword":  {"a misspelt keyword, which the standard would ignore", "maxLength: 40", "maxLenght: 40", "24:28: spec.parameters.properties.note.maxLenght: there is no such keyword; did you mean maxLength?"},
		"SchemaDefault":  {"a default that its schema refuses", "maximum: 12, default: 2", "maximum: 12, default: 20", "spec.parameters.properties.cups.default: must be at most 12"},
		"SchemaReserved": {"a parameter that every order has", "note: {type: string", "region: {type: string", "spec.parameters.properties.region: every order has this field"},
		"SchemaType":     {"parameters that are no object", "  parameters:\n    type: object", "  parameters:\n    type: array", "spec.parameters.type: must be object"},
		"Present":        {"a field that is always shown", "    plan: ${type", "    status: ${type", "spec.present.status: is always shown"},
		"Misspelt":       {"a fact that there is not, with its place in the line", "      name: ${instance.name}", "      name: ${instance.nmae}", "60:23: spec.desired.metadata.name: undefined field 'nmae'"},
		"MisspeltParam":  {"a parameter that the schema does not have", "steep ${instance.parameters.leaves}", "steep ${instance.parameters.leafs}", "77:38: spec.desired.spec.steps[1]: undefined field 'leafs'"},
		"MisspeltInner":  {"the same inside an object", "tray.width > 40", "tray.widht > 40", "spec.desired.spec.wide: undefined field 'widht'"},
		"MultiLine":      {"the second line of a block", `"%s-cup-%d".format([instance.name, i]`, `"%s-cup-%d".format([instance.mane, i]`, "69:47: spec.desired.spec.cups: undefined field 'mane'"},
		"Quoted":         {"inside quotes", `"${instance.name}-${instance.id}`, `"${instance.name}-${instanc.id}`, "56:47: spec.routes[0].host: undeclared reference to 'instanc'"},
		"WrongCEL":       {"types that do not fit", "${size.capacity}", "${size.capacity + size.name}", "spec.desired.spec.capacity: found no matching overload"},
		"Unclosed":       {"an expression that does not end", "${instance.host}", "${instance.host", "spec.present.host: ${ has no matching }"},
		"NeverThere":     {"a limit that one size does not have is found before the first order", "limits: {litres: 2, refills: 20}", "limits: {refills: 20}", "spec.desired: cannot be made for plan standard.x2: spec.litres: ${size.limits.litres}: it reads a key that is not there"},
		"Anchor":         {"anchors, of which a bomb could be built", "labels: {team: tea}", "labels: &a {team: tea}", "6:11: anchors, aliases and merge keys are not supported"},
		"Tag":            {"tags", "labels: {team: tea}", "labels: !!map {team: tea}", "tags, directives and ? keys are not supported"},
		"Syntax":         {"text that is no YAML", "labels: {team: tea}", "labels: {team: tea", ""},
		"Second":         {"a second document", "# An offering", "---\na: b\n---\n# An offering", "a file holds one offering"},
		"NoDesired":      {"nothing for the data plane", "  desired:\n", "  description:\n", "spec.description: the key is there twice"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := offering.Parse("t.yaml", edit(t, c.old, c.new))
			var mistakes offering.Mistakes
			if !fault.Is(err, fault.Invalid) || fault.Reason(err) != "offering" || !errors.As(err, &mistakes) {
				t.Fatalf("%s: got %v", c.reason, err)
			}
			if !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "t.yaml:") {
				t.Errorf("%s: want %q, got\n%v", c.reason, c.want, err)
			}
		})
	}
}

func TestParseReportsEverythingAtOnce(t *testing.T) {
	_, err := offering.Parse("t.yaml", []byte(`apiVersion: drover.dev/v1
kind: Offering
metadata: {name: Tea}
spec:
  names: {kind: teapot, singular: teapot, plural: teapots}
  api: {group: tea, version: one, errorPrefix: TEA, search: {a: b}}
  parameters: {type: object, properties: {a: {type: strnig}}}
  types:
    - {name: s, sizes: [{name: x1, capacity: many}]}
  providers: []
  components: [{name: x, versions: [1.5]}]
  desired: {a: "${instance.nmae}", b: "${1 + }"}
  hooks: [{phase: tea, url: x}]
  colour: red
`))
	var mistakes offering.Mistakes
	if !errors.As(err, &mistakes) {
		t.Fatalf("got %v", err)
	}
	var got []string
	for _, m := range mistakes {
		got = append(got, m.Path)
	}
	want := []string{
		"metadata.name", "spec.names.kind", "spec.api.version", "spec.api.search.a", "spec.parameters.properties.a.type",
		"spec.types[0].sizes[0].capacity", "spec.providers", "spec.components[0].versions[0]", "spec.desired.a", "spec.desired.b",
		"spec.hooks[0].phase", "spec.hooks[0].url", "spec.colour",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("all mistakes, from top to bottom: -want +got\n%s\n%v", diff, err)
	}
}

func TestParseRefusesHostileFiles(t *testing.T) {
	bomb := "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'l'; c++ {
		bomb += string(c) + ": &" + string(c) + " [" + strings.TrimSuffix(strings.Repeat("*"+string(c-1)+",", 10), ",") + "]\n"
	}
	for name, c := range map[string]struct {
		reason string
		data   string
	}{
		"Bomb":       {"aliases of aliases", bomb},
		"Large":      {"a file of a megabyte", strings.Repeat("# x\n", 1<<18)},
		"Flow":       {"brackets without end", strings.Repeat("[", 100_000)},
		"Balanced":   {"deep but well-formed YAML", "x: " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000)},
		"Dashes":     {"deep on one line", strings.Repeat("- ", 50_000) + "x"},
		"JSON":       {"deep JSON", strings.Repeat("[", 5000) + strings.Repeat("]", 5000)},
		"Keys":       {"complex keys in keys", strings.Repeat("? ", 50_000) + "x"},
		"Blocks":     {"deep by indentation", blocks(300)},
		"NotUTF8":    {"bytes that are no text", "a: \xff\xfe"},
		"Zero":       {"zero bytes", "a: \x00"},
		"Empty":      {"nothing", ""},
		"Comment":    {"only a comment", "# hello\n"},
		"Scalar":     {"a single word", "hello"},
		"List":       {"a list", "- a\n- b\n"},
		"HugeNumber": {"a number without end", `{"spec":{"desired":{"a":1e999999}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := offering.Parse("t.yaml", []byte(c.data)); !fault.Is(err, fault.Invalid) {
				t.Errorf("%s: got %v", c.reason, err)
			}
		})
	}
}

func blocks(n int) string {
	var sb strings.Builder
	for i := range n {
		sb.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return sb.String()
}

func FuzzParse(f *testing.F) {
	f.Add(teapot(f))
	for _, name := range []string{"dinosaur.yaml", "kafka.yaml"} {
		data, err := offerings.FS.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, s := range []string{
		"", "{}", "a: b", "- a", "? a\n: b", "a: &x b\nc: *x", "a: |\n  ${x}\n", "apiVersion: drover.dev/v1\nkind: Offering\nspec: {desired: {a: \"${instance.name}\"}}",
		`{"apiVersion":"drover.dev/v1","spec":{"types":[{"sizes":[{}]}]}}`, "a: 'b\n  c'", "\"\\ud83d\": 1", "a: !!binary x", "%YAML 1.2\n---\na: b", "a: .inf", "1: 2", "~: 1", "[a: b]",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		o, err := offering.Parse("fuzz.yaml", data)
		if err != nil {
			if !fault.Is(err, fault.Invalid) {
				t.Errorf("whatever a file holds, it is the file's fault: %v", err)
			}
			return
		}
		again, err := offering.Parse("ledger", o.Data())
		if err != nil || again.Digest != o.Digest {
			t.Errorf("what was accepted is accepted again: %v", err)
		}
	})
}
