//go:build e2e

package kubeapi_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/droverhq/drover/internal/kubeapi"
	"github.com/droverhq/drover/internal/kubeapi/v1alpha1"
)

// An API that answers for everything but a Secret is no Secret that is missing.
func TestSecretThatCannotBeRead(t *testing.T) {
	w := enter(t)
	ns := w.Namespace(t)
	for _, c := range []struct {
		reason string
		status int
	}{{"a-right-is-missing", http.StatusForbidden}, {"it-cannot-be-decrypted", http.StatusInternalServerError}} {
		t.Run(c.reason, func(t *testing.T) {
			r := newRecorder()
			var heal atomic.Bool
			h := w.home(t, func(next http.RoundTripper) http.RoundTripper {
				return wrapped{next, func(q *http.Request) (int, string) {
					if q.Method == http.MethodGet && strings.HasSuffix(q.URL.Path, "/secrets/"+c.reason) && !heal.Load() {
						return c.status, ""
					}
					return 0, ""
				}}
			})
			env := &v1alpha1.GitOpsDeploymentManagedEnvironment{
				ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: c.reason},
				Spec:       v1alpha1.GitOpsDeploymentManagedEnvironmentSpec{APIURL: "https://api.example.com", ClusterCredentialsSecret: c.reason},
			}
			w.create(t, secret(ns, c.reason, v1alpha1.EnvironmentSecret, "hunter1"))
			w.create(t, env)
			w.follow(t, kubeapi.Config{Service: r, Home: h})
			r.await(t, "that it cannot be read", func(got call) bool { return of(env)(got) && got.secret != nil && got.secret.Unreadable })
			if got := r.all(func(got call) bool { return of(env)(got) && got.secret == nil }); len(got) > 0 {
				t.Errorf("the Secret is said to be missing: %+v", got)
			}
			heal.Store(true)
			r.await(t, "the Secret once it can be", func(got call) bool {
				return of(env)(got) && got.secret != nil && !got.secret.Unreadable && string(got.secret.Data["password"]) == "hunter1"
			})
		})
	}
}
