package remote_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// service is a small account management service. acme (known there as org-1)
// has 3 units of RES at PROD under the model standard.
type service struct {
	*httptest.Server
	mu      sync.Mutex
	mood    func(w http.ResponseWriter, r *http.Request) bool // answers in its place
	subs    map[string]sub
	tokens  int
	calls   map[string]int // by method and path
	token   string         // what it accepts; empty: anything
	lastSub authorization
}

type sub struct {
	id, external, status string
	units                int64
}

type authorization struct {
	User     string `json:"account_username"`
	External string `json:"external_cluster_id"`
	Product  string `json:"product_id"`
	Reserve  bool   `json:"reserve"`
	Units    []struct {
		Name    string `json:"resource_name"`
		Count   int64  `json:"count"`
		Billing string `json:"billing_model"`
	} `json:"resources"`
}

func newService(t *testing.T) *service {
	s := &service{subs: map[string]sub{}, calls: map[string]int{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("client_id") != "drover" || r.FormValue("client_secret") != "hush" || r.FormValue("grant_type") != "client_credentials" {
			w.WriteHeader(401)
			return
		}
		s.tokens++
		s.token = fmt.Sprint("t", s.tokens)
		fmt.Fprintf(w, `{"access_token":%q,"expires_in":300}`, s.token)
	})
	const base = "/api/accounts_mgmt/v1"
	mux.HandleFunc("GET "+base+"/organizations", func(w http.ResponseWriter, r *http.Request) {
		if searched(r, "external_id") == "acme" {
			io.WriteString(w, `{"kind":"OrganizationList","items":[{"id":"org-1","external_id":"acme"}]}`)
			return
		}
		io.WriteString(w, `{"kind":"OrganizationList","items":[]}`)
	})
	mux.HandleFunc("GET "+base+"/organizations/org-1/quota_cost", func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("fetchRelatedResources") != "true" {
			io.WriteString(w, `{"items":[{"allowed":3}]}`)
			return
		}
		io.WriteString(w, `{"kind":"QuotaCostList","items":[
			{"quota_id":"a","allowed":6,"consumed":1,"related_resources":[{"resource_name":"RES","product":"PROD","billing_model":"standard","cost":2},{"resource_name":"RES","product":"PROD","billing_model":"marketplace","cost":2}]},
			{"quota_id":"b","allowed":9,"related_resources":[{"resource_name":"RES","product":"OTHER","billing_model":"standard","cost":1},{"resource_name":"FREE","product":"PROD","billing_model":"standard","cost":0}]}]}`)
	})
	mux.HandleFunc("GET "+base+"/subscriptions", func(w http.ResponseWriter, r *http.Request) {
		items := []map[string]string{}
		for _, x := range s.subs {
			if x.external == searched(r, "external_cluster_id") {
				items = append(items, map[string]string{"id": x.id, "status": x.status})
			}
		}
		json.NewEncoder(w).Encode(map[string]any{"items": items})
	})
	mux.HandleFunc("POST "+base+"/cluster_authorizations", func(w http.ResponseWriter, r *http.Request) {
		var a authorization
		if json.NewDecoder(r.Body).Decode(&a) != nil || len(a.Units) != 1 || !a.Reserve {
			w.WriteHeader(400)
			return
		}
		s.lastSub = a
		used := a.Units[0].Count
		for _, x := range s.subs {
			if x.status == "Active" {
				used += x.units
			}
		}
		if a.User != "alice" || a.Product != "PROD" || a.Units[0].Name != "RES" || a.Units[0].Billing != "standard" || used > 3 {
			w.WriteHeader(403)
			io.WriteString(w, `{"allowed":false,"excess_resources":[{"resource_name":"RES"}]}`)
			return
		}
		id := fmt.Sprint("s", len(s.subs)+1)
		s.subs[id] = sub{id, a.External, "Active", a.Units[0].Count}
		fmt.Fprintf(w, `{"allowed":true,"subscription":{"id":%q}}`, id)
	})
	mux.HandleFunc("DELETE "+base+"/subscriptions/{id}", func(w http.ResponseWriter, r *http.Request) {
		x, ok := s.subs[r.PathValue("id")]
		if !ok || x.status != "Active" {
			w.WriteHeader(404)
			return
		}
		x.status = "Deprovisioned"
		s.subs[x.id] = x
		w.WriteHeader(204)
	})
	mux.HandleFunc("POST /api/authorizations/v1/terms_review", func(w http.ResponseWriter, r *http.Request) {
		var q map[string]string
		_ = json.NewDecoder(r.Body).Decode(&q)
		fmt.Fprintf(w, `{"terms_required":%v,"terms_available":true,"redirect_url":"https://example.org/accept"}`, q["account_username"] != "alice" || q["event_code"] != "use")
	})
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.calls[r.Method+" "+strings.TrimPrefix(r.URL.Path, base)]++
		if s.mood != nil && s.mood(w, r) {
			return
		}
		if s.token != "" && r.URL.Path != "/token" && r.Header.Get("Authorization") != "Bearer "+s.token {
			w.WriteHeader(401)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

var equals = regexp.MustCompile(`^(\w+)='((?:[^']|'')*)'$`)

func searched(r *http.Request, column string) string {
	m := equals.FindStringSubmatch(r.FormValue("search"))
	if m == nil || m[1] != column {
		return ""
	}
	return strings.ReplaceAll(m[2], "''", "'")
}

// feel changes how the service answers.
func (s *service) feel(mood func(w http.ResponseWriter, r *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mood = mood
}

// says makes every answer this one.
func says(status int, body string) func(w http.ResponseWriter, r *http.Request) bool {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(status)
		io.WriteString(w, body)
		return true
	}
}

func (s *service) count(what string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[what]
}

func (s *service) live() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.subs {
		if x.status == "Active" {
			n++
		}
	}
	return n
}
