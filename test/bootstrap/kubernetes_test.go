//go:build e2e && linux

package bootstrap_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cluster "github.com/droverhq/drover/test/kubernetes"
)

// The API server is real, and there are no nodes: what is applied is looked at, and
// nothing of it ever works.
func TestKubernetesIsApplied(t *testing.T) {
	c := cluster.Shared(t)
	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(kubeconfig, c.Kubeconfig(), 0o600); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, state: filepath.Join(dir, "state")}
	room := fmt.Sprintf("meta-%x", time.Now().UnixNano())
	args := []string{"--location", c.URL, "--kubeconfig", kubeconfig, "--state", w.state, "--namespace", room, "--image", "example.org/drover:1"}
	if out, code := w.run(append(args, "--dry-run")...); code != 0 || !strings.Contains(out, "rabbitmq") {
		t.Fatalf("the dry run ends with %d: %s", code, out)
	}
	for range 2 { // the second time changes nothing
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
	if m, err := kube.CoreV1().ConfigMaps(room).Get(ctx, "prometheus", metav1.GetOptions{}); err != nil || !strings.Contains(m.Data["prometheus.yml"], "scheme: http\n") || !strings.Contains(m.Data["rules.yaml"], "drover-slo") {
		t.Errorf("Prometheus asks a Drover without certificate by %v, %v", m.Data, err)
	}
	for _, name := range []string{"postgres", "rabbitmq", "consul", "openbao", "drover"} {
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
}
