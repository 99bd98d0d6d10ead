package httpapi_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/httpapi"
	"github.com/droverhq/drover/internal/ledger"
)

// run asks for a state as OpenTofu does.
func (s *site) run(method, path, token, body string) (int, string) {
	s.Helper()
	req, err := http.NewRequestWithContext(s.Context(), method, s.server.URL+"/api/v1/state/"+path, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	if token != "" {
		req.SetBasicAuth(httpapi.RunName("elsewhere", "/runs/x", 7), token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		s.Fatal(err)
	}
	return resp.StatusCode, string(data)
}

func TestStatesAreServedToTheirRuns(t *testing.T) {
	s := newSite(t)
	s.bring("shop", "1.0.0", "")
	e := s.deploy("alice", "demo", "shop")
	found, err := s.ledger.List(t.Context(), ledger.Query{Kind: environment.KindResource.Name, Scope: map[string]any{"parent": e.ID},
		Where: ledger.Compare{Column: "name", Op: ledger.Eq, Values: []any{"db"}}, Limit: 2})
	if err != nil || len(found) != 1 {
		t.Fatalf("found %v, %v", found, err)
	}
	id := found[0].ID
	errand := func(purpose, subject string) string {
		token, _, err := s.issuer.IssueErrand(t.Context(), purpose, subject, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	good := errand(httpapi.ErrandState, id)
	for _, tc := range []struct{ reason, token string }{
		{"nobody", ""}, {"anything", "x"}, {"another resource's run", errand(httpapi.ErrandState, "other")}, {"another errand", errand("install", id)},
	} {
		for _, method := range []string{"GET", "POST", "DELETE", "LOCK", "UNLOCK"} {
			if status, body := s.run(method, id, tc.token, `{"ID":"a"}`); status != http.StatusUnauthorized {
				t.Errorf("%s: %s is answered %d, %s", tc.reason, method, status, body)
			}
		}
	}
	for _, who := range []string{"alice", "root"} { // whoever they are, the secrets in it are not theirs
		if resp := s.request(who, "GET", "/api/v1/state/"+id, "", nil); resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s reads a state: %d", who, resp.StatusCode)
		}
	}

	state := func(serial int) string {
		return fmt.Sprintf(`{"version":4,"serial":%d,"lineage":"l","outputs":{},"resources":[]}`, serial)
	}
	for i, step := range []struct {
		reason, method, query, body string
		status                      int
		answer                      string
	}{
		{"there is none", "GET", "", "", 204, ""},
		{"nobody has locked it", "POST", "", state(1), 409, ""},
		{"with a lock that was never given", "POST", "?ID=a", state(1), 409, ""},
		{"no lock at all", "LOCK", "", "{", 400, ""},
		{"the first", "LOCK", "", `{"ID":"a","Who":"ann@elsewhere"}`, 200, ""},
		{"its answer was lost", "LOCK", "", `{"ID":"a","Who":"ann@elsewhere"}`, 200, ""},
		{"the second is told who has it", "LOCK", "", `{"ID":"b"}`, 423, `{"ID":"a","Who":"ann@elsewhere"}`},
		{"the second's state", "POST", "?ID=b", state(1), 409, ""},
		{"no state", "POST", "?ID=a", "[]", 400, ""},
		{"the first's", "POST", "?ID=a", state(2), 200, ""},
		{"an older one", "POST", "?ID=a", state(1), 409, ""},
		{"as it was brought", "GET", "", "", 200, state(2)},
		{"somebody else's lock", "UNLOCK", "", `{"ID":"b"}`, 409, ""},
		{"a locked one is not forgotten", "DELETE", "", "", 409, ""},
	} {
		status, body := s.run(step.method, id+step.query, good, step.body)
		if status != step.status || step.answer != "" && body != step.answer {
			t.Errorf("%d, %s: %s is answered %d, %s", i, step.reason, step.method, status, body)
		}
	}

	// A machine is gone with its lock.
	unlock := "/api/v1/environments/demo/unlock?address="
	s.want(404, "alice", "POST", unlock+"nothing", "", nil)
	s.want(404, "bob", "POST", unlock+"db", "", nil)
	s.want(202, "alice", "POST", unlock+"db", "", nil)
	s.want(409, "alice", "POST", unlock+"db", "", nil)
	if status, body := s.run("POST", id+"?ID=a", good, state(3)); status != 409 || !strings.Contains(body, "taken away") {
		t.Errorf("one who has lost the lock writes: %d, %s", status, body)
	}
	for _, step := range []struct {
		method, body string
		status       int
	}{{"LOCK", `{"ID":"c"}`, 200}, {"UNLOCK", `{"ID":"c"}`, 200}, {"DELETE", "", 200}, {"DELETE", "", 200}, {"GET", "", 204}} {
		if status, body := s.run(step.method, id, good, step.body); status != step.status {
			t.Errorf("%s is answered %d, %s", step.method, status, body)
		}
	}
}
