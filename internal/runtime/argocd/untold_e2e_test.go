//go:build e2e

package argocd_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/argocd"
	testargo "github.com/droverhq/drover/test/argocd"
)

// A credential goes with its deployment, also where the watch is slow and has not told
// of it yet.
func TestCredentialGoesBeforeTheWatchTells(t *testing.T) {
	var times atomic.Int64
	a := testargo.Shared(t)
	rt := open(t, system(t), func(c *argocd.Config) {
		c.Renew, c.Resync = time.Hour, time.Hour
		c.Wrap = func(next http.RoundTripper) http.RoundTripper { return silenced{next, &times} }
	})
	const none = "https://127.0.0.1:1/none.git"
	made := func(o runtime.Observed, _ runtime.Deployed) bool { return o.State == runtime.Ready }
	before := deployment(none, a.Cluster.Namespace(t))
	apply(t, rt, item(1, before))
	await(t, rt, before, "made", made) // and all is watched

	times.Add(1)
	d := deployment(none, a.Cluster.Namespace(t))
	d.Credential = &runtime.RepositoryCredential{ID: "c-" + d.Namespace, Username: "u", Password: "p"}
	apply(t, rt, item(1, d))
	await(t, rt, d, "made", made)
	secrets := a.Cluster.Client(t).CoreV1().Secrets(a.Namespace)
	if _, err := secrets.Get(t.Context(), "repo-cred-"+d.Credential.ID, metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	apply(t, rt, gone(2, d))
	await(t, rt, d, "gone", removed)
	if _, err := secrets.Get(t.Context(), "repo-cred-"+d.Credential.ID, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the credential of what is gone is still there: %v", err)
	}
	apply(t, rt, gone(2, before))
	await(t, rt, before, "gone", removed)
}
