package offering_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/expr"
	"github.com/droverhq/drover/internal/offering"
	"github.com/droverhq/drover/offerings"
)

func shipped(t testing.TB, name string) *offering.Offering {
	t.Helper()
	data, err := offerings.FS.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, data)
}

// everything are the facts of a kafka that has all there is to show.
func everything(t testing.TB, o *offering.Offering) (offering.Facts, offering.Surroundings) {
	t.Helper()
	parameters, err := o.ValidateOrder(nil)
	if err != nil {
		t.Fatal(err)
	}
	_, size, err := o.Plan("standard.x1")
	if err != nil {
		t.Fatal(err)
	}
	return offering.Facts{
			ID: "k1", Name: "ledger", Owner: "alice", Org: "13640203", Account: "acc-1", Phase: "ready", Reason: "it was away",
			Provider: "aws", Region: "us-east-1", MultiAZ: true, Type: "standard", Size: "x1", Version: "3.3.1",
			Versions:  map[string]string{"kafka": "3.3.1", "kafkaIbp": "3.3", "strimzi": "strimzi-cluster-operator.v0.32.0-5"},
			Actual:    map[string]string{"kafka": "3.3.0", "kafkaIbp": "3.2", "strimzi": "strimzi-cluster-operator.v0.31.0-2"},
			Upgrading: []string{"kafka"}, Cluster: "c1", Namespace: "kafka-k1", Placement: "p1",
			Host:   "ledger-k1.kafka.localhost",
			Routes: []map[string]any{{"domain": "ledger-k1.kafka.localhost", "router": "router.c1.example.org"}},
			Admin:  "https://admin-server-ledger-k1.kafka.localhost", Client: "canary-k1", Parameters: size.Fill(parameters),
			Billing: "enterprise", Market: "aws", Payer: "123456789012", Promotion: "failed", Promoting: "no quota",
			Quota: "quota-management-list", Ticket: "sub-1", RoutesDone: true, Certificate: "ready", Suspended: true,
			Created: born, Expires: born.Add(48 * time.Hour),
		}, offering.Surroundings{
			Cluster: offering.ClusterFacts{
				ID: "c1", Domain: "c1.example.org", Client: "agent-c1", Private: true, Nodes: map[string]int64{"standard": 30},
				Versions: map[string]string{"kafka": "3.3.1", "kafkaIbp": "3.3", "strimzi": "strimzi-cluster-operator.v0.32.0-5"},
			},
			SSO: offering.SSOFacts{
				Issuer: "https://sso.example.org/auth/realms/r", Token: "https://sso.example.org/token", JWKS: "https://sso.example.org/certs",
			},
			Server: offering.ServerFacts{URL: "https://drover.example.org"},
		}
}

// always are the fields that the API adds to what an offering presents.
var always = []string{"id", "kind", "href", "name", "owner", "status", "cloud_provider", "region", "multi_az", "created_at", "updated_at"}

// paths are the places of all values in a document: "spec.tls.cert", lists as "owners[]".
func paths(v any, at string) []string {
	switch x := v.(type) {
	case map[string]any:
		var out []string
		for k, member := range x {
			out = append(out, paths(member, strings.TrimPrefix(at+"/"+k, "/"))...)
		}
		return out
	case []any:
		if len(x) > 0 {
			return paths(x[0], at+"[]")
		}
	}
	return []string{at}
}

func sameFields(t *testing.T, reason string, want []string, doc json.RawMessage, besides ...string) {
	t.Helper()
	var tree any
	if err := json.Unmarshal(doc, &tree); err != nil {
		t.Fatal(err)
	}
	got := append(paths(tree, ""), besides...)
	slices.Sort(got)
	want = slices.Sorted(slices.Values(want))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: -contract +rendered\n%s", reason, diff)
	}
}

