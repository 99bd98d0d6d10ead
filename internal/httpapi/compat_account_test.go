package httpapi_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/httpapi"
)

func TestServiceAccounts(t *testing.T) {
	f := newFleet(t)
	alice, eve := f.user(t, "alice", "acme"), f.user(t, "eve", "evil")
	root := kafkaAPI + "/service_accounts"
	w := f.do(t, alice, "POST", root, `{"name":"bot","description":"builds"}`).ok(202)
	if w.Header().Get("Cache-Control") != "no-store" {
		t.Error("an answer with a secret may be stored")
	}
	want := map[string]any{
		"id": "id-1", "kind": "ServiceAccount", "href": root + "/id-1", "name": "bot", "description": "builds", "client_id": "srvc-acct-1",
		"client_secret": "secret-1", "owner": "alice", "created_by": "alice", "created_at": "2023-11-14T22:13:20Z",
	}
	if d := cmp.Diff(want, w.object()); d != "" {
		t.Error(d)
	}
	delete(want, "client_secret")
	if d := cmp.Diff(want, f.do(t, alice, "GET", root+"/id-1", "").ok(200).object()); d != "" {
		t.Error("the secret is shown once:", d)
	}
	if d := cmp.Diff(map[string]any{"kind": "ServiceAccountList", "items": []any{want}}, f.do(t, alice, "GET", root, "").ok(200).object()); d != "" {
		t.Error(d)
	}
	f.do(t, alice, "POST", root, `{"name":"plain","description":null}`).ok(202)
	for query, n := range map[string]int{"": 2, "?client_id=srvc-acct-2": 1, "?client_id=nobody": 0} {
		if items := f.do(t, alice, "GET", root+query, "").ok(200).object()["items"].([]any); len(items) != n {
			t.Errorf("%q lists %d, want %d", query, len(items), n)
		}
	}
	if items := f.do(t, eve, "GET", root, "").ok(200).object()["items"].([]any); len(items) != 0 {
		t.Error("another organisation sees", items)
	}
	if again := f.do(t, alice, "POST", root+"/id-1/reset_credentials", "").ok(200).object(); again["client_secret"] != "secret-1-new" {
		t.Error("the new secret is", again["client_secret"])
	}
	for _, tc := range []struct {
		reason, token, verb, path, body string
		status                          int
		code                            string
	}{
		{"a bad name", alice, "POST", root, `{"name":"BOT"}`, 400, "38"},
		{"no name", alice, "POST", root, `{}`, 400, "38"},
		{"a bad description", alice, "POST", root, `{"name":"x","description":"<b>"}`, 400, "39"},
		{"misspelt", alice, "POST", root, `{"name":"x","descr":""}`, 400, "37"},
		{"another type", alice, "POST", root, `{"name":7}`, 400, "17"},
		{"no object", alice, "POST", root, `[]`, 400, "17"},
		{"a bad id", alice, "GET", root + "/%01", "", 400, "40"},
		{"nobody", alice, "GET", root + "/nobody", "", 404, "113"},
		{"nobody", alice, "DELETE", root + "/nobody", "", 404, "113"},
		{"nobody", alice, "POST", root + "/nobody/reset_credentials", "", 404, "113"},
		{"another organisation's", eve, "GET", root + "/id-1", "", 404, "113"},
		{"another organisation's", eve, "DELETE", root + "/id-1", "", 404, "113"},
		{"another organisation's", eve, "POST", root + "/id-1/reset_credentials", "", 404, "113"},
		{"another verb", alice, "PUT", root + "/id-1", "{}", 405, "10"},
		{"another page", alice, "GET", root + "/id-1/more", "", 404, "7"},
	} {
		f.do(t, tc.token, tc.verb, tc.path, tc.body).refused(tc.reason+": "+tc.verb+" "+tc.path+" "+tc.body, tc.status, tc.code)
	}
	f.do(t, alice, "POST", root, `{"name":"third"}`).ok(202)
	f.do(t, alice, "POST", root, `{"name":"fourth"}`).refused("too many", 403, "115")
	if w := f.do(t, alice, "DELETE", root+"/id-1", "").ok(204); w.Body.Len() != 0 {
		t.Errorf("a deletion answers with %q", w.Body)
	}
	f.do(t, alice, "GET", root+"/id-1", "").refused("it is gone", 404, "113")
	f.do(t, alice, "GET", api+"/service_accounts", "").refused("dinosaurs have none", 404, "7")
	if strings.Contains(f.logs.String(), "secret-1") {
		t.Error("a secret is in the log")
	}
}

