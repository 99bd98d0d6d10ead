//go:build e2e

package clients

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/droverhq/drover/test/drover"
	"github.com/droverhq/drover/test/kubernetes"
)

const (
	home     = "kas-fleetshard"                           // the sync module's own namespace
	settings = "addon-kas-fleetshard-operator-parameters" // the secret that it reads
)

// The resources that the sync module keeps on its cluster, and what it needs besides.
var (
	managedKafkas = schema.GroupVersionResource{Group: "managedkafka.bf2.org", Version: "v1alpha1", Resource: "managedkafkas"}
	managedAgents = schema.GroupVersionResource{Group: "managedkafka.bf2.org", Version: "v1alpha1", Resource: "managedkafkaagents"}
	definitions   = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	namespaces    = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	secrets       = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
)

// dataPlane is a Kubernetes on which the real sync module runs. The operator
// beside it, which needs OpenShift, is the test: it writes what that would report.
type dataPlane struct {
	*testing.T
	client dynamic.Interface
	log    lockedBuffer // of the sync module
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// startFleetshard runs the sync module until the test ends, set up by nothing
// but the secret that its add-on would have made of the parameters.
func startFleetshard(t *testing.T, jar string, parameters map[string]string) *dataPlane {
	t.Helper()
	cluster := kubernetes.Start(t, kubernetes.WithControllers())
	client, err := dynamic.NewForConfig(cluster.Admin())
	if err != nil {
		t.Fatal(err)
	}
	p := &dataPlane{T: t, client: client}
	for _, d := range p.definitions() {
		p.create(definitions, "", d)
	}
	p.create(namespaces, "", map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": home}})
	text := map[string]any{"poll-interval": "1s", "resync-interval": "5s"}
	for k, v := range parameters {
		text[k] = v
	}
	p.create(secrets, home, map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": settings}, "stringData": text})
	for _, r := range []schema.GroupVersionResource{managedKafkas, managedAgents} {
		drover.Until(t, r.Resource+" to be served", func() bool {
			_, err := client.Resource(r).List(t.Context(), metav1.ListOptions{})
			return err == nil
		})
	}
	config := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(config, cluster.Kubeconfig(), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, "java", "-Xmx256m", "-XX:TieredStopAtLevel=1", `-Dquarkus.log.category."org.bf2".level=DEBUG`, "-jar", jar)
	cmd.Dir = t.TempDir()
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + cmd.Dir, "KUBECONFIG=" + config,
		"QUARKUS_KUBERNETES_CLIENT_NAMESPACE=" + home, "KUBERNETES_NAMESPACE=" + home,
		"QUARKUS_KUBERNETES_CONFIG_ENABLED=true", // reads its settings from the secret, as its deployment says
		"SSO_ENABLED=true",                       // without it, it asks nobody for a token and calls nobody
		"QUARKUS_HTTP_HOST=127.0.0.1", "QUARKUS_HTTP_PORT=0",
	}
	cmd.Stdout, cmd.Stderr = &p.log, &p.log
	if err := cmd.Start(); err != nil {
		t.Fatalf("cannot start the sync module: %v", err)
	}
	t.Cleanup(func() {
		stop()
		_ = cmd.Wait() // it was killed
		if t.Failed() {
			t.Logf("the sync module says:\n%s", p.log.String())
		}
	})
	return p
}

// definitions are those of the directory DROVER_TEST_SYNC_CRDS or, without it,
// some that take every member.
func (p *dataPlane) definitions() (list []map[string]any) {
	p.Helper()
	if dir := os.Getenv("DROVER_TEST_SYNC_CRDS"); dir != "" {
		files, err := filepath.Glob(filepath.Join(dir, "*.crd.yml"))
		if err != nil || len(files) == 0 {
			p.Fatalf("no *.crd.yml in DROVER_TEST_SYNC_CRDS=%s: %v", dir, err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				p.Fatal(err)
			}
			var d map[string]any
			if err := yaml.Unmarshal(data, &d); err != nil {
				p.Fatalf("%s: %v", file, err)
			}
			list = append(list, d)
		}
		return list
	}
	for kind, r := range map[string]schema.GroupVersionResource{"ManagedKafka": managedKafkas, "ManagedKafkaAgent": managedAgents} {
		list = append(list, map[string]any{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
			"metadata": map[string]any{"name": r.Resource + "." + r.Group},
			"spec": map[string]any{
				"group": r.Group, "scope": "Namespaced",
				"names": map[string]any{"kind": kind, "plural": r.Resource, "singular": strings.ToLower(kind)},
				"versions": []any{map[string]any{
					"name": r.Version, "served": true, "storage": true,
					"subresources": map[string]any{"status": map[string]any{}},
					"schema":       map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
				}},
			},
		})
	}
	return list
}

func (p *dataPlane) create(r schema.GroupVersionResource, namespace string, object map[string]any) {
	p.Helper()
	if _, err := p.client.Resource(r).Namespace(namespace).Create(p.Context(), &unstructured.Unstructured{Object: object}, metav1.CreateOptions{}); err != nil {
		p.Fatalf("cannot make %s: %v", r.Resource, err)
	}
}

// await asks for an object until it is so; nil stands for one that is not there.
func (p *dataPlane) await(r schema.GroupVersionResource, namespace, name, what string, so func(*unstructured.Unstructured) bool) {
	p.Helper()
	drover.Until(p, what, func() bool {
		o, err := p.client.Resource(r).Namespace(namespace).Get(p.Context(), name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return so(nil)
		}
		return err == nil && so(o)
	})
}

// report writes a status as the operator would.
func (p *dataPlane) report(r schema.GroupVersionResource, namespace, name string, status any) {
	p.Helper()
	data, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		p.Fatal(err)
	}
	if _, err := p.client.Resource(r).Namespace(namespace).Patch(p.Context(), name, "application/merge-patch+json", data, metav1.PatchOptions{}, "status"); err != nil {
		p.Fatalf("cannot report on %s: %v", name, err)
	}
}

func notReady(reason string) kafkaStatus {
	return kafkaStatus{UpdatedTimestamp: now(), Conditions: []condition{{Type: "Ready", Status: "False", Reason: reason, LastTransitionTime: now()}}}
}

// TestFleetshard carries a kafka through its life on a cluster on which the real
// sync module runs, on a real Kubernetes API.
func TestFleetshard(t *testing.T) {
	jar := os.Getenv("DROVER_TEST_SYNC_JAR")
	if jar == "" {
		t.Skip("there is no kas-fleetshard: DROVER_TEST_SYNC_JAR names the quarkus-run.jar of its sync module")
	}
	w := newWorld(t)
	p := startFleetshard(t, jar, w.enrol("c1", "aws", "us-east-1"))

	// The cluster gets ready by the status of the agent's own resource.
	p.await(managedAgents, home, "managed-agent", "the agent's own resource", func(o *unstructured.Unstructured) bool { return o != nil })
	p.report(managedAgents, home, "managed-agent", agentStatus{
		UpdatedTimestamp: now(), Conditions: []condition{{Type: "Ready", Status: "True", LastTransitionTime: now()}},
		Strimzi: []strimziVersion{
			{Version: "strimzi-cluster-operator.v0.31.0-0", Ready: true, KafkaVersions: []string{"3.0.1", "3.2.3"}, KafkaIbpVersions: []string{"3.0", "3.2"}},
		},
		Capacity: map[string]profileCapacity{"standard": {20, 20}, "developer": {20, 20}},
	})
	drover.Until(t, "the cluster to be ready", func() bool {
		var c struct{ Phase string }
		w.ask(http.StatusOK, w.admin(), "GET", "/api/v1/clusters/c1", nil, &c)
		return c.Phase == "ready"
	})

	alice := w.login("alice")
	var made struct{ ID string }
	w.ask(http.StatusAccepted, alice, "POST", api+"/kafkas?async=true", map[string]any{"name": "life", "cloud_provider": "aws", "region": "us-east-1"}, &made)
	space := "kafka-" + made.ID
	var got *unstructured.Unstructured
	p.await(managedKafkas, space, "life", "life on the cluster", func(o *unstructured.Unstructured) bool { got = o; return o != nil })
	var k managedKafka
	if data, err := got.MarshalJSON(); err != nil || json.Unmarshal(data, &k) != nil {
		t.Fatalf("it cannot be read: %v", err)
	}
	if k.Metadata.Annotations["bf2.org/id"] != made.ID || k.Metadata.Annotations["bf2.org/placementId"] == "" ||
		k.Spec.Versions == nil || k.Spec.Versions.Kafka != "3.2.3" || k.Spec.Capacity.IngressPerSec != "50Mi" ||
		k.Spec.OAuth == nil || k.Spec.OAuth.ValidIssuerEndpointURI != w.url+realm {
		t.Errorf("the sync module made this of it: %+v", got.Object)
	}
	if len(k.Spec.ServiceAccounts) != 1 || k.Spec.ServiceAccounts[0].Password != "" {
		t.Errorf("it has %d accounts, or one with a password that anybody who may look can read", len(k.Spec.ServiceAccounts))
	}
	p.canary(space, w.url+realm)

	p.report(managedKafkas, space, "life", notReady("Installing"))
	w.await(alice, made.ID, "life to be provisioned", func(k map[string]any, _ int) bool { return k["status"] == "provisioning" })
	ready := func() kafkaStatus {
		const router = "ingresscontroller.kas.apps.example.com"
		return kafkaStatus{
			UpdatedTimestamp: now(), Conditions: []condition{{Type: "Ready", Status: "True", LastTransitionTime: now()}},
			Capacity: &k.Spec.Capacity, Versions: k.Spec.Versions, AdminServerURI: "https://admin-server-" + k.Spec.Endpoint.BootstrapServerHost,
			Routes: []route{{"bootstrap", "", router}, {"admin-server", "admin-server", router}, {"broker-0", "broker-0", router}},
		}
	}
	p.report(managedKafkas, space, "life", ready())
	w.await(alice, made.ID, "life to be ready", func(got map[string]any, _ int) bool {
		return got["status"] == "ready" && got["admin_api_server_url"] == "https://admin-server-"+k.Spec.Endpoint.BootstrapServerHost
	})

	label := func(want string) func(*unstructured.Unstructured) bool {
		return func(o *unstructured.Unstructured) bool { return o != nil && o.GetLabels()["bf2.org/suspended"] == want }
	}
	w.ask(http.StatusOK, w.admin(), "PATCH", api+"/admin/kafkas/"+made.ID, map[string]any{"suspended": true}, nil)
	p.await(managedKafkas, space, "life", "life to be marked as suspended", label("true"))
	p.report(managedKafkas, space, "life", notReady("Suspended"))
	w.await(alice, made.ID, "life to be suspended", func(k map[string]any, _ int) bool { return k["status"] == "suspended" })
	w.ask(http.StatusOK, w.admin(), "PATCH", api+"/admin/kafkas/"+made.ID, map[string]any{"suspended": false}, nil)
	p.await(managedKafkas, space, "life", "life not to be marked any more", func(o *unstructured.Unstructured) bool { return o != nil && !label("true")(o) })
	p.report(managedKafkas, space, "life", ready())
	w.await(alice, made.ID, "life to be back", func(k map[string]any, _ int) bool { return k["status"] == "ready" })
	p.settles()

	w.ask(http.StatusAccepted, alice, "DELETE", api+"/kafkas/"+made.ID+"?async=true", nil, nil)
	p.await(managedKafkas, space, "life", "life to be marked as deleted", func(o *unstructured.Unstructured) bool {
		if o == nil {
			return false
		}
		deleted, _, _ := unstructured.NestedBool(o.Object, "spec", "deleted")
		return deleted
	})
	p.report(managedKafkas, space, "life", notReady("Deleted"))
	w.await(alice, made.ID, "life to be gone", func(_ map[string]any, status int) bool { return status == http.StatusNotFound })
	gone := func(o *unstructured.Unstructured) bool { return o == nil }
	p.await(managedKafkas, space, "life", "life to be gone from the cluster", gone)
	p.await(namespaces, "", space, "its namespace to be gone", gone)

	// Nothing that it was told or answered was odd.
	for _, e := range w.exchanges() {
		if strings.Contains(e.path, "/agent-clusters/") && e.status != http.StatusOK {
			t.Errorf("%s %s: %d %s", e.method, e.path, e.status, e.body)
		}
	}
	for line := range strings.Lines(p.log.String()) {
		if strings.Contains(line, " ERROR ") || strings.Contains(line, " WARN ") && strings.Contains(line, "org.bf2") {
			t.Errorf("the sync module says: %s", line)
		}
	}
}

// canary logs in with what the sync module keeps in its secret, and in no resource.
func (p *dataPlane) canary(space, issuer string) {
	p.Helper()
	var master *unstructured.Unstructured
	p.await(secrets, space, "life-master-secret", "the secret of life", func(o *unstructured.Unstructured) bool { master = o; return o != nil })
	data, _, err := unstructured.NestedStringMap(master.Object, "data")
	if err != nil {
		p.Fatal(err)
	}
	var account struct {
		ID     []byte `json:"canary.sasl.principal"`
		Secret []byte `json:"canary.sasl.password"`
	}
	text, err := json.Marshal(data)
	if err != nil || json.Unmarshal(text, &account) != nil || len(account.Secret) == 0 {
		p.Fatalf("the secret of life has no canary: %v", slices.Sorted(maps.Keys(data)))
	}
	login := &syncAgent{parameters: map[string]string{"sso-auth-server-url": issuer, "sso-client-id": string(account.ID), "sso-secret": string(account.Secret)}}
	if _, err := login.login(); err != nil {
		p.Errorf("the canary cannot log in: %v", err)
	}
}

// settles tells whether the sync module finds on its cluster what it is told: else
// it would write at each poll, for ever.
func (p *dataPlane) settles() {
	p.Helper()
	polls := func(n int) {
		p.Helper()
		until := n + strings.Count(p.log.String(), "Polling for control plane managed kafkas")
		drover.Until(p, "the sync module to poll", func() bool {
			return strings.Count(p.log.String(), "Polling for control plane managed kafkas") >= until
		})
	}
	writes := func() int {
		return strings.Count(p.log.String(), "Updating ManagedKafka ") + strings.Count(p.log.String(), "ManagedKafkaAgent CR updated")
	}
	polls(2)
	before := writes()
	polls(3)
	if after := writes(); after != before {
		p.Errorf("the sync module has written %d times although nothing changed", after-before)
	}
}
