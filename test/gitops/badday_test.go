//go:build e2e

package gitops_test

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/droverhq/drover/test/argocd"
	"github.com/droverhq/drover/test/gitserver"
	"github.com/droverhq/drover/test/kubernetes"
)

func gitAway(t *testing.T, w *world) {
	ns := w.namespace(t)
	git := gitserver.Start(t)
	repo := git.Repo(t, ns)
	first := repo.Commit(t, "main", files{"k8s/a.yaml": configMap("a", "1")})
	secret := w.pushSecret(t)
	git.Stop()
	w.deploy(t, ns, "shop", of("automated", repo.URL))
	w.wait(t, deployments, ns, "shop", "in trouble", func(o *thing) bool { return strings.HasPrefix(condition(o, "ComparisonError"), "True") })
	back := func() {
		if err := git.Start(); err != nil {
			t.Fatal(err)
		}
		w.push(t, repo, "main", secret)
	}
	back()
	w.synced(t, ns, "shop", first)
	w.says(t, deployments, ns, "shop", "ComparisonError", "False ComparisonErrorResolved")

	// The branch is gone: what is deployed stays.
	repo.Branch(t, "other", first)
	repo.Forget(t, "refs/heads/main")
	w.push(t, repo, "main", secret)
	w.wait(t, deployments, ns, "shop", "in trouble again", func(o *thing) bool { return strings.HasPrefix(condition(o, "ComparisonError"), "True") })
	w.value(t, ns, "a", "1")

	// It comes back as something else: history was rewritten.
	second := repo.Commit(t, "main", files{"k8s/b.yaml": configMap("b", "2")})
	w.push(t, repo, "main", secret)
	w.synced(t, ns, "shop", second)
	w.value(t, ns, "a", "none")
	repo.Branch(t, "main", first)
	w.push(t, repo, "main", secret)
	w.synced(t, ns, "shop", first)
	w.value(t, ns, "b", "none")

	// What is deleted while Git is away goes nevertheless.
	git.Stop()
	w.remove(t, deployments, ns, "shop")
	w.value(t, ns, "a", "none")
}

