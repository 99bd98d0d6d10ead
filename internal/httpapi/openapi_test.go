package httpapi_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/droverhq/drover/internal/httpapi"
	"github.com/droverhq/drover/internal/offering"
	"github.com/droverhq/drover/internal/schema"
	"github.com/droverhq/drover/offerings"
)

// shipped returns the offerings of the product and one that tries the corners:
// references in its parameters, a required one, literals among what is presented.
func shipped(t *testing.T) []*offering.Offering {
	t.Helper()
	data, err := offerings.FS.ReadFile("dinosaur.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dino, err := offering.Parse("dinosaur.yaml", data)
	if err != nil {
		t.Fatal(err)
	}
	odd := strings.NewReplacer(
		"dinosaur", "dragon", "Dinosaur", "Dragon", "DINOSAURS", "DRAGONS",
		"      species:\n        type: string\n", "      colour: {$ref: \"#/$defs/colour\"}\n      species:\n        type: string\n",
		"    additionalProperties: false\n", "    additionalProperties: false\n    $defs: {colour: {type: string, enum: [red, green]}}\n",
		"\n  present:\n", "\n  present:\n    flies: true\n    motto: \"I am ${instance.name}\"\n    nest: {level: 3}\n",
	).Replace(string(data))
	dragon, err := offering.Parse("dragon.yaml", []byte(odd))
	if err != nil {
		t.Fatal(err)
	}
	return []*offering.Offering{dino, dragon}
}

func fetch(t *testing.T, h http.Handler, path string) (*http.Response, []byte) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	data, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.Result(), data
}

// TestDocuments checks every document that the page lists.
func TestDocuments(t *testing.T) {
	file, err := os.ReadFile("testdata/openapi31.json")
	if err != nil {
		t.Fatal(err)
	}
	var meta map[string]any
	if err := json.Unmarshal(file, &meta); err != nil {
		t.Fatal(err)
	}
	structure, err := schema.Compile(meta)
	if err != nil {
		t.Fatal(err)
	}
	h := httpapi.DocsHandler(shipped(t))
	_, data := fetch(t, h, "/docs/documents.json")
	var list struct {
		Items []struct{ Title, Group, URL string }
	}
	if err := json.Unmarshal(data, &list); err != nil {
		t.Fatal(err)
	}
	groups := map[string]int{}
	for _, item := range list.Items {
		groups[item.Group]++
		t.Run(item.Title, func(t *testing.T) {
			resp, data := fetch(t, h, item.URL)
			var doc map[string]any
			if err := json.Unmarshal(data, &doc); err != nil || resp.StatusCode != 200 {
				t.Fatalf("%d: %v", resp.StatusCode, err)
			}
			if _, err := structure.Validate(doc); err != nil {
				t.Errorf("its structure is wrong: %v", err)
			}
			checkReferences(t, doc, doc, "#")
			checkOperations(t, doc)
		})
	}
	if groups["public"] != 2 || groups["admin"] != 2 || groups["agent"] != 1 {
		t.Errorf("the documents are %v", groups)
	}
}

// checkReferences follows every reference, and compiles what can be compiled.
func checkReferences(t *testing.T, doc map[string]any, at any, path string) {
	switch x := at.(type) {
	case map[string]any:
		if target, ok := x["$ref"].(string); ok {
			var here any = doc
			for _, part := range strings.Split(strings.TrimPrefix(target, "#/"), "/") {
				m, _ := here.(map[string]any)
				here = m[part]
			}
			if here == nil {
				t.Errorf("%s points to %s, which is not there", path, target)
			}
		}
		for k, v := range x {
			checkReferences(t, doc, v, path+"/"+k)
		}
	case []any:
		for i, v := range x {
			checkReferences(t, doc, v, fmt.Sprint(path, "/", i))
		}
	}
}

var inBraces = regexp.MustCompile(`\{([a-z_]+)\}`)

