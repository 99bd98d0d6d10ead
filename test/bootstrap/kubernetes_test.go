//go:build e2e && linux

package bootstrap_test

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	cluster "github.com/droverhq/drover/test/kubernetes"
)

// The API server is real, and there are no nodes: what is applied is looked at, and
// nothing of it ever works.
func TestKubernetesIsApplied(t *testing.T) {
	c := cluster.Shared(t)
	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := clientcmd.WriteToFile(*among(t, c.Kubeconfig(), "prod-west"), kubeconfig); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, state: filepath.Join(dir, "state")}
	room := fmt.Sprintf("meta-%x", time.Now().UnixNano())
	args := []string{"--location", c.URL, "--kubeconfig", kubeconfig, "--state", w.state, "--namespace", room, "--image", "example.org/drover:1",
		"--public-host", "drover.example.org:8443", "--service-type", "LoadBalancer"}
	if out, code := w.run(append(args, "--dry-run")...); code != 0 || !strings.Contains(out, "rabbitmq") {
		t.Fatalf("the dry run ends with %d: %s", code, out)
	}
	for _, args[1] = range []string{c.URL, "prod-west"} { // the second time changes nothing
		out, code := w.run(append(args, "--no-wait", "--timeout", patience.String())...)
		if code != 0 || !strings.Contains(out, "nothing was handed over") {
			t.Fatalf("it ends with %d: %s", code, out)
		}
	}
	out, code := w.run(append(args, "--timeout", "5s")...)
	if code != 124 || !strings.Contains(out, "postgres") {
		t.Errorf("what never works ends with %d: %s", code, out)
	}

	kube, ctx := c.Client(t), t.Context()
	ns, err := kube.CoreV1().Namespaces().Get(ctx, room, metav1.GetOptions{})
	if err != nil || ns.Labels["pod-security.kubernetes.io/enforce"] != "restricted" {
		t.Errorf("the namespace is %v, %v", ns.Labels, err)
	}
	sets, err := kube.AppsV1().StatefulSets(room).List(ctx, metav1.ListOptions{})
	if err != nil || len(sets.Items) != 5 {
		t.Errorf("there are %d sets, %v", len(sets.Items), err)
	}
	for _, s := range sets.Items {
		pod := s.Spec.Template.Spec
		if pod.SecurityContext.RunAsNonRoot == nil || !*pod.SecurityContext.RunAsNonRoot || pod.Containers[0].SecurityContext.Capabilities.Drop[0] != "ALL" {
			t.Errorf("%s is not restricted: %+v", s.Name, pod.SecurityContext)
		}
	}
	drover, err := kube.AppsV1().Deployments(room).Get(ctx, "drover", metav1.GetOptions{})
	if err != nil || drover.Spec.Template.Spec.Containers[0].Image != "example.org/drover:1" {
		t.Errorf("Drover is %+v, %v", drover.Spec, err)
	}
	scraped(t, kube, room)
	public(t, kube, room, drover.Spec.Template.Spec.Containers[0].Env)
	encrypted(t, kube, room)
	for _, name := range []string{"postgres", "rabbitmq", "consul", "openbao", "drover", "drover-tls"} {
		if s, err := kube.CoreV1().Secrets(room).Get(ctx, name, metav1.GetOptions{}); err != nil || len(s.Data) == 0 {
			t.Errorf("secret %s: %v", name, err)
		}
	}
	if rules, err := kube.NetworkingV1().NetworkPolicies(room).List(ctx, metav1.ListOptions{}); err != nil || len(rules.Items) != 2 {
		t.Errorf("there are %d network policies, %v", len(rules.Items), err)
	}
	if out, code := w.run(append(args[:2:2], "--kubeconfig", kubeconfig, "--location", "nowhere", "--state", w.state)...); code == 0 || !strings.Contains(out, "no such context") {
		t.Errorf("a location that is not there ends with %d: %s", code, out)
	}

	// Another one is reached at a port of the nodes.
	port := 30000 + rand.IntN(86) // the API gives none of these by itself
	node := []string{"--location", c.URL, "--kubeconfig", kubeconfig, "--state", filepath.Join(dir, "node"), "--namespace", room + "-node", "--public-host", fmt.Sprintf("node.example.org:%d", port), "--service-type", "NodePort"}
	if out, code := w.run(append(node, "--no-wait", "--timeout", patience.String())...); code != 0 {
		t.Errorf("it ends with %d: %s", code, out)
	}
	if s, err := kube.CoreV1().Services(room+"-node").Get(ctx, "drover-public", metav1.GetOptions{}); err != nil || s.Spec.Type != corev1.ServiceTypeNodePort || int(s.Spec.Ports[0].NodePort) != port {
		t.Errorf("the port of the nodes is %+v, %v", s.Spec, err)
	}

	// microk8s is asked for its own.
	if err := os.WriteFile(filepath.Join(dir, "microk8s"), []byte("#!/bin/sh\n[ \"$*\" = config ] && cat <<'END'\n"+string(c.Kubeconfig())+"\nEND\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("KUBECONFIG", filepath.Join(dir, "nowhere"))
	if out, code := w.run("--location", "microk8s", "--state", filepath.Join(dir, "other"), "--namespace", room+"-other", "--dry-run"); code != 0 || !strings.Contains(out, "rabbitmq") {
		t.Errorf("a dry run on microk8s ends with %d: %s", code, out)
	}
}

// among is a kubeconfig that has a context by another name, beside one that leads nowhere
// and would be taken unasked.
func among(t *testing.T, kubeconfig []byte, name string) *api.Config {
	t.Helper()
	config, err := clientcmd.Load(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	was := config.CurrentContext
	config.Contexts[name] = config.Contexts[was]
	delete(config.Contexts, was)
	config.Clusters["elsewhere"] = &api.Cluster{Server: "https://127.0.0.1:1"}
	config.Contexts["elsewhere"] = &api.Context{Cluster: "elsewhere"}
	config.CurrentContext = "elsewhere"
	return config
}

// scraped looks whether Prometheus asks each replica, and would start with what it is given.
func scraped(t *testing.T, kube kubernetes.Interface, room string) {
	t.Helper()
	m, err := kube.CoreV1().ConfigMaps(room).Get(t.Context(), "prometheus", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"scheme: https\n", "server_name: drover}", "names: [drover-replicas], type: A, port: 8000"} {
		if !strings.Contains(m.Data["prometheus.yml"], want) {
			t.Errorf("Prometheus has no %q: %s", want, m.Data["prometheus.yml"])
		}
	}
	if !strings.Contains(m.Data["rules.yaml"], "drover-slo") {
		t.Errorf("Prometheus has the rules %s", m.Data["rules.yaml"])
	}
	each, err := kube.CoreV1().Services(room).Get(t.Context(), "drover-replicas", metav1.GetOptions{})
	if err != nil || each.Spec.ClusterIP != "None" || each.Spec.Selector["app"] != "drover" {
		t.Errorf("the replicas are found by %+v, %v", each.Spec, err)
	}
	file := filepath.Join(t.TempDir(), "prometheus.yml")
	if err := os.WriteFile(file, []byte(m.Data["prometheus.yml"]), 0o644); err != nil {
		t.Fatal(err)
	}
	check := exec.Command("../with-promtool.sh", "sh", "-c", `[ -z "$DROVER_TEST_PROMTOOL" ] || exec "$DROVER_TEST_PROMTOOL" check config --syntax-only "$0"`, file)
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("Prometheus would not start with it: %v: %s", err, out)
	}
}

// public looks at the way in from outside.
func public(t *testing.T, kube kubernetes.Interface, room string, env []corev1.EnvVar) {
	t.Helper()
	s, err := kube.CoreV1().Services(room).Get(t.Context(), "drover-public", metav1.GetOptions{})
	if err != nil || s.Spec.Type != corev1.ServiceTypeLoadBalancer || s.Spec.Ports[0].Port != 8443 || s.Spec.Ports[0].TargetPort.IntValue() != 8000 {
		t.Errorf("the way in is %+v, %v", s.Spec, err)
	}
	for name, want := range map[string]string{"DROVER_PUBLIC_URL": "https://drover.example.org:8443", "DROVER_AGENT_IMAGE": "example.org/drover:1"} {
		if !slices.Contains(env, corev1.EnvVar{Name: name, Value: want}) {
			t.Errorf("%s is not %s: %v", name, want, env)
		}
	}
	secret, err := kube.CoreV1().Secrets(room).Get(t.Context(), "drover-tls", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(secret.Data["tls.crt"])
	if block == nil {
		t.Fatal("Drover has no certificate")
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"drover.example.org", "drover." + room + ".svc", "drover"} {
		if err := certificate.VerifyHostname(host); err != nil {
			t.Error(err)
		}
	}
}
