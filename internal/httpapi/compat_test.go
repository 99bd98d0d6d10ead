package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/httpapi"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/test/postgres"
)

func TestInstanceFromOrderToDeletion(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) { orderToDeletion(t, newRig(t)) })
	t.Run("postgres", func(t *testing.T) { orderToDeletion(t, newRigOn(t, postgres.Database(t))) })
}

func orderToDeletion(t *testing.T, r *rig) {
	alice := r.user(t, "alice", "acme")
	made := r.do(t, alice, "POST", dinosaurs+"?async=true", `{"name":"rex","cloud_provider":"local","region":"local","multi_az":true,"species":"Stegosaurus"}`).ok(202).object()
	id := made["id"].(string)
	got := r.do(t, alice, "GET", dinosaurs+"/"+id, "").ok(200).object()
	if d := cmp.Diff(made, got); d != "" {
		t.Errorf("what was answered is not what is there: %s", d)
	}
	for _, at := range []string{"created_at", "updated_at"} {
		if _, err := time.Parse(time.RFC3339Nano, fmt.Sprint(got[at])); err != nil {
			t.Errorf("%s is no time: %v", at, got[at])
		}
		delete(got, at)
	}
	want := map[string]any{
		"id": id, "kind": "Dinosaur", "href": dinosaurs + "/" + id, "status": "accepted", "name": "rex", "owner": "alice",
		"cloud_provider": "local", "region": "local", "multi_az": true, "host": "rex.dinosaurs.localhost",
		"version": "1.0.0", "instance_type": "standard",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("an instance on the wire: %s", d)
	}

	patched := r.do(t, alice, "PATCH", dinosaurs+"/"+id, `{"owner":"bob"}`).ok(200).object()
	if patched["owner"] != "bob" {
		t.Errorf("after the patch the owner is %v", patched["owner"])
	}
	r.do(t, alice, "PATCH", dinosaurs+"/"+id, `{"owner":"alice"}`).refused("it is bob's now", 403, "11")
	bob := r.user(t, "bob", "acme")
	if same := r.do(t, bob, "PATCH", dinosaurs+"/"+id, `{"owner":null}`).ok(200).object(); same["owner"] != "bob" {
		t.Errorf("null must leave the owner, got %v", same["owner"])
	}

	if body := r.do(t, bob, "DELETE", dinosaurs+"/"+id+"?async=true", "").ok(202).Body.String(); body != "" {
		t.Errorf("a deletion answers with %q", body)
	}
	if now := r.do(t, bob, "GET", dinosaurs+"/"+id, "").ok(200).object(); now["status"] != "deprovision" {
		t.Errorf("after the deletion it is %v", now["status"])
	}
	r.do(t, bob, "DELETE", dinosaurs+"/"+id+"?async=true", "").ok(202)
	r.do(t, bob, "PATCH", dinosaurs+"/"+id, `{"owner":"alice"}`).refused("it is going", 409, "6")
}

func TestCausesAreRequests(t *testing.T) {
	r := newRig(t)
	w := r.do(t, r.user(t, "alice", "acme"), "POST", dinosaurs+"?async=true", `{"name":"rex"}`).ok(202)
	changes, err := r.ledger.Changes(t.Context(), ledger.ChangeQuery{Kind: "instance"})
	if err != nil || len(changes) != 1 {
		t.Fatal(changes, err)
	}
	if want := ledger.ByRequest(w.Header().Get("X-Request-ID")); changes[0].Cause != want || changes[0].Actor != "alice" {
		t.Errorf("the change was made by %s because of %s, want alice and %s", changes[0].Actor, changes[0].Cause, want)
	}
}

