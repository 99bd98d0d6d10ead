//go:build e2e

package argocd_test

import (
	"testing"

	testargo "github.com/droverhq/drover/test/argocd"
	"github.com/droverhq/drover/test/gitserver"
)

// An agent that was installed anew is told to remove what it never knew: that goes
// all the same, with what was deployed.
func TestRemovesWhatItNeverKnew(t *testing.T) {
	a, git := testargo.Shared(t), gitserver.Start(t)
	repo, ns := git.Repo(t, "shop"), a.Cluster.Namespace(t)
	commit := repo.Commit(t, "main", map[string]gitserver.Entry{"k8s/a.yaml": configMap("a", "1")})
	d := deployment(repo.URL, ns)
	d.Automated = true
	before := open(t, system(t))
	apply(t, before, item(1, d))
	await(t, before, d, "synced", synced(commit))
	before.Close()

	rt := open(t, system(t))
	apply(t, rt, gone(2, d))
	await(t, rt, d, "gone", removed)
	if v := value(t, ns, "a"); v != "none" {
		t.Errorf("what was deployed was left behind: %q", v)
	}
	if n := count(t, a, "applications", "gitopsdepl-"+d.UID) + count(t, a, "projects", "app-project-"+d.Workspace); n != 0 {
		t.Errorf("%d of the Application and its project are left", n)
	}
	// What nobody ever knew is gone as well.
	never := deployment(repo.URL, ns)
	apply(t, rt, gone(1, never))
	await(t, rt, never, "gone", removed)
}
