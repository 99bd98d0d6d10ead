package httpapi_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
)

// wireTypes are the fields of a kafka on the wire with their JSON types.
var wireTypes = map[string]string{
	"id": "string", "kind": "string", "href": "string", "status": "string", "cloud_provider": "string", "multi_az": "bool", "region": "string",
	"owner": "string", "name": "string", "bootstrap_server_host": "string", "admin_api_server_url": "string", "created_at": "time",
	"expires_at": "time", "updated_at": "time", "failed_reason": "string", "version": "string", "instance_type": "string",
	"instance_type_name": "string", "reauthentication_enabled": "bool", "max_data_retention_size": "bytes", "browser_url": "string", "size_id": "string",
	"ingress_throughput_per_sec": "string", "egress_throughput_per_sec": "string", "total_max_connections": "integer", "max_partitions": "integer",
	"max_data_retention_period": "string", "max_connection_attempts_per_sec": "integer", "billing_cloud_account_id": "string", "marketplace": "string",
	"billing_model": "string", "promotion_status": "string", "cluster_id": "string", "promotion_details": "string",
}

func checkTypes(t *testing.T, types map[string]string, got map[string]any) {
	t.Helper()
	for name, v := range got {
		ok := false
		switch types[name] {
		case "string":
			_, ok = v.(string)
		case "bool":
			_, ok = v.(bool)
		case "integer":
			n, isNumber := v.(float64)
			ok = isNumber && n == float64(int64(n))
		case "time":
			s, _ := v.(string)
			_, err := time.Parse(time.RFC3339, s)
			ok = err == nil
		case "bytes":
			m, _ := v.(map[string]any)
			n, isNumber := m["bytes"].(float64)
			ok = isNumber && len(m) == 1 && n > 0
		case "":
			t.Errorf("field %s is not one of the reference's", name)
			continue
		}
		if !ok {
			t.Errorf("%s is %v, want a %s", name, v, types[name])
		}
	}
}

