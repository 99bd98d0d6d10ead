package httpapi_test

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	v1 "github.com/droverhq/drover/api/v1"
)

const envs = "/api/v1/environments"

// Whoever sees several of a name is told their ids, and whose they are.
func TestNamesakesAreTold(t *testing.T) {
	s := newSite(t)
	s.bring("shop", "1.0.0", "")
	ids := map[string]string{"alice": "acme", "bob": "umbrella"}
	for who, org := range ids {
		var o v1.Object
		s.want(202, who, "POST", envs, `{"name": "demo", "template": "shop"}`, &o)
		ids[who] = fmt.Sprintf("%s (of %q in organisation %q)", o.ID, who, org)
	}
	var e v1.Error
	s.want(409, "root", "GET", envs+"/demo", "", &e)
	for _, said := range ids {
		if !strings.Contains(e.Reason, said) {
			t.Errorf("%s is not in %q", said, e.Reason)
		}
	}
}

// An environment from the first plan to its end, by every operation.
func TestEnvironmentLife(t *testing.T) {
	s := newSite(t)
	first := s.bring("shop", "1.0.0", "")

	p := s.plan("alice", "demo", `{"template": "shop", "description": "for friends", "tags": ["fun"], "parameters": {"size": 3}}`)
	if p.Phase != "planned" || p.Creates != 4 || len(p.Hash) < 32 || p.Version != first || len(p.Resources) != 4 {
		t.Fatalf("got %+v", p)
	}
	if r := p.Resources[1]; r.Address != "web[0]" || r.Action != "create" || r.Why == "" || fmt.Sprint(r.Needs) != "[db]" {
		t.Errorf("got %+v", r)
	}
	s.want(404, "alice", "GET", envs+"/demo", "", nil) // nothing is touched
	if len(s.box.made) > 0 {
		t.Fatalf("planning has made %v", s.box.made)
	}
	var o v1.Object
	s.ended("alice", s.want(202, "alice", "POST", envs+"/demo/apply", `{"plan": "`+p.Hash[:8]+`"}`, &o))
	if o = s.phase("alice", envs+"/demo", "Deployed-OK"); o.Org != "acme" || o.Owner != "alice" || o.Fields["template"] != "shop" {
		t.Errorf("got %+v", o)
	}

	var g v1.Graph
	s.want(200, "alice", "GET", envs+"/demo/graph", "", &g)
	var drawn []string
	for _, n := range g.Nodes {
		drawn = append(drawn, n.Address+"<"+strings.Join(n.Needs, ","))
	}
	if got, want := strings.Join(drawn, " "), "db<external/the-bank external/the-bank< web[0]<db web[1]<db web[2]<db"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	svg := s.want(200, "alice", "GET", envs+"/demo/graph.svg", "", nil)
	if data, _ := io.ReadAll(svg.Body); svg.Header.Get("Content-Type") != "image/svg+xml" || !wellFormed(data) || !strings.Contains(string(data), "web[2]") {
		t.Errorf("got %s", data)
	}
	var why v1.Why
	s.want(200, "alice", "GET", envs+"/demo/why?address=db", "", &why)
	if len(why.Needs) != 1 || why.Needs[0].End != "external/the-bank" || len(why.NeededBy) < 3 {
		t.Errorf("got %+v", why)
	}
	var log v1.Log
	s.want(200, "alice", "GET", envs+"/demo/log?address=db", "", &log)
	if head, said, _ := strings.Cut(log.Text, "\n"); !strings.HasPrefix(head, "-- of environment demo, operation ") || !strings.Contains(head, ", request:") ||
		said != "packing db\n" || !log.Done || log.Next != int64(len(log.Text)) {
		t.Errorf("got %+v", log)
	}
	s.want(200, "alice", "GET", fmt.Sprint(envs, "/demo/log?address=db&after=", log.Next), "", &log)
	if log.Text != "" {
		t.Errorf("got %+v", log)
	}

	s.want(200, "alice", "PATCH", envs+"/demo", `{"description": "later", "tags": ["a", "b"], "ends": "8h", "protected": true}`, &o)
	if o.Fields["ends"] == nil || o.Fields["tags"] != ",a,b," {
		t.Errorf("got %+v", o.Fields)
	}
	s.want(409, "alice", "POST", envs+"/demo/destroy", "", nil)
	s.want(200, "alice", "PATCH", envs+"/demo", `{"protected": false, "ends": "+1h"}`, nil)
	s.want(200, "alice", "PATCH", envs+"/demo", `{"ends": "never"}`, &o)
	s.want(202, "alice", "POST", envs+"/demo/observe", "", nil)

	// Another version is planned, carried out, and taken back.
	s.bring("shop", "1.1.0", "  links: [{rel: docs, url: \"https://docs.example.org\"}]\n")
	same := s.plan("alice", "demo", `{"parameters": {"size": 2}}`)
	if same.Destroys != 1 || same.Same != 3 || same.Version != first {
		t.Errorf("adding a version has changed an environment: %+v", same)
	}
	up := s.plan("alice", "demo", `{"template": "shop@1.1.0", "parameters": {"size": 1}}`)
	s.ended("alice", s.want(202, "alice", "POST", envs+"/demo/apply", `{"plan": "`+up.ID+`"}`, nil))
	back := s.plan("alice", "demo", `{"rollback": true}`)
	if back.Version != first || back.Creates != 2 {
		t.Errorf("the way back is %+v", back)
	}
	resp := s.want(202, "alice", "POST", envs+"/demo/apply", `{"plan": "`+same.ID+`"}`, nil) // made before the upgrade
	s.phase("alice", "/api/v1/operations/"+resp.Header.Get("Drover-Operation"), "failed")

	s.want(202, "alice", "POST", envs+"/demo/retry", "", nil)
	s.phase("alice", envs+"/demo", "Deployed-OK")
	last := s.plan("alice", "demo", `{"destroy": true}`)
	if !last.Destroy || last.Destroys != 2 {
		t.Errorf("got %+v", last)
	}
	s.want(409, "root", "DELETE", "/api/v1/templates/shop", "", nil)
	s.ended("alice", s.want(202, "alice", "POST", envs+"/demo/destroy", `{"plan": "`+last.Hash+`"}`, nil))
	if len(s.box.made) > 0 {
		t.Errorf("%v are left", s.box.made)
	}
	var history v1.Changes
	s.want(200, "alice", "GET", envs+"/"+o.ID+"/history", "", &history)
	if len(history.Items) < 5 {
		t.Errorf("the history has %d changes", len(history.Items))
	}
	s.want(200, "root", "DELETE", "/api/v1/templates/shop", "", nil)
	s.want(404, "alice", "POST", envs+"/other/plan", `{"template": "shop"}`, nil)
}