// The fields are those of the kas wire: one that is missing breaks its clients,
// one more is none of theirs.
func TestKafkaHasTheFieldsOfItsContract(t *testing.T) {
	o := shipped(t, "kafka.yaml")
	facts, around := everything(t, o)
	view, err := o.Present(t.Context(), facts)
	if err != nil {
		t.Fatal(err)
	}
	sameFields(t, "KafkaRequest", strings.Fields(`id kind href status cloud_provider multi_az region owner name bootstrap_server_host
		admin_api_server_url created_at expires_at updated_at failed_reason version instance_type instance_type_name
		reauthentication_enabled max_data_retention_size/bytes browser_url size_id ingress_throughput_per_sec
		egress_throughput_per_sec total_max_connections max_partitions max_data_retention_period max_connection_attempts_per_sec
		billing_cloud_account_id marketplace billing_model promotion_status cluster_id promotion_details`), view, always...)

	view, err = o.PresentAdmin(t.Context(), facts, around)
	if err != nil {
		t.Fatal(err)
	}
	// account_number is the organisation's at a source that nothing here knows of: absent, as any empty field.
	sameFields(t, "Kafka for operators", strings.Fields(`id kind href status cloud_provider multi_az region owner name bootstrap_server_host
		created_at updated_at failed_reason actual_kafka_version actual_strimzi_version desired_kafka_version desired_strimzi_version
		desired_kafka_ibp_version actual_kafka_ibp_version kafka_upgrading strimzi_upgrading kafka_ibp_upgrading organisation_id
		subscription_id owner_account_id instance_type quota_type routes[]/domain routes[]/router routes_created
		cluster_id namespace size_id max_data_retention_size/bytes`), view, always...)

	doc, err := o.Desired(t.Context(), facts, around)
	if err != nil {
		t.Fatal(err)
	}
	managed := strings.Fields(`metadata/name metadata/namespace metadata/annotations/bf2.org/id metadata/annotations/bf2.org/placementId
		metadata/labels/bf2.org/kafkaInstanceProfileType metadata/labels/bf2.org/kafkaInstanceProfileQuotaConsumed metadata/labels/bf2.org/suspended
		spec/serviceAccounts[]/name spec/serviceAccounts[]/principal spec/serviceAccounts[]/password
		spec/capacity/ingressPerSec spec/capacity/egressPerSec spec/capacity/totalMaxConnections spec/capacity/maxDataRetentionSize
		spec/capacity/maxPartitions spec/capacity/maxDataRetentionPeriod spec/capacity/maxConnectionAttemptsPerSec
		spec/oauth/tokenEndpointURI spec/oauth/jwksEndpointURI spec/oauth/validIssuerEndpointURI spec/oauth/userNameClaim
		spec/oauth/fallbackUserNameClaim spec/oauth/customClaimCheck spec/oauth/maximumSessionLifetime
		spec/owners[] spec/endpoint/bootstrapServerHost spec/endpoint/tls/cert spec/endpoint/tls/key
		spec/versions/kafka spec/versions/kafkaIbp spec/versions/strimzi spec/deleted`)
	sameFields(t, "ManagedKafka with a certificate", managed, doc)

	facts.Certificate = "missing"
	if doc, err = o.Desired(t.Context(), facts, around); err != nil {
		t.Fatal(err)
	}
	paused := slices.DeleteFunc(slices.Clone(managed), func(s string) bool { return strings.HasPrefix(s, "spec/endpoint/tls") })
	sameFields(t, "ManagedKafka that waits for its certificate",
		append(paused, "metadata/annotations/managedkafka.bf2.org/pause-reconciliation"), doc)
	facts.Certificate = ""
	if doc, err = o.Desired(t.Context(), facts, around); err != nil {
		t.Fatal(err)
	}
	sameFields(t, "ManagedKafka where no certificates are used", paused, doc)

	config, err := o.AgentConfig(t.Context(), around)
	if err != nil {
		t.Fatal(err)
	}
	sameFields(t, "DataplaneClusterAgentConfig; an empty token is there, too: the agent's resource requires it", strings.Fields(`spec/net/private spec/capacity/standard/maxNodes
		spec/observability/accessToken spec/observability/channel spec/observability/repository spec/observability/tag`), config)
}

func TestKafkaSizesHaveTheFieldsOfTheirContract(t *testing.T) {
	o := shipped(t, "kafka.yaml")
	want := strings.Fields(`ingress_throughput_per_sec egress_throughput_per_sec total_max_connections max_data_retention_size max_partitions
		max_data_retention_period max_connection_attempts_per_sec max_message_size min_in_sync_replicas replication_factor supported_az_modes quota_type`)
	slices.Sort(want)
	for _, typ := range o.Spec.Types {
		for _, size := range typ.Sizes {
			plan := typ.Name + "." + size.Name
			if diff := cmp.Diff(want, slices.Sorted(maps.Keys(size.Present))); diff != "" {
				t.Errorf("%s: -contract +file\n%s", plan, diff)
			}
			for shown, limit := range map[string]string{
				"ingress_throughput_per_sec": "ingress", "egress_throughput_per_sec": "egress", "max_data_retention_size": "retention",
			} {
				bytes, ok := expr.Quantity(size.Limits[limit].(string))
				if got := size.Present[shown].(map[string]any)["bytes"]; !ok || got != bytes {
					t.Errorf("%s: %s shows %v, its limit is %d", plan, shown, got, bytes)
				}
			}
			for shown, limit := range map[string]string{"total_max_connections": "connections", "max_partitions": "partitions",
				"max_data_retention_period": "period", "max_connection_attempts_per_sec": "attempts"} {
				if size.Present[shown] != size.Limits[limit] {
					t.Errorf("%s: %s shows %v, its limit is %v", plan, shown, size.Present[shown], size.Limits[limit])
				}
			}
			if size.Parameters["max_data_retention_size"] != size.Limits["retention"] {
				t.Errorf("%s: what it keeps at first is its limit", plan)
			}
		}
	}
}

