//go:build e2e

package chart_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/droverhq/drover/test/drover"
	"github.com/droverhq/drover/test/servers"
	"github.com/droverhq/drover/test/servers/built"
)

const (
	namespace = "drover-system"
	control   = "../../deploy/helm/drover"
	agent     = "../../deploy/helm/drover-agent"
)

var helmDir = sync.OnceValues(func() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Minute)
	defer cancel()
	return servers.Build(ctx, built.Helm, os.Stderr)
})

// helm runs Helm with values, away from whatever Helm this machine has settings of.
func helm(t *testing.T, values string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	if os.Getenv("DROVER_TEST_NO_ARGOCD") == "1" {
		t.Skip("there is no Helm: `test/with-argocd.sh true` brings it")
	}
	dir, err := helmDir()
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	file := filepath.Join(home, "values.yaml")
	if err := os.WriteFile(file, []byte(values), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "helm"), append(args, "--values", file)...)
	cmd.Env = append(os.Environ(), "HOME="+home, "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// render returns the objects of a chart.
func render(t *testing.T, chart, values string) []*unstructured.Unstructured {
	t.Helper()
	out, stderr, err := helm(t, values, "template", "drover", chart, "--namespace", namespace)
	if err != nil {
		t.Fatalf("%v: %s", err, stderr)
	}
	var objects []*unstructured.Unstructured
	for _, part := range regexp.MustCompile(`(?m)^---$`).Split(out, -1) {
		var object map[string]any
		if err := yaml.UnmarshalStrict([]byte(part), &object); err != nil {
			t.Fatalf("%v in\n%s", err, part)
		}
		if len(object) > 0 {
			objects = append(objects, &unstructured.Unstructured{Object: object})
		}
	}
	return objects
}

const least = `
image: {tag: v1.2.3}
publicURL: https://drover.example.org
database: {secret: drover-database}
masterKey: {secret: drover-master-key}
`

// rendered are values that people come with, and what is to be there.
var rendered = []struct {
	reason, chart, values string
	kinds                 []string // besides those that are always there
}{
	{"a certificate of one's own", control, least + "tls: {secret: drover-tls}\n", nil},
	{"behind an ingress that ends TLS", control, least + `
tls: {plaintext: true}
replicas: 1
ingress: {enabled: true, className: nginx, tlsSecret: drover-public, annotations: {a/b: c}}
`, []string{"Ingress"}},
	{"everything", control, least + `
tls: {certManager: {enabled: true, issuer: corporate, dnsNames: [drover.internal]}, clientCASecret: drover-clients, clientAuth: all}
database: {secret: drover-database, tlsSecret: database-tls}
bus: {kind: rabbitmq, secret: bus, options: ["url=amqps://mq.example.org:5671", "ca=/etc/drover/bus/ca.crt", "certificate=/etc/drover/bus/tls.crt", "key=/etc/drover/bus/tls.key"]}
customResources: {enabled: true, engines: [edge, far]}
gitopsOptions: ["poll=2m"]
plaintext: [vault]
agentTLSSecret: drover-agent-tls
settings: {rate-limit: 50, workers: 64, log-level: debug, trusted-proxies: [10.0.0.0/8], trace-endpoint: "https://collector.example.org:4318", offerings-dir: /etc/drover/offerings}
mounts: [{configMap: offerings, path: /etc/drover/offerings}, {secret: git, path: /etc/drover/git}]
secretEnv: [{name: OTEL_EXPORTER_OTLP_HEADERS, secret: collector, key: headers}]
service: {type: LoadBalancer, port: 8443, annotations: {a/b: c}}
serviceAccount: {annotations: {a/b: c}}
serviceMonitor: {enabled: true, labels: {release: prometheus}}
networkPolicy: {enabled: true, from: [{namespaceSelector: {matchLabels: {a: b}}}]}
podLabels: {a: b}
podAnnotations: {a/b: c}
nodeSelector: {a: b}
tolerations: [{key: a, operator: Exists}]
affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}}}
priorityClassName: system-cluster-critical
image: {tag: v1.2.3, digest: "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", pullSecrets: [registry]}
`, []string{"Certificate", "ClusterRoleBinding", "NetworkPolicy", "PodDisruptionBudget", "ServiceMonitor"}},
	{"a site of two with Vault and Consul", control, least + `
masterKey: {secret: drover-master-key, transit: transit/keys/drover}
tls: {secret: drover-tls}
bus: {kind: rabbitmq, options: ["url=amqps://rabbitmq.service.consul", "ca=/etc/drover/ca/ca.crt", "credentials=vault:rabbitmq/creds/drover"]}
vault: {serviceAccountToken: true, audience: vault}
settings:
  vault: https://vault.service.consul
  vault-options: [auth=kubernetes, role=drover, ca=/etc/drover/ca/ca.crt]
  database-credentials: vault:database/creds/drover
  consul: https://consul.example.org:8501
  consul-options: [datacenter=east, ca=/etc/drover/ca/ca.crt, token-file=/etc/drover/consul/token]
  primary: true
  site: east
  secondary-url: https://drover.west.example.org
  witness: consul:https://consul.third.example.org/drover/leader
mounts: [{configMap: authorities, path: /etc/drover/ca}, {secret: consul, path: /etc/drover/consul}]
`, []string{"PodDisruptionBudget"}},
	{"the other site", control, least + `
tls: {secret: drover-tls}
vault: {serviceAccountToken: true}
settings: {vault: "https://vault.example.org", vault-options: "auth=jwt,role=drover", database-credentials: vault:database/creds/drover, consul: "https://consul.example.org:8501",
  primary-cluster-name: drover.service.east.consul, site: west, witness: "consul:https://consul.third.example.org/drover/leader"}
`, nil},
	{"an agent", agent, "server: https://drover.example.org\ncluster: edge\ntoken: a.b.c\nimage: drover:v1\ntlsSecret: edge-tls\n", []string{"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Secret"}},
	{"an agent without encryption", agent, "server: http://drover.example.org\ncluster: edge\ntoken: a.b.c\nimage: drover:v1\nplaintext: true\n", []string{"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Secret"}},
}

func TestLint(t *testing.T) {
	for _, tc := range rendered {
		if out, stderr, err := helm(t, tc.values, "lint", "--strict", tc.chart); err != nil {
			t.Errorf("%s: %v\n%s%s", tc.reason, err, out, stderr)
		}
	}
}

var strict = serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()

// foreign are kinds that Kubernetes does not have itself.
var foreign = []string{"Certificate", "ServiceMonitor"}

func TestRenderedIsWhatKubernetesKnows(t *testing.T) {
	for _, tc := range rendered {
		t.Run(tc.reason, func(t *testing.T) {
			var kinds []string
			for _, o := range render(t, tc.chart, tc.values) {
				kinds = append(kinds, o.GetKind())
				data, err := json.Marshal(o)
				if err != nil {
					t.Fatal(err)
				}
				if tc.chart == control && o.GetKind() == "Secret" {
					t.Error("the chart holds a secret")
				}
				if slices.Contains(foreign, o.GetKind()) {
					continue
				}
				if _, _, err := strict.Decode(data, nil, nil); err != nil {
					t.Errorf("%s: %v", o.GetKind(), err)
				}
			}
			for _, want := range append([]string{"Deployment", "ServiceAccount"}, tc.kinds...) {
				if !slices.Contains(kinds, want) {
					t.Errorf("there is no %s among %v", want, kinds)
				}
			}
		})
	}
}

// What a pod is started with is what the binary takes, values included.
func TestTheBinaryKnowsEveryFlag(t *testing.T) {
	for _, tc := range rendered {
		t.Run(tc.reason, func(t *testing.T) {
			var pod corev1.PodSpec
			var settings string
			for _, o := range render(t, tc.chart, tc.values) {
				switch o.GetKind() {
				case "Deployment":
					var d appsv1.Deployment
					if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &d); err != nil {
						t.Fatal(err)
					}
					pod = d.Spec.Template.Spec
				case "ConfigMap":
					settings, _, _ = unstructured.NestedString(o.Object, "data", "drover.yaml")
				}
			}
			args := pod.Containers[0].Args
			help, err := exec.Command(drover.Binary(), args[0], "--help").Output()
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), "drover.yaml")
			if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
				t.Fatal(err)
			}
			show := []string{"config", "show", "-o", "json"}
			for _, arg := range args[1:] {
				name, value, _ := strings.Cut(arg, "=")
				if !bytes.Contains(help, []byte(name+" ")) {
					t.Errorf("drover %s knows no %s", args[0], name)
				}
				if name == "--config" {
					if value != "/etc/drover/settings/drover.yaml" || !mounted(pod, value) {
						t.Errorf("the settings are not at %s", value)
					}
					arg = name + "=" + file
				}
				for _, path := range regexp.MustCompile(`/(etc|var/run)/drover[-/][^,]*`).FindAllString(value, -1) {
					if !mounted(pod, path) {
						t.Errorf("%s: nothing is mounted there", arg)
					}
				}
				if name != "--token-file" && name != "--ca-file" && !strings.HasPrefix(name, "--client-") { // they are read at once
					show = append(show, arg)
				}
			}
			cmd := exec.Command(drover.Binary(), show...)
			cmd.Env = append(os.Environ(), "XDG_CONFIG_HOME="+t.TempDir(), "DROVER_CONFIG=")
			for _, e := range pod.Containers[0].Env {
				if strings.HasPrefix(e.Name, "DROVER_") && !slices.Contains([]string{"DROVER_DATABASE", "DROVER_MASTER_KEY"}, e.Name) {
					t.Errorf("%s is no variable of a secret setting", e.Name)
				}
			}
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			if out, err := cmd.Output(); err != nil {
				t.Errorf("%v: %s%s", err, out, stderr.String())
			}
		})
	}
}

