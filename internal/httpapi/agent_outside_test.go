package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/offerings"
)

const agentAPI = kafkaAPI + "/agent-clusters/"

// managed is a kafka as the sync agent reads it.
type managed struct {
	ID, Kind string
	Metadata struct {
		Name, Namespace     string
		Annotations, Labels map[string]string
	}
	Spec struct {
		ServiceAccounts []struct{ Name, Principal, Password string }
		Capacity        struct {
			IngressPerSec, EgressPerSec, MaxDataRetentionSize, MaxDataRetentionPeriod string
			TotalMaxConnections, MaxPartitions, MaxConnectionAttemptsPerSec           int
		}
		OAuth struct {
			TokenEndpointURI, JwksEndpointURI, ValidIssuerEndpointURI string
			UserNameClaim, FallbackUserNameClaim, CustomClaimCheck    string
			MaximumSessionLifetime                                    *int64
		}
		Owners   []string
		Endpoint struct {
			BootstrapServerHost string
			TLS                 *struct{ Cert, Key string }
		}
		Versions map[string]string
		Deleted  *bool
	}
}

func (o *office) told(t *testing.T, agent, clusterID string) map[string]managed {
	t.Helper()
	var list struct {
		Kind  string
		Items []managed
	}
	w := o.do(t, agent, "GET", agentAPI+clusterID+"/kafkas", "").ok(200)
	w.into(&list)
	if list.Kind != "ManagedKafkaList" || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("the list is a %s, %s", list.Kind, w.Header().Get("Cache-Control"))
	}
	out := map[string]managed{}
	for _, it := range list.Items {
		out[it.ID] = it
	}
	return out
}

func TestManagedKafka(t *testing.T) {
	o := newOffice(t)
	o.dataPlane(t, "c1", "account")
	id := o.provisioned(t, "alice", "one")
	got, ok := o.told(t, "account", "c1")[id]
	if !ok {
		t.Fatal("the agent is not told")
	}
	in := o.awaitPhase(t, id, instance.Provisioning)
	client, err := o.sso.Get(t.Context(), in.Status.Client)
	if err != nil || client.Secret == "" {
		t.Fatalf("its account: %v", err)
	}
	host := in.Status.Routes[0].Host
	if len(got.Spec.ServiceAccounts) != 1 || got.Spec.ServiceAccounts[0].Password != client.Secret ||
		got.Spec.ServiceAccounts[0].Principal != client.ID || got.Spec.ServiceAccounts[0].Name != "canary" {
		t.Errorf("its account: %+v", got.Spec.ServiceAccounts)
	}
	if tls := got.Spec.Endpoint.TLS; tls == nil || tls.Key != tlsKey+host || tls.Cert != "cert-of-"+host {
		t.Errorf("its certificate: %+v", tls)
	}
	for what, pair := range map[string][2]string{
		"kind":        {got.Kind, "ManagedKafka"},
		"name":        {got.Metadata.Name, "one"},
		"namespace":   {got.Metadata.Namespace, "kafka-" + id},
		"id":          {got.Metadata.Annotations["bf2.org/id"], id},
		"placement":   {got.Metadata.Annotations["bf2.org/placementId"], in.Status.Placement},
		"profile":     {got.Metadata.Labels["bf2.org/kafkaInstanceProfileType"], "standard"},
		"quota":       {got.Metadata.Labels["bf2.org/kafkaInstanceProfileQuotaConsumed"], "1"},
		"host":        {got.Spec.Endpoint.BootstrapServerHost, host},
		"owner":       {strings.Join(got.Spec.Owners, ","), "alice"},
		"ingress":     {got.Spec.Capacity.IngressPerSec, "50Mi"},
		"retention":   {got.Spec.Capacity.MaxDataRetentionSize, "1000Gi"},
		"issuer":      {got.Spec.OAuth.ValidIssuerEndpointURI, realm},
		"jwks":        {got.Spec.OAuth.JwksEndpointURI, realm + "/certs"},
		"kafka":       {got.Spec.Versions["kafka"], "3.1.0"},
		"kafkaIbp":    {got.Spec.Versions["kafkaIbp"], "3.1"},
		"strimzi":     {got.Spec.Versions["strimzi"], "strimzi-cluster-operator.v0.10.0"},
		"connections": {fmt.Sprint(got.Spec.Capacity.TotalMaxConnections), "9000"},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s is %q, not %q", what, pair[0], pair[1])
		}
	}
	if got.Spec.Deleted == nil || *got.Spec.Deleted || got.Spec.OAuth.MaximumSessionLifetime == nil || *got.Spec.OAuth.MaximumSessionLifetime != 299000 {
		t.Errorf("deleted %v, session %v", got.Spec.Deleted, got.Spec.OAuth.MaximumSessionLifetime)
	}
	o.ready(t, "account", "c1", id)
	if in = o.awaitPhase(t, id, instance.Ready); in.Status.Observed.AdminURL != "https://admin-server.example.com" {
		t.Errorf("observed: %+v", in.Status.Observed)
	}
	hosts := map[string]string{}
	for _, r := range in.Status.Routes {
		hosts[r.Host] = r.Router
	}
	const router = "ingresscontroller.kas.apps.example.com"
	if d := cmp.Diff(map[string]string{host: router, "admin-server-" + host: router}, hosts); d != "" {
		t.Errorf("its routes, without the one that leaves the cluster: %s", d)
	}
	o.do(t, "alice", "DELETE", kafkas+"/"+id+"?async=true", "").ok(202)
	if gone := o.told(t, "account", "c1")[id]; gone.Spec.Deleted == nil || !*gone.Spec.Deleted {
		t.Errorf("the agent is not told to remove it: %+v", gone)
	}
	o.do(t, "account", "PUT", agentAPI+"c1/kafkas/status", `{"`+id+`": {"conditions": [{"type": "Ready", "status": "False", "reason": "Deleted"}]}}`).ok(200)
	o.await(t, "its end", func() bool { return o.do(t, "alice", "GET", kafkas+"/"+id, "").Code == 404 })
	if left := o.told(t, "account", "c1"); len(left) > 0 {
		t.Errorf("the agent is still told of %v", left)
	}
}