func TestKafkaDocuments(t *testing.T) {
	o := shipped(t, "kafka.yaml")
	facts, around := everything(t, o)
	doc, err := o.Desired(t.Context(), facts, around)
	if err != nil {
		t.Fatal(err)
	}
	filled, err := offering.FillSecrets(doc, func(name string) (string, error) { return "<" + name + ">", nil })
	if err != nil {
		t.Fatal(err)
	}
	sameJSON(t, "a ManagedKafka as its agent knows it", `{
		"metadata": {"name": "ledger", "namespace": "kafka-k1",
			"annotations": {"bf2.org/id": "k1", "bf2.org/placementId": "p1"},
			"labels": {"bf2.org/kafkaInstanceProfileType": "standard", "bf2.org/kafkaInstanceProfileQuotaConsumed": "1", "bf2.org/suspended": "true"}},
		"spec": {
			"serviceAccounts": [{"name": "canary", "principal": "canary-k1", "password": "<canary>"}],
			"capacity": {"ingressPerSec": "50Mi", "egressPerSec": "100Mi", "totalMaxConnections": 9000, "maxDataRetentionSize": "1000Gi",
				"maxPartitions": 1500, "maxDataRetentionPeriod": "P14D", "maxConnectionAttemptsPerSec": 100},
			"oauth": {"tokenEndpointURI": "https://sso.example.org/token", "jwksEndpointURI": "https://sso.example.org/certs",
				"validIssuerEndpointURI": "https://sso.example.org/auth/realms/r", "userNameClaim": "clientId", "fallbackUserNameClaim": "preferred_username",
				"customClaimCheck": "@.rh-org-id == '13640203' || @.org_id == '13640203'", "maximumSessionLifetime": 299000},
			"owners": ["alice"],
			"endpoint": {"bootstrapServerHost": "ledger-k1.kafka.localhost", "tls": {"cert": "<tls.crt>", "key": "<tls.key>"}},
			"versions": {"kafka": "3.3.1", "kafkaIbp": "3.3", "strimzi": "strimzi-cluster-operator.v0.32.0-5"},
			"deleted": false}}`, filled)
	view, err := o.Present(t.Context(), facts)
	if err != nil {
		t.Fatal(err)
	}
	sameJSON(t, "a KafkaRequest beyond the common fields", `{
		"bootstrap_server_host": "ledger-k1.kafka.localhost:443", "admin_api_server_url": "https://admin-server-ledger-k1.kafka.localhost",
		"expires_at": "2026-11-17T04:00:00Z", "failed_reason": "it was away", "version": "3.3.0", "instance_type": "standard",
		"instance_type_name": "Standard", "reauthentication_enabled": true, "max_data_retention_size": {"bytes": 1073741824000},
		"browser_url": "http://localhost:8080/k1/dashboard", "size_id": "x1", "ingress_throughput_per_sec": "50Mi",
		"egress_throughput_per_sec": "100Mi", "total_max_connections": 9000, "max_partitions": 1500, "max_data_retention_period": "P14D",
		"max_connection_attempts_per_sec": 100, "billing_cloud_account_id": "123456789012", "marketplace": "aws", "billing_model": "enterprise",
		"promotion_status": "failed", "promotion_details": "no quota", "cluster_id": "c1"}`, view)
	view, err = o.PresentAdmin(t.Context(), facts, around)
	if err != nil {
		t.Fatal(err)
	}
	sameJSON(t, "a Kafka as operators see it", `{
		"bootstrap_server_host": "ledger-k1.kafka.localhost:443", "failed_reason": "it was away",
		"actual_kafka_version": "3.3.0", "actual_strimzi_version": "strimzi-cluster-operator.v0.31.0-2", "actual_kafka_ibp_version": "3.2",
		"desired_kafka_version": "3.3.1", "desired_strimzi_version": "strimzi-cluster-operator.v0.32.0-5", "desired_kafka_ibp_version": "3.3",
		"kafka_upgrading": true, "strimzi_upgrading": false, "kafka_ibp_upgrading": false, "organisation_id": "13640203",
		"subscription_id": "sub-1", "owner_account_id": "acc-1", "instance_type": "standard", "quota_type": "quota-management-list",
		"routes": [{"domain": "ledger-k1.kafka.localhost", "router": "router.c1.example.org"}], "routes_created": true,
		"cluster_id": "c1", "namespace": "kafka-k1", "size_id": "x1", "max_data_retention_size": {"bytes": 1073741824000}}`, view)

	facts.Org, facts.Owner = "", `o'brien \' || '' == '`
	doc, err = o.Desired(t.Context(), facts, around)
	var spec struct {
		Spec struct {
			OAuth struct{ CustomClaimCheck string } `json:"oauth"`
		}
	}
	if err := json.Unmarshal(doc, &spec); err != nil {
		t.Fatal(err)
	}
	if want := `@.preferred_username == 'o\'brien \\\' || \'\' == \'' || @.username == 'o\'brien \\\' || \'\' == \''`; err != nil || spec.Spec.OAuth.CustomClaimCheck != want {
		t.Errorf("a name does not end its quotes: got %s, %v", spec.Spec.OAuth.CustomClaimCheck, err)
	}
}

