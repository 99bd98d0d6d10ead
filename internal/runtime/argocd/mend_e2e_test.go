//go:build e2e

package argocd_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/droverhq/drover/internal/runtime"
	testargo "github.com/droverhq/drover/test/argocd"
	"github.com/droverhq/drover/test/gitserver"
)

// A namespace that was missing for more than a minute is seen soon after it was made:
// Argo CD itself would try again after one more minute and a half.
func TestANamespaceThatIsMadeLateIsSeenSoon(t *testing.T) {
	a, git, rt := testargo.Shared(t), gitserver.Start(t), open(t, system(t))
	repo, ns := git.Repo(t, "shop"), unique("late")
	commit := repo.Commit(t, "main", map[string]gitserver.Entry{"k8s/a.yaml": configMap("a", "1")})
	d := deployment(repo.URL, ns)
	d.Automated = true
	apply(t, rt, item(1, d))
	await(t, rt, d, "failing", func(_ runtime.Observed, d runtime.Deployed) bool {
		return len(d.Conditions) > 0 && strings.Contains(d.Conditions[0].Message, `namespaces "`+ns+`" not found`)
	})
	select {
	case <-time.After(75 * time.Second): // the time for which it fails is what this is about
	case <-t.Context().Done():
	}
	made := time.Now()
	if _, err := a.Cluster.Client(t).CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, rt, d, "deployed", synced(commit))
	took := time.Since(made)
	t.Logf("it was deployed %s after the namespace was made", took.Round(time.Second))
	if took > 30*time.Second {
		t.Errorf("it was deployed %s after the namespace was made", took)
	}
}