func TestServiceAccountsBesideTheIssuer(t *testing.T) {
	f := newFleet(t)
	alice, eve := f.user(t, "alice", "acme"), f.user(t, "eve", "evil")
	for _, root := range []string{"/apis/service_accounts/v1", "/auth/realms/drover/apis/service_accounts/v1"} {
		t.Run(root, func(t *testing.T) {
			made := f.do(t, alice, "POST", root, `{"name":"bot","description":"builds"}`).ok(201).object()
			id := made["id"].(string)
			want := map[string]any{"id": id, "clientId": made["clientId"], "secret": made["secret"], "name": "bot", "description": "builds",
				"createdBy": "alice", "createdAt": 1_700_000_000.0}
			if d := cmp.Diff(want, made); d != "" || made["secret"] == nil {
				t.Error(d)
			}
			delete(want, "secret")
			if d := cmp.Diff(want, f.do(t, alice, "GET", root+"/"+id, "").ok(200).object()); d != "" {
				t.Error("the secret is shown once:", d)
			}
			var list []map[string]any
			f.do(t, alice, "GET", root, "").ok(200).into(&list)
			if d := cmp.Diff([]map[string]any{want}, list); d != "" {
				t.Error(d)
			}
			for query, n := range map[string]int{"?first=1": 0, "?first=0&max=1": 1, "?clientId=" + made["clientId"].(string): 1, "?clientId=x&clientId=y": 0} {
				var some []map[string]any
				if f.do(t, alice, "GET", root+query, "").ok(200).into(&some); len(some) != n || some == nil {
					t.Errorf("%s lists %v", query, some)
				}
			}
			for _, query := range []string{"?first=-1", "?max=0", "?max=101", "?first=x", "?first=999999999"} {
				f.do(t, alice, "GET", root+query, "").refused("no such page: "+query, 400, "17")
			}
			f.do(t, eve, "GET", root, "").ok(200).into(&list)
			if len(list) != 0 {
				t.Error("another organisation sees", list)
			}
			for _, line := range []string{"GET /" + id, "DELETE /" + id, "POST /" + id + "/resetSecret", "PATCH /" + id} {
				verb, path, _ := strings.Cut(line, " ")
				f.do(t, eve, verb, root+path, `{"name":"mine"}`).refused("another organisation's", 404, "113")
			}
			if again := f.do(t, alice, "POST", root+"/"+id+"/resetSecret", "").ok(200).object(); again["secret"] == made["secret"] || again["secret"] == nil {
				t.Error("the secret stays", again["secret"])
			}
			if named := f.do(t, alice, "PATCH", root+"/"+id, `{"name":"robot"}`).ok(200).object(); named["name"] != "robot" || named["description"] != "builds" || named["secret"] != nil {
				t.Error("after the patch:", named)
			}
			f.do(t, "", "GET", root, "").refused("nobody", 401, "15")
			f.do(t, alice, "DELETE", root+"/"+id, "").ok(200)
			f.do(t, alice, "GET", root+"/"+id, "").refused("it is gone", 404, "113")
			// Clients of such an identity provider look at other members.
			for line, want := range map[string]string{"GET /" + id: "service_account_not_found", "GET ?max=0": "invalid_field"} {
				verb, path, _ := strings.Cut(line, " ")
				if e := f.do(t, alice, verb, root+path, "").object(); e["error"] != want || e["error_description"] != e["reason"] {
					t.Errorf("%s: %v", line, e)
				}
			}
			if e := f.do(t, "", "GET", root, "").object(); e["error"] == nil {
				t.Errorf("nobody: %v", e)
			}
		})
	}
	f.do(t, alice, "GET", "/auth/realms/other/apis/service_accounts/v1", "").refused("another realm", 404, "7")
	none := newRig(t)
	none.do(t, none.user(t, "alice", "acme"), "GET", "/apis/service_accounts/v1", "").refused("a server without accounts", 404, "7")
}

func TestSSOProviders(t *testing.T) {
	f := newFleet(t)
	want := map[string]any{
		"id": "builtin", "kind": "SsoProvider", "href": kafkaAPI + "/sso_providers", "name": "builtin", "base_url": "https://sso.example.com",
		"token_url": "https://sso.example.com/token", "jwks": "https://sso.example.com/jwks", "valid_issuer": "https://sso.example.com/auth/realms/drover",
	}
	if d := cmp.Diff(want, f.do(t, "", "GET", kafkaAPI+"/sso_providers", "").ok(200).object()); d != "" {
		t.Error(d)
	}
	none := newFleet(t, func(c *httpapi.Config) { c.SSO = nil })
	none.do(t, "", "GET", kafkaAPI+"/sso_providers", "").refused("nobody knows", 404, "7")
}