func TestKafkaRendersEveryPlanAndBillingModel(t *testing.T) {
	o := shipped(t, "kafka.yaml")
	_, around := everything(t, o)
	for _, typ := range o.Spec.Types {
		for _, size := range typ.Sizes {
			for _, model := range typ.Billing {
				parameters, err := o.ValidateOrder(map[string]any{"reauthentication_enabled": false})
				if err != nil {
					t.Fatal(err)
				}
				ordered := offering.Facts{
					ID: "k1", Name: "n", Owner: "alice", Org: "acme", Phase: "accepted", Type: typ.Name, Size: size.Name,
					Billing: model, Cluster: "c1", Parameters: size.Fill(parameters), Created: born,
				}
				name := typ.Name + "." + size.Name + " " + model
				view, err := o.Present(t.Context(), ordered)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				var shown map[string]any
				if err := json.Unmarshal(view, &shown); err != nil {
					t.Fatal(err)
				}
				if _, tells := shown["cluster_id"]; tells != (model == "enterprise") || shown["billing_model"] != model || shown["reauthentication_enabled"] != false {
					t.Errorf("%s: only owners of a cluster are told which: %s", name, view)
				}
				for _, absent := range []string{"version", "bootstrap_server_host", "expires_at", "failed_reason", "promotion_status", "marketplace"} {
					if _, there := shown[absent]; there {
						t.Errorf("%s: %s is empty and should be absent", name, absent)
					}
				}
				for part, err := range map[string]error{
					"admin":   second(o.PresentAdmin(t.Context(), ordered, offering.Surroundings{})),
					"desired": second(o.Desired(t.Context(), ordered, around)),
					"routes":  second(o.Routes(t.Context(), ordered)),
				} {
					if err != nil {
						t.Errorf("%s: %s: %v", name, part, err)
					}
				}
			}
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestDinosaurHasTheFieldsOfItsContract(t *testing.T) {
	o := shipped(t, "dinosaur.yaml")
	_, facts := dinosaur(t)
	facts.Versions, facts.Certificate = map[string]string{"dinosaur": "1.0.0", "dinosaurOperator": "1.0.0"}, "ready"
	facts.Actual, facts.Reason, facts.Account, facts.Quota, facts.Ticket = facts.Versions, "lost", "a", "list", "s"
	facts.Routes = []map[string]any{{"domain": "d", "router": "r"}}
	view, err := o.PresentAdmin(t.Context(), facts, offering.Surroundings{})
	if err != nil {
		t.Fatal(err)
	}
	sameFields(t, "Dinosaur for operators", strings.Fields(`id kind href status cloud_provider multi_az region owner name host created_at updated_at
		failed_reason actual_dinosaur_version actual_dinosaur_operator_version desired_dinosaur_version desired_dinosaur_operator_version
		dinosaur_upgrading dinosaur_operator_upgrading organisation_id subscription_id owner_account_id instance_type quota_type
		routes[]/domain routes[]/router routes_created cluster_id namespace`), view, always...)
	doc, err := o.Desired(t.Context(), facts, offering.Surroundings{})
	if err != nil {
		t.Fatal(err)
	}
	var managed struct {
		Metadata any            `json:"metadata"`
		Spec     map[string]any `json:"spec"`
	}
	if err := json.Unmarshal(doc, &managed); err != nil {
		t.Fatal(err)
	}
	delete(managed.Spec, "process") // what the process runtime reads besides
	delete(managed.Spec, "suspended")
	doc, _ = json.Marshal(managed)
	sameFields(t, "ManagedDinosaur", strings.Fields(`metadata/name metadata/namespace metadata/annotations/mas/id metadata/annotations/mas/placementId
		spec/owners[] spec/endpoint/host spec/endpoint/tls/cert spec/endpoint/tls/key spec/versions/dinosaur spec/versions/dinosaurOperator spec/deleted`), doc)
	if !o.Serves("status") || o.Serves("promote") {
		t.Error("it has a status and no promotion")
	}
	if diff := cmp.Diff([]string{"fleet-manager-admin-full", "fleet-manager-admin-write"}, o.AdminRoles("PATCH")); diff != "" {
		t.Error(diff)
	}
}