// Every endpoint of an agent is closed to everybody but the cluster's own agent
// and operators, and nobody else learns whether the cluster is there.
// Outside agents remove what they are not told of: what cannot be read is not
// left out, the whole answer is.
func TestAnUnreadableKafkaIsNotLeftOut(t *testing.T) {
	o := newOffice(t)
	o.dataPlane(t, "c1", "account")
	id := o.provisioned(t, "alice", "one")
	o.told(t, "account", "c1")
	for {
		object, err := o.ledger.Get(t.Context(), ledger.Ref{Kind: "instance", ID: id})
		if err != nil {
			t.Fatal(err)
		}
		object.Status = []byte(`{"units":"of another version of this server"}`)
		_, err = o.ledger.Commit(t.Context(), ledger.Set{Actor: "test", Cause: "schedule:test", Puts: []ledger.Put{{Object: object, Expect: object.Version, Op: "update"}}})
		if err == nil {
			break
		}
		if fault.Reason(err) != "version" {
			t.Fatal(err)
		}
	}
	if w := o.do(t, "account", "GET", agentAPI+"c1/kafkas", ""); w.Code != 503 {
		t.Errorf("the agent is told %d: %s", w.Code, w.Body)
	}
}

func TestAnAgentSpeaksForItsOwnClusterAlone(t *testing.T) {
	o := newOffice(t)
	o.dataPlane(t, "c1", "account")
	o.dataPlane(t, "c2", "account2")
	id := o.provisioned(t, "alice", "one")
	calls := []struct{ method, path, body string }{
		{"GET", "", ""}, {"PUT", "/status", clusterReady}, {"GET", "/kafkas", ""},
		{"PUT", "/kafkas/status", `{"` + id + `": {"conditions": [{"type": "Ready", "status": "False", "reason": "Error"}]}}`},
	}
	seq := o.seq(t)
	for _, call := range calls {
		for _, who := range []string{"other", "account2", "forged", "issuers", "alice", "bob", "full", "roles"} {
			for _, at := range []string{"c1", "nowhere"} {
				o.do(t, who, call.method, agentAPI+at+call.path, call.body).refused(who+" "+call.method+call.path, 404, "7")
			}
		}
		o.do(t, "", call.method, agentAPI+"c1"+call.path, call.body).refused("no token", 401, "15")
		o.do(t, "roles", call.method, agentAPI+"c9"+call.path, call.body).refused("its own cluster is not registered", 400, "8")
	}
	if after := o.seq(t); after != seq {
		t.Errorf("%d changes were written", after-seq)
	}
	if in := o.awaitPhase(t, id, instance.Provisioning); in.Status.Observed != nil {
		t.Errorf("somebody else spoke for it: %+v", in.Status.Observed)
	}
	for _, call := range calls[:3] {
		o.do(t, "account", call.method, agentAPI+"c1"+call.path, call.body).ok(200)
	}
	o.do(t, "account", "POST", agentAPI+"c1", "").refused("no such method", 405, "10")
	o.do(t, "account", "GET", agentAPI+"c1/dinosaurs", "").refused("another offering's", 404, "7")
	o.do(t, "account", "GET", agentAPI+"c1/kafkas/status/x", "").refused("no such path", 404, "7")
}

