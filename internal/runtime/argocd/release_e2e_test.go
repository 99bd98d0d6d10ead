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

// What is let go of stays, nobody follows Git any more, and nothing that was made for it
// is left in Argo CD: an agent that was not told of all others waits for that.
func TestLetsGo(t *testing.T) {
	a, git, rt := testargo.Shared(t), gitserver.Start(t, gitserver.WithPassword("u", "p")), openUntold(t, system(t))
	repo, ns := git.Repo(t, "shop"), a.Cluster.Namespace(t)
	commit := repo.Commit(t, "main", map[string]gitserver.Entry{"k8s/a.yaml": configMap("a", "1")})
	d := deployment(repo.URL, ns)
	d.Automated, d.Credential = true, &runtime.RepositoryCredential{ID: "c-" + ns, Username: "u", Password: "p"}
	apply(t, rt, item(1, d))
	await(t, rt, d, "deployed", synced(commit))
	d.Kept = true
	apply(t, rt, item(2, d))
	await(t, rt, d, "waiting to be told of others", func(o runtime.Observed, d runtime.Deployed) bool {
		return o.Generation == 2 && o.State == runtime.Installing && o.Message != "" && !d.Kept
	})
	rt.Told([]runtime.Item{item(2, d)})
	await(t, rt, d, "let go of", func(o runtime.Observed, d runtime.Deployed) bool {
		return o.Generation == 2 && o.State == runtime.Ready && d.Kept
	})
	if _, err := a.Projects().Get(t.Context(), "app-project-"+d.Workspace, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("its project is still there: %v", err)
	}
	if _, err := a.Cluster.Client(t).CoreV1().Secrets(a.Namespace).Get(t.Context(), "repo-cred-"+d.Credential.ID, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("its credential is still there: %v", err)
	}
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
