package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/access"
)

func policyDocument(kind, name, spec string) string {
	return "apiVersion: drover.dev/v1\nkind: " + kind + "\nmetadata: {name: " + name + "}\nspec: " + spec + "\n"
}

func TestPolicies(t *testing.T) {
	w := newWorld(t)
	for _, tc := range []struct{ resource, kind, spec, changed string }{
		{"quotas", "Quota", "{organisation: acme, anyUser: true, grants: [{offering: kafka, type: standard, units: 3}]}", "{organisation: acme, anyUser: true}"},
		{"denylists", "DenyList", "{users: [mallory]}", "{users: []}"},
		{"accesslists", "AccessList", "{enabled: false, organisations: [acme]}", "{enabled: true, organisations: [acme]}"},
		{"terms", "Terms", "{version: '1', url: https://example.org/terms}", "{version: '2', url: https://example.org/terms}"},
	} {
		t.Run(tc.resource, func(t *testing.T) {
			base := "/api/v1/" + tc.resource
			var made, again, changed v1.Object
			w.want(200, "root", "PUT", base, policyDocument(tc.kind, "main", tc.spec), &made)
			w.want(200, "root", "PUT", base, policyDocument(tc.kind, "main", tc.spec), &again)
			if made.Resource != tc.resource || made.Name != "main" || made.Version != 1 || again.Version != 1 {
				t.Errorf("made %+v, then %+v", made, again)
			}
			w.want(200, "root", "PUT", base, policyDocument(tc.kind, "main", tc.changed), &changed)
			if changed.Generation != 2 {
				t.Errorf("changed %+v", changed)
			}
			var list v1.List
			w.want(200, "root", "GET", base, "", &list)
			if list.Total != 1 || len(list.Items) != 1 {
				t.Errorf("the list has %d", list.Total)
			}
			var past v1.Object
			w.want(200, "root", "GET", base+"/main?at="+seqText(list.Seq-1), "", &past)
			if past.Generation != 1 {
				t.Errorf("the past shows generation %d", past.Generation)
			}
			var history v1.Changes
			w.want(200, "root", "GET", base+"/main/history", "", &history)
			if len(history.Items) != 2 || history.Items[1].Actor != "root" {
				t.Errorf("the history is %+v", history.Items)
			}
			var e v1.Error
			w.want(400, "root", "PUT", base, policyDocument(tc.kind, "main", "{wrong: 1, also: 2}"), &e)
			if !strings.Contains(e.Reason, `request:4:8: unknown field "wrong"`) || !strings.Contains(e.Reason, "also") {
				t.Errorf("the mistakes are %q", e.Reason)
			}
			w.want(400, "root", "PUT", base, policyDocument("Cat", "main", "{}"), nil)
			w.want(400, "root", "PUT", base, policyDocument(tc.kind, "a", tc.spec)+"---\n"+policyDocument(tc.kind, "b", tc.spec), nil)
			for _, who := range []string{"alice", "arthur", "agent-c1"} {
				w.want(403, who, "PUT", base, policyDocument(tc.kind, "main", tc.spec), nil)
				w.want(403, who, "DELETE", base+"/main", "", nil)
			}
			if tc.resource != "terms" {
				for _, path := range []string{base, base + "/main", base + "/main/history"} {
					w.want(403, "arthur", "GET", path, "", nil)
				}
				var seen v1.Changes
				w.want(200, "arthur", "GET", "/api/v1/changes?limit=1000", "", &seen)
				for _, c := range seen.Items {
					if c.Object.Kind == made.Kind {
						t.Errorf("a tenant sees the change %+v", c)
					}
				}
			}
			w.want(200, "root", "DELETE", base+"/main", "", nil)
			w.want(404, "root", "DELETE", base+"/main", "", nil)
			w.want(404, "root", "GET", base+"/main", "", nil)
		})
	}
	w.want(400, "root", "PUT", "/api/v1/quotas", policyDocument("DenyList", "main", "{users: []}"), nil)
}