func TestVerification(t *testing.T) {
	o := newOffice(t)
	o.dataPlane(t, "c1", "account")
	o.dataPlane(t, "c2", "account2")
	const path = kafkaAPI + "/obs-proxy-verification/"
	o.do(t, "account", "POST", path+"ext-c1", "").ok(200)
	o.do(t, "agent", "POST", path+"ext-c1", "").ok(200)
	for _, who := range []string{"account2", "forged", "issuers", "alice", "other", "full"} {
		o.do(t, who, "POST", path+"ext-c1", "").refused(who, 403, "4")
	}
	o.do(t, "account", "POST", path+"ext-c2", "").refused("another's cluster", 403, "4")
	o.do(t, "account", "POST", path+"ext-c9", "").refused("nobody's cluster", 403, "4")
	o.do(t, "", "POST", path+"ext-c1", "").refused("no token", 401, "15")
	o.do(t, "account", "GET", path+"ext-c1", "").refused("only POST", 405, "10")
	o.do(t, "account2", "POST", api+"/obs-proxy-verification/ext-c2", "").ok(200)
}

func TestAClusterTellsWhatItHolds(t *testing.T) {
	o := newOffice(t)
	o.dataPlane(t, "c1", "account")
	offers, err := o.clusters.Offers(t.Context(), "c1", "kafka")
	want := map[string][]string{
		"strimzi":  {"strimzi-cluster-operator.v0.9.0", "strimzi-cluster-operator.v0.10.0"},
		"kafka":    {"2.8.0", "3.0.0", "3.1.0"},
		"kafkaIbp": {"2.8", "3.0", "3.1"},
	}
	if d := cmp.Diff(want, offers); d != "" || err != nil {
		t.Errorf("ready operators only, the newest last: %v\n%s", err, d)
	}
	c, err := o.clusters.Get(t.Context(), "c1")
	if err != nil {
		t.Fatal(err)
	}
	_, status, err := cluster.Decode(c)
	if err != nil || c.Phase != cluster.Ready || status.Capacity != 7 || status.Units["kafka/standard"] != (cluster.Units{Max: 5, Remaining: 4}) {
		t.Errorf("%v, %s: %+v", err, c.Phase, status)
	}
	seq := o.seq(t)
	for range 3 {
		o.do(t, "account", "PUT", agentAPI+"c1/status", clusterReady).ok(200)
		o.do(t, "account", "PUT", agentAPI+"c1/status", `{}`).ok(200)
		o.do(t, "account", "GET", agentAPI+"c1/kafkas", "").ok(200)
	}
	if after := o.seq(t); after != seq {
		t.Errorf("an idle agent wrote %d changes", after-seq)
	}
	for reason, body := range map[string]string{
		"no list":      `{"strimzi": {}}`,
		"no version":   `{"strimzi": [{"ready": true}]}`,
		"wrong ready":  `{"strimzi": [{"version": "1", "ready": "yes"}]}`,
		"wrong list":   `{"strimzi": [{"version": "1", "ready": true, "kafkaVersions": "3"}]}`,
		"wrong units":  `{"capacity": {"standard": {"maxUnits": "five"}}}`,
		"no object":    `[]`,
		"no JSON":      `{`,
		"wrong states": `{"conditions": "fine"}`,
	} {
		o.do(t, "account", "PUT", agentAPI+"c1/status", body).refused(reason, 400, "17")
	}
	var config struct {
		Spec struct {
			Net           struct{ Private *bool }
			Capacity      map[string]struct{ MaxNodes int }
			Observability map[string]any
		}
	}
	w := o.do(t, "account", "GET", agentAPI+"c1", "").ok(200)
	w.into(&config)
	if config.Spec.Net.Private == nil || *config.Spec.Net.Private || config.Spec.Capacity["standard"].MaxNodes != 3 || config.Spec.Observability == nil {
		t.Errorf("its configuration: %s", w.Body)
	}
	for _, name := range []string{"accessToken", "repository"} {
		if _, text := config.Spec.Observability[name].(string); !text {
			t.Errorf("no %s, without which the agent's API server refuses its resource: %s", name, w.Body)
		}
	}
	o.do(t, "account", "PUT", agentAPI+"c1/status", `{"conditions": [{"type": "Ready", "status": "False"}]}`).ok(200)
	if c, _ := o.clusters.Get(t.Context(), "c1"); c.Phase != cluster.Waiting {
		t.Errorf("it is %s", c.Phase)
	}
}

