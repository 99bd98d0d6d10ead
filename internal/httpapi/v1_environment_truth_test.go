package httpapi_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/droverhq/drover/internal/schema"
)

// ownBook is what the document of Drover's own API promises of templates,
// environments and search, as a server with all of them tells it.
var ownBook struct {
	once sync.Once
	book
	ops []string
}

// truthful holds every answer against the document, and notes which operations
// went well.
func (s *site) truthful(h http.Handler) http.Handler {
	ownBook.once.Do(func() { readOwnBook(h) })
	s.Cleanup(func() {
		ownBook.Lock()
		defer ownBook.Unlock()
		for _, broken := range ownBook.broken {
			s.Errorf("an answer is not as its document says: %s", broken)
		}
		ownBook.broken = nil
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen := &witness{ResponseWriter: w}
		h.ServeHTTP(seen, r)
		if r.URL.Path == "/api/v1/watch" {
			return
		}
		ownBook.check(r.Method, r.URL.Path, seen)
		if seen.status < 300 {
			exercised.Lock()
			defer exercised.Unlock()
			exercised.seen[r.Method+" "+r.URL.Path] = true
		}
	})
}

func readOwnBook(h http.Handler) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/openapi.json", nil))
	var doc apiDocument
	if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil {
		panic(fmt.Sprintf("%v: %.200s", err, w.Body))
	}
	for path, verbs := range doc.Paths {
		for verb, v := range verbs {
			op := v.(map[string]any)
			quoted := quotedBraces.ReplaceAllString(regexp.QuoteMeta(strings.ToUpper(verb)+" "+path), "[^/]+")
			p := promise{regexp.MustCompile("^" + quoted + "$"), len(quotedBraces.ReplaceAllString(regexp.QuoteMeta(path), "")), map[string]*schema.Schema{}}
			for status, a := range op["responses"].(map[string]any) {
				p.answers[status] = nil
				content, _ := a.(map[string]any)["content"].(map[string]any)
				media, ok := content["application/json"].(map[string]any)
				if !ok {
					continue
				}
				root := maps.Clone(media["schema"].(map[string]any))
				root["components"] = doc.Components
				compiled, err := schema.Compile(root)
				if err != nil {
					panic(fmt.Sprint(verb, " ", path, ": ", err))
				}
				p.answers[status] = compiled
			}
			ownBook.list = append(ownBook.list, p)
			if tags, _ := op["tags"].([]any); slices.Contains(tags, any("environments")) {
				ownBook.ops = append(ownBook.ops, strings.ToUpper(verb)+" "+path)
			}
		}
	}
	slices.Sort(ownBook.ops)
	if len(ownBook.ops) < 15 {
		panic(fmt.Sprint("the document knows only ", ownBook.ops))
	}
}

// unexercisedOwn lists the operations on environments that no test has brought to
// a good end.
func unexercisedOwn() (missing []string) {
	exercised.Lock()
	defer exercised.Unlock()
	for _, op := range ownBook.ops {
		pattern := regexp.MustCompile("^" + quotedBraces.ReplaceAllString(regexp.QuoteMeta(op), "[^/]+") + "$")
		found := false
		for seen := range exercised.seen {
			found = found || pattern.MatchString(seen)
		}
		if !found {
			missing = append(missing, op)
		}
	}
	return missing
}
