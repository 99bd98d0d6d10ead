//go:build e2e

package gitops_test

import (
	"os"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/droverhq/drover/test/argocd"
	"github.com/droverhq/drover/test/gitserver"
)

// agentAnew: whoever runs the agent's cluster has removed all that the agent keeps,
// and installs it again. It knows nothing, and takes nothing away for that.
func agentAnew(t *testing.T, w *world) {
	ns := w.namespace(t)
	git := gitserver.Start(t, gitserver.WithPassword(reader, password), gitserver.WithTLS())
	closed, open := git.Repo(t, ns), w.git.Repo(t, ns)
	commit := closed.Commit(t, "main", files{"k8s/a.yaml": configMap("a", "1")})
	other := open.Commit(t, "main", files{"k8s/b.yaml": configMap("b", "1"), "third/c.yaml": configMap("c", "1")})
	credential := w.credentialFor(t, ns, closed.URL)
	w.secret(t, ns, "login", repositorySecret, map[string]string{"username": reader, "password": password})
	uid := w.deploy(t, ns, "closed", of("automated", closed.URL))
	w.deploy(t, ns, "open", of("automated", open.URL))
	leaves := w.deploy(t, ns, "leaves", at(open.URL, "third"))
	w.synced(t, ns, "closed", commit)
	w.synced(t, ns, "open", other)
	w.synced(t, ns, "leaves", other)
	project := argocd.Field(w.get(t, applications, w.a.Namespace, application(uid)), "spec.project")
	before := map[string]types.UID{
		"the Application": w.get(t, applications, w.a.Namespace, application(uid)).GetUID(), "the project": w.get(t, projects, w.a.Namespace, project).GetUID(),
		"the repository's Secret": w.get(t, secrets, w.a.Namespace, "repo-cred-"+credential).GetUID(), "what was deployed": w.get(t, configMaps, ns, "a").GetUID(),
	}

	w.edge.Kill()
	w.remove(t, deployments, ns, "leaves") // it never hears of this one but to remove it
	if err := w.in(secrets, "drover-system").DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "drover.dev/keeps"}); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(w.edge.DataDir); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(w.edge.DataDir, 0o700); err != nil {
		t.Fatal(err)
	}
	w.run(t, "update", "cluster", "edge", "--set", "installation=")
	w.edge.Start(t)

	second := open.Commit(t, "main", files{"k8s/b.yaml": configMap("b", "2")})
	w.push(t, open, "main", w.pushSecret(t))
	w.synced(t, ns, "open", second)
	next := closed.Commit(t, "main", files{"k8s/a.yaml": configMap("a", "2")})
	w.push(t, closed, "main", w.pushSecret(t))
	w.synced(t, ns, "closed", next)
	w.gone(t, applications, w.a.Namespace, application(leaves))
	w.value(t, ns, "c", "none")
	after := map[string]types.UID{
		"the Application": w.get(t, applications, w.a.Namespace, application(uid)).GetUID(), "the project": w.get(t, projects, w.a.Namespace, project).GetUID(),
		"the repository's Secret": w.get(t, secrets, w.a.Namespace, "repo-cred-"+credential).GetUID(), "what was deployed": w.get(t, configMaps, ns, "a").GetUID(),
	}
	for what, was := range before {
		if after[what] != was {
			t.Errorf("%s is another one: it was removed and made anew", what)
		}
	}
}
