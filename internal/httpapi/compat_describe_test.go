package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestKafkaDescriptions(t *testing.T) {
	f := newFleet(t)
	want := map[string]any{
		"id": "v1", "kind": "APIVersion", "href": kafkaAPI, "server_version": "1.2.3", "collections": []any{
			map[string]any{"id": "kafkas", "kind": "KafkaList", "href": kafkas},
			map[string]any{"id": "cloud_providers", "kind": "CloudProviderList", "href": kafkaAPI + "/cloud_providers"},
			map[string]any{"id": "service_accounts", "kind": "ServiceAccountList", "href": kafkaAPI + "/service_accounts"},
			map[string]any{"id": "clusters", "kind": "ClusterList", "href": kafkaAPI + "/clusters"},
		},
	}
	if d := cmp.Diff(want, f.do(t, "", "GET", kafkaAPI, "").ok(200).object()); d != "" {
		t.Error(d)
	}
	group := f.do(t, "", "GET", "/api/kafkas_mgmt", "").ok(200).object()
	if d := cmp.Diff(map[string]any{"id": "kafkas_mgmt", "kind": "API", "href": "/api/kafkas_mgmt", "versions": []any{want}}, group); d != "" {
		t.Error(d)
	}
	if doc := f.do(t, "", "GET", kafkaAPI+"/openapi", "").ok(200).object(); doc["openapi"] == nil {
		t.Error("the specification is none")
	}
}

// TestKafkaErrorCatalogue holds the catalogue against the reference's: all of
// its codes, and none of those that only dinosaurs have.
func TestKafkaErrorCatalogue(t *testing.T) {
	f := newFleet(t)
	want := strings.Fields("4 5 6 7 8 9 10 11 12 15 17 18 21 23 24 25 30 31 32 33 34 36 37 38 39 40 41 42 43 44 45 46 47 103 106 107 108 109 110 111 112 113 115 120 121 429 1000")
	var list struct {
		Total int
		Items []struct{ ID, Code, Href string }
	}
	f.do(t, "", "GET", kafkaAPI+"/errors?size=1000", "").ok(200).into(&list)
	var got []string
	for _, e := range list.Items {
		got = append(got, e.ID)
		if e.Code != "KAFKAS-MGMT-"+e.ID || e.Href != kafkaAPI+"/errors/"+e.ID {
			t.Errorf("an entry is %+v", e)
		}
		f.do(t, "", "GET", e.Href, "").ok(200)
	}
	if d := cmp.Diff(want, got); d != "" || list.Total != len(want) {
		t.Error(d)
	}
	f.do(t, "", "GET", kafkaAPI+"/errors/35", "").refused("kafkas do not let one choose", 404, "7")
	f.do(t, "", "GET", api+"/errors/44", "").refused("dinosaurs have no clusters of tenants", 404, "7")
	f.do(t, "", "GET", kafkaAPI+"/errors/07", "").refused("a number has one form", 404, "7")
}

// TestCookieOnlyReads: a browser sends its cookie whoever wrote the page.
func TestCookieOnlyReads(t *testing.T) {
	f := newFleet(t)
	alice := f.user(t, "alice", "acme")
	id := f.kafka(t, alice, "one")
	for _, line := range []string{"GET " + kafkas + "/" + id, "HEAD " + kafkas} {
		verb, path, _ := strings.Cut(line, " ")
		req := httptest.NewRequest(verb, path, nil)
		req.AddCookie(&http.Cookie{Name: "cs_jwt", Value: alice})
		if w := f.send(t, req); w.Code != 200 {
			t.Errorf("%s with the cookie: %d", line, w.Code)
		}
	}
	seq := f.seq(t)
	for _, line := range []string{"POST " + kafkas + "?async=true", "DELETE " + kafkas + "/" + id + "?async=true", "PATCH " + kafkas + "/" + id, "POST " + kafkaAPI + "/service_accounts"} {
		verb, path, _ := strings.Cut(line, " ")
		req := httptest.NewRequest(verb, path, strings.NewReader(`{"name":"two"}`))
		req.Header.Set("Sec-Fetch-Site", "same-origin")
		req.AddCookie(&http.Cookie{Name: "cs_jwt", Value: alice})
		f.send(t, req).refused(line+" with the cookie", 401, "15")
	}
	if f.seq(t) != seq {
		t.Error("a cookie has written something")
	}
}

// TestUsersWithoutOrganisation are let in, unlike at the fleet managers: the
// embedded default has no others. What they own is theirs alone.
func TestUsersWithoutOrganisation(t *testing.T) {
	f := newFleet(t)
	carol, dave := f.user(t, "carol", ""), f.user(t, "dave", "")
	for root, id := range map[string]string{kafkas: f.kafka(t, carol, "one"), dinosaurs: f.create(t, carol, "rex")} {
		if list := f.do(t, carol, "GET", root, "").ok(200).object(); list["total"] != 1.0 {
			t.Errorf("%s: carol sees %v", root, list)
		}
		if list := f.do(t, dave, "GET", root, "").ok(200).object(); list["total"] != 0.0 {
			t.Errorf("%s: dave sees %v", root, list)
		}
		f.do(t, dave, "GET", root+"/"+id, "").refused("it is carol's", 404, "7")
		f.do(t, carol, "DELETE", root+"/"+id+"?async=true", "").ok(202)
	}
}