func TestPolicyKindsAreNotOrdered(t *testing.T) {
	w := newWorld(t)
	for _, resource := range []string{"quotas", "denylists", "accesslists", "terms", "acceptances"} {
		if resp := w.request("root", http.MethodPost, "/api/v1/"+resource, `{"name":"x"}`, nil); resp.StatusCode < 400 || resp.StatusCode > 499 {
			t.Errorf("POST %s: %d", resource, resp.StatusCode)
		}
	}
	if resp := w.request("root", http.MethodDelete, "/api/v1/acceptances/x", "", nil); resp.StatusCode < 400 || resp.StatusCode > 499 {
		t.Errorf("acceptances are not taken back: %d", resp.StatusCode)
	}
}

func TestAcceptTerms(t *testing.T) {
	w := newWorld(t)
	w.want(404, "alice", "POST", "/api/v1/terms/use/accept", "", nil)
	w.want(200, "root", "PUT", "/api/v1/terms", policyDocument("Terms", "use", "{version: '1', text: be nice}"), nil)
	var terms v1.Object
	w.want(200, "alice", "GET", "/api/v1/terms/use", "", &terms)
	if !strings.Contains(string(terms.Spec), "be nice") || string(terms.Status) != `{"message":"version 1"}` {
		t.Errorf("a tenant reads %s, %s", terms.Spec, terms.Status)
	}
	var seen v1.Changes
	w.want(200, "alice", "GET", "/api/v1/changes?resource=terms", "", &seen)
	if len(seen.Items) != 1 {
		t.Errorf("terms change for everybody to see: %+v", seen.Items)
	}
	w.want(409, "alice", "POST", "/api/v1/terms/use/accept", `{"version":"0"}`, nil)
	w.want(403, "agent-c1", "POST", "/api/v1/terms/use/accept", "", nil)
	var first, second v1.Object
	w.want(200, "alice", "POST", "/api/v1/terms/use/accept", `{"version":"1"}`, &first)
	w.want(200, "alice", "POST", "/api/v1/terms/use/accept", "", &second)
	if first.ID == "" || first.ID != second.ID || second.Version != 1 || first.Owner != "alice" || first.Fields["terms_version"] != "1" {
		t.Errorf("accepted %+v, then %+v", first, second)
	}
	if err := w.policies.Accepted(t.Context(), people["alice"], "use"); err != nil {
		t.Error(err)
	}
	w.want(200, "arthur", "POST", "/api/v1/terms/use/accept", "", nil)
	for who, want := range map[string]int64{"alice": 1, "arthur": 1, "bob": 0, "carol": 0, "root": 2} {
		var list v1.List
		w.want(200, who, "GET", "/api/v1/acceptances", "", &list)
		if list.Total != want {
			t.Errorf("%s sees %d acceptances", who, list.Total)
		}
	}
	w.want(404, "arthur", "GET", "/api/v1/acceptances/"+first.ID, "", nil) // not even an organisation's admin
	w.want(404, "bob", "GET", "/api/v1/acceptances/"+first.ID+"/history", "", nil)
	w.want(403, "agent-c1", "GET", "/api/v1/acceptances", "", nil)
	var changes v1.Changes
	w.want(200, "arthur", "GET", "/api/v1/changes?resource=acceptances", "", &changes)
	if len(changes.Items) != 1 || changes.Items[0].Object.Owner != "arthur" {
		t.Errorf("a colleague's acceptance is in %+v", changes.Items)
	}
}

func TestPoliciesWithoutWriter(t *testing.T) {
	r := newRig(t)
	root := r.token(t, access.Claims{User: "root", Admin: true})
	r.do(t, root, "PUT", "/api/v1/quotas", "x").refused("there is none", 404, "7")
	r.do(t, root, "POST", "/api/v1/terms/use/accept", "").refused("there is none", 404, "7")
}