func TestScoping(t *testing.T) {
	r := newRig(t)
	alice, bob := r.user(t, "alice", "acme"), r.user(t, "bob", "acme")
	id := r.create(t, alice, "rex")
	r.do(t, bob, "GET", dinosaurs+"/"+id, "").ok(200)
	r.do(t, bob, "DELETE", dinosaurs+"/"+id+"?async=true", "").refused("a colleague may look, not touch", 403, "11")
	r.do(t, bob, "PATCH", dinosaurs+"/"+id, `{"owner":"bob"}`).refused("a colleague may look, not touch", 403, "11")
	for name, token := range map[string]string{
		"another organisation":        r.user(t, "eve", "evil"),
		"the same name elsewhere":     r.user(t, "alice", "evil"),
		"another organisation's boss": r.token(t, access.Claims{User: "eve", Org: "evil", OrgAdmin: true}),
	} {
		t.Run(name, func(t *testing.T) {
			const why = "what one may not see is not there"
			r.do(t, token, "GET", dinosaurs+"/"+id, "").refused(why, 404, "7")
			r.do(t, token, "GET", dinosaurs+"/rex", "").refused(why, 404, "7")
			r.do(t, token, "PATCH", dinosaurs+"/"+id, `{"owner":"eve"}`).refused(why, 404, "7")
			r.do(t, token, "DELETE", dinosaurs+"/"+id+"?async=true", "").refused(why, 404, "7")
			r.do(t, token, "GET", dinosaurs+"/"+id+"/metrics/query", "").refused(why, 404, "7")
			if list := r.do(t, token, "GET", dinosaurs, "").ok(200).object(); list["total"] != 0.0 || len(list["items"].([]any)) != 0 {
				t.Errorf("%s: the list shows %v", why, list)
			}
		})
	}
	r.do(t, r.token(t, access.Claims{User: "root", Admin: true}), "GET", dinosaurs+"/"+id, "").ok(200)
	r.do(t, r.token(t, access.Claims{User: "boss", Org: "acme", OrgAdmin: true}), "DELETE", dinosaurs+"/"+id+"?async=true", "").ok(202)
}

func TestLists(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) { lists(t, newRig(t)) })
	t.Run("postgres", func(t *testing.T) { lists(t, newRigOn(t, postgres.Database(t))) })
}

func lists(t *testing.T, r *rig) {
	alice := r.user(t, "alice", "acme")
	for _, name := range []string{"charlie", "alpha", "bravo"} {
		r.create(t, alice, name)
	}
	r.create(t, r.user(t, "eve", "evil"), "other")
	for name, tc := range map[string]struct {
		reason string
		query  string
		names  string
		page   float64
		size   float64
		total  float64
	}{
		"default":      {"by name, all, and size says how many there are", "", "alpha bravo charlie", 1, 3, 3},
		"first":        {"a page", "?page=1&size=2", "alpha bravo", 1, 2, 3},
		"second":       {"the next page", "?page=2&size=2", "charlie", 2, 2, 3},
		"beyond":       {"past the end there is nothing", "?page=3&size=2", "", 3, 2, 3},
		"page 0":       {"page 0 is the first", "?page=0&size=2", "alpha bravo", 0, 2, 3},
		"page x":       {"what is no number is page 0", "?page=x&size=2", "alpha bravo", 0, 2, 3},
		"size -1":      {"a negative size is the largest", "?size=-1", "alpha bravo charlie", 1, 3, 3},
		"size huge":    {"as is a huge one", "?size=99999999999999999999", "alpha bravo charlie", 1, 3, 3},
		"desc":         {"the other way round", "?orderBy=name%20desc", "charlie bravo alpha", 1, 3, 3},
		"created":      {"any allowed column", "?orderBy=created_at", "charlie alpha bravo", 1, 3, 3},
		"two columns":  {"several", "?orderBy=region,name%20DESC", "charlie bravo alpha", 1, 3, 3},
		"twice":        {"the first mention counts", "?orderBy=name%20desc,name%20asc", "charlie bravo alpha", 1, 3, 3},
		"href":         {"which the peer answered with 500", "?size=1&orderBy=href", "charlie", 1, 1, 3},
		"blank order":  {"a blank order is the default", "?orderBy=%20", "alpha bravo charlie", 1, 3, 3},
		"search":       {"a condition", "?search=name%20LIKE%20%25a%25%20AND%20name%20%3C%3E%20alpha", "bravo charlie", 1, 2, 2},
		"search none":  {"no match", "?search=status%3Dready", "", 1, 0, 0},
		"search owner": {"what others own is not there however one searches", "?search=owner%3Deve%20OR%20name%3Dother", "", 1, 0, 0},
		"injection":    {"quotes stay values", "?search=name%20%3D%20'x%5C'%20OR%20%5C'1%5C'%3D%5C'1'", "", 1, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var list struct {
				Kind              string
				Page, Size, Total float64
				Items             []struct{ Name, Kind string }
			}
			r.do(t, alice, "GET", dinosaurs+tc.query, "").ok(200).into(&list)
			var names []string
			for _, it := range list.Items {
				if it.Kind != "Dinosaur" {
					t.Errorf("an item is a %s", it.Kind)
				}
				names = append(names, it.Name)
			}
			if got := strings.Join(names, " "); !sameNames(name, got, tc.names) || list.Kind != "DinosaurRequestList" ||
				list.Page != tc.page || list.Size != tc.size || list.Total != tc.total {
				t.Errorf("%s: got %q, %+v", tc.reason, got, list)
			}
		})
	}
}

