package clients

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/droverhq/drover/test/drover"
)

// The data that the sync module of kas-fleetshard reads, by its own classes
// (api/src/main/java/org/bf2/operator/resources/v1alpha1). A member that they do
// not have is refused here.
type (
	managedKafkaList struct {
		APIVersion string         `json:"apiVersion"`
		Kind       string         `json:"kind"`
		Items      []managedKafka `json:"items"`
	}
	managedKafka struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		ID         string `json:"id"` // a setter without a field
		Metadata   struct {
			Name        string            `json:"name"`
			Namespace   string            `json:"namespace"`
			Annotations map[string]string `json:"annotations"`
			Labels      map[string]string `json:"labels"`
		} `json:"metadata"`
		Spec managedKafkaSpec `json:"spec"`
	}
	managedKafkaSpec struct {
		Capacity        capacity         `json:"capacity"`
		OAuth           *oauth           `json:"oauth"`
		Endpoint        *endpoint        `json:"endpoint"`
		Versions        *versions        `json:"versions"`
		Deleted         bool             `json:"deleted"`
		Owners          []string         `json:"owners"`
		ServiceAccounts []serviceAccount `json:"serviceAccounts"`
	}
	capacity struct { // quantities are text
		IngressPerSec               string `json:"ingressPerSec,omitempty"`
		EgressPerSec                string `json:"egressPerSec,omitempty"`
		TotalMaxConnections         int32  `json:"totalMaxConnections,omitempty"`
		MaxDataRetentionSize        string `json:"maxDataRetentionSize,omitempty"`
		MaxPartitions               int32  `json:"maxPartitions,omitempty"`
		MaxDataRetentionPeriod      string `json:"maxDataRetentionPeriod,omitempty"`
		MaxConnectionAttemptsPerSec int32  `json:"maxConnectionAttemptsPerSec,omitempty"`
	}
	oauth struct {
		ClientID               string `json:"clientId"`
		ClientSecret           string `json:"clientSecret"`
		TokenEndpointURI       string `json:"tokenEndpointURI"`
		JwksEndpointURI        string `json:"jwksEndpointURI"`
		ValidIssuerEndpointURI string `json:"validIssuerEndpointURI"`
		UserNameClaim          string `json:"userNameClaim"`
		FallbackUserNameClaim  string `json:"fallbackUserNameClaim"`
		TLSTrustedCertificate  string `json:"tlsTrustedCertificate"`
		CustomClaimCheck       string `json:"customClaimCheck"`
		MaximumSessionLifetime *int64 `json:"maximumSessionLifetime"`
	}
	endpoint struct {
		BootstrapServerHost string `json:"bootstrapServerHost"`
		TLS                 *struct {
			Cert string `json:"cert"`
			Key  string `json:"key"`
		} `json:"tls"`
	}
	versions struct {
		Kafka    string `json:"kafka,omitempty"`
		Strimzi  string `json:"strimzi,omitempty"`
		KafkaIbp string `json:"kafkaIbp,omitempty"`
	}
	serviceAccount struct {
		Name      string `json:"name"`
		Principal string `json:"principal"`
		Password  string `json:"password"`
	}
	managedKafkaAgent struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   any    `json:"metadata"`
		Spec       struct {
			Observability *struct {
				AccessToken *string `json:"accessToken"` // required, and so is the repository
				Channel     string  `json:"channel"`
				Repository  *string `json:"repository"`
				Tag         string  `json:"tag"`
			} `json:"observability"`
			Capacity map[string]struct {
				MaxNodes int32 `json:"maxNodes"`
			} `json:"capacity"`
			Net *struct {
				Private bool `json:"private"`
			} `json:"net"`
		} `json:"spec"`
	}
)