// What the server is given is what it can start with: the key in one place alone, a token
// that is replaced, an address in Consul that is the pod's own.
func TestCredentialsOfAPod(t *testing.T) {
	pods := map[string]corev1.PodSpec{}
	for _, tc := range rendered {
		for _, o := range render(t, tc.chart, tc.values) {
			var d appsv1.Deployment
			if o.GetKind() != "Deployment" {
				continue
			}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &d); err != nil {
				t.Fatal(err)
			}
			pods[tc.reason] = d.Spec.Template.Spec
		}
	}
	has := func(p corev1.PodSpec, name string) bool {
		return slices.ContainsFunc(p.Containers[0].Env, func(e corev1.EnvVar) bool { return e.Name == name })
	}
	plain, site, other := pods["a certificate of one's own"], pods["a site of two with Vault and Consul"], pods["the other site"]
	if !has(plain, "DROVER_MASTER_KEY") || has(site, "DROVER_MASTER_KEY") {
		t.Error("the digits come as a variable, what transit has wrapped as a file: a server refuses both")
	}
	for _, want := range []string{
		"--master-key-file=/etc/drover/master-key/master-key", "--master-key-transit=transit/keys/drover",
		"--vault-options=auth=kubernetes,role=drover,ca=/etc/drover/ca/ca.crt,jwt-file=/etc/drover/vault/token",
		"--consul-options=datacenter=east,ca=/etc/drover/ca/ca.crt,token-file=/etc/drover/consul/token,address=$(POD_IP)",
	} {
		if !slices.Contains(site.Containers[0].Args, want) {
			t.Errorf("there is no %s among %v", want, site.Containers[0].Args)
		}
	}
	for _, want := range []string{"--vault-options=auth=jwt,role=drover,jwt-file=/etc/drover/vault/token", "--consul-options=address=$(POD_IP)"} {
		if !slices.Contains(other.Containers[0].Args, want) {
			t.Errorf("there is no %s among %v", want, other.Containers[0].Args)
		}
	}
	if !has(site, "POD_IP") || has(plain, "POD_IP") {
		t.Error("the pod's address is for Consul alone")
	}
	for reason, audience := range map[string]string{"a site of two with Vault and Consul": "vault", "the other site": ""} {
		at := slices.IndexFunc(pods[reason].Volumes, func(v corev1.Volume) bool { return v.Name == "vault" })
		if at < 0 {
			t.Errorf("%s: there is no token to log in with", reason)
			continue
		}
		token := pods[reason].Volumes[at].Projected.Sources[0].ServiceAccountToken
		if token.Path != "token" || token.Audience != audience || *token.ExpirationSeconds != 3600 {
			t.Errorf("%s: %+v", reason, token)
		}
	}
	// Nobody gets a token of the API who does not speak with it.
	if *site.AutomountServiceAccountToken || !*pods["everything"].AutomountServiceAccountToken {
		t.Error("the token of the API is for custom resources alone")
	}
}

