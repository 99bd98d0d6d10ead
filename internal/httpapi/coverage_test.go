package httpapi_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/droverhq/drover/internal/httpapi"
	"github.com/droverhq/drover/internal/offering"
	"github.com/droverhq/drover/internal/schema"
	"github.com/droverhq/drover/offerings"
)

// exercised are the requests of all tests of this package that were answered
// well: "GET /api/...".
var exercised = struct {
	sync.Mutex
	seen map[string]bool
}{seen: map[string]bool{}}

// recording notes what goes well. What is only ever refused was not tested.
func recording(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.Path
		if !strings.HasPrefix(path, "/api/") {
			h.ServeHTTP(w, r)
			return
		}
		seen := &witness{ResponseWriter: w}
		h.ServeHTTP(seen, r)
		promises().check(r.Method, path, seen)
		if seen.status >= 300 {
			return
		}
		exercised.Lock()
		defer exercised.Unlock()
		exercised.seen[r.Method+" "+path] = true
	})
}

type witness struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (w *witness) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	if w.body.Len() < 1<<20 {
		w.body.Write(p)
	}
	return w.ResponseWriter.Write(p)
}

func (w *witness) WriteHeader(status int) {
	if w.status == 0 && status >= 200 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *witness) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// TestMain fails where a document of an offering has an operation that no test
// has brought to a good end. It only judges whole runs.
func TestMain(m *testing.M) {
	flag.Parse()
	status := m.Run()
	whole := true
	for _, name := range []string{"test.run", "test.skip", "test.list", "test.bench", "test.fuzz"} {
		if f := flag.Lookup(name); f != nil && f.Value.String() != "" {
			whole = false
		}
	}
	for _, broken := range promises().broken {
		fmt.Fprintf(os.Stderr, "an answer is not as its document says: %s\n", broken)
		status = 1
	}
	if whole {
		for _, op := range append(unexercised(), unexercisedOwn()...) {
			fmt.Fprintf(os.Stderr, "no test has brought %s to a good end\n", op)
			status = 1
		}
	}
	os.Exit(status)
}

// promise is what the documents say of the answers of one operation.
type promise struct {
	path    *regexp.Regexp // of "GET /api/..."
	literal int            // length of what is fixed in it: the most fixed one is meant
	answers map[string]*schema.Schema
}

// book holds every promise of the offerings, and which were broken.
type book struct {
	sync.Mutex
	list   []promise
	broken []string
}

var promises = sync.OnceValue(func() *book {
	b := &book{}
	offs, err := sold()
	if err != nil {
		panic(err)
	}
	for _, doc := range documents(offs) {
		for path, verbs := range doc.Paths {
			for verb, v := range verbs {
				op, ok := v.(map[string]any)
				if !ok || strings.HasPrefix(path, "/api/v1/") {
					continue
				}
				quoted := quotedBraces.ReplaceAllString(regexp.QuoteMeta(strings.ToUpper(verb)+" "+path), "[^/]+")
				p := promise{regexp.MustCompile("^" + quoted + "/?$"), len(quotedBraces.ReplaceAllString(regexp.QuoteMeta(path), "")), map[string]*schema.Schema{}}
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
				b.list = append(b.list, p)
			}
		}
	}
	return b
})

// check compares an answer of a test with what the document promises.
func (b *book) check(method, path string, w *witness) {
	var meant *promise
	for i, p := range b.list {
		if p.path.MatchString(method+" "+path) && (meant == nil || p.literal > meant.literal) {
			meant = &b.list[i]
		}
	}
	if meant == nil || w.Header().Get("Content-Encoding") != "" || w.status == 0 {
		return
	}
	broken := ""
	compiled, ok := meant.answers[strconv.Itoa(w.status)]
	if !ok {
		compiled, ok = meant.answers["default"]
	}
	switch {
	case !ok:
		broken = "this status is not in it"
	case compiled == nil:
	default:
		var v map[string]any
		if err := json.Unmarshal(w.body.Bytes(), &v); err != nil {
			broken = err.Error()
		} else if _, err := compiled.Validate(v); err != nil {
			broken = err.Error()
		}
	}
	if broken != "" {
		b.Lock()
		defer b.Unlock()
		b.broken = append(b.broken, fmt.Sprintf("%s %s: %d: %s: %.300s", method, path, w.status, broken, w.body.String()))
	}
}