// Whoever writes a template reads what its resources take and give.
func TestEnvironmentExecutors(t *testing.T) {
	s := newSite(t)
	var all v1.Executors
	s.want(200, "alice", "GET", "/api/v1/executors", "", &all)
	if len(all.Items) != 1 || all.Items[0].Name != "box" || all.Items[0].Inputs["properties"] == nil ||
		fmt.Sprint(all.Items[0].Outputs) != "[{token string true } {url string false }]" {
		t.Errorf("got %+v", all)
	}
	s.want(401, "", "GET", "/api/v1/executors", "", nil)
}

// A plan that is not what would be done any more touches nothing.
func TestMovedPlanIsRefused(t *testing.T) {
	s := newSite(t)
	s.bring("shop", "1", "")
	s.deploy("alice", "demo", "shop")
	p := s.plan("alice", "demo", `{"parameters": {"text": "new"}}`)
	s.box.spoil()
	resp := s.want(202, "alice", "POST", envs+"/demo/apply", `{"plan": "`+p.Hash+`"}`, nil)
	o := s.phase("alice", "/api/v1/operations/"+resp.Header.Get("Drover-Operation"), "failed")
	if !strings.Contains(string(o.Status), "moved") && !strings.Contains(string(o.Status), "plan again") {
		t.Errorf("it says %s", o.Status)
	}
	for _, text := range s.box.made {
		if text != "spoilt" {
			t.Errorf("something was touched: %v", s.box.made)
		}
	}
}

