//go:build e2e

package gitops_test

import (
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "k8s.io/api/core/v1"

	"github.com/droverhq/drover/test/argocd"
)

// account makes a service account that may do everything in its namespace, or
// everywhere, and returns its kubeconfig.
func (w *world) account(t *testing.T, ns, name string, everywhere bool) string {
	t.Helper()
	c := w.k.Client(t)
	if _, err := c.CoreV1().ServiceAccounts(ns).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	subjects := []rbacv1.Subject{{Kind: "ServiceAccount", Name: name, Namespace: ns}}
	role := rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "cluster-admin"}
	var err error
	if everywhere {
		_, err = c.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: ns + "-" + name}, Subjects: subjects, RoleRef: role}, metav1.CreateOptions{})
	} else {
		_, err = c.RbacV1().RoleBindings(ns).Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: subjects, RoleRef: role}, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(w.k.KubeconfigOfAccount(t, ns, name))
}

func (w *world) environment(t *testing.T, ns, name, more string) (uid string) {
	t.Helper()
	w.apply(t, ns, custom(t, "GitOpsDeploymentManagedEnvironment", name,
		fmt.Sprintf("{apiURL: %q, credentialsSecret: %s, allowInsecureSkipTLSVerify: false%s}", w.k.URL, name, more)))
	return string(w.get(t, environments, ns, name).GetUID())
}

func (w *world) connected(t *testing.T, ns, name, reason string) *thing {
	t.Helper()
	return w.says(t, environments, ns, name, "ConnectionInitializationSucceeded", " "+reason+": ")
}

// into is the spec of a deployment to an environment.
func into(url, environment, ns string) string {
	return fmt.Sprintf("{source: {repoURL: %q, path: k8s, targetRevision: main}, type: automated, destination: {environment: %s, namespace: %s}}", url, environment, ns)
}

func managedEnvironments(t *testing.T, w *world) {
	for _, c := range []struct {
		name, more string
		everywhere bool
	}{
		{"with its own token, one namespace", ", namespaces: [NS]", false},
		{"with an account that is made there", ", createNewServiceAccount: true", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			ns, there := w.namespace(t), w.namespace(t)
			repo := w.git.Repo(t, ns)
			first := repo.Commit(t, "main", files{"k8s/a.yaml": configMap("a", "1")})
			uid := w.environment(t, ns, "mine", strings.Replace(c.more, "NS", there, 1))
			w.connected(t, ns, "mine", "SecretNotFound")
			w.deploy(t, ns, "shop", into(repo.URL, "mine", there))
			w.says(t, deployments, ns, "shop", "ErrorOccurred", "Unable to reconcile the ManagedEnvironment. ")
			w.secret(t, ns, "mine", environmentSecret, map[string]string{"kubeconfig": w.account(t, there, "one", c.everywhere)})
			w.connected(t, ns, "mine", "Succeeded")
			o := w.synced(t, ns, "shop", first)
			if got := argocd.Field(o, "status.reconciledState.destination.name"); got != "mine" {
				t.Errorf("it was compared with %q", got)
			}
			w.value(t, there, "a", "1")
			w.completed(t, uid, "GitOpsDeploymentManagedEnvironment", 1)
			w.value(t, ns, "a", "none")

			// Another tenant knows its name, and even the name that Argo CD has for it.
			stranger := w.namespace(t)
			for name, environment := range map[string]string{"thief": "mine", "burglar": "managed-env-" + uid} {
				foreign := w.deploy(t, stranger, name, into(repo.URL, environment, there))
				w.says(t, deployments, stranger, name, "ErrorOccurred", "Unable to reconcile the ManagedEnvironment. ")
				w.remove(t, deployments, stranger, name)
				w.gone(t, applications, w.a.Namespace, application(foreign))
			}

			// Another kubeconfig reaches Argo CD by itself, before the old one's end.
			before := argocd.Field(w.get(t, secrets, w.a.Namespace, "managed-env-"+uid), "data.config")
			w.secret(t, ns, "mine", environmentSecret, map[string]string{"kubeconfig": w.account(t, there, "two", c.everywhere)})
			if !c.everywhere {
				w.wait(t, secrets, w.a.Namespace, "managed-env-"+uid, "the other one", func(o *thing) bool { return o != nil && argocd.Field(o, "data.config") != before })
			}
			if err := w.k.Client(t).CoreV1().ServiceAccounts(there).Delete(t.Context(), "one", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			second := repo.Commit(t, "main", files{"k8s/a.yaml": configMap("a", "2")})
			w.push(t, repo, "main", w.pushSecret(t))
			w.synced(t, ns, "shop", second)

			if !c.everywhere {
				w.deploy(t, ns, "elsewhere", into(repo.URL, "mine", "kube-system"))
				w.says(t, deployments, ns, "elsewhere", "ErrorOccurred", "the managed environment mine does not include the namespace kube-system")
				w.remove(t, deployments, ns, "elsewhere")
			}
			// What is deployed there stays when the environment goes.
			w.remove(t, environments, ns, "mine")
			w.gone(t, secrets, w.a.Namespace, "managed-env-"+uid)
			w.wait(t, deployments, ns, "shop", "without its environment", func(o *thing) bool { return troubles(o) != "" })
			w.value(t, there, "a", "2")
			if c.everywhere {
				until(t, "the account that was made to go", func() bool {
					_, err := w.k.Client(t).CoreV1().ServiceAccounts("kube-system").Get(t.Context(), "argocd-manager-"+uid, metav1.GetOptions{})
					return apierrors.IsNotFound(err)
				})
			}
			w.remove(t, deployments, ns, "shop")
			w.gone(t, deployments, ns, "shop")
			w.value(t, there, "a", "2")
		})
	}
}