// sold are the offerings of the product.
func sold() ([]*offering.Offering, error) {
	entries, err := offerings.FS.ReadDir(".")
	if err != nil {
		return nil, err
	}
	var out []*offering.Offering
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".yaml") {
			continue
		}
		data, err := offerings.FS.ReadFile(e.Name())
		if err != nil {
			return nil, err
		}
		off, err := offering.Parse(e.Name(), data)
		if err != nil {
			return nil, err
		}
		out = append(out, off)
	}
	return out, nil
}

// apiDocument is what is looked at of an OpenAPI document.
type apiDocument struct {
	Paths      map[string]map[string]any
	Components map[string]any
}

// documents are those that the page lists.
func documents(offs []*offering.Offering) []apiDocument {
	h := httpapi.DocsHandler(offs)
	get := func(path string, to any) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if err := json.Unmarshal(w.Body.Bytes(), to); err != nil {
			panic(fmt.Sprint(path, ": ", err))
		}
	}
	var list struct{ Items []struct{ URL string } }
	get("/docs/documents.json", &list)
	var out []apiDocument
	for _, item := range list.Items {
		var doc apiDocument
		get(item.URL, &doc)
		out = append(out, doc)
	}
	return out
}

// described lists the operations of every document of the offerings: "GET
// /api/x/v1/y/{id}".
func described(offs []*offering.Offering) []string {
	var out []string
	for _, doc := range documents(offs) {
		for path, verbs := range doc.Paths {
			for verb := range verbs {
				op := strings.ToUpper(verb) + " " + path
				if verb != "parameters" && !strings.HasPrefix(path, "/api/v1/") && !slices.Contains(out, op) {
					out = append(out, op)
				}
			}
		}
	}
	slices.Sort(out)
	return out
}

// quotedBraces are a path's parameters after QuoteMeta.
var quotedBraces = regexp.MustCompile(`\\\{[a-z_]+\\\}`)

