//go:build e2e

package gitops_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/droverhq/drover/test/argocd"
	"github.com/droverhq/drover/test/gitserver"
)

var workloads = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}

// workload is the manifest of a Deployment.
func workload(name string) gitserver.Entry {
	return gitserver.File(fmt.Sprintf(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: %[1]s}, spec: {replicas: 1, selector: {matchLabels: {app: %[1]s}},
  template: {metadata: {labels: {app: %[1]s}}, spec: {containers: [{name: c, image: none}]}}}}`, name))
}

// healthOfAWorkload is told resource by resource and as a whole, as Argo CD sees it. Nothing
// carries Deployments out here: their statuses are set by hand.
func healthOfAWorkload(t *testing.T, w *world) {
	ns := w.namespace(t)
	repo := w.git.Repo(t, ns)
	repo.Commit(t, "main", files{"k8s/a.yaml": configMap("a", "1"), "k8s/web.yaml": workload("web")})
	uid := w.deploy(t, ns, "shop", of("automated", repo.URL))
	for _, c := range []struct{ status, health, says string }{
		{"", "Progressing", ""},
		{`{"observedGeneration":1,"replicas":1,"updatedReplicas":1,"readyReplicas":1,"availableReplicas":1}`, "Healthy", ""},
		{`{"observedGeneration":1,"replicas":1,"updatedReplicas":1,"readyReplicas":null,"availableReplicas":null,
		  "conditions":[{"type":"Progressing","status":"False","reason":"ProgressDeadlineExceeded","lastUpdateTime":"2026-01-01T00:00:00Z","lastTransitionTime":"2026-01-01T00:00:00Z"}]}`,
			"Degraded", "exceeded its progress deadline"},
	} {
		if c.status != "" {
			w.patch(t, workloads, ns, "web/status", `{"status":`+c.status+`}`)
		}
		w.wait(t, deployments, ns, "shop", c.health+" by its workload", func(o *thing) bool {
			return o != nil && argocd.Field(o, "status.health.status") == c.health && slices.Contains(listed(o), "Deployment/web Synced "+c.health)
		})
		until(t, c.health+" by the command line", func() bool {
			text := w.run(t, "deploy", "status", uid)
			return slices.ContainsFunc(strings.Split(text, "\n"), func(line string) bool {
				f := strings.Fields(line)
				return len(f) > 4 && f[0] == "Deployment" && f[2] == "web" && f[3] == "Synced" && f[4] == c.health && strings.Contains(line, c.says)
			})
		})
	}
}