func TestEnvironmentRefusals(t *testing.T) {
	s := newSite(t)
	s.bring("shop", "1", "")
	s.bring("other", "1", "")
	s.deploy("alice", "demo", "shop")
	p := s.plan("alice", "demo", `{}`)
	for _, tc := range []struct {
		reason            string
		status            int
		who, method, path string
		body              string
		says              string
	}{
		{"the name is taken", 409, "alice", "POST", envs, `{"name": "demo", "template": "shop"}`, "already"},
		{"another template", 409, "alice", "POST", envs + "/demo/plan", `{"template": "other"}`, "stays so"},
		{"no template", 400, "alice", "POST", envs + "/fresh/plan", `{}`, "which template"},
		{"a template that is not there", 404, "alice", "POST", envs + "/fresh/plan", `{"template": "nothing"}`, "nothing"},
		{"a hostile name", 400, "alice", "POST", envs, `{"name": "../../etc", "template": "shop"}`, "is no name"},
		{"a name of another alphabet", 400, "alice", "POST", envs, `{"name": "dëmo\u202e", "template": "shop"}`, "is no name"},
		{"a name in capitals", 400, "alice", "POST", envs + "/Demo/plan", `{"template": "shop"}`, "is no name"},
		{"a parameter of another type", 400, "alice", "POST", envs + "/fresh/plan", `{"template": "shop", "parameters": {"size": "large"}}`, "size"},
		{"a parameter that is not there", 400, "alice", "POST", envs + "/fresh/plan", `{"template": "shop", "parameters": {"sise": 1}}`, "sise"},
		{"a field that is not there", 400, "alice", "POST", envs + "/fresh/plan", `{"template": "shop", "colour": "red"}`, "colour"},
		{"no object", 400, "alice", "POST", envs + "/fresh/plan", `[]`, ""},
		{"a bad ttl", 400, "alice", "POST", envs, `{"name": "x", "template": "shop", "ttl": "tomorrow"}`, "8h"},
		{"a ttl that is over", 400, "alice", "POST", envs, `{"name": "x", "template": "shop", "ttl": "-1h"}`, "8h"},
		{"a bad tag", 400, "alice", "POST", envs, `{"name": "x", "template": "shop", "tags": ["a b"]}`, "no tag"},
		{"to be made and destroyed", 400, "alice", "POST", envs, `{"name": "x", "template": "shop", "destroy": true}`, "not there yet"},
		{"back and elsewhere", 400, "alice", "POST", envs + "/demo/plan", `{"rollback": true, "template": "shop"}`, "rollback"},
		{"back to nothing", 409, "alice", "POST", envs + "/demo/plan", `{"rollback": true}`, "never changed"},
		{"no plan", 404, "alice", "POST", envs + "/demo/apply", `{"plan": "0123456789abcdef"}`, "no plan"},
		{"a short hash", 404, "alice", "POST", envs + "/demo/apply", `{"plan": "` + p.Hash[:7] + `"}`, "no plan"},
		{"a wildcard is no hash", 404, "alice", "POST", envs + "/demo/apply", `{"plan": "%%%%%%%%"}`, "no plan"},
		{"a plan of another", 404, "alice", "POST", envs + "/other/apply", `{"plan": "` + p.Hash + `"}`, "no plan"},
		{"a plan that does not destroy", 400, "alice", "POST", envs + "/demo/destroy", `{"plan": "` + p.Hash + `"}`, "does not destroy"},
		{"nothing to change", 400, "alice", "PATCH", envs + "/demo", `{}`, "at least one"},
		{"an end that is over", 400, "alice", "PATCH", envs + "/demo", `{"ends": "2001-01-01T00:00:00Z"}`, "future"},
		{"an end that is none", 400, "alice", "PATCH", envs + "/demo", `{"ends": "soon"}`, "+8h"},
		{"later than never", 400, "alice", "PATCH", envs + "/demo", `{"ends": "+8h"}`, "no planned end"},
		{"a resource that is not there", 404, "alice", "GET", envs + "/demo/why?address=nothing", "", "no resource"},
		{"the log of nothing", 404, "alice", "GET", envs + "/demo/log?address=nothing", "", "no resource"},
		{"no address", 400, "alice", "GET", envs + "/demo/log", "", "address"},
		{"a search for nothing", 400, "alice", "GET", "/api/v1/search?q=", "", "q"},
		{"a search along nothing", 400, "alice", "GET", "/api/v1/search?q=dependsOn:**", "", "wants a name"},
		{"a search along too much", 400, "alice", "GET", "/api/v1/search?q=dependsOn:a+usedBy:b+dependsOn:c+usedBy:d+usedBy:e", "", "four"},
		{"a search of a kind that is not there", 404, "alice", "GET", "/api/v1/search?q=x&kind=nothing", "", "no resource"},
		{"tenants add no templates", 403, "alice", "POST", "/api/v1/templates", filesBody(map[string]string{"template.yaml": ""}, ""), "operator"},
		{"nor take them away", 403, "arthur", "DELETE", "/api/v1/templates/shop", "", "operator"},
		{"a template of nothing", 400, "root", "POST", "/api/v1/templates", `{}`, "repository"},
		{"a template of both", 400, "root", "POST", "/api/v1/templates", filesBody(map[string]string{"template.yaml": ""}, `, "repository": "https://git.example.org/x.git"`), "one of the two"},
		{"no base64", 400, "root", "POST", "/api/v1/templates", `{"files": {"template.yaml": "%"}}`, ""},
		{"a template that is not there to go", 404, "root", "DELETE", "/api/v1/templates/nothing", "", "nothing"},
		{"agents have no environments", 403, "agent-c1", "POST", envs + "/x/plan", `{"template": "shop"}`, ""},
		{"nor others'", 404, "agent-c1", "GET", envs + "/demo/graph", "", ""},
	} {
		resp := s.request(tc.who, tc.method, tc.path, tc.body, nil)
		data, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != tc.status || !strings.Contains(string(data), tc.says) {
			t.Errorf("%s: %s %s answered %d, not %d with %q: %s", tc.reason, tc.method, tc.path, resp.StatusCode, tc.status, tc.says, data)
		}
	}
}