func TestKafkaOnTheWire(t *testing.T) {
	f := newFleet(t)
	f.quota.give("acme", "standard", "standard", 10)
	alice, carol := f.user(t, "alice", "acme"), f.user(t, "carol", "poor")
	w := f.do(t, alice, "POST", kafkas+"?async=true", `{"name":"one","cloud_provider":"aws","region":"us-east-1","plan":"standard.x1","reauthentication_enabled":null,"billing_model":null,"marketplace":null,"billing_cloud_account_id":null,"cluster_id":null}`).ok(202)
	noNulls(t, "an order", w.Body.Bytes())
	made := w.object()
	checkTypes(t, wireTypes, made)
	for name, want := range map[string]any{
		"kind": "Kafka", "status": "accepted", "multi_az": true, "instance_type": "standard", "instance_type_name": "Standard", "size_id": "x1",
		"reauthentication_enabled": true, "billing_model": "standard", "owner": "alice", "total_max_connections": 9000.0, "max_partitions": 1500.0,
		"max_data_retention_period": "P14D", "ingress_throughput_per_sec": "50Mi", "max_data_retention_size": map[string]any{"bytes": 1073741824000.0},
	} {
		if d := cmp.Diff(want, made[name]); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	for _, absent := range []string{"expires_at", "failed_reason", "version", "admin_api_server_url", "promotion_status", "promotion_details", "cluster_id", "marketplace", "billing_cloud_account_id"} {
		if v, there := made[absent]; there {
			t.Errorf("%s is there: %v", absent, v)
		}
	}
	trial := f.do(t, carol, "POST", kafkas+"?async=true", `{"name":"two"}`).ok(202).object()
	checkTypes(t, wireTypes, trial)
	if trial["instance_type"] != "developer" || trial["multi_az"] != false || trial["expires_at"] == nil || trial["cloud_provider"] != "aws" {
		t.Errorf("whoever has no quota gets a trial, which ends: %v", trial)
	}
	if list := f.do(t, alice, "GET", kafkas, "").ok(200); true {
		noNulls(t, "a list", list.Body.Bytes())
		items := list.object()["items"].([]any)
		if len(items) != 1 || list.object()["kind"] != "KafkaRequestList" {
			t.Errorf("alice's list: %v", list.object())
		}
	}
	f.do(t, alice, "GET", kafkas+"/"+made["id"].(string), "").ok(200)
	off := f.do(t, alice, "PATCH", kafkas+"/"+made["id"].(string), `{"reauthentication_enabled":false,"owner":null}`).ok(200).object()
	if off["reauthentication_enabled"] != false || off["owner"] != "alice" {
		t.Errorf("after the patch: %v", off)
	}
	f.do(t, alice, "PATCH", kafkas+"/"+made["id"].(string), `{"reauthentication_enabled":"yes"}`).
		refused("a text is no truth value", 400, "37")
	f.do(t, alice, "PATCH", kafkas+"/"+made["id"].(string), `{"max_data_retention_size":"1Ti"}`).refused("that is for operators", 400, "37")
	f.do(t, alice, "DELETE", kafkas+"/"+made["id"].(string), "").refused("only later", 400, "103")
	f.do(t, alice, "DELETE", kafkas+"/"+made["id"].(string)+"?async=true", "").ok(202)
}

func TestKafkaOrdersThatAreRefused(t *testing.T) {
	f := newFleet(t)
	for _, model := range []string{"standard", "marketplace", "enterprise", "eval"} {
		f.quota.give("acme", "standard", model, 2)
	}
	alice, carol := f.user(t, "alice", "acme"), f.user(t, "carol", "poor")
	f.kafka(t, alice, "taken")
	seq := f.seq(t)
	for name, tc := range map[string]struct {
		reason, token, query, body string
		status                     int
		code                       string
	}{
		"sync":           {"async goes before everything", alice, "", `{"name":"Bad Name"}`, 400, "103"},
		"short":          {"then the name's length", alice, "?async=true", `{"name":"","cloud_provider":"mars"}`, 400, "33"},
		"long":           {"then the name's length", alice, "?async=true", `{"name":"` + strings.Repeat("a", 33) + `","cloud_provider":"mars"}`, 400, "34"},
		"form":           {"then its form", alice, "?async=true", `{"name":"Bad_Name","cloud_provider":"mars"}`, 400, "32"},
		"provider":       {"then where", alice, "?async=true", `{"name":"a","cloud_provider":"mars","plan":"nope"}`, 400, "30"},
		"region":         {"then where", alice, "?async=true", `{"name":"a","cloud_provider":"aws","region":"mars","plan":"nope"}`, 400, "31"},
		"plan":           {"then the plan", alice, "?async=true", `{"name":"a","plan":"nope","billing_model":"nope"}`, 400, "42"},
		"size":           {"then the plan", alice, "?async=true", `{"name":"a","plan":"standard.x9"}`, 400, "42"},
		"other type":     {"a plan of a type that one is not entitled to", carol, "?async=true", `{"name":"a","plan":"standard.x1"}`, 400, "42"},
		"billing":        {"then how it is paid", alice, "?async=true", `{"name":"a","billing_model":"barter"}`, 400, "21"},
		"no account":     {"a marketplace needs an account", alice, "?async=true", `{"name":"a","billing_model":"marketplace","marketplace":"aws"}`, 400, "43"},
		"no market":      {"an account needs a marketplace", alice, "?async=true", `{"name":"a","billing_model":"marketplace","billing_cloud_account_id":"1"}`, 400, "43"},
		"wrong market":   {"there is no such marketplace", alice, "?async=true", `{"name":"a","billing_model":"marketplace","marketplace":"souk","billing_cloud_account_id":"1"}`, 400, "43"},
		"no cluster":     {"enterprise needs a cluster", alice, "?async=true", `{"name":"a","billing_model":"enterprise"}`, 400, "45"},
		"unknown":        {"misspelt fields are told", alice, "?async=true", `{"name":"a","reauth":true}`, 400, "37"},
		"type":           {"wrong types are told", alice, "?async=true", `{"name":"a","billing_model":7}`, 400, "17"},
		"parameter":      {"so are wrong parameters", alice, "?async=true", `{"name":"a","reauthentication_enabled":"yes"}`, 400, "37"},
		"operators only": {"what operators set is no parameter of an order", alice, "?async=true", `{"name":"a","max_data_retention_size":"1Ti"}`, 400, "37"},
		"taken":          {"a name is used once", alice, "?async=true", `{"name":"taken"}`, 409, "36"},
		"quota":          {"two units are not left", alice, "?async=true", `{"name":"a","plan":"standard.x2","billing_model":"standard"}`, 403, "120"},
	} {
		t.Run(name, func(t *testing.T) {
			f.do(t, tc.token, "POST", kafkas+tc.query, tc.body).refused(tc.reason, tc.status, tc.code)
		})
	}
	if n := f.written(t, seq); n != 0 {
		t.Errorf("%d changes were written", n)
	}
	f.do(t, carol, "POST", kafkas+"?async=true", `{"name":"trial"}`).ok(202)
	f.do(t, carol, "POST", kafkas+"?async=true", `{"name":"again"}`).refused("one trial at a time", 403, "24")
	f.quota.mu.Lock()
	f.quota.away = true
	f.quota.mu.Unlock()
	f.do(t, alice, "POST", kafkas+"?async=true", `{"name":"b"}`).refused("the quota cannot be looked up", 500, "121")
}

func TestWhoIsKeptOut(t *testing.T) {
	f := newFleet(t)
	alice := f.user(t, "alice", "acme")
	id := f.kafka(t, alice, "one")
	user := []string{"GET " + kafkas, "GET " + kafkas + "/" + id, "GET " + kafkas + "/" + id + "/metrics/query", "GET " + kafkaAPI + "/service_accounts",
		"GET " + kafkaAPI + "/instance_types/aws/us-east-1", "POST " + kafkas + "?async=true", "DELETE " + kafkas + "/" + id + "?async=true",
		"PATCH " + kafkas + "/" + id, "POST " + kafkas + "/" + id + "/promote?async=true", "GET " + kafkaAPI + "/clusters", "GET /apis/service_accounts/v1", "GET " + dinosaurs}
	open := []string{"GET " + kafkaAPI + "/cloud_providers", "GET " + kafkaAPI + "/cloud_providers/aws/regions", "GET " + kafkaAPI + "/errors", "GET " + kafkaAPI + "/sso_providers"}
	try := func(reason string, status int, code string) {
		t.Helper()
		for _, line := range user {
			verb, path, _ := strings.Cut(line, " ")
			f.do(t, alice, verb, path, `{"name":"x"}`).refused(reason+": "+line, status, code)
		}
		for _, line := range open {
			verb, path, _ := strings.Cut(line, " ")
			f.do(t, alice, verb, path, "").ok(200)
		}
	}
	f.policy.set(func(d *doorman) { d.denied = map[string]bool{"alice": true} })
	try("on the deny list", 403, "4")
	f.policy.set(func(d *doorman) { d.denied, d.maintenance = nil, true })
	try("not on the access list", 403, "18")
	f.policy.set(func(d *doorman) { d.maintenance, d.unaccepted = false, true })
	f.do(t, alice, "POST", kafkas+"?async=true", `{"name":"two"}`).refused("terms first", 403, "12")
	f.do(t, alice, "GET", kafkas, "").ok(200)
	agent := f.token(t, access.Claims{Cluster: "c1"})
	f.do(t, agent, "GET", kafkas, "").refused("agents are no users", 403, "11")
}

func TestPromotion(t *testing.T) {
	f := newFleet(t)
	for _, model := range []string{"eval", "standard", "marketplace"} {
		f.quota.give("acme", "standard", model, 5)
	}
	alice, bob := f.user(t, "alice", "acme"), f.user(t, "bob", "acme")
	id := f.do(t, alice, "POST", kafkas+"?async=true", `{"name":"one","billing_model":"eval"}`).ok(202).object()["id"].(string)
	path := kafkas + "/" + id + "/promote"
	body := `{"desired_kafka_billing_model":"marketplace","desired_marketplace":"aws","desired_billing_cloud_account_id":"1234"}`
	f.do(t, alice, "POST", path, body).refused("only later", 400, "103")
	path += "?async=true"
	f.do(t, alice, "POST", path, body).refused("it is not ready yet", 409, "6")
	f.move(t, id, "ready")
	f.do(t, alice, "POST", path, `{}`).refused("the model is needed", 400, "21")
	f.do(t, alice, "POST", path, `{"desired_kafka_billing_model":"enterprise"}`).refused("not to that", 400, "21")
	f.do(t, alice, "POST", path, `{"desired_kafka_billing_model":"marketplace"}`).refused("an account is needed", 400, "43")
	f.do(t, alice, "POST", path, `{"model":"standard"}`).refused("misspelt", 400, "37")
	f.do(t, bob, "POST", path, body).refused("a colleague may look, not touch", 403, "11")
	if w := f.do(t, alice, "POST", path, body).ok(202); w.Body.Len() != 0 {
		t.Errorf("a promotion answers with %q", w.Body)
	}
	got := f.do(t, alice, "GET", kafkas+"/"+id, "").ok(200).object()
	if got["promotion_status"] != "promoting" || got["billing_model"] != "eval" || got["status"] != "ready" {
		t.Errorf("while it is promoted: %v", got)
	}
	f.do(t, alice, "POST", path, body).refused("once at a time", 409, "6")
	f.do(t, alice, "POST", dinosaurs+"/x/promote?async=true", body).refused("dinosaurs are not promoted", 404, "7")
}

func TestPlaces(t *testing.T) {
	f := newFleet(t)
	alice := f.user(t, "alice", "acme")
	f.room(t, "c1", "aws", "us-east-1", 1)
	regions := f.do(t, alice, "GET", kafkaAPI+"/cloud_providers/aws/regions", "").ok(200)
	noNulls(t, "regions", regions.Body.Bytes())
	var list struct {
		Kind  string
		Items []struct {
			Kind, ID string
			Enabled  bool
			Capacity []struct {
				Type  string   `json:"instance_type"`
				Sizes []string `json:"available_sizes"`
			}
			Types []string `json:"supported_instance_types"`
		}
	}
	regions.into(&list)
	if len(list.Items) != 2 || list.Items[0].Types != nil || !list.Items[0].Enabled {
		t.Fatalf("regions are %s", regions.Body)
	}
	for _, c := range list.Items[0].Capacity {
		if d := cmp.Diff([]string{"x1"}, c.Sizes); d != "" {
			t.Errorf("where one unit is free: %s: %s", c.Type, d)
		}
	}
	for _, c := range list.Items[1].Capacity {
		if c.Sizes == nil || len(c.Sizes) != 0 {
			t.Errorf("where nothing is: %v", c)
		}
	}
	types := f.do(t, alice, "GET", kafkaAPI+"/instance_types/aws/us-east-1", "").ok(200)
	noNulls(t, "instance types", types.Body.Bytes())
	var all struct {
		Types []struct {
			ID      string
			Display string           `json:"display_name"`
			Billing []map[string]any `json:"supported_billing_models"`
			Sizes   []map[string]any
		} `json:"instance_types"`
	}
	types.into(&all)
	if len(all.Types) != 2 || all.Types[0].ID != "standard" || len(all.Types[0].Sizes) != 2 || len(all.Types[0].Billing) != 4 || len(all.Types[1].Billing) != 1 {
		t.Fatalf("instance types are %s", types.Body)
	}
	want := map[string]any{"id": "standard", "ams_resource": "rhosak", "ams_product": "RHOSAK", "ams_billing_models": []any{"standard"}}
	if d := cmp.Diff(want, all.Types[0].Billing[0]); d != "" {
		t.Error(d)
	}
	trial := all.Types[1].Sizes[0]
	if trial["lifespan_seconds"] != 172800.0 || trial["maturity_status"] != "stable" || all.Types[0].Sizes[1]["maturity_status"] != "preview" {
		t.Errorf("a trial's size is %v", trial)
	}
	checkTypes(t, map[string]string{
		"id": "string", "display_name": "string", "ingress_throughput_per_sec": "bytes", "egress_throughput_per_sec": "bytes", "total_max_connections": "integer",
		"max_data_retention_size": "bytes", "max_partitions": "integer", "max_data_retention_period": "string", "max_connection_attempts_per_sec": "integer",
		"max_message_size": "bytes", "min_in_sync_replicas": "integer", "replication_factor": "integer", "lifespan_seconds": "integer",
		"quota_consumed": "integer", "quota_type": "string", "capacity_consumed": "integer", "maturity_status": "string",
	}, without(trial, "supported_az_modes"))
	if d := cmp.Diff([]any{"single"}, trial["supported_az_modes"]); d != "" {
		t.Error(d)
	}
	f.do(t, alice, "GET", kafkaAPI+"/instance_types/mars/us-east-1", "").refused("no such provider", 400, "30")
	f.do(t, alice, "GET", kafkaAPI+"/instance_types/aws/mars", "").refused("no such region", 400, "31")
	f.do(t, alice, "GET", kafkaAPI+"/instance_types/aws", "").refused("nothing there", 404, "7")
	f.do(t, alice, "GET", kafkaAPI+"/status", "").refused("kafkas have no such page", 404, "7")
	f.do(t, alice, "GET", api+"/instance_types/local/local", "").refused("dinosaurs have no such page", 404, "7")
	f.do(t, alice, "GET", kafkaAPI+"/cloud_providers?size=0", "").refused("no page", 400, "17")
}

func without(m map[string]any, name string) map[string]any {
	out := map[string]any{}
	for k, v := range m {
		if k != name {
			out[k] = v
		}
	}
	return out
}

func TestUpstreamsThatFail(t *testing.T) {
	f := newFleet(t)
	alice := f.user(t, "alice", "acme")
	for reason, code := range map[string]string{"account-create": "110", "account-get": "111", "account-delete": "112"} {
		f.accounts.fails(fault.New(fault.Unavailable, "10.0.0.1 refused the password").Because(reason))
		e := f.do(t, alice, "GET", kafkaAPI+"/service_accounts/x", "").refused("the identity provider is away", 500, code)
		if strings.Contains(e.Reason, "10.0.0.1") {
			t.Errorf("users read %q", e.Reason)
		}
	}
}