func TestWhatAnAgentSaysOfAKafka(t *testing.T) {
	o := newOffice(t)
	o.dataPlane(t, "c1", "account")
	id := o.provisioned(t, "alice", "one")
	say := func(condition string) {
		t.Helper()
		o.do(t, "account", "PUT", agentAPI+"c1/kafkas/status", `{"`+id+`": {"conditions": [`+condition+`], "versions": {"kafka": "3.0.0"}}, "nobody": {}, "reserved-kafka-standard-1": 7}`).ok(200)
	}
	observed := func() *instance.Observed {
		object, err := o.ledger.Get(context.Background(), ledger.Ref{Kind: instance.Kind.Name, ID: id})
		if err != nil {
			t.Fatal(err)
		}
		in, err := instance.Decode(object)
		if err != nil {
			t.Fatal(err)
		}
		return in.Status.Observed
	}
	say(`{"type": "Ready", "status": "False", "reason": "Installing"}`)
	if got := observed(); got == nil || got.State != "installing" {
		t.Errorf("%+v", got)
	}
	say(`{"type": "Ready", "status": "True", "reason": "StrimziUpdating"}`)
	if got := observed(); got.State != "ready" || !cmp.Equal(got.Upgrading, []string{"strimzi"}) {
		t.Errorf("%+v", got)
	}
	say(`{"type": "Ready", "status": "True", "reason": "KafkaIbpUpdating"}, {"type": "Other", "reason": "KafkaUpdating"}`)
	if got := observed(); !cmp.Equal(got.Upgrading, []string{"kafkaIbp"}) {
		t.Errorf("%+v", got)
	}
	say(`{"type": "Ready", "status": "Unknown", "reason": "Error"}`)
	if got := observed(); got.State != "ready" {
		t.Errorf("unknown says nothing: %+v", got)
	}
	say(`{"type": "Ready", "status": "False", "reason": "Error", "message": "boom"}`)
	o.awaitPhase(t, id, instance.Failed)
	say(`{"type": "Ready", "status": "True"}`)
	o.awaitPhase(t, id, instance.Ready)
}

// What is secret is given to the agent of the instance's own cluster, and is
// nowhere else: not in the log of changes, not in the server's log, not in what
// anybody else is told.
func TestSecretsAreWhereTheyBelongAndNowhereElse(t *testing.T) {
	o := newOffice(t)
	o.dataPlane(t, "c1", "account")
	id := o.provisioned(t, "alice", "one")
	o.dataPlane(t, "c2", "account2")
	o.told(t, "account", "c1")
	o.ready(t, "account", "c1", id)
	secrets := append(o.sso.secrets(), tlsKey, "agent-secret-of-")
	if len(secrets) != 3 {
		t.Fatalf("%d secrets", len(secrets))
	}
	var seen strings.Builder
	answers := func(who string, paths ...string) {
		for _, path := range paths {
			w := o.do(t, who, "GET", path, "")
			fmt.Fprintf(&seen, "%s %s: %s\n", who, path, w.Body)
		}
	}
	answers("account2", agentAPI+"c2", agentAPI+"c2/kafkas", agentAPI+"c1/kafkas")
	answers("alice", kafkas, kafkas+"/"+id, "/api/v1/instances/"+id, "/api/v1/instances/"+id+"/history")
	answers("root", kafkaAPI+"/admin/kafkas", kafkaAPI+"/admin/kafkas/"+id, "/api/v1/instances/"+id, "/api/v1/instances/"+id+"/history", "/api/v1/clusters/c1", "/api/v1/audits", "/metrics")
	answers("full", kafkaAPI+"/admin/kafkas/"+id)
	changes, err := o.ledger.Changes(t.Context(), ledger.ChangeQuery{Limit: 10000})
	if err != nil || len(changes) == 0 {
		t.Fatal(err)
	}
	for _, c := range changes {
		data, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		seen.Write(data)
	}
	seen.WriteString(o.logs.String())
	for i, secret := range secrets {
		if strings.Contains(seen.String(), secret) {
			at := strings.Index(seen.String(), secret)
			t.Errorf("secret %d is in %.200s", i, seen.String()[max(0, at-150):at])
		}
	}
	if !strings.Contains(seen.String(), id) {
		t.Error("nothing was looked at")
	}
}

