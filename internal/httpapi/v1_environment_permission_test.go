package httpapi_test

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	v1 "github.com/droverhq/drover/api/v1"
)

// A template says who may do what: one denied caller for each verb.
func TestTemplatePermissions(t *testing.T) {
	people["anna"] = people["alice"]
	anna := people["anna"]
	anna.User = "anna" // of alice's organisation
	people["anna"] = anna
	s := newSite(t)
	s.bring("open", "1", "")
	s.bring("strict", "1", "  permissions: {plan: {users: [alice, arthur]}, apply: {users: [alice]}, destroy: {users: [arthur]}}\n")
	s.deploy("alice", "opened", "open")
	s.deploy("alice", "kept", "strict")
	change := s.plan("arthur", "kept", `{"parameters": {"text": "new"}}`)
	end := s.plan("alice", "kept", `{"destroy": true}`)
	theirs := s.plan("anna", "opened", `{"parameters": {"text": "new"}}`)
	for _, tc := range []struct {
		reason            string
		who, method, path string
		body              string
	}{
		{"anna may not plan what is strict", "anna", "POST", envs + "/kept/plan", `{}`},
		{"nor make such", "anna", "POST", envs, `{"name": "x", "template": "strict"}`},
		{"nor have it looked at", "anna", "POST", envs + "/kept/observe", ""},
		{"arthur may plan, and not apply", "arthur", "POST", envs + "/kept/apply", `{"plan": "` + change.Hash + `"}`},
		{"nor retry", "arthur", "POST", envs + "/kept/retry", ""},
		{"nor make one", "arthur", "POST", envs, `{"name": "x", "template": "strict"}`},
		{"nor move its end", "arthur", "PATCH", envs + "/kept", `{"ends": "8h"}`},
		{"nor describe it", "arthur", "PATCH", envs + "/kept", `{"tags": ["a"]}`},
		{"nor read its secrets", "arthur", "GET", envs + "/kept/outputs?reveal=true", ""},
		{"alice may apply, and not destroy", "alice", "POST", envs + "/kept/destroy", ""},
		{"not by a plan either", "alice", "POST", envs + "/kept/destroy", `{"plan": "` + end.Hash + `"}`},
		{"nor by applying that", "alice", "POST", envs + "/kept/apply", `{"plan": "` + end.Hash + `"}`},
		{"nor say that it stays", "alice", "PATCH", envs + "/kept", `{"protected": true}`},
		{"where nothing is said, whoever is not the owner may not apply", "anna", "POST", envs + "/opened/apply", `{"plan": "` + theirs.Hash + `"}`},
		{"nor destroy", "anna", "POST", envs + "/opened/destroy", ""},
		{"nor read secrets", "anna", "GET", envs + "/opened/outputs?reveal=true", ""},
	} {
		resp := s.request(tc.who, tc.method, tc.path, tc.body, nil)
		if data, _ := io.ReadAll(resp.Body); resp.StatusCode != 403 {
			t.Errorf("%s: answered %d: %s", tc.reason, resp.StatusCode, data)
		}
	}
	s.want(202, "alice", "POST", envs+"/kept/apply", `{"plan": "`+change.Hash+`"}`, nil)
	s.want(202, "arthur", "POST", envs+"/kept/destroy", "", nil)
	s.want(202, "root", "POST", envs+"/opened/destroy", "", nil)
}

// Whom a template names, and where it lies, is not for everybody who may see it.
func TestTemplatesTellTenantsLittle(t *testing.T) {
	s := newSite(t)
	id := s.bring("shop", "1", "  permissions: {apply: {users: [somebody-else]}}\n")
	for _, path := range []string{"/api/v1/templates/shop", "/api/v1/templates", "/api/v1/templates/shop/history", "/api/v1/templateversions/" + id, "/api/v1/search?q=shop"} {
		for who, knows := range map[string]bool{"alice": false, "arthur": false, "root": true} {
			resp := s.want(200, who, "GET", path, "", nil)
			data, _ := io.ReadAll(resp.Body)
			if !strings.Contains(string(data), "sells payments") || strings.Contains(string(data), "somebody-else") != knows || strings.Contains(string(data), `"files":`) != knows {
				t.Errorf("%s reads at %s: %s", who, path, data)
			}
		}
	}
}

