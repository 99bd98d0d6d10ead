//go:build e2e

package gitops_test

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/droverhq/drover/test/argocd"
)

func changedSpec(t *testing.T, w *world) {
	ns := w.namespace(t)
	repo, other := w.git.Repo(t, ns), w.git.Repo(t, ns+"-other")
	main := repo.Commit(t, "main", files{"k8s/a.yaml": configMap("a", "main"), "more/b.yaml": configMap("b", "main")})
	side := repo.Commit(t, "side", files{"k8s/a.yaml": configMap("a", "side"), "more/b.yaml": configMap("b", "side")})
	there := other.Commit(t, "main", files{"k8s/a.yaml": configMap("a", "other")})
	repo.Tag(t, "v1", main, "the first one")
	uid := w.deploy(t, ns, "shop", of("automated", repo.URL))
	w.synced(t, ns, "shop", main)
	for _, c := range []struct {
		reason, url, path, revision string
		commit                      string
		a, b                        string
	}{
		{"another branch", repo.URL, "k8s", "side", side, "side", "none"},
		{"another directory", repo.URL, "more", "side", side, "none", "side"},
		{"a tag", repo.URL, "more", "v1", main, "none", "main"},
		{"a commit", repo.URL, "k8s", side, side, "side", "none"},
		{"another repository", other.URL, "k8s", "main", there, "other", "none"},
		{"no revision", repo.URL, "k8s", "", main, "main", "none"},
	} {
		w.deploy(t, ns, "shop", fmt.Sprintf("{source: {repoURL: %q, path: %s, targetRevision: %q}, type: automated}", c.url, c.path, c.revision))
		w.wait(t, deployments, ns, "shop", "what was asked for: "+c.reason, func(o *thing) bool {
			return argocd.Synced(c.commit)(o) && argocd.Is(map[string]string{"status.reconciledState.source.repoURL": c.url,
				"status.reconciledState.source.path": c.path, "status.reconciledState.source.branch": c.revision})(o)
		})
		w.value(t, ns, "a", c.a)
		w.value(t, ns, "b", c.b)
	}
	// Manual: nothing happens by itself any more.
	w.deploy(t, ns, "shop", of("manual", repo.URL))
	w.wait(t, applications, w.a.Namespace, application(uid), "manual", func(o *thing) bool {
		_, automated, _ := unstructured.NestedMap(o.Object, "spec", "syncPolicy", "automated")
		return !automated
	})
	repo.Commit(t, "main", files{"k8s/a.yaml": configMap("a", "not asked for")})
	w.push(t, repo, "main", w.pushSecret(t))
	w.wait(t, deployments, ns, "shop", "out of sync", argocd.Is(map[string]string{"status.sync.status": "OutOfSync"}))
	w.value(t, ns, "a", "main")
}

func invalidSpec(t *testing.T, w *world) {
	ns := w.namespace(t)
	repo := w.git.Repo(t, ns)
	commit := repo.Commit(t, "main", files{"k8s/a.yaml": configMap("a", "1")})
	source := func(path string) string {
		return fmt.Sprintf("{source: {repoURL: %q, path: %q}, type: automated}", repo.URL, path)
	}
	to := func(rest string) string {
		return fmt.Sprintf("{source: {repoURL: %q, path: k8s, targetRevision: main}, type: automated, %s}", repo.URL, rest)
	}
	for i, c := range []struct{ reason, spec, message string }{
		{"an empty path", source(""), "spec.source.path is a required field and it cannot be empty"},
		{"the root as a path", source("/"), "spec.source.path cannot be '/'"},
		{"a path that leads out", source("../other"), "spec.source.path leads out of the repository"},
		{"an environment without a namespace", to("destination: {environment: mine}"), "the namespace specified in the destination field is invalid"},
		{"an environment that is not there", to("destination: {environment: mine, namespace: x}"), "Unable to reconcile the ManagedEnvironment. Verify that the ManagedEnvironment and Secret are correctly defined, and have valid credentials"},
		{"another protocol", fmt.Sprintf("{source: {repoURL: %q, path: k8s}, type: automated}", "git://host/repo"), "the repository URL must begin with https://, http:// or ssh://"},
	} {
		name := fmt.Sprintf("shop-%d", i)
		w.deploy(t, ns, name, c.spec)
		o := w.says(t, deployments, ns, name, "ErrorOccurred", c.message)
		if got, want := condition(o, "ErrorOccurred"), "True ErrorOccurred: "+c.message; got != want {
			t.Errorf("%s: the condition is %q, want %q", c.reason, got, want)
		}
		w.deploy(t, ns, name, of("automated", repo.URL))
		w.synced(t, ns, name, commit)
		o = w.says(t, deployments, ns, name, "ErrorOccurred", "ErrorOccurredResolved")
		if got := condition(o, "ErrorOccurred"); got != "False ErrorOccurredResolved: " {
			t.Errorf("%s, mended: the condition is %q", c.reason, got)
		}
		// What is deployed stays when a good spec becomes a bad one.
		if i == 0 {
			w.deploy(t, ns, name, to("destination: {environment: mine}"))
			w.says(t, deployments, ns, name, "ErrorOccurred", "destination namespace specified in the .spec.Destination.Namespace field is invalid")
			w.value(t, ns, "a", "1")
		}
		w.remove(t, deployments, ns, name)
		w.value(t, ns, "a", "none")
	}
	for _, c := range []struct{ reason, spec, message string }{
		{"no such type", fmt.Sprintf("{source: {repoURL: %q, path: k8s}, type: sometimes}", repo.URL), "spec type must be manual or automated"},
		{"a namespace without an environment", to("destination: {namespace: kube-system}"), "the environment field should not be empty when the namespace is non-empty"},
		{"another option", to("syncPolicy: {syncOptions: [Replace=true]}"), "is either mispelled or is not supported by GitOpsDeployment"},
	} {
		if err := w.tryApply(t, ns, custom(t, "GitOpsDeployment", "refused", c.spec)); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), c.message) {
			t.Errorf("%s: %v", c.reason, err)
		}
	}
}

// Each is another deployment, whatever its name is, and the last one holds.
func sameName(t *testing.T, w *world) {
	ns := w.namespace(t)
	repo := w.git.Repo(t, ns)
	uids := map[string]bool{}
	for i := range 3 {
		value := fmt.Sprint(i)
		branch := "branch-" + value
		commit := repo.Commit(t, branch, files{"k8s/a.yaml": configMap("a", value), "k8s/" + value + ".yaml": configMap("only-"+value, value)})
		uid := w.deploy(t, ns, "shop", fmt.Sprintf("{source: {repoURL: %q, path: k8s, targetRevision: %s}, type: automated}", repo.URL, branch))
		uids[uid] = true
		w.synced(t, ns, "shop", commit)
		w.value(t, ns, "a", value)
		w.remove(t, deployments, ns, "shop") // and it is made again before what it deployed is gone
		w.gone(t, deployments, ns, "shop")
		if i < 2 {
			continue
		}
		for uid := range uids {
			w.gone(t, applications, w.a.Namespace, application(uid))
		}
		for _, name := range []string{"a", "only-0", "only-1", "only-2"} {
			w.value(t, ns, name, "none")
		}
	}
	if len(uids) != 3 {
		t.Errorf("there were %d", len(uids))
	}
}
