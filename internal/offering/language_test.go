package offering_test

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/offering"
	"github.com/droverhq/drover/offerings"
)

func TestParseFindsMistakesOfLargerServices(t *testing.T) {
	data, err := offerings.FS.ReadFile("kafka.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		reason, old, new string
		want             string // path: part of the message
	}{
		"Serves":          {"a collection that there is not", "clusters, promote]", "clusters, promotions]", "spec.api.serves[4]: must be one of status, instance_types"},
		"ServesTwice":     {"one that is there twice", "clusters, promote]", "clusters, clusters]", `spec.api.serves[4]: the name "clusters" is there twice`},
		"NobodyPromotes":  {"promotion to nowhere", "promotable: [standard, marketplace]", "marketplaces: []", "spec.api.serves[4]: no billing model is promotable"},
		"Codes":           {"a code that is no number of an error", "    requestKind", "    codes: {quota: 0}\n    requestKind", "spec.api.codes.quota: must be a reason and a number from 1 to 9999"},
		"NoRank":          {"an order by a rank that there is not", "    rank: ${", "    # ${", "spec.api.order.reauthentication_enabled: needs a rank"},
		"RankCEL":         {"a rank that is wrong", "rank: ${string(instance.p", "rank: ${string(instance.q", "spec.api.rank: undefined field 'qarameters'"},
		"Terms":           {"terms that are no name", `terms: ""`, `terms: "a b"`, "spec.terms: must be a word such as service-terms"},
		"Quota":           {"a way to come to a type that there is not", "quota: granted", "quota: gifted", "spec.types[0].quota: must be one of none, granted, trial"},
		"PerOwner":        {"a limit of trials for what is no trial", "quota: granted", "quota: granted\n      perOwner: 2", "spec.types[0].perOwner: is for types with the quota trial"},
		"PerOwnerLess":    {"fewer than none", "perOwner: 1", "perOwner: -1", "spec.types[1].perOwner: must not be negative"},
		"TypeBilling":     {"a model that there is not", "billing: [standard]", "billing: [gold]", `spec.types[1].billing[0]: there is no billing model "gold"`},
		"ReservedMany":    {"more than a cluster could bear", "quota: granted", "quota: granted\n      reserved: 1000", "spec.types[0].reserved: must be from 0 to 100"},
		"SizeParameter":   {"a size with a parameter that its schema refuses", "{max_data_retention_size: 1000Gi}", "{max_data_retention_size: much}", "spec.types[0].sizes[0].parameters: max_data_retention_size:"},
		"SizeParameters":  {"or does not know", "{max_data_retention_size: 1000Gi}", "{max_size: 1Gi}", "spec.types[0].sizes[0].parameters: max_size: is not a known parameter"},
		"BillingName":     {"a model without a name", "    - name: eval\n      grace: 96h", "    - grace: 96h", "spec.billing[2].name: is required"},
		"BillingTwice":    {"two models of one name", "- name: eval", "- name: standard", `spec.billing[2].name: the name "standard" is there twice`},
		"Grace":           {"a time without unit", "grace: 96h", "grace: 96", "spec.billing[2].grace: must be a duration"},
		"Market":          {"a market that is no word", "marketplaces: [aws, rhm]", "marketplaces: [aws, R H]", "spec.billing[1].marketplaces[1]: must be a lower-case word"},
		"Promotable":      {"promotion to what there is not", "promotable: [standard, marketplace]", "promotable: [standard, gold]", `spec.billing[2].promotable[1]: there is no other billing model "gold"`},
		"PromotableSelf":  {"promotion to itself", "promotable: [standard, marketplace]", "promotable: [eval]", `spec.billing[2].promotable[0]: there is no other billing model "eval"`},
		"Limits":          {"a limit for a type that there is not", `"EU, Ireland"}`, `"EU, Ireland", limits: {royal: 1}}`, `spec.providers[0].regions[1].limits.royal: there is no instance type "royal"`},
		"LimitsLess":      {"less than nothing", `"EU, Ireland"}`, `"EU, Ireland", limits: {standard: -1}}`, "spec.providers[0].regions[1].limits.standard: must not be negative"},
		"Downgrade":       {"a rule that there is not", "downgrade: never", "downgrade: sometimes", "spec.components[1].downgrade: must be one of any, minor, never"},
		"NoReport":        {"versions that nobody tells", "kafka: kafkaVersions, ", "", "spec.components[0].versions: must have at least one version, or agent.reports"},
		"Identity":        {"an identity that is no word", "identity: {name: canary}", "identity: {name: A B}", "spec.identity.name: must be a lower-case word"},
		"IdentityAgent":   {"an identity that would be the agent's", "identity: {name: canary}", "identity: {name: agent}", "spec.identity.name: is the name of the agent's own secret"},
		"NoSecret":        {"a secret that there is not", `secret("canary")`, `secret("parrot")`, "spec.desired.spec.serviceAccounts: there is no such secret here; there are canary, tls.crt, tls.key"},
		"SecretMade":      {"a secret whose name is made up on the way", `secret("canary")`, `secret(instance.name)`, "spec.desired.spec.serviceAccounts: there is no such secret here"},
		"SecretText":      {"a secret inside text", "sso-secret: ${secret", "sso-secret: x ${secret", "spec.agent.parameters.sso-secret: a secret cannot stand inside text"},
		"SecretShown":     {"a secret where users read", "failed_reason: ${instance.reason}", `failed_reason: ${secret("canary")}`, "spec.present.failed_reason: undeclared reference to 'secret'"},
		"SecretAdmin":     {"or operators", "actual_kafka_version: ${instance.actual[?\"kafka\"]}", `actual_kafka_version: ${secret("canary")}`, "spec.admin.present.actual_kafka_version: undeclared reference to 'secret'"},
		"SecretOfAgent":   {"the agent's secret in a tenant's document", "principal\": instance.client", "principal\": secret(\"agent\")", "spec.desired.spec.serviceAccounts: there is no such secret here"},
		"ReservedCEL":     {"a mistake in what is kept warm", "bf2.org/deployment: reserved", "bf2.org/deployment: ${typ.name}", "spec.reserved.metadata.labels.bf2.org/deployment: undeclared reference to 'typ'"},
		"ChangeNothing":   {"a change of nothing", "reauthentication_enabled: {parameter: reauthentication_enabled}", "reauthentication_enabled: {}", "spec.changes.reauthentication_enabled: must say one of parameter, component and suspended"},
		"ChangeTwo":       {"a change of two things", "kafka_version: {component: kafka}", "kafka_version: {component: kafka, suspended: true}", "spec.admin.changes.kafka_version: must say one of"},
		"ChangeParameter": {"a parameter that there is not", "{parameter: reauthentication_enabled}", "{parameter: reauth}", `spec.changes.reauthentication_enabled.parameter: there is no parameter "reauth"`},
		"ChangeComponent": {"a component that there is not", "{component: kafka}", "{component: cafka}", `spec.admin.changes.kafka_version.component: there is no component "cafka"`},
		"ChangeOwner":     {"what everybody may change already", "suspended: {suspended: true}", "owner: {suspended: true}", "spec.admin.changes.owner: cannot be the name"},
		"NoMessage":       {"a rule that says nothing", "        message: max_data", "        # max_data", "spec.admin.changes.max_data_retention_size.message: is required with allowed"},
		"Allowed":         {"a rule that reads what is not there", "isQuantity(new)", "isQuantity(news)", "spec.admin.changes.max_data_retention_size.allowed: undeclared reference to 'news'"},
		"AdminShown":      {"a field that is always shown", "      organisation_id: ${", "      owner: ${", "spec.admin.present.owner: is always shown"},
		"AdminKind":       {"a kind in lower case", "    kind: Kafka\n", "    kind: kafka\n", "spec.admin.kind: must be a word such as Dinosaur"},
		"Method":          {"a method that there is not", "      PATCH: [kas", "      FETCH: [kas", "spec.admin.roles.FETCH: must be one of GET, PATCH, POST, DELETE"},
		"NoRole":          {"a method for nobody", "POST: [kas-fleet-manager-admin-full]", "POST: []", "spec.admin.roles.POST: must name at least one role"},
		"AgentKind":       {"a kind in lower case", "kind: ManagedKafka", "kind: managedKafka", "spec.agent.kind: must be a word such as ManagedDinosaur"},
		"Operator":        {"reports of nobody", "    operator: strimzi\n", "", "spec.agent.operator: is required with reports"},
		"Reports":         {"versions of what there is not", "{strimzi: version,", "{strimsi: version,", `spec.agent.reports.strimsi: there is no component "strimsi"`},
		"Waiting":         {"a phase that is no word", "waiting: waiting_for_kas", "waiting: Waiting for_kas", "spec.agent.waiting: must be a word"},
		"AgentInstance":   {"an instance where there is none", "cluster-id: ${cluster.id}", "cluster-id: ${instance.id}", "spec.agent.parameters.cluster-id: undeclared reference to 'instance'"},
		"ConfigKey":       {"a key that may not be there", "private: \"${cluster.private}\"", "private: \"${cluster.nodes.standard}\"", "spec.agent.config: cannot be made: spec.net.private"},
		"NoSelector":      {"metrics of everybody", "    selector: namespace=", "    # namespace=", "spec.metrics.selector: is required with names"},
		"SelectorFixed":   {"the same, less plainly", `namespace="${instance.namespace}"`, `namespace="kafka"`, "spec.metrics.selector: must hold an expression"},
		"SelectorBare":    {"a value that could be more than one", `namespace="${instance.namespace}"`, `namespace=${instance.namespace}`, "spec.metrics.selector: must be matchers"},
		"SelectorName":    {"a label that tenants could choose", `namespace="${instance.namespace}"`, `${instance.namespace}="a"`, "spec.metrics.selector: must be matchers"},
		"SelectorRegexp":  {"a pattern that tenants could choose", `namespace="${instance.namespace}"`, `namespace=~"${instance.namespace}"`, "spec.metrics.selector: must be matchers"},
		"SelectorNot":     {"everybody else's", `namespace="${instance.namespace}"`, `namespace!="${instance.namespace}"`, "spec.metrics.selector: must be matchers"},
		"SelectorQuote":   {"a quote that the value would be part of", `namespace="${instance.namespace}"`, `namespace="\${instance.namespace}"`, "spec.metrics.selector: must be matchers"},
		"MetricName":      {"a metric that is a query", "- kafka_instance_partition_limit", `- 'a{b="c"}'`, "spec.metrics.names[24]: must be the name of a metric"},
		"Timing":          {"a time below zero", "place: 1h", "place: -1h", "spec.timing.place: must be a duration"},
		"TimingName":      {"a step that there is not", "place: 1h", "plase: 1h", "spec.timing.plase: there is no such field; did you mean place?"},
		"UnknownServer":   {"a fact that there is not", "${server.url}", "${server.uri}", "spec.agent.parameters.control-plane-url: undefined field 'uri'"},
		"UnknownBilling":  {"the same of billing", "${billing.ownCluster", "${billing.ownClusters", "spec.present.cluster_id: undefined field 'ownClusters'"},
		"ActualThere":     {"what only an agent can tell, before it has", `version: ${instance.actual[?"kafka"]}`, `version: ${instance.actual["kafka"]}`, "spec.present: cannot be made for plan developer.x1: version: "},
	} {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(string(data), c.old) {
				t.Fatalf("the file has no %q", c.old)
			}
			_, err := offering.Parse("t.yaml", []byte(strings.Replace(string(data), c.old, c.new, 1)))
			var mistakes offering.Mistakes
			if !fault.Is(err, fault.Invalid) || fault.Reason(err) != "offering" || !errors.As(err, &mistakes) {
				t.Fatalf("%s: got %v", c.reason, err)
			}
			if !strings.Contains(err.Error(), ": "+c.want) || mistakes[0].Line < 2 {
				t.Errorf("%s: want %q, got\n%v", c.reason, c.want, err)
			}
		})
	}
}