// Secrets go to those who may apply, when they say so, and that is on record. They
// are nowhere else.
func TestSecretOutputs(t *testing.T) {
	s := newSite(t)
	s.bring("shop", "1", "")
	o := s.deploy("alice", "demo", "shop")
	p := s.plan("alice", "demo", `{"parameters": {"text": "new"}}`)
	const secret = boxSecret + "demo-db"
	for _, who := range []string{"alice", "arthur", "root"} {
		for _, path := range []string{envs + "/" + o.ID, envs + "/" + o.ID + "/history", envs + "/" + o.ID + "/outputs", "/api/v1/resources?size=100", "/api/v1/plans/" + p.ID + "/changes", "/api/v1/plans/" + p.ID,
			"/api/v1/changes?limit=1000", envs + "/" + o.ID + "/log?address=web%5B0%5D", envs + "/" + o.ID + "/graph", "/api/v1/search?q=demo"} {
			resp := s.want(200, who, "GET", path, "", nil)
			data, _ := io.ReadAll(resp.Body)
			if strings.Contains(string(data), boxSecret) {
				t.Errorf("%s reads a secret at %s: %s", who, path, data)
			}
			for _, kept := range []string{`"secrets":`, `"sealed":`, `"state":"`} {
				if strings.Contains(string(data), kept) {
					t.Errorf("%s reads at %s where secrets are kept (%s)", who, path, kept)
				}
			}
		}
	}
	var out v1.Outputs
	s.want(200, "alice", "GET", envs+"/demo/outputs", "", &out)
	if len(out.Items) != 2 || out.Items[0].Name != "password" || !out.Items[0].Secret || out.Items[0].Value != nil || string(out.Items[1].Value) != `"http://127.0.0.1:1/web[0]"` {
		t.Errorf("got %+v", out)
	}
	if got := s.revealed(); len(got) != 0 {
		t.Errorf("what is no secret is on record: %v", got)
	}
	s.want(200, "alice", "GET", envs+"/demo/outputs?reveal=true", "", &out)
	if string(out.Items[0].Value) != `"`+secret+`"` {
		t.Errorf("got %+v", out)
	}
	s.want(404, "bob", "GET", envs+"/"+o.ID+"/outputs?reveal=true", "", nil)
	if got, want := strings.Join(s.revealed(), " "), "alice:200 bob:404"; got != want {
		t.Errorf("on record is %q, want %q", got, want)
	}
	if strings.Contains(s.logged(), boxSecret) {
		t.Error("the server's log has a secret")
	}
}

// revealed is who asked for secrets, as the audit has it.
func (s *site) revealed() (out []string) {
	s.Helper()
	var list v1.List
	s.want(200, "root", "GET", "/api/v1/audits?orderBy=created+asc", "", &list)
	for _, a := range list.Items {
		var spec struct{ User, Path string }
		var status struct{ Status json.Number }
		if json.Unmarshal(a.Spec, &spec) != nil || json.Unmarshal(a.Status, &status) != nil {
			s.Fatalf("got %s %s", a.Spec, a.Status)
		}
		if strings.HasSuffix(spec.Path, "/outputs") {
			out = append(out, spec.User+":"+status.Status.String())
		}
	}
	return out
}

// A policy denies, or wants an approval, which an operator gives.
func TestPolicyVerdicts(t *testing.T) {
	s := newSite(t)
	s.bring("shop", "1", `  policies:
    - {name: keep-data, when: 'change.action == "destroy" && "data" in change.tags', effect: approve, message: the books would be lost}
    - {name: small, when: 'plan.creates > 5', effect: deny, message: that is too much}
`)
	s.deploy("alice", "demo", "shop")
	denied := s.plan("alice", "demo", `{"parameters": {"size": 12}}`)
	if denied.Phase != "denied" || len(denied.Verdicts) == 0 || denied.Verdicts[0].Policy != "small" || denied.Verdicts[0].Effect != "deny" {
		t.Errorf("got %+v", denied)
	}
	s.want(409, "alice", "POST", envs+"/demo/apply", `{"plan": "`+denied.ID+`"}`, nil)
	end := s.plan("alice", "demo", `{"destroy": true}`)
	if end.Phase != "approval" || end.Approval == "" || !strings.Contains(end.Message, "books") {
		t.Fatalf("got %+v", end)
	}
	s.want(409, "alice", "POST", envs+"/demo/destroy", `{"plan": "`+end.ID+`"}`, nil)
	if got := s.request("alice", "POST", "/api/v1/approvals/"+end.Approval+"/approve", `{}`, nil).StatusCode; got < 400 {
		t.Errorf("a tenant approves, answered %d", got)
	}
	s.want(200, "root", "POST", "/api/v1/approvals/"+end.Approval+"/approve", `{}`, nil)
	s.until("alice", "/api/v1/plans/"+end.ID, func(data []byte) bool { return strings.Contains(string(data), `"phase":"planned"`) })
	s.ended("alice", s.want(202, "alice", "POST", envs+"/demo/destroy", `{"plan": "`+end.ID+`"}`, nil))
}
