//go:build e2e

package argocd_test

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/droverhq/drover/internal/runtime"
	testargo "github.com/droverhq/drover/test/argocd"
	"github.com/droverhq/drover/test/gitserver"
)

// What is let go of stays, and nobody follows Git any more.
func TestLetsGo(t *testing.T) {
	a, git, rt := testargo.Shared(t), gitserver.Start(t), open(t, system(t))
	repo, ns := git.Repo(t, "shop"), a.Cluster.Namespace(t)
	commit := repo.Commit(t, "main", map[string]gitserver.Entry{"k8s/a.yaml": configMap("a", "1")})
	d := deployment(repo.URL, ns)
	d.Automated = true
	apply(t, rt, item(1, d))
	await(t, rt, d, "deployed", synced(commit))
	d.Kept = true
	apply(t, rt, item(2, d))
	await(t, rt, d, "let go of", func(o runtime.Observed, d runtime.Deployed) bool {
		return o.Generation == 2 && o.State == runtime.Ready && d.Kept
	})
	apply(t, rt, gone(3, d))
	await(t, rt, d, "gone", func(o runtime.Observed, _ runtime.Deployed) bool {
		return o.Generation == 3 && o.State == runtime.Deleted
	})
	if _, err := a.Cluster.Client(t).CoreV1().ConfigMaps(ns).Get(t.Context(), "a", metav1.GetOptions{}); err != nil {
		t.Errorf("what was deployed is gone: %v", err)
	}
	if _, err := a.Applications().Get(t.Context(), "gitopsdepl-"+d.UID, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the Application is still there: %v", err)
	}
}
