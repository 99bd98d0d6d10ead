//go:build e2e

package gitops_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/test/argocd"
	"github.com/droverhq/drover/test/gitserver"
)

// state is how a deployment is, by the command line.
func (w *world) state(t *testing.T, name string) v1.DeploymentStatus {
	t.Helper()
	return decode[v1.DeploymentStatus](t, w.run(t, "deploy", "status", name, "-o", "json"))
}

func byCommandLine(t *testing.T, w *world) {
	for _, cluster := range []string{"edge", "plain"} {
		t.Run("on "+cluster, func(t *testing.T) {
			ns := w.namespace(t)
			name := "cli-" + cluster + ns[len(ns)-6:]
			repo := w.git.Repo(t, ns)
			first := repo.Commit(t, "main", files{"k8s/a.yaml": configMap("a", "1"), "k8s/b.yaml": configMap("b", "1")})
			w.run(t, "deploy", "create", name, "--repo", repo.URL, "--path", "k8s", "--revision", "main", "--to", cluster+"/"+ns, "--wait")
			if o, err := w.in(configMaps, ns).Get(t.Context(), "a", metav1.GetOptions{}); err != nil || argocd.Field(o, "data.value") != "1" {
				t.Errorf("it was waited for, and there is %v: %v", o, err)
			}
			until(t, "it to be told", func() bool {
				got := w.state(t, name)
				return got.Phase == "deployed" && got.Sync == "Synced" && got.Health == "Healthy" && got.Revision == first && len(got.Resources) == 2
			})
			t.Log(w.run(t, "deploy", "status", name))

			second := repo.Commit(t, "main", files{"k8s/a.yaml": configMap("a", "2"), "k8s/b.yaml": gitserver.Gone()})
			w.run(t, "deploy", "refresh", name)
			w.value(t, ns, "a", "2")
			w.value(t, ns, "b", "none")
			var history []v1.DeployedRevision
			until(t, "two entries of the history, with who wrote them", func() bool {
				history = w.state(t, name).History
				return len(history) >= 2 && history[len(history)-1].Author != ""
			})
			text := w.run(t, "deploy", "history", name)
			t.Log(text)
			if last := history[len(history)-1]; last.Revision != second || last.Message != "change of main" || last.Author == "" || !strings.Contains(text, "change of main") {
				t.Errorf("the history ends with %+v:\n%s", last, text)
			}

			w.run(t, "deploy", "rollback", name, "--to", first, "--wait")
			w.value(t, ns, "a", "1")
			w.value(t, ns, "b", "1")
			w.run(t, "deploy", "update", name, "--revision", "main", "--wait")
			w.value(t, ns, "a", "2")

			// By hand from now on.
			w.run(t, "deploy", "update", name, "--manual", "--wait")
			third := repo.Commit(t, "main", files{"k8s/a.yaml": configMap("a", "3")})
			w.run(t, "deploy", "refresh", name)
			until(t, "it to be out of sync", func() bool { return w.state(t, name).Sync == "OutOfSync" })
			w.diff(t, name, "ConfigMap "+ns+"/a is to be changed", "-  value: \"2\"\n+  value: \"3\"")
			w.value(t, ns, "a", "2")
			w.run(t, "deploy", "sync", name, "--wait")
			w.value(t, ns, "a", "3")
			until(t, "the third commit to be there", func() bool { s := w.state(t, name); return s.Sync == "Synced" && s.Revision == third })

			w.run(t, "deploy", "delete", name, "--yes", "--wait")
			w.value(t, ns, "a", "none")
			if _, _, code := w.try(t, "deploy", "status", name); code != notFound {
				t.Errorf("one that was deleted: code %d", code)
			}
		})
	}
	t.Run("mistakes", func(t *testing.T) {
		for _, c := range []struct {
			reason, says string
			code         int
			args         []string
		}{
			{"no such cluster", `there is no cluster "none"`, 3, []string{"--to", "none/x", "--path", "k8s", "--repo", "https://h/r"}},
			{"a path that leads out", "leads out of the repository", 1, []string{"--to", "edge/x", "--path", "../x", "--repo", "https://h/r"}},
			{"a password in the URL", "holds a password", 1, []string{"--to", "edge/x", "--path", "x", "--repo", "https://u:p@h/r"}},
			{"nowhere", "say where it goes", 2, []string{"--path", "x", "--repo", "https://h/r"}},
		} {
			_, stderr, code := w.try(t, append([]string{"deploy", "create", "mistake"}, c.args...)...)
			if code != c.code || !strings.Contains(stderr, c.says) || strings.Contains(stderr, "u:p@") {
				t.Errorf("%s: code %d: %s", c.reason, code, stderr)
			}
		}
	})
}

// where are the clusters that have deployments into a namespace.
func (w *world) where(t *testing.T, ns string) (out []string) {
	t.Helper()
	list := decode[struct{ Items []v1.Object }](t, w.run(t, "deploy", "get", "--size", "1000", "-o", "json")).Items
	for _, o := range list {
		var spec struct {
			To struct{ Cluster, Namespace string }
		}
		if json.Unmarshal(o.Spec, &spec) == nil && spec.To.Namespace == ns && spec.To.Cluster != "" && o.Phase == "deployed" {
			out = append(out, spec.To.Cluster)
		}
	}
	slices.Sort(out)
	return out
}

// All clusters are one Kubernetes here: at any time only one of them has the label.
func bySelector(t *testing.T, w *world) {
	ns := w.namespace(t)
	name := "all" + ns[len(ns)-6:]
	repo := w.git.Repo(t, ns)
	repo.Commit(t, "main", files{"k8s/a.yaml": configMap("a", "1")})
	label := "ring" + ns[len(ns)-6:]
	w.run(t, "cluster", "label", "plain", label+"=one")
	w.run(t, "deploy", "create", name, "--repo", repo.URL, "--path", "k8s", "--to-selector", label+"=one", "--namespace", ns)
	until(t, "the cluster with the label", func() bool { return slices.Equal(w.where(t, ns), []string{"plain"}) })
	w.value(t, ns, "a", "1")

	// A cluster that comes to have the label, and one that has it no longer.
	w.run(t, "cluster", "label", "plain", label+"=two")
	until(t, "nobody to fit", func() bool { return len(w.where(t, ns)) == 0 })
	w.value(t, ns, "a", "none")
	w.run(t, "cluster", "label", "edge", label+"=one")
	until(t, "the other cluster", func() bool { return slices.Equal(w.where(t, ns), []string{"edge"}) })
	w.value(t, ns, "a", "1")

	// A cluster that is new.
	w.run(t, "cluster", "label", "edge", label+"=two")
	w.value(t, ns, "a", "none")
	late := "new" + ns[len(ns)-6:]
	w.run(t, "create", "cluster", late, "--provider", "metal", "--region", "south")
	w.run(t, "cluster", "label", late, label+"=one")
	w.join(t, late, w.k.Kubeconfig(), "--runtime", "kubernetes")
	until(t, "the new cluster", func() bool { return slices.Equal(w.where(t, ns), []string{late}) })
	w.value(t, ns, "a", "1")
	w.run(t, "deploy", "delete", name, "--yes", "--wait")
	w.value(t, ns, "a", "none")
}