// mounted says whether a path is below a mount that is not what the pod writes to.
func mounted(pod corev1.PodSpec, path string) bool {
	return slices.ContainsFunc(pod.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool {
		return strings.HasPrefix(path, m.MountPath+"/") && m.ReadOnly
	})
}

func TestValuesThatCannotWorkAreRefused(t *testing.T) {
	for _, tc := range []struct{ reason, values, says string }{
		{"no certificate", least, "the API needs a certificate"},
		{"both", least + "tls: {secret: x, plaintext: true}", "tls.plaintext is for an API without a certificate"},
		{"clients without TLS", least + "tls: {plaintext: true, clientCASecret: x}", "tls.clientCASecret needs"},
		{"no issuer", least + "tls: {certManager: {enabled: true}}", "tls.certManager.issuer is required"},
		{"no version", "publicURL: https://x\ndatabase: {secret: x}\nmasterKey: {secret: x}\ntls: {secret: x}", "image.tag is required"},
		{"no address", "image: {tag: x}\ndatabase: {secret: x}\nmasterKey: {secret: x}\ntls: {secret: x}", "publicURL is required"},
		{"no database", "image: {tag: x}\npublicURL: https://x\nmasterKey: {secret: x}\ntls: {secret: x}", "database.secret is required"},
		{"no key", "image: {tag: x}\npublicURL: https://x\ndatabase: {secret: x}\ntls: {secret: x}", "masterKey.secret is required"},
		{"a secret among the settings", least + "tls: {secret: x}\nsettings: {master-key: abc}", "master-key"},
		{"a password in the broker's URL", least + "tls: {secret: x}\nbus: {kind: rabbitmq, options: ['url=amqps://u:p@mq']}", "/bus/options/0"},
		{"a misspelt value", least + "tls: {secret: x}\nreplica: 3", "replica"},
		{"a mount anywhere", least + "tls: {secret: x}\nmounts: [{secret: x, path: /tmp}]", "/mounts/0"},
		{"a primary without a name", least + "tls: {secret: x}\nsettings: {primary: true, witness: x}", "settings.site is required"},
		{"a secondary without a name", least + "tls: {secret: x}\nsettings: {primary-url: https://east.example.org}", "settings.site is required"},
		{"a witness of one that stands alone", least + "tls: {secret: x}\nsettings: {witness: x}", "are for one of two sites"},
		{"a primary that forgets the other site", least + "tls: {secret: x}\nsettings: {primary: true}", "settings.secondary-url or settings.witness"},
		{"a key that is wrapped, and nobody who unwraps it", least + "tls: {secret: x}\nmasterKey: {secret: x, transit: transit/keys/drover}", "masterKey.transit needs settings.vault"},
		{"a wrapped key among the settings", least + "tls: {secret: x}\nsettings: {vault: https://vault, master-key-transit: transit/keys/drover}", "master-key-transit"},
		{"no key of transit", least + "tls: {secret: x}\nsettings: {vault: https://vault}\nmasterKey: {secret: x, transit: drover}", "/masterKey/transit"},
		{"a login without a token", least + "tls: {secret: x}\nsettings: {vault: https://vault, vault-options: [auth=kubernetes, role=drover]}", "set vault.serviceAccountToken=true"},
		{"a token without a login", least + "tls: {secret: x}\nvault: {serviceAccountToken: true}\nsettings: {vault: https://vault, vault-options: [auth=approle, role-id=x]}", "auth=kubernetes or auth=jwt"},
		{"two tokens", least + "tls: {secret: x}\nvault: {serviceAccountToken: true}\nsettings: {vault: https://vault, vault-options: [auth=jwt, jwt-file=/etc/drover/x/y]}", "leave one of them out"},
		{"an audience of nothing", least + "tls: {secret: x}\nvault: {audience: vault}", "vault.audience is that of"},
		{"options without a broker", least + "tls: {secret: x}\nbus: {options: ['url=amqps://mq']}", "bus.kind=rabbitmq"},
	} {
		_, stderr, err := helm(t, tc.values, "template", "drover", control)
		if err == nil || !strings.Contains(stderr, tc.says) {
			t.Errorf("%s: %v, %s", tc.reason, err, stderr)
		}
	}
}
