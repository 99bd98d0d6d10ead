//go:build e2e

package gitops_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/droverhq/drover/test/argocd"
	"github.com/droverhq/drover/test/drover"
	"github.com/droverhq/drover/test/gitserver"
)

func followsGit(t *testing.T, w *world) {
	ns := w.namespace(t)
	repo := w.git.Repo(t, ns)
	first := repo.Commit(t, "main", files{"k8s/a.yaml": configMap("a", "1"), "k8s/b.yaml": configMap("b", "1")})
	uid := w.deploy(t, ns, "shop", of("automated", repo.URL))
	o := w.synced(t, ns, "shop", first)
	w.value(t, ns, "a", "1")

	if got := listed(o); !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, "ConfigMap/a Synced") }) || len(got) != 2 {
		t.Errorf("its resources are %q", got)
	}
	state, _, _ := unstructured.NestedMap(o.Object, "status", "reconciledState")
	want := map[string]any{"source": map[string]any{"repoURL": repo.URL, "path": "k8s", "branch": "main"}, "destination": map[string]any{"name": "", "namespace": ns}}
	if d := cmp.Diff(want, state); d != "" {
		t.Errorf("what was compared: %s", d)
	}
	w.wait(t, deployments, ns, "shop", "its operation told", argocd.Is(map[string]string{"status.operationState.phase": "Succeeded", "status.operationState.syncResult.revision": first}))
	app := w.get(t, applications, w.a.Namespace, application(uid))
	if project := argocd.Field(app, "spec.project"); !strings.HasPrefix(project, "app-project-") {
		t.Errorf("the Application is in project %q", project)
	}

	second := repo.Commit(t, "main", files{"k8s/a.yaml": configMap("a", "2"), "k8s/b.yaml": gitserver.Gone(), "k8s/c.yaml": configMap("c", "2")})
	w.push(t, repo, "main", w.pushSecret(t))
	w.synced(t, ns, "shop", second)
	for name, value := range map[string]string{"a": "2", "b": "none", "c": "2"} {
		w.value(t, ns, name, value)
	}

	w.patch(t, configMaps, ns, "a", `{"data":{"value":"by hand"}}`)
	w.value(t, ns, "a", "2")
	w.remove(t, configMaps, ns, "c")
	w.value(t, ns, "c", "2")
	// Who wrote it is asked of Git beside, and told when it is known.
	o = w.wait(t, deployments, ns, "shop", "aware of two syncs, and of who wrote the second", func(o *thing) bool {
		list, _, _ := unstructured.NestedSlice(o.Object, "status", "history")
		if len(list) < 2 {
			return false
		}
		last, _ := list[len(list)-1].(map[string]any)
		text := func(field string) bool { value, _ := last[field].(string); return value != "" }
		return last["revision"] == second && text("message") && text("author")
	})
	// How long each took is what Argo CD says of it.
	took := func(o *thing, began string) (out []string) {
		list, _, _ := unstructured.NestedSlice(o.Object, "status", "history")
		for _, one := range list {
			e, _ := one.(map[string]any)
			out = append(out, fmt.Sprint(e["id"], e["revision"], " from ", e[began], " to ", e["deployedAt"]))
		}
		return out
	}
	says := took(w.get(t, applications, w.a.Namespace, application(uid)), "deployStartedAt")
	for _, one := range took(o, "startedAt") {
		if !slices.Contains(says, one) || strings.Contains(one, "nil") {
			t.Errorf("a sync was %s; Argo CD says %q", one, says)
		}
	}
}

// push tells a webhook of a push as GitHub does.
func (w *world) push(t *testing.T, repo *gitserver.Repo, branch, secret string) drover.Answer {
	t.Helper()
	return w.pushTo(t, repo.URL, branch, secret)
}

// pushTo names the repository as those do who follow it.
func (w *world) pushTo(t *testing.T, url, branch, secret string) drover.Answer {
	t.Helper()
	body := fmt.Sprintf(`{"ref": "refs/heads/%s", "repository": {"clone_url": %q, "default_branch": "main"}}`, branch, url)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	header := http.Header{"X-Github-Event": {"push"}, "Content-Type": {"application/json"}, "X-Hub-Signature-256": {"sha256=" + hex.EncodeToString(mac.Sum(nil))}}
	for {
		a, err := drover.Ask(drover.Request{Method: http.MethodPost, URL: w.s.URL() + "/api/v1/webhooks/git", Header: header, Body: []byte(body)})
		if err == nil && a.Status < 500 {
			return a
		}
		until(t, "the server to be back", func() bool { return w.s.Await(patience) == nil })
	}
}

// pushSecret is the operators'.
func (w *world) pushSecret(t *testing.T) string {
	t.Helper()
	return decode[struct{ Secret string }](t, w.run(t, "deploy", "webhook", "-o", "json")).Secret
}

func pushed(t *testing.T, w *world) {
	ns := w.namespace(t)
	repo := w.git.Repo(t, ns)
	first := repo.Commit(t, "main", files{"k8s/a.yaml": configMap("a", "1")})
	w.deploy(t, ns, "shop", of("automated", repo.URL))
	w.synced(t, ns, "shop", first)

	second := repo.Commit(t, "main", files{"k8s/a.yaml": configMap("a", "2")})
	if a := w.push(t, repo, "main", "guess"); a.Status != http.StatusUnauthorized {
		t.Errorf("a push with another signature: %d %s", a.Status, a.Body)
	}
	secret := w.pushSecret(t)
	if a := w.push(t, repo, "side", secret); a.Status != http.StatusAccepted || !strings.Contains(string(a.Body), `"deployments":0`) {
		t.Errorf("a push to a branch that nobody follows: %d %s", a.Status, a.Body)
	}
	if a := w.push(t, repo, "main", secret); a.Status != http.StatusAccepted || !strings.Contains(string(a.Body), `"deployments":1`) {
		t.Errorf("a push: %d %s", a.Status, a.Body)
	}
	w.synced(t, ns, "shop", second)
	w.value(t, ns, "a", "2")
}

const finalizer = "resources-finalizer.managed-gitops.redhat.com"

func deletion(t *testing.T, w *world) {
	for name, finalizers := range map[string]string{"with": `["` + finalizer + `"]`, "without": `[]`} {
		t.Run(name+" the finalizer", func(t *testing.T) {
			ns := w.namespace(t)
			repo := w.git.Repo(t, ns)
			commit := repo.Commit(t, "main", files{"k8s/a.yaml": configMap("a", "1")})
			uid := w.deploy(t, ns, "shop", of("automated", repo.URL))
			w.patch(t, deployments, ns, "shop", `{"metadata":{"finalizers":`+finalizers+`}}`)
			w.synced(t, ns, "shop", commit)
			project := argocd.Field(w.get(t, applications, w.a.Namespace, application(uid)), "spec.project")
			w.remove(t, deployments, ns, "shop")
			w.gone(t, deployments, ns, "shop")
			w.gone(t, applications, w.a.Namespace, application(uid))
			w.value(t, ns, "a", "none")
			w.gone(t, projects, w.a.Namespace, project)
		})
	}
}