// sameNames compares names; ids are random, so order by them only in number.
func sameNames(test, got, want string) bool {
	if test == "href" {
		return len(strings.Fields(got)) == len(strings.Fields(want))
	}
	return got == want
}

func TestDescriptions(t *testing.T) {
	r := newRig(t)
	alice := r.user(t, "alice", "acme")
	for name, tc := range map[string]struct {
		path, token, want string
	}{
		"group":    {"/api/dinosaurs_mgmt", "", `{"id":"dinosaurs_mgmt","kind":"API","href":"/api/dinosaurs_mgmt","versions":[{"id":"v1","kind":"APIVersion","href":"/api/dinosaurs_mgmt/v1","collections":[{"id":"dinosaurs","kind":"DinosaurList","href":"/api/dinosaurs_mgmt/v1/dinosaurs"},{"id":"cloud_providers","kind":"CloudProviderList","href":"/api/dinosaurs_mgmt/v1/cloud_providers"}]}]}`},
		"version":  {api, "", `{"id":"v1","kind":"APIVersion","href":"/api/dinosaurs_mgmt/v1","collections":[{"id":"dinosaurs","kind":"DinosaurList","href":"/api/dinosaurs_mgmt/v1/dinosaurs"},{"id":"cloud_providers","kind":"CloudProviderList","href":"/api/dinosaurs_mgmt/v1/cloud_providers"}]}`},
		"slash":    {api + "/", "", `{"id":"v1","kind":"APIVersion","href":"/api/dinosaurs_mgmt/v1","collections":[{"id":"dinosaurs","kind":"DinosaurList","href":"/api/dinosaurs_mgmt/v1/dinosaurs"},{"id":"cloud_providers","kind":"CloudProviderList","href":"/api/dinosaurs_mgmt/v1/cloud_providers"}]}`},
		"error":    {api + "/errors/7", "", `{"id":"7","kind":"Error","href":"/api/dinosaurs_mgmt/v1/errors/7","code":"DINOSAURS-MGMT-7","reason":"Resource not found"}`},
		"cloud":    {api + "/cloud_providers", alice, `{"kind":"CloudProviderList","page":1,"size":1,"total":1,"items":[{"kind":"CloudProvider","id":"local","display_name":"This machine","name":"local","enabled":true}]}`},
		"regions":  {api + "/cloud_providers/local/regions", alice, `{"kind":"CloudRegionList","page":1,"size":1,"total":1,"items":[{"kind":"CloudRegion","id":"local","display_name":"This machine","enabled":true,"supported_instance_types":["standard"]}]}`},
		"no cloud": {api + "/cloud_providers/mars/regions", alice, `{"kind":"CloudRegionList","page":1,"size":0,"total":0,"items":[]}`},
		"by type":  {api + "/cloud_providers/local/regions?instance_type=tiny", alice, `{"kind":"CloudRegionList","page":1,"size":0,"total":0,"items":[]}`},
		"status":   {api + "/status", alice, `{"dinosaurs":{"max_capacity_reached":true}}`},
	} {
		t.Run(name, func(t *testing.T) {
			var want any
			if err := json.Unmarshal([]byte(tc.want), &want); err != nil {
				t.Fatal(err)
			}
			var got any
			r.do(t, tc.token, "GET", tc.path, "").ok(200).into(&got)
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
		})
	}
	if doc := r.do(t, "", "GET", api+"/openapi", "").ok(200).object(); doc["openapi"] == nil {
		t.Error("the specification is none")
	}
}