// Drover's own agents get secrets, too, in bodies that keep the digest of what
// is stored; and an instance whose secrets cannot be had keeps nobody waiting.
func TestOwnAgentsGetSecrets(t *testing.T) {
	o := newOffice(t)
	if _, err := o.clusters.Register(t.Context(), "c1", cluster.Spec{Provider: "aws", Region: "us-east-1"}); err != nil {
		t.Fatal(err)
	}
	report := cluster.Report{Agent: "a1", Installation: "home", Number: 1, Ready: true, Capacity: 10, Offering: "kafka", Operators: []cluster.Operator{
		{Name: "strimzi", Version: "s1", Ready: true, Components: map[string][]string{"kafka": {"3.1.0"}, "kafkaIbp": {"3.1"}, "strimzi": {"s1"}}},
	}}
	if err := o.clusters.Report(t.Context(), "c1", report); err != nil {
		t.Fatal(err)
	}
	one := o.provisioned(t, "alice", "one")
	server := httptest.NewServer(o.Handler)
	defer server.Close()
	defer server.CloseClientConnections()
	q := v1.Sync{Protocol: v1.Protocol, Agent: "a1", Installation: "home", Number: 1, Ready: true, Capacity: 10}
	next := func() v1.Synced { // goes on until there is news
		t.Helper()
		for late := time.Now().Add(20 * time.Second); time.Now().Before(late); {
			q.Number++
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/api/v1/clusters/c1/sync", strings.NewReader(text(t, q)))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer agent")
			resp, err := server.Client().Do(req)
			if err != nil {
				t.Fatal(err)
			}
			data, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			var out v1.Synced
			if resp.StatusCode == 503 {
				continue
			}
			if err != nil || resp.StatusCode != 200 || json.Unmarshal(data, &out) != nil {
				t.Fatal(resp.StatusCode, err, string(data))
			}
			q.Ledger, q.Epoch, q.Seq = out.Ledger, out.Epoch, out.Seq
			for _, b := range out.Desired {
				q.Desired[b.Index] = 0
				for _, it := range b.Items {
					q.Desired.Add(it.ID, it.Leaf())
				}
			}
			if len(out.Desired)+len(out.Bodies) > 0 {
				return out
			}
		}
		t.Fatal("there is no news")
		return v1.Synced{}
	}
	told := next()
	if len(told.Desired) != 1 || len(told.Desired[0].Items) != 1 {
		t.Fatalf("the agent is told %+v", told)
	}
	first := told.Desired[0].Items[0]
	if !first.Filled || first.Body == nil {
		t.Fatalf("the agent is told %+v", first)
	}
	object, err := o.ledger.Get(t.Context(), ledger.Ref{Kind: instance.Kind.Name, ID: one})
	if err != nil {
		t.Fatal(err)
	}
	stored, ok := instance.DesiredItem(object)
	if !ok || v1.BodyDigest(stored.Body) != first.Digest {
		t.Error("the digest is not that of what is stored")
	}
	for _, secret := range append(o.sso.secrets(), tlsKey) {
		if !strings.Contains(string(first.Body), secret) || strings.Contains(string(stored.Body), secret) {
			t.Error("a secret is missing, or stored")
		}
	}
	o.certs.fail(fault.New(fault.Unavailable, "the certificates are away"))
	two := o.kafka(t, "alice", "two")
	o.await(t, "its document", func() bool {
		object, err := o.ledger.Get(context.Background(), ledger.Ref{Kind: instance.Kind.Name, ID: two})
		_, ok := instance.DesiredItem(object)
		return err == nil && (ok || strings.Contains(string(object.Status), "certificate"))
	})
	o.certs.fail(nil)
	for found := false; !found; {
		for _, b := range next().Desired {
			for _, it := range b.Items {
				if it.ID == two && !it.Filled && it.Body != nil || it.ID == one && it.Body != nil && b.Index != v1.BucketOf(two) {
					t.Errorf("told: %+v", it)
				}
				found = found || it.ID == two
			}
		}
	}
	q.Bodies = []string{one, two, "nobody"}
	for _, it := range next().Bodies {
		if !it.Filled || it.Body == nil || v1.BodyDigest(it.Body) == it.Digest {
			t.Errorf("asked for: %+v", it)
		}
	}
	if strings.Contains(o.logs.String(), tlsKey) {
		t.Error("the log has a secret")
	}
}