// What it sends, by the same classes; empty members are left out.
type (
	condition struct {
		Type               string `json:"type"`
		Reason             string `json:"reason,omitempty"`
		Message            string `json:"message,omitempty"`
		Status             string `json:"status"`
		LastTransitionTime string `json:"lastTransitionTime"`
	}
	agentStatus struct {
		Conditions       []condition                `json:"conditions"`
		UpdatedTimestamp string                     `json:"updatedTimestamp"`
		Strimzi          []strimziVersion           `json:"strimzi"`
		Capacity         map[string]profileCapacity `json:"capacity"`
	}
	strimziVersion struct {
		Version          string   `json:"version"`
		Ready            bool     `json:"ready"`
		KafkaVersions    []string `json:"kafkaVersions,omitempty"`
		KafkaIbpVersions []string `json:"kafkaIbpVersions,omitempty"`
	}
	profileCapacity struct {
		MaxUnits       int32 `json:"maxUnits"`
		RemainingUnits int32 `json:"remainingUnits"`
	}
	kafkaStatus struct {
		Conditions       []condition `json:"conditions"`
		Routes           []route     `json:"routes,omitempty"`
		Capacity         *capacity   `json:"capacity,omitempty"`
		Versions         *versions   `json:"versions,omitempty"`
		AdminServerURI   string      `json:"adminServerURI,omitempty"`
		UpdatedTimestamp string      `json:"updatedTimestamp"`
	}
	route struct {
		Name   string `json:"name"`
		Prefix string `json:"prefix"`
		Router string `json:"router"`
	}
)

// syncAgent does what the sync module and the operator beside it do: poll the
// agent's own resource and the list, create what is missing, mark what is to be
// deleted, forget what is not in the list any more, and report. It is set up by
// the names of parameters that the module reads from its secret.
type syncAgent struct {
	parameters map[string]string
	stop, done chan struct{}

	mu    sync.Mutex
	local map[string]*localKafka // by namespace/name
	agent managedKafkaAgent
	polls int
	err   error // the last one
	odd   []error
}

type localKafka struct {
	managedKafka
	ready bool
}

func startSync(t *testing.T, parameters map[string]string) *syncAgent {
	t.Helper()
	for _, name := range []string{"control-plane-url", "sso-auth-server-url", "sso-client-id", "sso-secret", "cluster-id"} {
		if parameters[name] == "" {
			t.Fatalf("the agent's secret has no %s: %v", name, parameters)
		}
	}
	a := &syncAgent{parameters: parameters, stop: make(chan struct{}), done: make(chan struct{}), local: map[string]*localKafka{}}
	go a.run() // one, until end
	t.Cleanup(func() {
		close(a.stop)
		<-a.done
		a.mu.Lock()
		defer a.mu.Unlock()
		if err := errors.Join(a.odd...); err != nil {
			t.Errorf("the agent cannot read what it is told: %v", err)
		}
		if t.Failed() {
			t.Logf("agent: %d polls, %d kafkas, last error: %v", a.polls, len(a.local), a.err)
		}
	})
	drover.Until(t, "the agent's first polls", func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.polls > 1
	})
	return a
}

// find returns what the agent has on its cluster.
func (a *syncAgent) find(name string) (managedKafka, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, k := range a.local {
		if k.Metadata.Name == name {
			return k.managedKafka, true
		}
	}
	return managedKafka{}, false
}

func (a *syncAgent) run() {
	defer close(a.done)
	tick := time.NewTicker(50 * time.Millisecond) // the real one takes 15 s
	defer tick.Stop()
	token, until := "", time.Time{}
	for {
		select {
		case <-a.stop:
			return
		case <-tick.C:
		}
		var err error
		if time.Now().After(until) {
			if token, err = a.login(); err == nil {
				until = time.Now().Add(2 * time.Minute)
			}
		}
		if err == nil {
			err = a.round(token)
		}
		a.mu.Lock()
		a.err = err
		a.mu.Unlock()
	}
}