func managedEnvironmentsRefused(t *testing.T, w *world) {
	ns := w.namespace(t)
	c := w.k.Client(t)
	if _, err := c.CoreV1().ServiceAccounts(ns).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "nobody"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	good := w.account(t, ns, "some", true)
	nobody := string(w.k.KubeconfigOfAccount(t, ns, "nobody"))
	w.secret(t, ns, "mine", "Opaque", map[string]string{"kubeconfig": good}) // of another type
	w.environment(t, ns, "mine", "")
	w.connected(t, ns, "mine", "InvalidSecretType")
	for _, c := range []struct {
		reason, kind string
		data         map[string]string
		want         string
	}{
		{"no kubeconfig", environmentSecret, map[string]string{"other": "x"}, "MissingKubeConfigField"},
		{"what is none", environmentSecret, map[string]string{"kubeconfig": "a: [b"}, "UnableToParseKubeconfigData"},
		{"another cluster's", environmentSecret, map[string]string{"kubeconfig": strings.Replace(good, w.k.URL, "https://elsewhere:6443", 1)}, "UnableToLocateContext"},
		{"somebody without rights", environmentSecret, map[string]string{"kubeconfig": nobody}, "UnableToValidateClusterCredentials"},
		{"a program", environmentSecret, map[string]string{"kubeconfig": strings.Replace(good, "token:", "exec: {command: touch}\n    other:", 1)}, "UnableToRetrieveRestConfig"},
		{"the right one", environmentSecret, map[string]string{"kubeconfig": good}, "Succeeded"},
		{"one that is gone", "", nil, "SecretNotFound"},
	} {
		if c.kind == "" {
			w.remove(t, secrets, ns, "mine")
		} else {
			w.secret(t, ns, "mine", c.kind, c.data)
		}
		o := w.connected(t, ns, "mine", c.want)
		if got, ok := condition(o, "ConnectionInitializationSucceeded"), c.want == "Succeeded"; strings.HasPrefix(got, "True") != ok {
			t.Errorf("%s: the condition is %q", c.reason, got)
		}
		t.Logf("%s: %s", c.reason, condition(o, "ConnectionInitializationSucceeded"))
	}
	w.secret(t, ns, "mine", environmentSecret, map[string]string{"kubeconfig": good})
	w.connected(t, ns, "mine", "Succeeded")
	w.apply(t, ns, custom(t, "GitOpsDeploymentManagedEnvironment", "query", fmt.Sprintf("{apiURL: %q, credentialsSecret: mine, allowInsecureSkipTLSVerify: false}", w.k.URL+"/?a=b")))
	w.connected(t, ns, "query", "UnsupportedAPIURL")
	if err := w.tryApply(t, ns, custom(t, "GitOpsDeploymentManagedEnvironment", "http", `{apiURL: "http://host", credentialsSecret: mine, allowInsecureSkipTLSVerify: false}`)); !apierrors.IsInvalid(err) ||
		!strings.Contains(err.Error(), "cluster api url must start with https://") {
		t.Errorf("a URL without TLS: %v", err)
	}
}