func TestOperatorsGetTheAccountOfAnAgent(t *testing.T) {
	o := newOffice(t)
	o.dataPlane(t, "c1", "account")
	const path = "/api/v1/clusters/c1/credentials"
	w := o.do(t, "root", "POST", path, "").ok(200)
	want := map[string]any{"client_id": "agent-of-c1", "client_secret": "agent-secret-of-c1", "token_url": "https://sso.example.com/token"}
	if d := cmp.Diff(want, w.object()); d != "" || w.Header().Get("Cache-Control") != "no-store" {
		t.Error(d, w.Header())
	}
	for _, who := range []string{"alice", "bob", "full", "agent", "account"} {
		o.do(t, who, "POST", path, "").refused(who, 404, "7")
	}
	o.do(t, "root", "POST", "/api/v1/clusters/c9/credentials", "").refused("no such cluster", 404, "7")
	o.await(t, "the entries of hidden calls", func() bool { return len(o.audits(t)) >= 7 }) // nobody waits for those
	if n := len(o.audits(t)); n != 7 {
		t.Errorf("%d of 7 calls are on record", n)
	}
	if strings.Contains(o.logs.String(), "agent-secret") {
		t.Error("the log has the secret")
	}
}

// Reserved items keep room warm on ready clusters of the fleet: the same at
// every call, and nobody's.
func TestReservedItems(t *testing.T) {
	o := newOffice(t)
	file, err := offerings.FS.ReadFile("kafka.yaml")
	if err != nil {
		t.Fatal(err)
	}
	o.shelf.put(t, []byte(strings.Replace(string(file), "      quota: granted\n", "      quota: granted\n      reserved: 2\n", 1)))
	o.dataPlane(t, "c1", "account")
	first := o.told(t, "account", "c1")
	for _, id := range []string{"reserved-kafka-standard-1", "reserved-kafka-standard-2"} {
		it, ok := first[id]
		if !ok || it.Kind != "ManagedKafka" || it.Metadata.Labels["bf2.org/deployment"] != "reserved" || it.Spec.Deleted == nil || *it.Spec.Deleted ||
			it.Spec.Versions["kafka"] != "3.1.0" || len(it.Spec.ServiceAccounts) != 0 {
			t.Errorf("%s is %+v", id, it)
		}
	}
	if d := cmp.Diff(first, o.told(t, "account", "c1")); d != "" || len(first) != 2 {
		t.Errorf("%d items, and they change: %s", len(first), d)
	}
	o.do(t, "account", "PUT", agentAPI+"c1/kafkas/status", `{"reserved-kafka-standard-1": {"conditions": [{"type": "Ready", "status": "True"}]}}`).ok(200)
	if strings.Contains(o.logs.String(), "refused=1") {
		t.Error("a report on a reserved item is called nonsense")
	}
	o.do(t, "account", "PUT", agentAPI+"c1/status", `{"conditions": [{"type": "Ready", "status": "False"}]}`).ok(200)
	if left := o.told(t, "account", "c1"); len(left) != 0 {
		t.Errorf("a cluster that is not ready keeps %v warm", left)
	}
}