func TestWarmItemsNeedADocument(t *testing.T) {
	doc := strings.Replace(minimal, "{name: standard,", "{name: standard, reserved: 1,", 1)
	if _, err := offering.Parse("t.yaml", []byte(doc)); err == nil || !strings.Contains(err.Error(), "spec.types[0].reserved: needs spec.reserved") {
		t.Errorf("got %v", err)
	}
}

func TestDefaultsAreWrittenOut(t *testing.T) {
	o := parse(t, []byte(minimal))
	got := []any{o.Spec.Types[0].Quota, o.Spec.Types[0].Sizes[0].Maturity, o.Spec.Components[0].Downgrade, o.Spec.Admin.Kind, o.Spec.Agent.Kind, o.Spec.Agent.Waiting}
	want := []any{"none", "stable", "minor", "Minimal", "ManagedMinimal", "waiting_for_fleetshard_operator"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if len(o.AdminRoles("GET")) != 3 || len(o.AdminRoles("DELETE")) != 1 || o.AdminRoles("PUT") != nil {
		t.Errorf("operators have roles where the file names none, got %v", o.AdminRoles("GET"))
	}
	kafka := shipped(t, "kafka.yaml")
	if typ, ok := kafka.TypeOf("developer"); !ok || typ.PerOwner != 1 {
		t.Error("one trial at a time")
	}
	if _, ok := kafka.TypeOf("royal"); ok {
		t.Error("there is no such type")
	}
	if b, ok := kafka.BillingModel("enterprise"); !ok || !b.OwnCluster {
		t.Error("enterprise is for clusters of one's own")
	}
	if _, ok := kafka.BillingModel(""); ok {
		t.Error("a model has a name")
	}
	doc := strings.Replace(minimal, "  desired", "  admin: {roles: {GET: [reader]}}\n  desired", 1)
	if roles := parse(t, []byte(doc)).AdminRoles("DELETE"); len(roles) != 0 {
		t.Errorf("where roles are given, nobody else may, got %v", roles)
	}
}

func TestAllowed(t *testing.T) {
	o := shipped(t, "kafka.yaml")
	field := o.Spec.Admin.Changes["max_data_retention_size"]
	for name, c := range map[string]struct {
		reason   string
		old, new any
		ok       bool
	}{
		"Grow":    {"it can grow", "1000Gi", "1.5Ti", true},
		"Same":    {"and stay", "1000Gi", "1000Gi", true},
		"Shrink":  {"but not shrink, whatever the unit", "1000Gi", "900000Mi", false},
		"First":   {"there may be no old one", nil, "1Gi", true},
		"NoValue": {"text that is no quantity", "1000Gi", "much", false},
		"Number":  {"a value that the rule cannot read", "1000Gi", int64(7), false},
		"Null":    {"none at all", "1000Gi", nil, false},
	} {
		err := o.Allowed(t.Context(), field, c.old, c.new)
		if (err == nil) != c.ok {
			t.Errorf("%s: %s: got %v", name, c.reason, err)
		}
		if err != nil && (!fault.Is(err, fault.Invalid) || fault.Reason(err) != "field" || err.Error() != field.Message) {
			t.Errorf("%s: the caller reads the field's message, got %v", name, err)
		}
	}
	if err := o.Allowed(t.Context(), offering.Field{Component: "kafka"}, "1", "2"); err != nil {
		t.Errorf("without a rule everything is allowed, got %v", err)
	}
	if err := o.Allowed(t.Context(), offering.Field{Allowed: "${false}"}, "1", "2"); !fault.Is(err, fault.Internal) {
		t.Errorf("a rule of another file is not run, got %v", err)
	}
}

func TestUpgrade(t *testing.T) {
	o := shipped(t, "kafka.yaml")
	named := parse(t, []byte(strings.Replace(minimal, `versions: ["1"]`, `versions: [jessie, buster, "10"]`, 1)))
	for name, c := range map[string]struct {
		reason              string
		o                   *offering.Offering
		component, from, to string
		ok                  bool
	}{
		"Newer":     {"a newer one", o, "kafka", "3.2.1", "3.3.0", true},
		"Patch":     {"an older patch of the same minor", o, "kafka", "3.3.1", "3.3.0", true},
		"Minor":     {"an older minor", o, "kafka", "3.3.0", "3.2.9", false},
		"Major":     {"an older major", o, "kafka", "3.0.0", "2.9.9", false},
		"TenthUp":   {"numbers, not letters", o, "kafka", "3.9.0", "3.10.0", true},
		"TenthDown": {"numbers, not letters, the other way", o, "kafka", "3.10.0", "3.9.0", false},
		"First":     {"there was none", o, "kafka", "", "3.0.0", true},
		"Never":     {"never back, not by a patch", o, "kafkaIbp", "3.3.1", "3.3.0", false},
		"NeverUp":   {"but on", o, "kafkaIbp", "3.3", "3.3.1", true},
		"Any":       {"back, where it is allowed", o, "strimzi", "strimzi-cluster-operator.v0.23.0-4", "strimzi-cluster-operator.v0.22.0-1", true},
		"Unknown":   {"a component that there is not", o, "zookeeper", "1.0", "2.0", false},
		"Named":     {"names go by the order of the file", named, "x", "jessie", "buster", true},
		"NamedBack": {"and not back", named, "x", "buster", "jessie", false},
	} {
		err := c.o.Upgrade(c.component, c.from, c.to)
		if (err == nil) != c.ok || err != nil && (!fault.Is(err, fault.Invalid) || fault.Reason(err) != "version") {
			t.Errorf("%s: %s: got %v", name, c.reason, err)
		}
	}
}

func TestParametersOfOperatorsAreNotForTenants(t *testing.T) {
	o := shipped(t, "kafka.yaml")
	if _, err := o.ValidateOrder(map[string]any{"max_data_retention_size": "1Ti"}); !fault.Is(err, fault.Invalid) || fault.Reason(err) != "parameters" {
		t.Errorf("got %v", err)
	}
	if _, err := o.Validate(map[string]any{"max_data_retention_size": "1Ti"}); err != nil {
		t.Errorf("operators may, got %v", err)
	}
	_, size, _ := o.Plan("standard.x2")
	given := map[string]any{"a": 1}
	if got := size.Fill(given); got["max_data_retention_size"] != "2000Gi" || len(given) != 1 {
		t.Errorf("the size fills in its own and changes nothing, got %v", got)
	}
	if got := size.Fill(map[string]any{"max_data_retention_size": "3000Gi"}); got["max_data_retention_size"] != "3000Gi" {
		t.Errorf("what is said stays, got %v", got)
	}
}

func TestRank(t *testing.T) {
	o := shipped(t, "kafka.yaml")
	facts, _ := everything(t, o)
	if got := o.Rank(t.Context(), facts); got != "true" {
		t.Errorf("got %q", got)
	}
	facts.Type = "gone"
	if got := o.Rank(t.Context(), facts); got != "" {
		t.Errorf("what cannot be ranked is still written, got %q", got)
	}
	if got := parse(t, []byte(minimal)).Rank(t.Context(), facts); got != "" {
		t.Errorf("got %q", got)
	}
}

func TestReservedItems(t *testing.T) {
	data, _ := offerings.FS.ReadFile("kafka.yaml")
	doc := strings.Replace(string(data), "quota: granted", "quota: granted\n      reserved: 2", 1)
	doc = strings.Replace(doc, `"EU, Ireland"}`, `"EU, Ireland", types: [developer]}`, 1)
	o := parse(t, []byte(doc))
	_, around := everything(t, o)
	items, err := o.ReservedItems(t.Context(), around, "aws", "us-east-1")
	if err != nil || len(items) != 2 || items[0].Name != "reserved-kafka-standard-1" || items[1].Name != "reserved-kafka-standard-2" || items[1].Type != "standard" {
		t.Fatalf("got %v, %v", items, err)
	}
	sameJSON(t, "what keeps a node warm", `{
		"metadata": {"name": "reserved-kafka-standard-1", "namespace": "reserved-kafka-standard-1",
			"annotations": {"bf2.org/id": "reserved-kafka-standard-1", "bf2.org/placementId": "reserved-kafka-standard-1"},
			"labels": {"bf2.org/kafkaInstanceProfileType": "standard", "bf2.org/kafkaInstanceProfileQuotaConsumed": "1", "bf2.org/deployment": "reserved"}},
		"spec": {"serviceAccounts": [], "capacity": {"ingressPerSec": "50Mi", "egressPerSec": "100Mi", "totalMaxConnections": 9000,
				"maxDataRetentionSize": "1000Gi", "maxPartitions": 1500, "maxDataRetentionPeriod": "P14D", "maxConnectionAttemptsPerSec": 100},
			"oauth": {"maximumSessionLifetime": 0}, "owners": [],
			"endpoint": {"bootstrapServerHost": "reserved-kafka-standard-1-reserved-kafka-standard-1.kafka.localhost"},
			"versions": {"kafka": "3.3.1", "kafkaIbp": "3.3", "strimzi": "strimzi-cluster-operator.v0.32.0-5"}, "deleted": false}}`, items[0].Body)
	for _, place := range [][2]string{{"aws", "eu-west-1"}, {"aws", "moon"}, {"", ""}, {"moon", "moon"}} {
		if items, err := o.ReservedItems(t.Context(), around, place[0], place[1]); err != nil || len(items) != 0 {
			t.Errorf("where the type is not sold nothing is kept warm: %v: got %v, %v", place, items, err)
		}
	}
	if items, err := shipped(t, "kafka.yaml").ReservedItems(t.Context(), around, "aws", "us-east-1"); err != nil || len(items) != 0 {
		t.Errorf("nothing is kept warm unless the file says so, got %v, %v", items, err)
	}
}

func TestAgentParameters(t *testing.T) {
	o := shipped(t, "kafka.yaml")
	_, around := everything(t, o)
	got, err := o.AgentParameters(t.Context(), around)
	want := map[string]string{
		"sso-auth-server-url": "https://sso.example.org/auth/realms/r", "sso-client-id": "agent-c1", "sso-secret": offering.Secret("agent"),
		"control-plane-url": "https://drover.example.org", "cluster-id": "c1", "poll-interval": "15s", "resync-interval": "60s",
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v -want +got\n%s", err, diff)
	}
	secret, err := offering.FillSecret(got["sso-secret"], func(name string) (string, error) { return "s3cret of " + name, nil })
	if err != nil || secret != "s3cret of agent" {
		t.Errorf("got %q, %v", secret, err)
	}
	plain := parse(t, []byte(minimal))
	if got, err := plain.AgentParameters(t.Context(), around); err != nil || len(got) != 0 {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := plain.AgentConfig(t.Context(), around); err != nil || string(got) != "{}" {
		t.Errorf("got %s, %v", got, err)
	}
}

// Whatever a tenant types, it arrives as it was typed and opens no secret.
func TestNoTextIsTakenForASecret(t *testing.T) {
	o := parse(t, teapot(t))
	parts := []string{"drover-secret:", "drover-secret:=", "=", "canary", "tls.key", " ", "\"", "\\", "é", "drover-", "\u2028"}
	rapid.Check(t, func(t *rapid.T) {
		note := strings.Join(rapid.SliceOfN(rapid.SampledFrom(parts), 0, 4).Draw(t, "note"), "")
		extras := map[string]any{"k": []any{note, map[string]any{"x": note}}, note: note}
		doc, err := o.Desired(t.Context(), offering.Facts{Name: note, Type: "trial", Size: "x1", Parameters: map[string]any{
			"leaves": "green", "cups": int64(1), "sugar": 0.5, "note": note, "tray": map[string]any{"width": int64(1)}, "extras": extras,
		}}, offering.Surroundings{})
		if err != nil {
			t.Fatal(err)
		}
		filled, err := offering.FillSecrets(doc, func(name string) (string, error) {
			return "", errors.New("somebody asked for " + name)
		})
		if err != nil {
			t.Fatalf("%q: %v", note, err)
		}
		var got struct {
			Metadata struct{ Name string }
			Spec     struct{ Note string }
		}
		if err := json.Unmarshal(filled, &got); err != nil || got.Spec.Note != note || got.Metadata.Name != note {
			t.Fatalf("%q became %+v, %v", note, got, err)
		}
	})
}

func TestFillSecretsSaysWhichAndNotWhat(t *testing.T) {
	doc := json.RawMessage(`{"n":12345678901234567890,"a":["drover-secret:canary"],"b":"x drover-secret:canary"}`)
	got, err := offering.FillSecrets(doc, func(name string) (string, error) { return `p"<` + name, nil })
	if want := `{"a":["p\"<canary"],"b":"x drover-secret:canary","n":12345678901234567890}`; err != nil || string(got) != want {
		t.Errorf("a mark is a whole text, and numbers stay: got %s, %v", got, err)
	}
	_, err = offering.FillSecrets(doc, func(string) (string, error) { return "hush", fault.New(fault.Unavailable, "sealed") })
	if !fault.Is(err, fault.Unavailable) || strings.Contains(err.Error(), "hush") || !strings.Contains(err.Error(), "canary") {
		t.Errorf("got %v", err)
	}
	if _, err := offering.FillSecrets(json.RawMessage(`{"a":"drover-secret:x"`), func(string) (string, error) { return "", nil }); !fault.Is(err, fault.Internal) {
		t.Errorf("got %v", err)
	}
	plain := json.RawMessage(`{"a": "as it is"}`)
	if got, err := offering.FillSecrets(plain, nil); err != nil || string(got) != string(plain) {
		t.Errorf("got %s, %v", got, err)
	}
}

// Whatever a value holds, it is one label's value and selects one instance.
func TestSelectorCannotBeLeft(t *testing.T) {
	o := shipped(t, "kafka.yaml")
	facts, _ := everything(t, o)
	rapid.Check(t, func(t *rapid.T) {
		facts := facts
		facts.Namespace = strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{`"`, `\`, "\n", "}", "{", `",x="`, "a", "é", "'", "`"}), 1, 6).Draw(t, "namespace"), "")
		got, err := o.Selector(t.Context(), facts)
		if err != nil {
			t.Fatal(err)
		}
		quoted, ok := strings.CutPrefix(got, "namespace=")
		value, err := strconv.Unquote(quoted) // PromQL's double quotes are Go's
		if !ok || err != nil || value != facts.Namespace {
			t.Fatalf("%q became %s, %v", facts.Namespace, got, err)
		}
	})
	facts.Namespace = ""
	if got, err := o.Selector(t.Context(), facts); !fault.Is(err, fault.NotFound) || fault.Reason(err) != "metrics" {
		t.Errorf("an empty value would select what has no such label: got %q, %v", got, err)
	}
	if _, err := parse(t, []byte(minimal)).Selector(t.Context(), offering.Facts{Type: "standard", Size: "x1"}); !fault.Is(err, fault.NotFound) {
		t.Errorf("without metrics there is nothing to select, got %v", err)
	}
}

func TestManyPlansDoNotTakeForEver(t *testing.T) {
	var sizes, models strings.Builder
	for i := range 1500 {
		sizes.WriteString(",{name: x" + strconv.Itoa(i+2) + ", capacity: 1, quota: 1}")
	}
	for i := range 1500 {
		models.WriteString("{name: m" + strconv.Itoa(i) + "},")
	}
	doc := strings.Replace(minimal, "quota: 1}]", "quota: 1}"+sizes.String()+"]", 1)
	doc = strings.Replace(doc, "  desired", "  billing: ["+models.String()+"]\n  desired", 1)
	start := time.Now()
	if _, err := offering.Parse("t.yaml", []byte(doc)); err != nil {
		t.Error(err)
	}
	if d := time.Since(start); d > time.Minute {
		t.Errorf("took %v", d)
	}
}