func namespaceDeleted(t *testing.T, w *world) {
	ns := w.namespace(t)
	repo := w.git.Repo(t, ns)
	commit := repo.Commit(t, "main", files{"k8s/a.yaml": configMap("a", "1")})
	uid := w.deploy(t, ns, "shop", of("automated", repo.URL))
	w.patch(t, deployments, ns, "shop", `{"metadata":{"finalizers":["`+finalizer+`"]}}`)
	w.synced(t, ns, "shop", commit)
	// Held up by something of the tenant's: no new deployment is taken meanwhile.
	w.apply(t, ns, object(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: held, finalizers: [example.com/held]}}"))
	if err := w.k.Client(t).CoreV1().Namespaces().Delete(t.Context(), ns, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.gone(t, deployments, ns, "shop")
	w.gone(t, applications, w.a.Namespace, application(uid))
	if err := w.tryApply(t, ns, custom(t, "GitOpsDeployment", "late", of("automated", repo.URL))); !apierrors.IsForbidden(err) {
		t.Errorf("a deployment in a namespace that is being deleted: %v", err)
	}
	w.patch(t, configMaps, ns, "held", `{"metadata":{"finalizers":null}}`)
	w.gone(t, namespaces, "", ns)
}

// serverAway: what happens while nobody watches is found.
func serverAway(t *testing.T, w *world) {
	ns := w.namespace(t)
	repo := w.git.Repo(t, ns)
	commit := repo.Commit(t, "main", files{"k8s/a.yaml": configMap("a", "1"), "other/b.yaml": configMap("b", "1"), "third/c.yaml": configMap("c", "1")})
	directory := func(path string) string {
		return fmt.Sprintf("{source: {repoURL: %q, path: %s, targetRevision: main}, type: automated}", repo.URL, path)
	}
	uid := w.deploy(t, ns, "deleted", directory("k8s"))
	changed := w.deploy(t, ns, "replaced", directory("third"))
	w.synced(t, ns, "deleted", commit)
	w.synced(t, ns, "replaced", commit)
	w.s.Kill()
	w.remove(t, deployments, ns, "deleted")
	w.deploy(t, ns, "made", directory("other"))
	w.remove(t, deployments, ns, "replaced")
	again := w.deploy(t, ns, "replaced", directory("third"))
	// What came and went unseen leaves nothing.
	never := w.deploy(t, ns, "never", directory("k8s"))
	w.remove(t, deployments, ns, "never")
	// The agent goes on by itself.
	w.remove(t, configMaps, ns, "a")
	w.value(t, ns, "a", "1")
	w.s.Start(t)
	w.synced(t, ns, "made", commit)
	w.gone(t, applications, w.a.Namespace, application(uid))
	w.value(t, ns, "a", "none")
	w.synced(t, ns, "replaced", commit)
	w.value(t, ns, "c", "1")
	w.gone(t, applications, w.a.Namespace, application(changed))
	w.get(t, applications, w.a.Namespace, application(again))
	w.gone(t, applications, w.a.Namespace, application(never))
}

func agentAway(t *testing.T, w *world) {
	ns := w.namespace(t)
	repo := w.git.Repo(t, ns)
	first := repo.Commit(t, "main", files{"k8s/a.yaml": configMap("a", "1"), "other/b.yaml": configMap("b", "1")})
	uid := w.deploy(t, ns, "shop", of("automated", repo.URL))
	w.synced(t, ns, "shop", first)
	w.edge.Kill()
	other := w.deploy(t, ns, "other", fmt.Sprintf("{source: {repoURL: %q, path: other, targetRevision: main}, type: automated}", repo.URL))
	w.remove(t, deployments, ns, "shop")
	w.gone(t, deployments, ns, "shop")
	w.get(t, applications, w.a.Namespace, application(uid))
	w.edge.Start(t)
	w.gone(t, applications, w.a.Namespace, application(uid))
	w.synced(t, ns, "other", first)
	w.get(t, applications, w.a.Namespace, application(other))

	// What changes while it is away is told when it is back.
	w.edge.Kill()
	second := repo.Commit(t, "main", files{"other/b.yaml": configMap("b", "2")})
	w.patch(t, applications, w.a.Namespace, application(other), `{"metadata":{"annotations":{"argocd.argoproj.io/refresh":"normal"}}}`)
	w.value(t, ns, "b", "2")
	w.edge.Start(t)
	w.synced(t, ns, "other", second)
}

func argocdAway(t *testing.T, w *world) {
	ns := w.namespace(t)
	repo := w.git.Repo(t, ns)
	first := repo.Commit(t, "main", files{"k8s/a.yaml": configMap("a", "1"), "other/b.yaml": configMap("b", "1")})
	uid := w.deploy(t, ns, "shop", of("automated", repo.URL))
	w.synced(t, ns, "shop", first)
	w.a.Controller.Kill()
	w.deploy(t, ns, "other", fmt.Sprintf("{source: {repoURL: %q, path: other, targetRevision: main}, type: automated}", repo.URL))
	w.remove(t, deployments, ns, "shop")
	w.wait(t, applications, w.a.Namespace, application(uid), "being deleted", func(o *thing) bool { return o != nil && o.GetDeletionTimestamp() != nil })
	w.value(t, ns, "a", "1")
	if err := w.a.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.gone(t, applications, w.a.Namespace, application(uid))
	w.value(t, ns, "a", "none")
	w.synced(t, ns, "other", first)
}

// An agent may be there before its Argo CD.
func TestArgoCDComesLater(t *testing.T) {
	w := prepare(t, kubernetes.Start(t, kubernetes.WithControllers()))
	w.run(t, "create", "cluster", "edge", "--provider", "metal", "--region", "north")
	w.edge = w.join(t, "edge", w.k.Kubeconfig(), "--runtime", "argocd")
	ns := w.namespace(t)
	repo := w.git.Repo(t, ns)
	commit := repo.Commit(t, "main", files{"k8s/a.yaml": configMap("a", "1")})
	w.deploy(t, ns, "shop", of("automated", repo.URL))
	w.refuses(t, ns, "shop", "Argo CD")
	w.a = argocd.Start(t, w.k)
	w.synced(t, ns, "shop", commit)
	w.value(t, ns, "a", "1")
}

// putRight: whatever is changed or deleted behind our back.
func putRight(t *testing.T, w *world) {
	ns := w.namespace(t)
	git := gitserver.Start(t, gitserver.WithPassword(reader, password), gitserver.WithTLS())
	repo := git.Repo(t, ns)
	commit := repo.Commit(t, "main", files{"k8s/a.yaml": configMap("a", "1")})
	credential := w.credentialFor(t, ns, repo.URL)
	w.secret(t, ns, "login", repositorySecret, map[string]string{"username": reader, "password": password})
	uid := w.deploy(t, ns, "shop", of("automated", repo.URL))
	w.synced(t, ns, "shop", commit)
	app := w.get(t, applications, w.a.Namespace, application(uid))
	project := argocd.Field(app, "spec.project")
	for _, c := range []struct {
		what     string
		resource schema.GroupVersionResource
		name     string
		change   string
		field    string
	}{
		{"the Application", applications, application(uid), `{"spec":{"source":{"path":"elsewhere"}}}`, "spec.source.path"},
		{"the project", projects, project, `{"spec":{"description":"mine"}}`, "spec.description"},
		{"the repository's Secret", secrets, "repo-cred-" + credential, `{"stringData":{"password":"other"}}`, "data.password"},
	} {
		good := argocd.Field(w.get(t, c.resource, w.a.Namespace, c.name), c.field)
		w.patch(t, c.resource, w.a.Namespace, c.name, c.change)
		w.wait(t, c.resource, w.a.Namespace, c.name, "as it was", func(o *thing) bool { return o != nil && argocd.Field(o, c.field) == good })
		before := w.get(t, c.resource, w.a.Namespace, c.name).GetUID()
		w.remove(t, c.resource, w.a.Namespace, c.name)
		w.wait(t, c.resource, w.a.Namespace, c.name, "there again", func(o *thing) bool { return o != nil && o.GetUID() != before && argocd.Field(o, c.field) == good })
	}
	w.synced(t, ns, "shop", commit)
	w.value(t, ns, "a", "1")

	w.patch(t, deployments, ns, "shop/status", `{"status":{"sync":{"status":"OutOfSync"},"resources":null,"health":null}}`)
	w.synced(t, ns, "shop", commit)
	w.patch(t, credentials, ns, "git/status", `{"status":{"conditions":null}}`)
	w.credential(t, ns, "RepositoryCredentialUpToDate")
}

func operationsShown(t *testing.T, w *world) {
	ns := w.namespace(t)
	repo := w.git.Repo(t, ns)
	commit := repo.Commit(t, "main", files{"k8s/a.yaml": configMap("a", "1")})
	uid := w.deploy(t, ns, "shop", of("automated", repo.URL))
	w.synced(t, ns, "shop", commit)
	find := func(state string) (found bool) {
		list, err := w.in(operations, w.a.Namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return false
		}
		for _, o := range list.Items {
			if argocd.Field(&o, "spec.resource") == uid && argocd.Field(&o, "status.state") == state {
				return true
			}
		}
		return false
	}
	until(t, "an operation that is completed", func() bool { return find("Completed") })
	// The same in the control plane.
	until(t, "the operation of the control plane", func() bool {
		return strings.Contains(w.run(t, "get", "operations", "--size", "1000", "-o", "json"), uid)
	})
}