// login finds the token endpoint by discovery below sso-auth-server-url and
// shows the secret in the header, as the agent's OIDC client does.
func (a *syncAgent) login() (string, error) {
	found, err := drover.Ask(drover.Request{Method: "GET", URL: a.parameters["sso-auth-server-url"] + "/.well-known/openid-configuration"})
	if err != nil {
		return "", err
	}
	var at struct {
		TokenEndpoint string `json:"token_endpoint"`
	}
	if err := json.Unmarshal(found.Body, &at); err != nil {
		return "", err
	}
	req, err := http.NewRequest("POST", at.TokenEndpoint, strings.NewReader("grant_type=client_credentials"))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.SetBasicAuth(url.QueryEscape(a.parameters["sso-client-id"]), url.QueryEscape(a.parameters["sso-secret"]))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var got struct {
		AccessToken string `json:"access_token"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil || got.AccessToken == "" {
		return "", fmt.Errorf("no token: %d, %v", resp.StatusCode, err)
	}
	return got.AccessToken, nil
}

func now() string { return time.Now().UTC().Format(time.RFC3339Nano) }

func (a *syncAgent) round(token string) error {
	base := a.parameters["control-plane-url"] + api + "/agent-clusters/" + a.parameters["cluster-id"]
	var own managedKafkaAgent
	if err := a.call(token, "GET", base, nil, &own); err != nil {
		return err
	}
	if o := own.Spec.Observability; o == nil || o.AccessToken == nil || o.Repository == nil {
		return a.strange(errors.New("the agent's resource lacks observability, its token or its repository, which its definition requires"))
	}
	err := a.call(token, "PUT", base+"/status", agentStatus{
		Conditions:       []condition{{Type: "Ready", Status: "True", LastTransitionTime: now()}},
		UpdatedTimestamp: now(),
		Strimzi: []strimziVersion{
			{Version: "strimzi-cluster-operator.v0.31.0-0", Ready: true, KafkaVersions: []string{"3.0.1", "3.2.3"}, KafkaIbpVersions: []string{"3.0", "3.2"}},
		},
		Capacity: map[string]profileCapacity{"standard": {20, 20}, "developer": {20, 20}},
	}, nil)
	if err != nil {
		return err
	}
	var list managedKafkaList
	if err := a.call(token, "GET", base+"/kafkas", nil, &list); err != nil {
		return err
	}
	if list.Items == nil {
		return a.strange(errors.New("the list has no items, which the agent goes through"))
	}
	report := a.sync(list.Items)
	if len(report) > 0 {
		if err := a.call(token, "PUT", base+"/kafkas/status", report, nil); err != nil {
			return err
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.agent = own
	a.polls++
	return nil
}

// sync is syncKafkaClusters and, in a breath, the operator's work.
func (a *syncAgent) sync(items []managedKafka) map[string]kafkaStatus {
	a.mu.Lock()
	defer a.mu.Unlock()
	report, remote := map[string]kafkaStatus{}, map[string]bool{}
	for _, k := range items {
		id, key := k.Metadata.Annotations["bf2.org/id"], k.Metadata.Namespace+"/"+k.Metadata.Name
		if id == "" || k.Metadata.Namespace == "" || k.Metadata.Annotations["bf2.org/placementId"] == "" || k.Spec.Endpoint == nil || k.Spec.Versions == nil {
			a.odd = append(a.odd, fmt.Errorf("a kafka that the agent would stumble over: %+v", k))
			continue
		}
		remote[key] = true
		have := a.local[key]
		deleted := kafkaStatus{UpdatedTimestamp: now(), Conditions: []condition{{Type: "Ready", Status: "False", Reason: "Deleted", LastTransitionTime: now()}}}
		switch {
		case k.Metadata.Annotations["managedkafka.bf2.org/pause-reconciliation"] == "true" && !k.Spec.Deleted:
			continue
		case have == nil && k.Spec.Deleted:
			report[id] = deleted // it has gone here and the control plane does not know yet
			continue
		case have == nil:
			a.local[key] = &localKafka{managedKafka: k}
			report[id] = kafkaStatus{UpdatedTimestamp: now(), Conditions: []condition{{Type: "Ready", Status: "False", Reason: "Installing", LastTransitionTime: now()}}}
			continue
		}
		have.managedKafka = k
		switch {
		case k.Spec.Deleted:
			report[id] = deleted
		case k.Metadata.Labels["bf2.org/suspended"] == "true":
			report[id] = kafkaStatus{UpdatedTimestamp: now(), Conditions: []condition{{Type: "Ready", Status: "False", Reason: "Suspended", LastTransitionTime: now()}}}
		default:
			c, host := k.Spec.Capacity, k.Spec.Endpoint.BootstrapServerHost
			const router = "ingresscontroller.kas.apps.example.com"
			report[id] = kafkaStatus{
				UpdatedTimestamp: now(), Conditions: []condition{{Type: "Ready", Status: "True", LastTransitionTime: now()}},
				Capacity: &c, Versions: k.Spec.Versions, AdminServerURI: "https://admin-server-" + host,
				Routes: []route{{"bootstrap", "", router}, {"admin-server", "admin-server", router}, {"broker-0", "broker-0", router}},
			}
			have.ready = true
		}
	}
	for key, k := range a.local {
		if !remote[key] {
			if !k.Spec.Deleted {
				a.odd = append(a.odd, fmt.Errorf("the control plane wants %s gone, and has never marked it as deleted", key))
			}
			delete(a.local, key)
		}
	}
	return report
}

func (a *syncAgent) strange(err error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.odd = append(a.odd, err)
	return err
}

func (a *syncAgent) call(token, method, at string, body, into any) error {
	var data []byte
	if body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			return err
		}
	}
	got, err := drover.Ask(drover.Request{
		Method: method, URL: at, Token: token, Body: data,
		Header: http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json"}},
	})
	if err != nil {
		return err
	}
	if got.Status/100 != 2 {
		return fmt.Errorf("%s %s: %d %s", method, at, got.Status, got.Body)
	}
	if into == nil {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(got.Body))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return a.strange(fmt.Errorf("%s: %w in %s", at, err, got.Body))
	}
	return nil
}

// cluster makes a data plane of the fleet, with its agent.
func (w *world) cluster(name, provider, region string) *syncAgent {
	w.Helper()
	return startSync(w.T, w.enrol(name, provider, region))
}

// enrol makes a data plane of the fleet and returns its agent's parameters.
func (w *world) enrol(name, provider, region string) map[string]string {
	w.Helper()
	w.ask(http.StatusCreated, w.admin(), "POST", "/api/v1/clusters", map[string]string{"name": name, "cloud_provider": provider, "region": region}, nil)
	var account struct {
		ClientID     string `json:"client_id"`
		ClientSecret string `json:"client_secret"`
	}
	drover.Until(w, "the account of the agent of "+name, func() bool {
		a := drover.Must(w, drover.Request{Method: "POST", URL: w.server.URL() + "/api/v1/clusters/" + name + "/credentials", Token: w.admin()})
		return a.Status == http.StatusOK && json.Unmarshal(a.Body, &account) == nil && account.ClientID != ""
	})
	return map[string]string{
		"control-plane-url": w.url, "sso-auth-server-url": w.url + realm, "cluster-id": name,
		"sso-client-id": account.ClientID, "sso-secret": account.ClientSecret,
	}
}

// TestSyncAgent carries kafkas through their lives as kas-fleetshard sees them.
func TestSyncAgent(t *testing.T) {
	w := newWorld(t)
	agent := w.cluster("c1", "aws", "us-east-1")
	alice := w.login("alice")
	var made struct{ ID string }
	w.ask(http.StatusAccepted, alice, "POST", api+"/kafkas?async=true", map[string]any{"name": "life", "cloud_provider": "aws", "region": "us-east-1"}, &made)
	w.await(alice, made.ID, "life to be ready", func(k map[string]any, _ int) bool { return k["status"] == "ready" })
	got, ok := agent.find("life")
	if !ok {
		t.Fatal("the agent has never heard of it")
	}
	if got.Kind != "ManagedKafka" || got.Metadata.Namespace != "kafka-"+made.ID || got.Metadata.Annotations["bf2.org/id"] != made.ID {
		t.Errorf("it is %+v", got.Metadata)
	}
	s := got.Spec
	if s.OAuth == nil || s.OAuth.TokenEndpointURI != w.url+realm+"/protocol/openid-connect/token" || s.OAuth.ValidIssuerEndpointURI != w.url+realm ||
		s.OAuth.MaximumSessionLifetime == nil || s.Capacity.IngressPerSec != "50Mi" || s.Versions.Kafka != "3.2.3" || s.Versions.Strimzi == "" || s.Versions.KafkaIbp != "3.2" {
		t.Errorf("its spec is %+v, %+v", s, s.OAuth)
	}
	if len(s.ServiceAccounts) != 1 || s.ServiceAccounts[0].Name != "canary" || s.ServiceAccounts[0].Password == "" {
		t.Fatalf("its accounts: %d", len(s.ServiceAccounts))
	}
	// The canary can log in with what the agent was given.
	canary := &syncAgent{parameters: map[string]string{
		"sso-auth-server-url": s.OAuth.ValidIssuerEndpointURI, "sso-client-id": s.ServiceAccounts[0].Principal, "sso-secret": s.ServiceAccounts[0].Password,
	}}
	if _, err := canary.login(); err != nil {
		t.Errorf("the canary cannot log in: %v", err)
	}
	w.ask(http.StatusOK, w.admin(), "PATCH", api+"/admin/kafkas/"+made.ID, map[string]any{"suspended": true}, nil)
	w.await(alice, made.ID, "life to be suspended", func(k map[string]any, _ int) bool { return k["status"] == "suspended" })
	w.ask(http.StatusOK, w.admin(), "PATCH", api+"/admin/kafkas/"+made.ID, map[string]any{"suspended": false}, nil)
	w.await(alice, made.ID, "life to be back", func(k map[string]any, _ int) bool { return k["status"] == "ready" })
	w.ask(http.StatusAccepted, alice, "DELETE", api+"/kafkas/"+made.ID+"?async=true", nil, nil)
	w.await(alice, made.ID, "life to be gone", func(_ map[string]any, status int) bool { return status == http.StatusNotFound })
	drover.Until(t, "the agent to forget it", func() bool { _, there := agent.find("life"); return !there })

	// An agent on a customer's own cluster has nothing but the parameters of its add-on.
	var own struct {
		Parameters []struct{ ID, Value string } `json:"fleetshard_parameters"`
	}
	const id = "1234abcd1234abcd1234abcd1234abcd"
	w.ask(http.StatusOK, alice, "POST", api+"/clusters", map[string]any{
		"cluster_id": id, "cluster_ingress_dns_name": "apps.kas.example.com", "kafka_machine_pool_node_count": 3, "access_kafkas_via_private_network": false,
	}, &own)
	parameters := map[string]string{}
	for _, p := range own.Parameters {
		parameters[p.ID] = p.Value
	}
	customer := startSync(t, parameters)
	drover.Until(t, "the customer's cluster to be ready", func() bool {
		a := drover.Must(t, drover.Request{Method: "GET", URL: w.server.URL() + api + "/clusters/" + id, Token: alice})
		return strings.Contains(string(a.Body), `"status":"ready"`)
	})
	w.ask(http.StatusAccepted, alice, "POST", api+"/kafkas?async=true",
		map[string]any{"name": "mine", "billing_model": "enterprise", "cluster_id": id}, &made)
	w.await(alice, made.ID, "mine to be ready", func(k map[string]any, _ int) bool { return k["status"] == "ready" && k["cluster_id"] == id })
	if _, there := customer.find("mine"); !there {
		t.Error("it is not on the customer's cluster")
	}
	if _, there := agent.find("mine"); there {
		t.Error("it is on the fleet's cluster")
	}
}
