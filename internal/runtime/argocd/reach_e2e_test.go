//go:build e2e

package argocd_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/droverhq/drover/internal/runtime"
	testargo "github.com/droverhq/drover/test/argocd"
	"github.com/droverhq/drover/test/gitserver"
)

// A reach that an operator has taken back deploys nothing new; what was deployed by
// it stays, and goes with its deployment: a project that does not allow it would have
// Argo CD leave it behind without a word.
func TestReachIsTakenBack(t *testing.T) {
	a, git, rt := testargo.Shared(t), gitserver.Start(t), open(t, system(t))
	repo, ns := git.Repo(t, "shop"), a.Cluster.Namespace(t)
	first := repo.Commit(t, "main", map[string]gitserver.Entry{"k8s/a.yaml": configMap("a", "1")})
	d := deployment(repo.URL, ns)
	d.Automated = true
	apply(t, rt, item(1, d))
	await(t, rt, d, "synced", synced(first))
	beside := deployment(repo.URL, a.Cluster.Namespace(t)) // another of the workspace, which keeps its reach
	beside.Workspace, beside.Automated = d.Workspace, true
	apply(t, rt, item(1, beside))
	await(t, rt, beside, "synced", synced(first))

	refused := func(generation int64) func(runtime.Observed, runtime.Deployed) bool {
		return func(o runtime.Observed, d runtime.Deployed) bool {
			for _, c := range d.Conditions {
				if o.Generation == generation && o.State == runtime.Ready && strings.Contains(c.Message, ns) {
					return true
				}
			}
			return false
		}
	}
	// Argo CD hears of projects and of Applications by two watches: what is pushed before
	// it has heard that it may not is deployed.
	d.Namespaces = nil
	apply(t, rt, item(2, d))
	await(t, rt, d, "narrow", func(o runtime.Observed, _ runtime.Deployed) bool {
		return o.Generation == 2 && o.State == runtime.Ready
	})
	d.Refresh = "narrow"
	apply(t, rt, item(3, d))
	await(t, rt, d, "refused", refused(3))
	repo.Commit(t, "main", map[string]gitserver.Entry{"k8s/a.yaml": configMap("a", "2")})
	d.Refresh = "push-1"
	apply(t, rt, item(4, d))
	got := await(t, rt, d, "refused again", refused(4))
	t.Logf("it says %+v", got.Conditions)
	a.Wait(t, "gitopsdepl-"+d.UID, "looked at", func(o *unstructured.Unstructured) bool {
		return o.GetAnnotations()["argocd.argoproj.io/refresh"] == ""
	})
	if v := value(t, ns, "a"); v != "1" {
		t.Errorf("what was deployed is %q", v)
	}

	apply(t, rt, gone(5, d))
	await(t, rt, d, "gone", removed)
	if v := value(t, ns, "a"); v != "none" {
		t.Errorf("what was deployed was left behind: %q", v)
	}
	// The project is as narrow as before.
	p, err := a.Projects().Get(t.Context(), "app-project-"+d.Workspace, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if to, _, _ := unstructured.NestedSlice(p.Object, "spec", "destinations"); len(to) == 0 || strings.Contains(fmt.Sprint(to), ns) {
		t.Errorf("the project allows %v", to)
	}
	apply(t, rt, gone(2, beside))
	await(t, rt, beside, "gone", removed)
}