// checkOperations finds ids that are used twice, and parameters of a path that
// are not described.
func checkOperations(t *testing.T, doc map[string]any) {
	seen := map[string]string{}
	for path, v := range doc["paths"].(map[string]any) {
		item := v.(map[string]any)
		for verb, v := range item {
			op, ok := v.(map[string]any)
			if !ok {
				continue
			}
			id := op["operationId"].(string)
			if other := seen[id]; other != "" {
				t.Errorf("%s %s and %s are both called %s", verb, path, other, id)
			}
			seen[id] = verb + " " + path
			described := map[string]bool{}
			for _, list := range []any{item["parameters"], op["parameters"]} {
				all, _ := list.([]any)
				for _, p := range all {
					if m := p.(map[string]any); m["in"] == "path" {
						described[m["name"].(string)] = true
					}
				}
			}
			for _, m := range inBraces.FindAllStringSubmatch(path, -1) {
				if !described[m[1]] {
					t.Errorf("%s %s does not describe {%s}", verb, path, m[1])
				}
				delete(described, m[1])
			}
			if len(described) > 0 {
				t.Errorf("%s %s describes %v, which its path does not hold", verb, path, described)
			}
		}
	}
}

// TestDocumentsTellTheTruth compares the own document with what is served.
func TestDocumentsTellTheTruth(t *testing.T) {
	w := newWorld(t)
	var doc struct {
		Paths map[string]map[string]any
	}
	w.want(200, "", "GET", "/openapi.json", "", &doc)
	if len(doc.Paths) < 12 {
		t.Errorf("the document has %d paths", len(doc.Paths))
	}
	for path, verbs := range doc.Paths {
		concrete := inBraces.ReplaceAllString(path, "nothing")
		for verb := range verbs {
			resp := w.request("", strings.ToUpper(verb), concrete, "{}", nil)
			if resp.StatusCode != 401 {
				t.Errorf("%s %s answers %d to nobody", verb, path, resp.StatusCode)
			}
		}
	}
	var dino map[string]any
	w.want(200, "", "GET", "/api/dinosaurs_mgmt/v1/openapi", "", &dino)
	schemas := dino["components"].(map[string]any)["schemas"].(map[string]any)
	order := schemas["DinosaurRequestPayload"].(map[string]any)["properties"].(map[string]any)
	if species, _ := order["species"].(map[string]any); species["default"] != "Tyrannosaurus" {
		t.Errorf("an order's species is %v", species)
	}
	var made map[string]any
	w.want(202, "alice", "POST", "/api/dinosaurs_mgmt/v1/dinosaurs?async=true", `{"name": "rex", "species": "Triceratops"}`, &made)
	fill := strings.NewReplacer("/dinosaurs/{id}", "/dinosaurs/rex", "/errors/{id}", "/errors/7", "/cloud_providers/{id}", "/cloud_providers/local")
	for path, verbs := range dino["paths"].(map[string]any) {
		if verbs.(map[string]any)["get"] != nil {
			if strings.Contains(path, "/metrics/") || strings.Contains(path, "/admin/") {
				continue // see their own tests: here is neither a source nor an operator
			}
			w.want(200, "alice", "GET", fill.Replace(path)+"?duration=5&interval=30", "", nil)
		}
	}
	shown := schemas["DinosaurRequest"].(map[string]any)["properties"].(map[string]any)
	for field := range made {
		if shown[field] == nil {
			t.Errorf("an instance shows %s, which the document does not know", field)
		}
	}
}

func TestDocsPage(t *testing.T) {
	h := httpapi.DocsHandler(shipped(t))
	for path, kind := range map[string]string{"/docs/": "text/html", "/docs/app.js": "text/javascript", "/docs/style.css": "text/css"} {
		resp, data := fetch(t, h, path)
		if resp.StatusCode != 200 || !strings.HasPrefix(resp.Header.Get("Content-Type"), kind) {
			t.Errorf("%s answers %d with %s", path, resp.StatusCode, resp.Header.Get("Content-Type"))
		}
		policy := resp.Header.Get("Content-Security-Policy")
		if !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") || strings.Contains(policy, "http") {
			t.Errorf("%s has the policy %q", path, policy)
		}
		for _, outside := range []string{"http://", "https://", "//cdn", "innerHTML", "onclick", "style=", "eval("} {
			if strings.Contains(string(data), outside) {
				t.Errorf("%s holds %q: the page works offline and puts nothing in as HTML", path, outside)
			}
		}
	}
	if resp, _ := fetch(t, h, "/docs"); resp.StatusCode != 301 {
		t.Errorf("/docs answers %d", resp.StatusCode)
	}
	w := newWorld(t)
	w.want(200, "", "GET", "/docs/", "", nil)
	w.want(200, "", "GET", "/docs/documents.json", "", nil)
}
