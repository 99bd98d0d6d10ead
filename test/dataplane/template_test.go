//go:build e2e

package dataplane_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/test/kubernetes"
	"github.com/droverhq/drover/test/tofu"
)

// made is a template whose cloud is a file that lists what was done, once another file
// says that it may be, and whose clusters are one that runs here.
const made = `
variable "cluster_id" {}
variable "cloud" { default = "" }
variable "region" { default = "" }
variable "multi_az" { default = false }
variable "nodes" { default = 0 }
variable "labels" { default = {} }
variable "book" {}
variable "kubeconfig" {}

resource "terraform_data" "cluster" {
  input = var.book
  provisioner "local-exec" {
    command = "while test -d ${dirname(self.input)} && ! test -e ${self.input}.made; do sleep 0.1; done; echo made >> ${self.input}"
  }
  provisioner "local-exec" {
    when    = destroy
    command = "while test -d ${dirname(self.input)} && ! test -e ${self.input}.gone; do sleep 0.1; done; echo gone >> ${self.input}"
  }
}

output "external_id" { value = terraform_data.cluster.id }
output "kubeconfig" {
  value     = file(var.kubeconfig)
  sensitive = true
}
`

const profile = `
apiVersion: drover.dev/v1
kind: ClusterProfile
metadata: {name: small}
spec:
  maker: template
  options: {directory: %q, var.book: %q, var.kubeconfig: %q}
  serves: [{provider: metal, regions: [north]}]
  steps:
    - name: watch
      manifests:
        - {apiVersion: v1, kind: Namespace, metadata: {name: observability}}
        - {apiVersion: v1, kind: ConfigMap, metadata: {name: scrape, namespace: observability}, data: {cluster: "${cluster.id}"}}
`

// A profile's template makes a cluster, the control plane makes it fit, its agent
// comes, and in the end the template takes it away. The server is killed in every
// phase on the way: one cluster is made, and one is removed.
func TestClusterOfAProfile(t *testing.T) {
	t.Parallel()
	binary := tofu.Path(t)
	k := kubernetes.Start(t, kubernetes.WithControllers())
	k.Node(t, "n1", "4", "16Gi")
	kubelet(t, k)
	dir := t.TempDir()
	book, config, templates := filepath.Join(dir, "book"), filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "template")
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(templates, "main.tf"), made)
	write(config, string(k.Kubeconfig()))
	w := start(t, "--provider-options", "template.binary="+binary)
	if _, err := w.c.ApplyTo(context.Background(), "profiles", fmt.Appendf(nil, profile, templates, book, config)); err != nil {
		t.Fatal(err)
	}
	w.run("cluster", "create", "made", "--profile", "small", "--provider", "metal", "--region", "north")

	killed := map[string]bool{}
	may := map[string]string{"cluster_provisioning": book + ".made", "deprovisioning": book + ".gone"} // what ends a phase
	// through kills the server in each phase that it sees, once, until the last.
	through := func(last string) {
		t.Helper()
		w.until("the cluster to be "+last, func() bool {
			phase, _ := w.get("clusters", "made")
			if phase == last {
				return true
			}
			if phase != "unknown" && !killed[phase] {
				t.Logf("killed in %s", phase)
				killed[phase] = true
				w.s.Kill()
				w.s.Start(t)
				if file := may[phase]; file != "" {
					write(file, "")
				}
			}
			return false
		})
	}
	through("waiting_for_fleetshard_operator")
	if got, _ := os.ReadFile(book); string(got) != "made\n" {
		t.Errorf("the cloud was asked for %q", got)
	}
	for _, step := range []string{"profile.small/watch", "shop/space", "shop/kinds", "shop/floor"} {
		w.says("cluster", "made", step)
	}
	scrape, err := k.Client(t).CoreV1().ConfigMaps("observability").Get(t.Context(), "scrape", metav1.GetOptions{})
	if err != nil || scrape.Data["cluster"] != "made" {
		t.Errorf("the profile's step: %v, %v", scrape.Data, err)
	}

	// The steps have brought the agent: what its Deployment would run is run here.
	p := &plane{world: w, name: "made", k: k}
	var join *corev1.Secret
	w.until("the agent's token on the cluster", func() bool {
		join, err = k.Client(t).CoreV1().Secrets(cluster.AgentNamespace).Get(t.Context(), "drover-join", metav1.GetOptions{})
		return err == nil
	})
	p.start(string(join.Data["token"]))
	p.await("ready")
	before := look(t, k)
	ns := w.order("corner", "north", map[string]any{"greeting": "hello"})
	w.is("shops", "corner", "ready")
	p.greets(ns, "hello")

	if said := w.refused(5, "cluster", "delete", "made", "--yes"); !strings.Contains(said, "corner") {
		t.Errorf("a cluster with an instance: %s", said)
	}
	w.remove("shops", "corner")
	w.is("shops", "corner", "gone")
	w.same(k, before)

	w.run("cluster", "delete", "made", "--yes")
	through("gone")
	if got, _ := os.ReadFile(book); string(got) != "made\ngone\n" {
		t.Errorf("the cloud was asked for %q", got)
	}
	for _, phase := range []string{"cluster_provisioning", "deprovisioning"} {
		if !killed[phase] {
			t.Errorf("nobody was killed in %s: %v", phase, killed)
		}
	}
	if work, err := filepath.Glob(filepath.Join(w.s.DataDir, "*", "made")); err == nil && len(work) > 0 {
		t.Errorf("the maker left %v", work)
	}
}