// Whoever has no token, or another organisation's, finds nothing anywhere.
func TestEnvironmentsOfOthers(t *testing.T) {
	s := newSite(t)
	s.bring("shop", "1", "")
	o := s.deploy("alice", "demo", "shop")
	p := s.plan("alice", "demo", `{"parameters": {"text": "new"}}`)
	var db v1.List
	s.want(200, "alice", "GET", "/api/v1/resources?search=name+%3D+db", "", &db)
	if len(db.Items) != 1 {
		t.Fatalf("got %+v", db)
	}
	ops := [][3]string{
		{"POST", envs + "/%s/apply", `{"plan": "` + p.Hash + `"}`}, {"POST", envs + "/%s/destroy", ""}, {"POST", envs + "/%s/retry", ""},
		{"POST", envs + "/%s/observe", ""}, {"PATCH", envs + "/%s", `{"description": "mine"}`}, {"POST", envs + "/%s/plan", `{"destroy": true}`},
		{"POST", envs + "/%s/plan", `{"rollback": true}`},
		{"GET", envs + "/%s", ""}, {"GET", envs + "/%s/history", ""}, {"GET", envs + "/%s/outputs", ""}, {"GET", envs + "/%s/outputs?reveal=true", ""},
		{"GET", envs + "/%s/graph", ""}, {"GET", envs + "/%s/graph.svg", ""}, {"GET", envs + "/%s/why", ""}, {"GET", envs + "/%s/why?address=db", ""}, {"GET", envs + "/%s/log?address=db", ""},
		{"GET", "/api/v1/plans/" + p.ID + "/changes", ""}, {"GET", "/api/v1/plans/" + p.Hash + "/changes", ""}, {"GET", "/api/v1/plans/" + p.ID, ""}, {"GET", "/api/v1/plans/" + p.ID + "/history", ""},
		{"GET", "/api/v1/resources/" + db.Items[0].ID, ""}, {"GET", "/api/v1/resources/" + db.Items[0].ID + "/history", ""},
	}
	for _, op := range ops {
		for _, id := range []string{"demo", o.ID} {
			path := op[1]
			if strings.Contains(path, "%s") {
				path = fmt.Sprintf(path, id)
			}
			s.want(401, "", op[0], path, op[2], nil)
			s.want(404, "bob", op[0], path, op[2], nil)
			s.want(404, "carol", op[0], path, op[2], nil)
		}
	}
	s.want(401, "", "GET", "/api/v1/search?q=demo", "", nil)
	s.want(401, "", "POST", envs, `{"name": "x", "template": "shop"}`, nil)
	for _, path := range []string{envs, "/api/v1/resources", "/api/v1/plans", "/api/v1/drifts", "/api/v1/operations"} {
		var list v1.List
		s.want(200, "bob", "GET", path, "", &list)
		if len(list.Items) > 0 || list.Total > 0 {
			t.Errorf("%s shows %+v", path, list)
		}
	}
	for _, q := range []string{"demo", "payments", "dependsOn:the-bank", "usedBy:web*", "dependsOn:db", "dependsOn:d*"} {
		var found v1.SearchResults
		s.want(200, "bob", "GET", "/api/v1/search?q="+q, "", &found)
		for _, f := range found.Items {
			if f.Kind != "template" && f.Kind != "templateversion" {
				t.Errorf("searching for %s shows %s %s", q, f.Kind, f.Name)
			}
		}
	}
	var log v1.Changes
	s.want(200, "bob", "GET", "/api/v1/changes", "", &log)
	for _, c := range log.Items {
		if c.Object.Org == "acme" {
			t.Errorf("the log shows %s %s", c.Object.Kind, c.Object.Name)
		}
	}
	// A name is taken in one organisation alone, and an operator who sees two says which.
	mine := s.deploy("bob", "demo", "shop")
	s.want(409, "root", "GET", envs+"/demo/graph", "", nil)
	s.want(200, "root", "GET", envs+"/"+mine.ID+"/graph", "", nil)
}

// What others do comes through no stream.
func TestWatchShowsNoOthersEnvironments(t *testing.T) {
	s := newSite(t)
	s.bring("shop", "1", "")
	l := s.listen("bob", "/api/v1/watch?after=0&resource=resources", "")
	s.deploy("alice", "theirs", "shop")
	mine := s.deploy("bob", "mine", "shop")
	for {
		e, ok := l.next()
		if !ok {
			t.Fatal("the stream has ended")
		}
		var c v1.Change
		if e.data == "" || json.Unmarshal([]byte(e.data), &c) != nil || c.Object.Kind == "" {
			continue
		}
		if c.Object.Parent != mine.ID {
			t.Fatalf("got %s of %s", c.Object.Name, c.Object.Org)
		}
		return
	}
}