func TestErrorCatalogue(t *testing.T) {
	r := newRig(t)
	var list struct {
		Kind        string
		Size, Total int
		Items       []struct{ ID, Code, Href, Reason string }
	}
	r.do(t, "", "GET", api+"/errors", "").ok(200).into(&list)
	var got []string
	for _, e := range list.Items {
		got = append(got, e.ID)
		one := r.do(t, "", "GET", e.Href, "").ok(200).object()
		if one["code"] != e.Code || one["reason"] != e.Reason || e.Reason == "" {
			t.Errorf("the list says %+v, the entry %v", e, one)
		}
	}
	want := strings.Fields("4 5 6 7 8 9 10 11 12 15 17 18 21 23 24 25 30 31 32 33 34 35 36 37 38 39 40 41 42 103 106 107 108 109 110 111 112 113 120 121 429 1000")
	if d := cmp.Diff(want, got); d != "" || list.Total != len(want) || list.Kind != "ErrorList" {
		t.Error(d, list.Total, list.Kind)
	}
	for id, status := range httpapi.Codes() {
		if http.StatusText(status) == "" || status < 400 {
			t.Errorf("code %d has status %d", id, status)
		}
	}
	r.do(t, "", "GET", api+"/errors/2", "").refused("there is no such error", 404, "7")
	r.do(t, "", "GET", api+"/errors/x", "").refused("nor this one", 404, "7")
}

// second is an offering that the server has never heard of.
const second = `
apiVersion: drover.dev/v1
kind: Offering
metadata: {name: teapot}
spec:
  names: {kind: Teapot, singular: teapot, plural: teapots}
  api: {group: teapots_mgmt, version: v2, errorPrefix: TEA, requestKind: TeapotOrder, search: {name: name}, order: {name: name}}
  types: [{name: small, multiAZ: false, sizes: [{name: s, capacity: 1, quota: 1}]}]
  providers: [{name: kitchen, regions: [{name: shelf}, {name: cellar, disabled: true}]}]
  components: [{name: x, versions: ["1"]}]
  routes: [{name: web, host: "${instance.name}.teapots.localhost"}]
  desired: {name: "${instance.name}"}
`

func TestAnotherOfferingNeedsNoCode(t *testing.T) {
	r := newRig(t)
	alice := r.user(t, "alice", "acme")
	r.do(t, alice, "GET", "/api/teapots_mgmt/v2/teapots", "").refused("not yet", 404, "7")
	r.do(t, "", "GET", "/api/teapots_mgmt", "").refused("who has no token learns nothing about what there is", 401, "15")
	r.shelf.put(t, []byte(second))
	r.do(t, "", "GET", "/api/teapots_mgmt", "").ok(200)
	made := r.do(t, alice, "POST", "/api/teapots_mgmt/v2/teapots?async=true", `{"name":"brown","multi_az":true}`).ok(202).object()
	if made["kind"] != "Teapot" || made["multi_az"] != false || made["cloud_provider"] != "kitchen" {
		t.Errorf("ordered %v", made)
	}
	e := r.do(t, alice, "POST", "/api/teapots_mgmt/v2/teapots?async=true", `{"name":"blue","region":"cellar"}`).refused("a closed region", 400, "31")
	if e.Code != "TEA-31" || e.Href != "/api/teapots_mgmt/v2/errors/31" {
		t.Errorf("an error of the other API: %+v", e)
	}
	r.do(t, alice, "POST", "/api/teapots_mgmt/v2/teapots?async=true", `{"name":"blue","species":"x"}`).refused("a parameter of another offering", 400, "37")
	r.do(t, alice, "GET", dinosaurs+"/"+made["id"].(string), "").refused("a teapot is no dinosaur", 404, "7")
	if list := r.do(t, alice, "GET", dinosaurs, "").ok(200).object(); list["total"] != 0.0 {
		t.Error("a teapot is among the dinosaurs")
	}
}
