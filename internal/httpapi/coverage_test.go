package httpapi_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/droverhq/drover/internal/httpapi"
	"github.com/droverhq/drover/internal/offering"
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
		seen := &witness{ResponseWriter: w}
		h.ServeHTTP(seen, r)
		if !strings.HasPrefix(path, "/api/") || seen.status >= 300 {
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
	if status == 0 && whole {
		for _, op := range unexercised() {
			fmt.Fprintf(os.Stderr, "no test has brought %s to a good end\n", op)
			status = 1
		}
	}
	os.Exit(status)
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

// described lists the operations of every document of the offerings: "GET
// /api/x/v1/y/{id}".
func described(offs []*offering.Offering) []string {
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
	var out []string
	for _, item := range list.Items {
		var doc struct {
			Paths map[string]map[string]any
		}
		get(item.URL, &doc)
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
