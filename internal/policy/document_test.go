package policy_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/policy"
)

func TestParse(t *testing.T) {
	for _, tc := range []struct {
		reason, file string
		wrong        []string // nothing: it is fine
		names        []string
	}{
		{reason: "one of each", names: []string{"quota/acme", "denylist/main", "accesslist/main", "terms/use"}, file: `
apiVersion: drover.dev/v1
kind: Quota
metadata: {name: acme, labels: {team: a}}
spec:
  organisation: acme
  anyUser: true
  grants:
  - {offering: kafka, type: standard, billing: [{model: standard, units: 5, expires: 2030-01-01T00:00:00Z}]}
  - {offering: dinosaur, type: standard, units: -1}
---
apiVersion: drover.dev/v1
kind: DenyList
metadata: {name: main}
spec: {users: [mallory]}
---
apiVersion: drover.dev/v1
kind: AccessList
metadata: {name: main}
spec: {enabled: true, organisations: [acme]}
---
apiVersion: drover.dev/v1
kind: Terms
metadata: {name: use}
spec: {version: "1", url: https://example.org/terms}
---
`},
		{reason: "blocks with a single member", names: []string{"denylist/main"}, file: "apiVersion: drover.dev/v1\nkind: DenyList\nmetadata:\n  name: main\nspec:\n  users:\n  - a\n"},
		{reason: "JSON with tabs", names: []string{"denylist/main"}, file: "{\n\t\"apiVersion\": \"drover.dev/v1\", \"kind\": \"DenyList\",\n\t\"metadata\": {\"name\": \"main\"}, \"spec\": {\"users\": []}}"},
		{reason: "every mistake is told, with its line", file: `apiVersion: drover.dev/v2
kind: DenyList
metadata: {name: Bad Name}
sbec: 1
spec:
  users: [a]
  uzers: [b]
  more: 3
---
apiVersion: drover.dev/v1
kind: Quota
metadata: {name: q}
spec:
  organisation: acme
  maxInstances: many
  grants:
  - {offering: kafka, tipe: x, units: 1}
  - {offering: kafka, type: x, units: some}
`, wrong: []string{"f:1:13: apiVersion", "f:3:", "f:4:1: unknown field \"sbec\"", "f:7:3: unknown field \"uzers\"", "f:8:3: unknown field \"more\"",
			"f:15:17: want a whole number", "f:17:23: unknown field \"tipe\"", "f:18:39: want a whole number"}},
		{reason: "what can be read must make sense", file: `apiVersion: drover.dev/v1
kind: Quota
metadata: {name: q}
spec:
  organisation: acme
  account: alice
  users: [""]
  grants:
  - offering: kafka
    type: standard
  - offering: kafka
    type: standard
    units: 1
`, wrong: []string{"f:5:17: spec.organisation", "f:7:11: spec.users[0]", "f:9:5: spec.grants[0].units", "f:12:11: spec.grants[1].type"}},
		{reason: "terms need a version and a text", file: "apiVersion: drover.dev/v1\nkind: Terms\nmetadata: {name: t}\nspec: {url: 'javascript:alert(1)'}\n",
			wrong: []string{"spec.version", "f:4:13: spec.url"}},
		{reason: "values are of their type", file: `apiVersion: drover.dev/v1
kind: Quota
metadata: {name: q}
spec:
  organisation: 5
  anyUser: yes
  users: me
  grants:
  - {offering: k, type: a, units: 1.5}
  - {offering: k, type: b, units: 1, expires: tomorrow}
  - {offering: k, type: c, units: 1, expires: 2030-01-01}
  - 3
  -
`, wrong: []string{"f:5:17: want text", "f:6:12: want true", "f:7:10: want a list", "f:9:35: want a whole", "f:10:47: want a time", "f:11:47: want a time", "f:12:5: want an object", "f:13:5: the entry is empty"}},
		{reason: "a number that is too large", file: "apiVersion: drover.dev/v1\nkind: Quota\nmetadata: {name: q}\nspec: {account: a, maxInstances: 99999999999999999999}\n", wrong: []string{"f:4:"}},
		{reason: "another kind is named", file: "apiVersion: drover.dev/v1\nkind: Cat\nmetadata: {name: t}\nspec: {}\n", wrong: []string{`f:2:7: kind: "Cat" is none of AccessList`}},
		{reason: "twice in a file", file: strings.Repeat("apiVersion: drover.dev/v1\nkind: DenyList\nmetadata: {name: a}\nspec: {users: []}\n---\n", 2), wrong: []string{"f:8:18: denylist a is in the file twice"}},
		{reason: "no spec", file: "apiVersion: drover.dev/v1\nkind: DenyList\nmetadata: {name: a}\n", wrong: []string{"spec: is missing"}},
		{reason: "nothing", file: "\n# later\n", wrong: []string{"empty"}},
		{reason: "broken YAML", file: "a: [", wrong: []string{"f:1:"}},
		{reason: "what grows without bound", file: "a: &a [b]\nc: *a\n", wrong: []string{"f:1:4: anchors"}},
		{reason: "not text", file: "a: \xff", wrong: []string{"UTF-8"}},
		{reason: "a key twice", file: "apiVersion: drover.dev/v1\nkind: DenyList\nkind: DenyList\nmetadata: {name: a}\nspec: {users: []}\n", wrong: []string{"f:3:1: "}},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			documents, err := policy.Parse("f", []byte(tc.file))
			if len(tc.wrong) == 0 {
				var names []string
				for _, d := range documents {
					names = append(names, d.Kind+"/"+d.Name)
				}
				if err != nil || strings.Join(names, " ") != strings.Join(tc.names, " ") {
					t.Fatalf("got %v, %v", names, err)
				}
				return
			}
			if !fault.Is(err, fault.Invalid) {
				t.Fatalf("got %v", err)
			}
			for _, w := range tc.wrong {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("no %q in\n%v", w, err)
				}
			}
		})
	}
}

// Whatever comes is read or refused, and never ends the process.
func TestParseAnything(t *testing.T) {
	pieces := []string{"apiVersion: drover.dev/v1\n", "kind: Quota\n", "metadata: {name: a}\n", "spec:\n", "  organisation: acme\n", "  grants:\n", "  - ", "offering: k", "[", "{", "}", "]", ": ", "\n", "---\n", "\"", "'", "|\n", "\t", "- - -", "? ", "!!int x", "users: [a,", "\x00", "é"}
	rapid.Check(t, func(t *rapid.T) {
		file := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 30).Draw(t, "pieces"), "")
		documents, err := policy.Parse("f", []byte(file))
		if (err == nil) == (len(documents) == 0) || err != nil && !fault.Is(err, fault.Invalid) {
			t.Fatalf("%q: %d documents, %v", file, len(documents), err)
		}
	})
}
