//go:build e2e

package argocd_test

import (
	"strings"
	"testing"

	"github.com/droverhq/drover/internal/runtime"
	testargo "github.com/droverhq/drover/test/argocd"
	"github.com/droverhq/drover/test/gitserver"
)

// A pattern that covers the agent's namespace gives what is beside it, and not that.
func TestPatternsGiveNoReservedNamespace(t *testing.T) {
	testargo.Shared(t)
	home := system(t)
	git, rt := gitserver.Start(t), open(t, home)
	repo := git.Repo(t, "shop")
	first := repo.Commit(t, "main", map[string]gitserver.Entry{"k8s/a.yaml": configMap("a", "1")})
	for _, tc := range []struct {
		reason, namespace string
		fits              func(runtime.Observed, runtime.Deployed) bool
		value             string
	}{
		{"one letter more", home + "x", synced(first), "1"},
		{"one letter less", home[:len(home)-1], synced(first), "1"},
		{"the agent's own", home, func(_ runtime.Observed, d runtime.Deployed) bool {
			for _, c := range d.Conditions {
				if c.Type == "InvalidSpecError" && strings.Contains(c.Message, "do not match any of the allowed destinations") {
					return true
				}
			}
			return false
		}, "none"},
	} {
		d := deployment(repo.URL, tc.namespace)
		d.Workspace, d.Namespaces = "ws-"+home, []string{home[:len(home)-4] + "*"}
		d.Automated, d.SyncOptions = true, []string{"CreateNamespace=true"}
		apply(t, rt, item(1, d))
		await(t, rt, d, "as it should be: "+tc.reason, tc.fits)
		if got := value(t, tc.namespace, "a"); got != tc.value {
			t.Errorf("%s: the object is %s", tc.reason, got)
		}
		apply(t, rt, gone(2, d))
		await(t, rt, d, "gone", removed)
	}
}
