package clients

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"mime"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// document is a specification that a client was made from.
type document struct {
	base     string                                    // what its paths are below of
	paths    map[string]map[string]map[string][]string // media types by path, method and status
	schemas  *jsonschema.Compiler
	patterns map[string]*regexp.Regexp
}

// Where Drover answers otherwise than the peer's document, on purpose. Each must
// be seen by the test that runs all operations, so that none outlives its cause.
var deviations = map[string]string{
	"POST /api/kafkas_mgmt/v1/service_accounts 202":                              "the running fleet manager answers 202, too; its document says 200",
	"GET /api/kafkas_mgmt/v1/service_accounts/{id} 404":                          "the document knows no failure at all here; the running fleet manager answers 404",
	"GET /api/kafkas_mgmt/v1/instance_types/{cloud_provider}/{cloud_region} 200": "the document requires items, which it does not describe; the list is instance_types, as the running fleet manager has it",
	"GET /api/kafkas_mgmt/v1/kafkas/{id}/metrics/query 404":                      "the document knows no failure but 401 and 500 here",
	"GET /api/kafkas_mgmt/v1/clusters/{id} 200":                                  "as above: supported_instance_types requires items",
}

// readDocument reads an OpenAPI document of the Go SDK.
func readDocument(t *testing.T, module, base string) *document {
	t.Helper()
	dir := goModule(t, module)
	data, err := os.ReadFile(filepath.Join(dir, "apiv1", "client", "api", "openapi.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := yaml.YAMLToJSON(data)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	d := &document{base: base, paths: map[string]map[string]map[string][]string{}, patterns: map[string]*regexp.Regexp{}}
	for path, item := range member(whole, "paths") {
		d.paths[path] = map[string]map[string][]string{}
		for method, op := range member(item, "") {
			if len(member(op, "responses")) == 0 {
				continue // a description of the path
			}
			d.paths[path][method] = map[string][]string{}
			for status, response := range member(op, "responses") {
				d.paths[path][method][status] = slices.Collect(maps.Keys(member(response, "content")))
			}
		}
	}
	d.schemas = jsonschema.NewCompiler()
	d.schemas.DefaultDraft(jsonschema.Draft4)
	d.schemas.AssertFormat()
	if err := d.schemas.AddResource("mem:///peer.json", nullable(whole)); err != nil {
		t.Fatal(err)
	}
	for path := range d.paths {
		d.patterns[path] = regexp.MustCompile("^" + regexp.MustCompile(`\\\{[^/]*\\\}`).ReplaceAllString(regexp.QuoteMeta(path), "[^/]+") + "$")
	}
	return d
}

// member is an object's member, or the object itself, if it is an object.
func member(v any, name string) map[string]any {
	m, _ := v.(map[string]any)
	if name != "" {
		m, _ = m[name].(map[string]any)
	}
	return m
}

// nullable turns OpenAPI's way of saying so into JSON Schema's.
func nullable(v any) any {
	switch v := v.(type) {
	case map[string]any:
		delete(v, "example") // may hold references that nothing resolves
		delete(v, "examples")
		for k := range v {
			v[k] = nullable(v[k])
		}
		if kind, ok := v["type"].(string); ok && v["nullable"] == true {
			v["type"] = []any{kind, "null"}
		}
	case []any:
		for i := range v {
			v[i] = nullable(v[i])
		}
	}
	return v
}

// operation finds the path that an exchange was of; the one without parameters
// goes first.
func (d *document) operation(path string) (string, bool) {
	path, ok := strings.CutPrefix(path, d.base)
	if !ok {
		return "", false
	}
	if _, ok := d.paths[path]; ok {
		return path, true
	}
	for template, p := range d.patterns {
		if p.MatchString(path) {
			return template, true
		}
	}
	return "", false
}

// broken tells what the document does not allow about an answer.
func (d *document) broken(e exchange, template string) error {
	statuses, ok := d.paths[template][strings.ToLower(e.method)]
	if !ok {
		return fmt.Errorf("the document has no such method")
	}
	media, ok := statuses[fmt.Sprint(e.status)]
	if !ok {
		return fmt.Errorf("the document has no status %d here", e.status)
	}
	if len(media) == 0 || len(e.body) == 0 {
		return nil // such as 204, which the document gives a body that HTTP has not
	}
	kind, _, _ := mime.ParseMediaType(e.kind)
	if !slices.Contains(media, kind) {
		return fmt.Errorf("the document has no %q here", e.kind)
	}
	if kind != "application/json" {
		return nil
	}
	at := fmt.Sprintf("mem:///peer.json#/paths/%s/%s/responses/%d/content/application~1json/schema",
		strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(template), strings.ToLower(e.method), e.status)
	schema, err := d.schemas.Compile(at)
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(e.body))
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

// check holds everything that passed against the documents, and returns the
// operations that came to a good end.
func (w *world) check(documents ...*document) (good map[string]bool, deviated map[string]bool) {
	w.Helper()
	good, deviated = map[string]bool{}, map[string]bool{}
	seen := 0
	for _, e := range w.exchanges() {
		for _, d := range documents {
			template, ok := d.operation(e.path)
			if !ok {
				continue
			}
			seen++
			key := e.method + " " + template
			if e.status/100 == 2 {
				good[key] = true
			}
			err := d.broken(e, template)
			full := fmt.Sprintf("%s %d", key, e.status)
			if _, meant := deviations[full]; meant && err != nil {
				deviated[full] = true
				continue
			}
			if err != nil {
				w.Errorf("%s: outside of the peer's document: %v\n%s", full, err, e.body)
			}
		}
	}
	if seen == 0 {
		w.Error("nothing has passed")
	}
	return good, deviated
}

// nulls are members that are null: empty means absent.
func nulls(data []byte) (found []string) {
	var v any
	if json.Unmarshal(data, &v) != nil {
		return nil
	}
	var walk func(at string, v any)
	walk = func(at string, v any) {
		switch v := v.(type) {
		case nil:
			found = append(found, at)
		case map[string]any:
			for k, m := range v {
				walk(at+"."+k, m)
			}
		case []any:
			for _, m := range v {
				walk(at+"[]", m)
			}
		}
	}
	walk("", v)
	slices.Sort(found)
	return found
}

// The check must see what it is there for.
func TestBrokenAnswersAreSeen(t *testing.T) {
	needs(t, "GOSDK")
	d := readDocument(t, kafkaSDK, "")
	const one = `{"id":"1","kind":"Kafka","href":"/x","multi_az":true,"reauthentication_enabled":true`
	for name, tc := range map[string]struct {
		reason string
		e      exchange
		bad    bool
	}{
		"good":     {"As the document says.", exchange{"GET", api + "/kafkas/1", 200, "application/json", []byte(one + `}`)}, false},
		"more":     {"Members that are not in the document are fine.", exchange{"GET", api + "/kafkas/1", 200, "application/json", []byte(one + `,"new":1}`)}, false},
		"nullable": {"Where null is allowed.", exchange{"GET", api + "/kafkas/1", 200, "application/json", []byte(one + `,"expires_at":null}`)}, false},
		"null":     {"Where null is not allowed.", exchange{"GET", api + "/kafkas/1", 200, "application/json", []byte(one + `,"owner":null}`)}, true},
		"missing":  {"A required member is missing.", exchange{"GET", api + "/kafkas/1", 200, "application/json", []byte(`{"id":"1"}`)}, true},
		"type":     {"A member of another type.", exchange{"GET", api + "/kafkas/1", 200, "application/json", []byte(one + `,"max_partitions":"1"}`)}, true},
		"time":     {"A time that is none.", exchange{"GET", api + "/kafkas/1", 200, "application/json", []byte(one + `,"created_at":"today"}`)}, true},
		"status":   {"A status that is not there.", exchange{"GET", api + "/kafkas/1", 418, "application/json", []byte(one + `}`)}, true},
		"media":    {"Another media type.", exchange{"GET", api + "/kafkas/1", 200, "text/html", []byte(`<p>`)}, true},
		"list":     {"A mistake inside of a list.", exchange{"GET", api + "/kafkas", 200, "application/json", []byte(`{"kind":"L","page":1,"size":1,"total":1,"items":[{"id":1}]}`)}, true},
	} {
		template, ok := d.operation(tc.e.path)
		if err := d.broken(tc.e, template); !ok || (err != nil) != tc.bad {
			t.Errorf("%s: %s %v", name, tc.reason, err)
		}
	}
}