func unexercised() (missing []string) {
	offs, err := sold()
	if err != nil {
		return []string{err.Error()}
	}
	exercised.Lock()
	defer exercised.Unlock()
	for _, op := range described(offs) {
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

// contract is what the fleet managers' own specifications list. The documents
// must not forget any of it.
var contract = map[string]string{
	"kafka": `
GET v1
GET v1/errors
GET v1/errors/{id}
GET v1/kafkas
POST v1/kafkas
GET v1/kafkas/{id}
PATCH v1/kafkas/{id}
DELETE v1/kafkas/{id}
POST v1/kafkas/{id}/promote
GET v1/cloud_providers
GET v1/cloud_providers/{id}/regions
GET v1/instance_types/{cloud_provider}/{cloud_region}
GET v1/service_accounts
POST v1/service_accounts
GET v1/service_accounts/{id}
DELETE v1/service_accounts/{id}
POST v1/service_accounts/{id}/reset_credentials
GET v1/sso_providers
GET v1/kafkas/{id}/metrics/query_range
GET v1/kafkas/{id}/metrics/query
GET v1/kafkas/{id}/metrics/federate
GET v1/clusters
POST v1/clusters
GET v1/clusters/{id}
DELETE v1/clusters/{id}
GET v1/clusters/{id}/addon_parameters
GET v1/admin/kafkas
GET v1/admin/kafkas/{id}
PATCH v1/admin/kafkas/{id}
DELETE v1/admin/kafkas/{id}
POST v1/admin/kafkas/{id}/revoke_tls_certificate
POST v1/obs-proxy-verification/{cluster_external_id}
PUT v1/agent-clusters/{id}/status
PUT v1/agent-clusters/{id}/kafkas/status
GET v1/agent-clusters/{id}/kafkas
GET v1/agent-clusters/{id}`,
	"dinosaur": `
GET v1
GET v1/errors
GET v1/errors/{id}
GET v1/status
GET v1/dinosaurs
POST v1/dinosaurs
GET v1/dinosaurs/{id}
PATCH v1/dinosaurs/{id}
DELETE v1/dinosaurs/{id}
GET v1/cloud_providers
GET v1/cloud_providers/{id}/regions
GET v1/dinosaurs/{id}/metrics/query_range
GET v1/dinosaurs/{id}/metrics/query
GET v1/dinosaurs/{id}/metrics/federate
GET v1/admin/dinosaurs
GET v1/admin/dinosaurs/{id}
PATCH v1/admin/dinosaurs/{id}
DELETE v1/admin/dinosaurs/{id}
PUT v1/agent-clusters/{id}/status
PUT v1/agent-clusters/{id}/dinosaurs/status
GET v1/agent-clusters/{id}/dinosaurs
GET v1/agent-clusters/{id}`,
}

func TestDocumentsForgetNothing(t *testing.T) {
	offs, err := sold()
	if err != nil {
		t.Fatal(err)
	}
	ops := described(offs)
	for _, off := range offs {
		for line := range strings.SplitSeq(strings.TrimSpace(contract[off.Metadata.Name]), "\n") {
			verb, path, _ := strings.Cut(line, " ")
			if op := verb + " /api/" + off.Spec.API.Group + "/" + path; !slices.Contains(ops, op) {
				t.Errorf("no document of %s has %s", off.Metadata.Name, op)
			}
		}
	}
}

// The judge is judged too: one that lets everything pass is none.
func TestBrokenPromisesAreSeen(t *testing.T) {
	for _, tc := range []struct {
		reason, op string
		status     int
		body       string
		broken     bool
	}{
		{"as it should be", "GET " + api + "/errors/7", 200, `{"id":"7","kind":"Error","href":"x","code":"y","reason":"z"}`, false},
		{"a field is missing", "GET " + api + "/errors/7", 200, `{"id":"7"}`, true},
		{"a field has another type", "GET " + kafkas + "/x", 200, `{"id":"7","kind":"KafkaRequest","href":"x","multi_az":"yes","reauthentication_enabled":true}`, true},
		{"a flag is missing", "GET " + kafkas + "/x", 200, `{"id":"7","kind":"KafkaRequest","href":"x","multi_az":true}`, true},
		{"a status that nobody knows", "GET " + kafkas, 418, `{}`, true},
		{"what is no operation promises nothing", "GET " + api + "/nothing/here", 200, `{}`, false},
	} {
		b := &book{list: promises().list}
		w := &witness{ResponseWriter: httptest.NewRecorder(), status: tc.status}
		w.body.WriteString(tc.body)
		verb, path, _ := strings.Cut(tc.op, " ")
		b.check(verb, path, w)
		if (len(b.broken) > 0) != tc.broken {
			t.Errorf("%s: %v", tc.reason, b.broken)
		}
	}
}

// TestExamplesAreGood holds the documents' examples against their schemas.
func TestExamplesAreGood(t *testing.T) {
	offs, err := sold()
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, doc := range documents(offs) {
		schemas, _ := doc.Components["schemas"].(map[string]any)
		for name, v := range schemas {
			one, _ := v.(map[string]any)
			examples, _ := one["examples"].([]any)
			if one["type"] != "object" || len(examples) == 0 {
				continue
			}
			root := maps.Clone(one)
			root["components"] = doc.Components
			compiled, err := schema.Compile(root)
			if err != nil {
				t.Fatal(name, err)
			}
			for _, e := range examples {
				found++
				if _, err := compiled.Validate(e.(map[string]any)); err != nil {
					t.Errorf("an example of %s: %v", name, err)
				}
			}
		}
	}
	if found < 8 {
		t.Errorf("there are %d examples", found)
	}
}
