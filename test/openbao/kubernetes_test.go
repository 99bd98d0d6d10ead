//go:build e2e

package openbao_test

import (
	"testing"

	authv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/droverhq/drover/test/kubernetes"
	"github.com/droverhq/drover/test/openbao"
)

func TestServiceAccountsComeIn(t *testing.T) {
	c, s := kubernetes.Start(t), openbao.Start(t)
	put(t, s, "hello")
	ns := c.Namespace(t)
	s.Kubernetes(t, "pod", openbao.Cluster{
		URL: c.URL, Authority: string(c.Admin().CAData), Reviewer: c.Admin().BearerToken, Namespace: ns, Account: "app",
	}, s.Policy(t, `path "secret/data/*" { capabilities = ["read"] }`))
	for _, account := range []struct {
		name string
		ok   bool
	}{{"app", true}, {"other", false}} {
		accounts := c.Client(t).CoreV1().ServiceAccounts(ns)
		if _, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account.name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		token, err := accounts.CreateToken(t.Context(), account.name, &authv1.TokenRequest{}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var out struct {
			Auth struct {
				Token string `json:"client_token"`
			}
		}
		in := map[string]string{"role": "pod", "jwt": token.Status.Token}
		if err = s.As("").Ask(t.Context(), "POST", "/v1/auth/kubernetes/login", in, &out); err == nil {
			_, err = get(t.Context(), s.As(out.Auth.Token))
		}
		if (err == nil) != account.ok {
			t.Errorf("the account %s: %v", account.name, err)
		}
	}
}
