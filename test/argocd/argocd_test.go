//go:build e2e

package argocd_test

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/droverhq/drover/test/argocd"
	"github.com/droverhq/drover/test/gitserver"
	"github.com/droverhq/drover/test/kubernetes"
	"github.com/droverhq/drover/test/servers/process"
)

// configMap is a manifest.
func configMap(name, value string) gitserver.Entry {
	return gitserver.File(fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s\ndata:\n  value: %q\n", name, value))
}

// application is one that is made of a repository's directory k8s. It takes what
// it has made with it when it is deleted.
func application(name, repo, namespace string, spec map[string]any) *unstructured.Unstructured {
	all := map[string]any{
		"project":     "default",
		"source":      map[string]any{"repoURL": repo, "path": "k8s", "targetRevision": "main"},
		"destination": map[string]any{"name": "in-cluster", "namespace": namespace},
	}
	maps.Copy(all, spec)
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
		"metadata": map[string]any{"name": name, "finalizers": []any{"resources-finalizer.argocd.argoproj.io"}},
		"spec":     all,
	}}
}

var automated = map[string]any{"automated": map[string]any{"prune": true, "selfHeal": true}}

func create(t *testing.T, a *argocd.Server, app *unstructured.Unstructured) {
	t.Helper()
	if _, err := a.Applications().Create(t.Context(), app, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := a.Applications().Delete(context.Background(), app.GetName(), metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
}

func patch(t *testing.T, a *argocd.Server, name, change string) {
	t.Helper()
	if _, err := a.Applications().Patch(t.Context(), name, types.MergePatchType, []byte(change), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

const refresh = `{"metadata":{"annotations":{"argocd.argoproj.io/refresh":"normal"}}}`

// end has a sync that is under way end. Argo CD writes there too, and may write over it: it
// is to be asked for whenever a sync is seen to go on.
func end(t *testing.T, a *argocd.Server, app *unstructured.Unstructured) {
	t.Helper()
	if app == nil || argocd.Field(app, "status.operationState.phase") != "Running" {
		return
	}
	change := fmt.Sprintf(`{"metadata":{"resourceVersion":%q},"status":{"operationState":{"phase":"Terminating"}}}`, app.GetResourceVersion())
	_, err := a.Applications().Patch(t.Context(), app.GetName(), types.MergePatchType, []byte(change), metav1.PatchOptions{})
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) { // there is a newer one to look at
		t.Fatal(err)
	}
}

func value(t *testing.T, c *kubernetes.Cluster, namespace, name string) string {
	t.Helper()
	m, err := c.Client(t).CoreV1().ConfigMaps(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "none"
	}
	if err != nil {
		t.Fatal(err)
	}
	return m.Data["value"]
}

// took says how long something took, for whoever looks for it; no test depends on it.
func took(t *testing.T, what string) func() {
	start := time.Now()
	return func() { t.Logf("%s: %s", what, time.Since(start).Round(10*time.Millisecond)) }
}

func TestGitReachesTheCluster(t *testing.T) {
	a, git := argocd.Shared(t), gitserver.Start(t)
	if again := argocd.Shared(t); again != a {
		t.Fatal("a second Argo CD was started")
	}
	repo, ns := git.Repo(t, "shop"), a.Cluster.Namespace(t)
	first := repo.Commit(t, "main", map[string]gitserver.Entry{"k8s/a.yaml": configMap("a", "1"), "k8s/b.yaml": configMap("b", "1")})
	name := "auto-" + ns

	done := took(t, "created, then synced")
	create(t, a, application(name, repo.URL, ns, map[string]any{"syncPolicy": automated}))
	a.Wait(t, name, "synced", argocd.Synced(first))
	done()
	if got := value(t, a.Cluster, ns, "a"); got != "1" {
		t.Errorf("the object has %q", got)
	}

	second := repo.Commit(t, "main", map[string]gitserver.Entry{"k8s/a.yaml": configMap("a", "2"), "k8s/b.yaml": gitserver.Gone()})
	done = took(t, "new commit and refresh, then synced")
	patch(t, a, name, refresh)
	app := a.Wait(t, name, "synced again", func(app *unstructured.Unstructured) bool {
		return argocd.Synced(second)(app) && len(app.GetAnnotations()) == 0 && argocd.Field(app, "status.operationState.phase") == "Succeeded"
	})
	done()
	if a, b := value(t, a.Cluster, ns, "a"), value(t, a.Cluster, ns, "b"); a != "2" || b != "none" {
		t.Errorf("the objects have %q and %q", a, b)
	}
	history, _, _ := unstructured.NestedSlice(app.Object, "status", "history")
	if len(history) != 2 {
		t.Errorf("history %v", history)
	}

	done = took(t, "changed behind its back, then healed")
	if err := a.Cluster.Client(t).CoreV1().ConfigMaps(ns).Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	a.Wait(t, name, "healed", func(*unstructured.Unstructured) bool { return value(t, a.Cluster, ns, "a") == "2" })
	done()
	// An object that Argo CD has just made, and not seen yet, outlives an Application that is deleted then.
	patch(t, a, name, refresh)
	a.Wait(t, name, "aware of it", func(app *unstructured.Unstructured) bool {
		return argocd.Synced(second)(app) && len(app.GetAnnotations()) == 0
	})

	done = took(t, "deleted, then gone")
	if err := a.Applications().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	a.Wait(t, name, "gone", func(app *unstructured.Unstructured) bool { return app == nil })
	done()
	if got := value(t, a.Cluster, ns, "a"); got != "none" {
		t.Errorf("its object is still there: %q", got)
	}
}

func TestSyncsAreAskedForAndTerminated(t *testing.T) {
	a, git := argocd.Shared(t), gitserver.Start(t)
	repo, ns := git.Repo(t, "shop"), a.Cluster.Namespace(t)
	first := repo.Commit(t, "main", map[string]gitserver.Entry{"k8s/a.yaml": configMap("a", "1")})
	name := "manual-" + ns
	create(t, a, application(name, repo.URL, ns, nil))
	a.Wait(t, name, "compared", argocd.Is(map[string]string{"status.sync.status": "OutOfSync"}))
	if got := value(t, a.Cluster, ns, "a"); got != "none" {
		t.Errorf("it was synced without being asked to: %q", got)
	}

	operation := func(id, revision string) string {
		return fmt.Sprintf(`{"operation":{"initiatedBy":{"username":"tester"},"info":[{"name":"id","value":%q}],"sync":{"revision":%q,"prune":true}}}`, id, revision)
	}
	of := func(app *unstructured.Unstructured) string {
		info, _, _ := unstructured.NestedSlice(app.Object, "status", "operationState", "operation", "info")
		if len(info) == 0 {
			return ""
		}
		return fmt.Sprint(info[0].(map[string]any)["value"])
	}
	done := took(t, "operation, then succeeded")
	patch(t, a, name, operation("one", first))
	a.Wait(t, name, "synced by the operation", func(app *unstructured.Unstructured) bool {
		_, there := app.Object["operation"]
		return of(app) == "one" && !there && argocd.Field(app, "status.operationState.phase") == "Succeeded" && argocd.Synced(first)(app)
	})
	done()

	// A hook that never ends: there is no kubelet. What is asked for meanwhile is lost,
	// because the end of the one clears the other.
	stuck := repo.Commit(t, "main", map[string]gitserver.Entry{"k8s/hook.yaml": gitserver.File(
		"apiVersion: batch/v1\nkind: Job\nmetadata:\n  generateName: hook-\n  annotations:\n    argocd.argoproj.io/hook: PreSync\nspec:\n  template:\n    spec:\n      restartPolicy: Never\n      containers: [{name: c, image: none}]\n")})
	patch(t, a, name, operation("two", stuck))
	a.Wait(t, name, "waiting for the hook", func(app *unstructured.Unstructured) bool {
		result, _, _ := unstructured.NestedSlice(app.Object, "status", "operationState", "syncResult", "resources")
		return of(app) == "two" && argocd.Field(app, "status.operationState.phase") == "Running" && len(result) > 0
	})
	patch(t, a, name, operation("lost", first))
	done = took(t, "terminated")
	app := a.Wait(t, name, "terminated", func(app *unstructured.Unstructured) bool {
		end(t, a, app)
		_, there := app.Object["operation"]
		return !there && argocd.Field(app, "status.operationState.phase") == "Failed"
	})
	done()
	if said := argocd.Field(app, "status.operationState.message"); of(app) != "two" || said != "Operation terminated" {
		t.Errorf("the operation %q ended with %q", of(app), said)
	}

	second := repo.Commit(t, "main", map[string]gitserver.Entry{"k8s/hook.yaml": gitserver.Gone(), "k8s/a.yaml": configMap("a", "2")})
	for _, step := range []struct{ id, commit, value, sync string }{
		{"forward", second, "2", "Synced"},
		{"back", first, "1", "OutOfSync"}, // with the branch, which is ahead of it
	} {
		patch(t, a, name, operation(step.id, step.commit))
		a.Wait(t, name, "synced "+step.id, func(app *unstructured.Unstructured) bool {
			return of(app) == step.id && argocd.Is(map[string]string{"status.operationState.phase": "Succeeded", "status.sync.status": step.sync, "status.operationState.syncResult.revision": step.commit})(app)
		})
		if got := value(t, a.Cluster, ns, "a"); got != step.value {
			t.Errorf("%s: the object has %q", step.id, got)
		}
	}
}

func TestPrivateRepositories(t *testing.T) {
	a := argocd.Shared(t)
	plain := gitserver.Start(t, gitserver.WithPassword("reader", "s3cret"))
	tls := gitserver.Start(t, gitserver.WithPassword("reader", "s3cret"), gitserver.WithTLS())
	a.TrustAuthority(t, "127.0.0.1", tls.Certificate)
	door := plain.SSH(t)
	a.TrustHost(t, door.KnownHosts)
	for _, c := range []struct {
		reason string
		git    *gitserver.Server
		url    func(*gitserver.Repo) string
		with   map[string]string
	}{
		{"a password over HTTP", plain, func(r *gitserver.Repo) string { return r.URL }, map[string]string{"username": "reader", "password": "s3cret"}},
		{"a password over HTTPS", tls, func(r *gitserver.Repo) string { return r.URL }, map[string]string{"username": "reader", "password": "s3cret"}},
		{"a key over SSH", plain, door.URL, map[string]string{"sshPrivateKey": string(door.Key)}},
	} {
		t.Run(c.reason, func(t *testing.T) {
			ns := a.Cluster.Namespace(t)
			repo := c.git.Repo(t, ns)
			commit := repo.Commit(t, "main", map[string]gitserver.Entry{"k8s/a.yaml": configMap("a", "1")})
			name, url := "private-"+ns, c.url(repo)
			create(t, a, application(name, url, ns, map[string]any{"syncPolicy": automated}))
			a.Wait(t, name, "kept out", func(app *unstructured.Unstructured) bool {
				return app != nil && condition(app, "ComparisonError") != ""
			})
			secret(t, a, "repository", ns, map[string]string{"type": "git", "url": url, "project": "default"}, c.with)
			patch(t, a, name, refresh)
			app := a.Wait(t, name, "synced", argocd.Synced(commit))
			if why := condition(app, "ComparisonError"); why != "" {
				t.Errorf("it complains still: %s", why)
			}
		})
	}
}

// condition is the message of one, or empty.
func condition(app *unstructured.Unstructured, kind string) string {
	list, _, _ := unstructured.NestedSlice(app.Object, "status", "conditions")
	for _, c := range list {
		if c := c.(map[string]any); c["type"] == kind {
			return fmt.Sprint(c["message"])
		}
	}
	return ""
}

func secret(t *testing.T, a *argocd.Server, kind, name string, data ...map[string]string) {
	t.Helper()
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: kind + "-" + name, Labels: map[string]string{"argocd.argoproj.io/secret-type": kind}},
		StringData: map[string]string{},
	}
	for _, d := range data {
		maps.Copy(s.StringData, d)
	}
	secrets := a.Cluster.Client(t).CoreV1().Secrets(a.Namespace)
	if _, err := secrets.Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := secrets.Delete(context.Background(), s.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
}

func TestServersComeBack(t *testing.T) {
	a, git := argocd.Start(t, kubernetes.Shared(t), argocd.WithNamespace("argocd-apart"), argocd.WithResync(time.Hour)), gitserver.Start(t)
	repo, ns := git.Repo(t, "shop"), a.Cluster.Namespace(t)
	name := "again-" + ns
	commit := repo.Commit(t, "main", map[string]gitserver.Entry{"k8s/a.yaml": configMap("a", "0")})
	create(t, a, application(name, repo.URL, ns, map[string]any{"syncPolicy": automated}))
	stop := remind(t, a, name, func(int) string { return refresh }) // nobody else does within the hour
	defer stop()
	a.Wait(t, name, "synced", argocd.Synced(commit))
	for i, p := range []*process.Process{a.Redis, a.RepoServer, a.Controller} {
		if err := p.Kill(); err != nil {
			t.Fatal(err)
		}
		commit = repo.Commit(t, "main", map[string]gitserver.Entry{"k8s/a.yaml": configMap("a", fmt.Sprint(i+1))})
		patch(t, a, name, refresh)
		done := took(t, p.Name+" was killed; back, and synced")
		if err := a.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		a.Wait(t, name, "synced after "+p.Name+" was killed", argocd.Synced(commit))
		done()
	}
	stop()
	remove(t, a, name)
}
