//go:build e2e

package gitops_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/droverhq/drover/test/argocd"
	"github.com/droverhq/drover/test/gitserver"
)

// emptied: an automated deployment follows Git to the end. A directory without
// manifests is a wish; one that is not there is a mistake, and takes nothing away.
func emptied(t *testing.T, w *world) {
	for _, cluster := range []string{"edge", "plain"} {
		t.Run("on "+cluster, func(t *testing.T) {
			ns := w.namespace(t)
			name := "empty-" + cluster + ns[len(ns)-6:]
			repo := w.git.Repo(t, ns)
			repo.Commit(t, "main", files{"k8s/README": gitserver.File("what is deployed\n"), "k8s/a.yaml": configMap("a", "1"), "k8s/b.yaml": configMap("b", "1"), "other/c": gitserver.File("c\n")})
			w.run(t, "deploy", "create", name, "--repo", repo.URL, "--path", "k8s", "--revision", "main", "--to", cluster+"/"+ns, "--wait")
			w.value(t, ns, "a", "1")
			empty := repo.Commit(t, "main", files{"k8s/a.yaml": gitserver.Gone(), "k8s/b.yaml": gitserver.Gone()})
			w.push(t, repo, "main", w.pushSecret(t))
			w.value(t, ns, "a", "none")
			w.value(t, ns, "b", "none")
			until(t, "it to be told", func() bool {
				s := w.state(t, name)
				return s.Sync == "Synced" && s.Revision == empty && len(s.Resources) == 0
			})

			repo.Commit(t, "main", files{"k8s/a.yaml": configMap("a", "2")})
			w.push(t, repo, "main", w.pushSecret(t))
			w.value(t, ns, "a", "2")
			repo.Commit(t, "main", files{"k8s/a.yaml": gitserver.Gone(), "k8s/README": gitserver.Gone()}) // and the directory with them
			w.push(t, repo, "main", w.pushSecret(t))
			until(t, "the missing directory to be told", func() bool {
				for _, c := range w.state(t, name).Conditions {
					if c.Type == "ComparisonError" && c.Status == "True" {
						t.Log(c.Message)
						return strings.Contains(c.Message, "k8s")
					}
				}
				return false
			})
			w.value(t, ns, "a", "2")
			w.run(t, "deploy", "delete", name, "--yes", "--wait")
			w.value(t, ns, "a", "none")
		})
	}
}

// twoOfOne: two deployments have the same object, and both say so until one of them
// lets go of it.
func twoOfOne(t *testing.T, w *world) {
	ns := w.namespace(t)
	repo := w.git.Repo(t, ns)
	first := repo.Commit(t, "main", files{"one/a.yaml": configMap("a", "1"), "one/b.yaml": configMap("b", "1"), "two/a.yaml": configMap("a", "1"), "two/c.yaml": configMap("c", "1")})
	w.deploy(t, ns, "one", at(repo.URL, "one"))
	w.synced(t, ns, "one", first)
	w.deploy(t, ns, "two", at(repo.URL, "two"))
	one, two := w.get(t, deployments, ns, "one").GetUID(), w.get(t, deployments, ns, "two").GetUID()
	// Argo CD warns whichever has just lost the object to the other.
	words := func(of, other types.UID) string {
		return "True SharedResourceWarning: ConfigMap/a is part of applications " + w.a.Namespace + "/" + application(string(of)) + " and " + application(string(other))
	}
	w.says(t, deployments, ns, "one", "SharedResourceWarning", words(one, two))
	w.says(t, deployments, ns, "two", "SharedResourceWarning", words(two, one))
	w.value(t, ns, "c", "1")

	second := repo.Commit(t, "main", files{"two/a.yaml": gitserver.Gone()})
	w.push(t, repo, "main", w.pushSecret(t))
	w.synced(t, ns, "two", second)
	o := w.says(t, deployments, ns, "one", "SharedResourceWarning", "False SharedResourceWarningResolved")
	if got := condition(o, "SharedResourceWarning"); got != "False SharedResourceWarningResolved: " {
		t.Errorf("resolved: the condition is %q", got)
	}
	w.says(t, deployments, ns, "two", "SharedResourceWarning", "False SharedResourceWarningResolved")
	w.synced(t, ns, "one", second)
	w.value(t, ns, "a", "1")
}

