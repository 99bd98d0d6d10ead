package httpapi_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/access"
)

const ownID = "0123456789abcdef0123456789abcdef"

func ownCluster(id string) string {
	return `{"cluster_id":"` + id + `","cluster_ingress_dns_name":"apps.acme.example.com","access_kafkas_via_private_network":true,"kafka_machine_pool_node_count":3}`
}

func TestOwnClusters(t *testing.T) {
	f := newFleet(t)
	f.quota.give("acme", "standard", "enterprise", 5)
	f.quota.give("evil", "standard", "enterprise", 5)
	boss := f.token(t, access.Claims{User: "boss", Org: "acme", OrgAdmin: true})
	alice, carol := f.user(t, "alice", "acme"), f.token(t, access.Claims{User: "carol", Org: "poor", OrgAdmin: true})
	eve := f.token(t, access.Claims{User: "eve", Org: "evil", OrgAdmin: true})
	root := kafkaAPI + "/clusters"
	for _, line := range []string{"GET ", "POST ", "GET /x", "DELETE /x?async=true", "GET /x/addon_parameters"} {
		verb, path, _ := strings.Cut(line, " ")
		f.do(t, carol, verb, root+path, ownCluster(ownID)).refused("without quota: "+line, 403, "11")
		f.do(t, f.user(t, "lone", ""), verb, root+path, ownCluster(ownID)).refused("without an organisation: "+line, 403, "11")
	}
	f.do(t, alice, "POST", root, ownCluster(ownID)).refused("admins only", 403, "11")
	for reason, tc := range map[string][2]string{
		"a bad id":     {strings.Replace(ownCluster(ownID), ownID, "short", 1), "45"},
		"a bad domain": {strings.Replace(ownCluster(ownID), "apps.acme.example.com", "no domain", 1), "47"},
		"no nodes":     {strings.Replace(ownCluster(ownID), "3}", "0}", 1), "37"},
		"nothing":      {`{"cluster_id":"` + ownID + `"}`, "37"},
		"misspelt":     {`{"cluster":"x"}`, "37"},
		"another type": {`{"cluster_id":1}`, "17"},
	} {
		f.do(t, boss, "POST", root, tc[0]).refused(reason, 400, tc[1])
	}
	w := f.do(t, boss, "POST", root, ownCluster(ownID)).ok(200)
	made := w.object()
	parameters, _ := made["fleetshard_parameters"].([]any)
	delete(made, "fleetshard_parameters")
	if len(parameters) == 0 {
		t.Errorf("what is the agent to be installed with? %s", w.Body)
	}
	got := f.do(t, alice, "GET", root+"/"+ownID, "").ok(200).object()
	if d := cmp.Diff(made, got); d != "" {
		t.Error(d)
	}
	types, _ := json.Marshal(got["supported_instance_types"])
	if !strings.Contains(string(types), `"standard"`) || strings.Contains(string(types), `"developer"`) {
		t.Errorf("types of an own cluster: %s", types)
	}
	delete(got, "supported_instance_types")
	want := map[string]any{
		"id": ownID, "kind": "Cluster", "href": root + "/" + ownID, "cluster_id": ownID, "status": "waiting_for_kas_fleetshard_operator",
		"cloud_provider": "aws", "region": "us-east-1", "multi_az": true, "access_kafkas_via_private_network": true,
		"capacity_information": map[string]any{"kafka_machine_pool_node_count": 3.0, "maximum_kafka_streaming_units": 0.0,
			"remaining_kafka_streaming_units": 0.0, "consumed_kafka_streaming_units": 0.0},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	list := f.do(t, alice, "GET", root, "").ok(200).object()
	if list["kind"] != "ClusterList" || list["total"] != 1.0 || list["size"] != 1.0 || list["page"] != 1.0 {
		t.Error("the list is", list)
	}
	f.do(t, boss, "POST", root, ownCluster(ownID)).refused("taken", 409, "44")

	addon := f.do(t, boss, "GET", root+"/"+ownID+"/addon_parameters", "").ok(200).object()
	if addon["id"] != ownID || addon["kind"] == nil || addon["href"] != root+"/"+ownID+"/addon_parameters" || !holdsParameter(addon, "cluster-id", ownID) ||
		!holdsParameter(addon, "control-plane-url", "https://drover.example.com") {
		t.Error("addon parameters:", addon)
	}
	f.do(t, alice, "GET", root+"/"+ownID+"/addon_parameters", "").refused("admins only", 403, "11")
	f.do(t, alice, "DELETE", root+"/"+ownID+"?async=true", "").refused("admins only", 403, "11")

	const random = "ffffffffffffffffffffffffffffffff"
	for _, line := range []string{"GET ", "DELETE ?async=true", "GET /addon_parameters"} {
		verb, rest, _ := strings.Cut(line, " ")
		same(t, f.do(t, eve, verb, root+"/"+ownID+rest, ""), ownID, f.do(t, eve, verb, root+"/"+random+rest, ""), random)
	}
	if list := f.do(t, eve, "GET", root, "").ok(200).object(); list["total"] != 0.0 {
		t.Error("another organisation sees", list)
	}
	f.do(t, boss, "DELETE", root+"/"+ownID, "").refused("only later", 400, "103")
	f.do(t, boss, "DELETE", root+"/"+ownID+"?async=true", "").ok(202)
	f.do(t, boss, "GET", api+"/clusters", "").refused("dinosaurs have none", 404, "7")
}

func holdsParameter(addon map[string]any, id, value string) bool {
	list, _ := addon["fleetshard_parameters"].([]any)
	for _, p := range list {
		if cmp.Equal(p, map[string]any{"id": id, "value": value}) {
			return true
		}
	}
	return false
}

// same checks that two answers differ in nothing but the id that was asked for.
func same(t *testing.T, a reply, idA string, b reply, idB string) {
	t.Helper()
	strip := func(r reply, id string) string {
		var m map[string]any
		r.into(&m)
		delete(m, "operation_id")
		return fmt.Sprint(r.Code, strings.ReplaceAll(fmt.Sprint(m), id, "{id}"))
	}
	if x, y := strip(a, idA), strip(b, idB); x != y || a.Code < 400 {
		t.Errorf("an answer tells that something is there:\n%s\n%s", x, y)
	}
}

// TestOthersInferNothing tries every endpoint of an instance with another
// organisation's token: the answer is that for an id that nobody has.
func TestOthersInferNothing(t *testing.T) {
	f := newFleet(t)
	alice := f.user(t, "alice", "acme")
	f.quota.give("acme", "standard", "enterprise", 1)
	f.do(t, f.token(t, access.Claims{User: "boss", Org: "acme", OrgAdmin: true}), "POST", kafkaAPI+"/clusters", ownCluster(ownID)).ok(200)
	ids := map[string]string{kafkas: f.kafka(t, alice, "one"), dinosaurs: f.create(t, alice, "rex")}
	const random = "cv00000000000000000g"
	for who, token := range map[string]string{
		"another organisation": f.token(t, access.Claims{User: "eve", Org: "evil", OrgAdmin: true}),
		"the same name":        f.user(t, "alice", "evil"),
		"no organisation":      f.user(t, "alice", ""),
	} {
		t.Run(who, func(t *testing.T) {
			for root, id := range ids {
				for _, line := range []string{
					"GET ", `PATCH  {"owner":"eve"}`, `PATCH  {}`, "DELETE ?async=true", "GET /metrics/query", "GET /metrics/query_range?duration=5&interval=30",
					"GET /metrics/federate", `POST /promote?async=true {"desired_kafka_billing_model":"standard"}`,
				} {
					part := strings.SplitN(line, " ", 3)
					if part[0] == "POST" && root == dinosaurs {
						continue
					}
					body := ""
					if len(part) == 3 {
						body = part[2]
					}
					rest := part[1]
					same(t, f.do(t, token, part[0], root+"/"+id+rest, body), id, f.do(t, token, part[0], root+"/"+random+rest, body), random)
				}
				if list := f.do(t, token, "GET", root, "").ok(200).object(); list["total"] != 0.0 {
					t.Errorf("the list shows %v", list)
				}
				f.do(t, token, "GET", root+"/one", "").refused("nor by name", 404, "7")
			}
			order := func(id string) reply {
				return f.do(t, token, "POST", kafkas+"?async=true", `{"name":"one","cluster_id":"`+id+`","billing_model":"enterprise"}`)
			}
			const nobodys = "ffffffffffffffffffffffffffffffff"
			same(t, order(ownID), ownID, order(nobodys), nobodys)
			order(ownID).refused("another's cluster is no cluster", 400, "45")
		})
	}
}
