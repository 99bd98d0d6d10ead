package httpapi_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/droverhq/drover/internal/access"
)

// TestRandomRequests throws requests at every operation of the offerings'
// documents, from nearly right to absurd. None may break the server, and TestMain
// holds every answer against its document.
func TestRandomRequests(t *testing.T) {
	f := newFleet(t)
	f.quota.give("acme", "standard", "enterprise", 1000)
	f.quota.give("acme", "standard", "standard", 1000)
	boss := f.token(t, access.Claims{User: "boss", Org: "acme", OrgAdmin: true})
	tokens := []string{boss, boss, boss, f.user(t, "carol", ""), f.token(t, access.Claims{Cluster: "c1"}), f.token(t, access.Claims{User: "root", Admin: true}), "", "x.y.z"}
	ids := []string{f.kafka(t, boss, "one"), f.create(t, boss, "rex"), ownID, "c1", "7", "aws", "us-east-1"}
	f.do(t, boss, "POST", kafkaAPI+"/clusters", ownCluster(ownID)).ok(200)
	f.room(t, "c1", "aws", "us-east-1", 5)
	offs, err := sold()
	if err != nil {
		t.Fatal(err)
	}
	g := &gibberish{rand.New(rand.NewPCG(1, 2)), ids}
	answered := map[int]int{}
	for _, doc := range documents(offs) {
		for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
			for _, verb := range slices.Sorted(maps.Keys(doc.Paths[path])) {
				op, ok := doc.Paths[path][verb].(map[string]any)
				if !ok || strings.HasPrefix(path, "/api/v1/") {
					continue
				}
				for range 200 {
					req := g.request(doc, strings.ToUpper(verb), path, op)
					if token := tokens[g.IntN(len(tokens))]; token != "" {
						req.Header.Set("Authorization", "Bearer "+token)
					}
					target := req.URL.String()
					w := f.send(t, req)
					answered[w.Code]++
					if w.Code >= 500 {
						t.Errorf("%s %.200s answers %d: %.200s", verb, target, w.Code, w.Body)
					}
				}
			}
		}
	}
	if answered[200] < 1000 || answered[202] < 20 || answered[400] < 1000 || answered[404] < 1000 {
		t.Errorf("the requests reach too little: %v", answered)
	}
}

// gibberish makes values up.
type gibberish struct {
	*rand.Rand
	ids []string
}

func (g *gibberish) text() string {
	odd := []string{"", "a", "true", "-1", "0", "99999999999999999999", "null", "ä€😀", "a b", "' OR 1=1 --", "%", "..", "name = x", "name desc", strings.Repeat("x", 300), "\x00", "\u202e", "one", "standard.x1"}
	if g.IntN(2) == 0 {
		return g.ids[g.IntN(len(g.ids))]
	}
	return odd[g.IntN(len(odd))]
}

func (g *gibberish) value(depth int) any {
	switch g.IntN(8) {
	case 0:
		return nil
	case 1:
		return g.IntN(2) == 0
	case 2:
		return g.IntN(2000) - 1000
	case 3:
		return 1e300
	case 4:
		if depth < 3 {
			return []any{g.value(depth + 1), g.value(depth + 1)}
		}
	case 5:
		if depth < 3 {
			return map[string]any{g.text(): g.value(depth + 1)}
		}
	}
	return g.text()
}

// body is an object with the members that the document knows, or nonsense.
func (g *gibberish) body(doc apiDocument, op map[string]any) string {
	request, ok := op["requestBody"].(map[string]any)
	if !ok || g.IntN(10) == 0 {
		return []string{"", "{}", "[]", "null", "{", `{"a":1}{}`, "\xff", strings.Repeat("[", 100)}[g.IntN(8)]
	}
	schema, _ := request["content"].(map[string]any)["application/json"].(map[string]any)["schema"].(map[string]any)
	if name, ok := strings.CutPrefix(fmt.Sprint(schema["$ref"]), "#/components/schemas/"); ok {
		schema, _ = doc.Components["schemas"].(map[string]any)[name].(map[string]any)
	}
	out := map[string]any{}
	properties, _ := schema["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		member, _ := properties[name].(map[string]any)
		choices, _ := member["enum"].([]any)
		switch {
		case g.IntN(3) == 0:
		case len(choices) > 0 && g.IntN(4) > 0:
			out[name] = choices[g.IntN(len(choices))]
		case name == "name" && g.IntN(4) > 0:
			out[name] = fmt.Sprintf("n%d", g.IntN(1_000_000))
		default:
			out[name] = g.value(0)
		}
	}
	if len(properties) == 0 {
		out[g.text()] = g.value(0)
	}
	data, err := json.Marshal(out)
	if err != nil {
		panic(err)
	}
	return string(data)
}

func (g *gibberish) request(doc apiDocument, verb, path string, op map[string]any) *http.Request {
	concrete := inBraces.ReplaceAllStringFunc(path, func(string) string {
		if text := url.PathEscape(g.text()); text != "" && text != ".." {
			return text
		}
		return "x"
	})
	query := url.Values{}
	list, _ := op["parameters"].([]any)
	for _, p := range list {
		p := p.(map[string]any)
		if p["in"] != "query" {
			continue
		}
		switch name := p["name"].(string); {
		case name == "async" && g.IntN(5) > 0:
			query.Set(name, "true")
		case g.IntN(3) == 0:
			query.Set(name, fmt.Sprint(g.IntN(100)))
		case g.IntN(2) == 0:
			query.Set(name, g.text())
		}
	}
	return httptest.NewRequest(verb, concrete+"?"+query.Encode(), strings.NewReader(g.body(doc, op)))
}
