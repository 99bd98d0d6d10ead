//go:build e2e

package argocd_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/droverhq/drover/internal/runtime"
	testargo "github.com/droverhq/drover/test/argocd"
	"github.com/droverhq/drover/test/gitserver"
)

// An agent is installed anew, with nothing of what it kept. It is told of deployments
// one after the other, and takes nothing from those that are still to come.
func TestInstalledAnew(t *testing.T) {
	a, git := testargo.Shared(t), gitserver.Start(t, gitserver.WithPassword("u", "p"))
	ns := a.Cluster.Namespace(t)
	var all []runtime.Deployment
	var commits []string
	for _, name := range []string{"shop", "bank"} {
		repo := git.Repo(t, name)
		commits = append(commits, repo.Commit(t, "main", map[string]gitserver.Entry{"k8s/a.yaml": configMap(name, "1")}))
		d := deployment(repo.URL, ns)
		d.Automated, d.Credential = true, &runtime.RepositoryCredential{ID: name + "-" + ns, Username: "u", Password: "p"}
		all = append(all, d)
	}
	first := open(t, system(t))
	for i, d := range all {
		apply(t, first, item(1, d))
		await(t, first, d, "synced", synced(commits[i]))
	}
	first.Close()

	secrets := a.Cluster.Client(t).CoreV1().Secrets(a.Namespace)
	complete := func(when string) {
		t.Helper()
		for _, d := range all {
			if _, err := secrets.Get(t.Context(), "repo-cred-"+d.Credential.ID, metav1.GetOptions{}); err != nil {
				t.Fatalf("%s: %v", when, err)
			}
		}
		o, err := a.Projects().Get(t.Context(), "app-project-"+all[0].Workspace, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if repos, _, _ := unstructured.NestedStringSlice(o.Object, "spec", "sourceRepos"); len(repos) != 2 {
			t.Fatalf("%s: the project allows %v", when, repos)
		}
	}
	rt := openUntold(t, system(t))
	ready := func(o runtime.Observed, _ runtime.Deployed) bool { return o.State == runtime.Ready }
	apply(t, rt, item(2, all[0]))
	await(t, rt, all[0], "ready", ready)
	complete("one of two was told")
	apply(t, rt, gone(3, all[0])) // what it had alone goes, and what it shared waits
	await(t, rt, all[0], "half gone", func(o runtime.Observed, _ runtime.Deployed) bool {
		return o.State == runtime.Installing && o.Message != "" && value(t, ns, "shop") == "none"
	})
	complete("and is removed")
	rt.Told([]runtime.Item{gone(3, all[0]), item(2, all[1]), {ID: "instance"}})
	complete("that there is another was told, and not what it is")
	apply(t, rt, item(2, all[1]))
	await(t, rt, all[1], "synced", synced(commits[1]))
	await(t, rt, all[0], "gone", removed)
	if _, err := secrets.Get(t.Context(), "repo-cred-"+all[0].Credential.ID, metav1.GetOptions{}); err == nil {
		t.Error("the credential of what is gone is still there")
	}
	if _, err := secrets.Get(t.Context(), "repo-cred-"+all[1].Credential.ID, metav1.GetOptions{}); err != nil {
		t.Errorf("the other's credential: %v", err)
	}
	testargo.WaitFor(t, a.Projects(), "app-project-"+all[0].Workspace, "narrow", func(o *unstructured.Unstructured) bool {
		repos, _, _ := unstructured.NestedStringSlice(o.Object, "spec", "sourceRepos")
		return len(repos) == 1 && repos[0] == all[1].Repository
	})
}

// A target goes before the agent was told of all: what it shared stays until then, and no
// longer.
func TestTargetGoesBeforeAllIsTold(t *testing.T) {
	a := testargo.Shared(t)
	ns, kept := a.Cluster.Namespace(t), system(t)
	ready := func(o runtime.Observed, _ runtime.Deployed) bool { return o.State == runtime.Ready }
	d := deployment("https://127.0.0.1:1/none.git", ns)
	d.Namespaces, d.Target = nil, &runtime.Target{ID: "t-" + ns, Name: "prod", Server: "https://127.0.0.1:1", Token: "t", Insecure: true} // all of it: in a project of its own
	other := deployment(d.Repository, ns)
	first := open(t, kept)
	apply(t, first, item(1, d))
	apply(t, first, item(1, other))
	await(t, first, d, "made", ready)
	await(t, first, other, "made", ready)
	first.Close()

	d.Target, d.Detached = nil, true
	rt := openUntold(t, kept)
	apply(t, rt, item(2, d))
	await(t, rt, d, "without its target", func(o runtime.Observed, _ runtime.Deployed) bool {
		return o.Generation == 2 && o.State == runtime.Ready
	})
	secrets := a.Cluster.Client(t).CoreV1().Secrets(a.Namespace)
	if _, err := secrets.Get(t.Context(), "managed-env-t-"+ns, metav1.GetOptions{}); err != nil {
		t.Errorf("somebody who is still to be told of may need it: %v", err)
	}
	rt.Told([]runtime.Item{item(2, d), item(1, other)})
	apply(t, rt, item(1, other))
	testargo.WaitFor(t, a.Projects(), "app-project-"+d.Workspace+"-cluster", "gone", func(o *unstructured.Unstructured) bool { return o == nil })
	if _, err := secrets.Get(t.Context(), "managed-env-t-"+ns, metav1.GetOptions{}); err == nil {
		t.Error("the Secret of a target that is gone is still there")
	}
	for _, x := range []runtime.Deployment{d, other} {
		apply(t, rt, gone(3, x))
		await(t, rt, x, "gone", removed)
	}
}