// insecure is a cluster that a tenant brings along without a certificate to trust.
func insecure(t *testing.T, w *world) {
	ns, there := w.namespace(t), w.namespace(t)
	repo := w.git.Repo(t, ns)
	commit := repo.Commit(t, "main", files{"k8s/a.yaml": configMap("a", "1")})
	blind := object(t, w.account(t, there, "one", false))
	clusters, _ := blind.Object["clusters"].([]any)
	for _, one := range clusters {
		c, _ := one.(map[string]any)["cluster"].(map[string]any)
		delete(c, "certificate-authority-data")
		delete(c, "certificate-authority")
	}
	kubeconfig, err := blind.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	w.secret(t, ns, "mine", environmentSecret, map[string]string{"kubeconfig": string(kubeconfig)})
	spec := func(skip bool) string {
		return fmt.Sprintf("{apiURL: %q, credentialsSecret: mine, allowInsecureSkipTLSVerify: %v, namespaces: [%s]}", w.k.URL, skip, there)
	}
	w.apply(t, ns, custom(t, "GitOpsDeploymentManagedEnvironment", "mine", spec(false)))
	o := w.connected(t, ns, "mine", "UnableToValidateClusterCredentials")
	t.Log(condition(o, "ConnectionInitializationSucceeded"))
	w.deploy(t, ns, "shop", into(repo.URL, "mine", there))
	w.apply(t, ns, custom(t, "GitOpsDeploymentManagedEnvironment", "mine", spec(true)))
	w.connected(t, ns, "mine", "Succeeded")
	w.synced(t, ns, "shop", commit)
	w.value(t, there, "a", "1")
}

// clusterWide deploys what has no namespace: into a managed environment that says
// clusterResources, and not into one that does not.
func clusterWide(t *testing.T, w *world) {
	ns, there := w.namespace(t), w.namespace(t)
	repo := w.git.Repo(t, ns)
	role := "role-of-" + ns
	commit := repo.Commit(t, "main", files{"k8s/a.yaml": configMap("a", "1"), "k8s/role.yaml": gitserver.File("apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: " + role + "}\nrules: []\n")})
	w.secret(t, ns, "mine", environmentSecret, map[string]string{"kubeconfig": w.account(t, there, "one", true)})
	found := func() bool {
		_, err := w.k.Client(t).RbacV1().ClusterRoles().Get(t.Context(), role, metav1.GetOptions{})
		return err == nil
	}
	w.environment(t, ns, "mine", ", namespaces: ["+there+"], clusterResources: false")
	w.connected(t, ns, "mine", "Succeeded")
	w.deploy(t, ns, "shop", into(repo.URL, "mine", there))
	w.refuses(t, ns, "shop", role)
	if found() {
		t.Error("what is not permitted is there")
	}
	w.environment(t, ns, "mine", ", namespaces: ["+there+"], clusterResources: true")
	w.synced(t, ns, "shop", commit)
	w.value(t, there, "a", "1")
	until(t, "the ClusterRole", found)
	w.remove(t, deployments, ns, "shop")
	until(t, "the ClusterRole to go", func() bool { return !found() })
}

// namespaceMade: a custom resource has the namespace of its destination made, if it
// says so.
func namespaceMade(t *testing.T, w *world) {
	ns, base := w.namespace(t), w.namespace(t)
	repo := w.git.Repo(t, ns)
	commit := repo.Commit(t, "main", files{"k8s/a.yaml": configMap("a", "1")})
	w.secret(t, ns, "mine", environmentSecret, map[string]string{"kubeconfig": w.account(t, base, "one", true)})
	w.environment(t, ns, "mine", "")
	w.connected(t, ns, "mine", "Succeeded")
	made, not := ns+"-made", ns+"-not"
	spec := func(to, option string) string {
		return fmt.Sprintf("{source: {repoURL: %q, path: k8s, targetRevision: main}, type: automated, destination: {environment: mine, namespace: %s}, syncPolicy: {syncOptions: [%s]}}", repo.URL, to, option)
	}
	w.deploy(t, ns, "not", spec(not, "CreateNamespace=false"))
	w.deploy(t, ns, "made", spec(made, "CreateNamespace=true"))
	t.Cleanup(func() {
		for _, name := range []string{made, not} {
			_ = w.k.Client(t).CoreV1().Namespaces().Delete(context.Background(), name, metav1.DeleteOptions{})
		}
	})
	w.synced(t, ns, "made", commit)
	w.value(t, made, "a", "1")
	w.refuses(t, ns, "not", not)
	w.gone(t, namespaces, "", not)
	// What is tried again and again is tried with what is asked for by now.
	w.deploy(t, ns, "not", spec(not, "CreateNamespace=true"))
	w.synced(t, ns, "not", commit)
	w.value(t, not, "a", "1")
}

// neverSynced is a manual deployment that nobody has asked to sync.
func neverSynced(t *testing.T, w *world) {
	ns := w.namespace(t)
	repo := w.git.Repo(t, ns)
	repo.Commit(t, "main", files{"k8s/a.yaml": configMap("a", "1")})
	w.deploy(t, ns, "shop", of("manual", repo.URL))
	w.wait(t, deployments, ns, "shop", "out of sync and missing", argocd.Is(map[string]string{"status.sync.status": "OutOfSync", "status.health.status": "Missing"}))
	w.value(t, ns, "a", "none")
	w.sync(t, ns, "first", "{gitopsDeploymentName: shop}")
	w.wait(t, deployments, ns, "shop", "there", argocd.Is(map[string]string{"status.sync.status": "Synced", "status.health.status": "Healthy"}))
	w.value(t, ns, "a", "1")
}
