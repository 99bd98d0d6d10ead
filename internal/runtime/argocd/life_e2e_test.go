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

func TestAutomatedLife(t *testing.T) {
	a, git, rt := testargo.Shared(t), gitserver.Start(t), open(t, system(t))
	repo, ns := git.Repo(t, "shop"), a.Cluster.Namespace(t)
	first := repo.Commit(t, "main", map[string]gitserver.Entry{"k8s/a.yaml": configMap("a", "1"), "k8s/b.yaml": configMap("b", "1")})
	d := deployment(repo.URL, ns)
	d.Automated = true
	apply(t, rt, item(1, d))
	got := await(t, rt, d, "synced", synced(first))
	if value(t, ns, "a") != "1" || len(got.Resources) != 2 || got.Resources[0].Name != "a" || got.Resources[0].Status != "Synced" {
		t.Errorf("deployed: %+v", got)
	}
	if c := got.Compared; c == nil || c.Repository != repo.URL || c.Path != "k8s" || c.Revision != "main" || c.Target != "" || c.Namespace != ns {
		t.Errorf("compared: %+v", got.Compared)
	}

	second := repo.Commit(t, "main", map[string]gitserver.Entry{"k8s/a.yaml": configMap("a", "2"), "k8s/b.yaml": gitserver.Gone()})
	d.Refresh = "push-1"
	apply(t, rt, item(2, d))
	// Argo CD may see that all is there before it has written down that its sync has ended.
	got = await(t, rt, d, "synced again", func(o runtime.Observed, d runtime.Deployed) bool {
		return synced(second)(o, d) && len(d.History) > 1
	})
	if value(t, ns, "a") != "2" || value(t, ns, "b") != "none" || len(got.History) != 2 || got.History[1].By != "automated" || got.History[1].Revision != second {
		t.Errorf("after the second commit: %+v", got)
	}

	apply(t, rt, gone(3, d))
	await(t, rt, d, "gone", removed)
	if v := value(t, ns, "a"); v != "none" {
		t.Errorf("what was deployed is still there: %q", v)
	}
	for _, in := range []struct {
		what string
		left func() int
	}{
		{"Application", func() int { return count(t, a, "applications", "gitopsdepl-"+d.UID) }},
		{"AppProject", func() int { return count(t, a, "projects", "app-project-"+d.Workspace) }},
	} {
		if in.left() != 0 {
			t.Errorf("the %s is still there", in.what)
		}
	}
}

func count(t *testing.T, a *testargo.Server, kind, name string) (n int) {
	t.Helper()
	in := a.Applications()
	if kind == "projects" {
		in = a.Projects()
	}
	list, err := in.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range list.Items {
		if o.GetName() == name {
			n++
		}
	}
	return n
}

func TestManualLife(t *testing.T) {
	a, git, rt := testargo.Shared(t), gitserver.Start(t), open(t, system(t))
	repo, ns := git.Repo(t, "shop"), a.Cluster.Namespace(t)
	first := repo.Commit(t, "main", map[string]gitserver.Entry{"k8s/a.yaml": configMap("a", "1"), "k8s/b.yaml": configMap("b", "1")})
	d := deployment(repo.URL, ns)
	apply(t, rt, item(1, d))
	await(t, rt, d, "compared", func(o runtime.Observed, d runtime.Deployed) bool { return d.Sync.Status == "OutOfSync" })
	if v := value(t, ns, "a"); v != "none" {
		t.Errorf("nobody asked for it: %q", v)
	}

	run := func(generation int64, id string, change func(*runtime.SyncRequest)) runtime.Deployed {
		t.Helper()
		d.Sync = &runtime.SyncRequest{ID: id}
		if change != nil {
			change(d.Sync)
		}
		apply(t, rt, item(generation, d))
		return await(t, rt, d, "done with "+id, func(_ runtime.Observed, d runtime.Deployed) bool {
			return d.Run != nil && d.Run.ID == id && (d.Run.Phase == "Succeeded" || d.Run.Phase == "Failed")
		})
	}
	got := run(2, "run-1", nil)
	if r := got.Run; r.Phase != "Succeeded" || r.Revision != first || len(r.Resources) != 2 || r.Started.IsZero() || r.Finished.IsZero() || value(t, ns, "a") != "1" {
		t.Errorf("the first run: %+v", r)
	}
	await(t, rt, d, "in the history", func(_ runtime.Observed, d runtime.Deployed) bool {
		return len(d.History) == 1 && d.History[0].By == "run-1"
	})

	second := repo.Commit(t, "main", map[string]gitserver.Entry{"k8s/a.yaml": configMap("a", "2"), "k8s/b.yaml": gitserver.Gone()})
	got = run(3, "run-2", nil)
	if r := got.Run; r.Phase != "Succeeded" || r.Revision != second || value(t, ns, "a") != "2" || value(t, ns, "b") != "1" {
		t.Errorf("without pruning: %+v", r)
	}
	got = run(4, "run-3", func(s *runtime.SyncRequest) { s.Prune = true })
	if r := got.Run; r.Phase != "Succeeded" {
		t.Errorf("with pruning: %+v", r)
	}
	vanishes(t, ns, "b")
	got = run(5, "run-4", func(s *runtime.SyncRequest) { s.Revision = first })
	if r := got.Run; r.Phase != "Succeeded" || r.Revision != first || value(t, ns, "a") != "1" {
		t.Errorf("an earlier commit: %+v", r)
	}
	apply(t, rt, gone(6, d))
	await(t, rt, d, "gone", removed)
}

// phase of the operation that an Application is at.
func phase(app *unstructured.Unstructured) string {
	return testargo.Field(app, "status.operationState.phase")
}

// What goes somewhere else leaves nothing where it was.
func TestAnotherDestination(t *testing.T) {
	a, git, rt := testargo.Shared(t), gitserver.Start(t), open(t, system(t))
	repo, one, two, three := git.Repo(t, "shop"), a.Cluster.Namespace(t), a.Cluster.Namespace(t), a.Cluster.Namespace(t)
	first := repo.Commit(t, "main", map[string]gitserver.Entry{"k8s/a.yaml": configMap("a", "1")})
	d := deployment(repo.URL, one)
	d.Automated = true
	apply(t, rt, item(1, d))
	await(t, rt, d, "synced", synced(first))

	at := func(generation int64, namespace string) func(runtime.Observed, runtime.Deployed) bool {
		return func(o runtime.Observed, got runtime.Deployed) bool {
			return o.Generation == generation && synced(first)(o, got) && got.Compared != nil && got.Compared.Namespace == namespace
		}
	}
	d.Namespaces, d.Namespace = []string{two}, two // the first is no longer allowed either
	apply(t, rt, item(2, d))
	await(t, rt, d, "synced in another namespace", at(2, two))
	if value(t, one, "a") != "none" || value(t, two, "a") != "1" {
		t.Errorf("in the first %q, in the second %q", value(t, one, "a"), value(t, two, "a"))
	}

	d.Namespace, d.Target = three, account(t, a, three)
	apply(t, rt, item(3, d))
	await(t, rt, d, "synced on a target", at(3, three))
	if value(t, two, "a") != "none" || value(t, three, "a") != "1" {
		t.Errorf("in the second %q, on the target %q", value(t, two, "a"), value(t, three, "a"))
	}

	d.Abandoned, d.Namespace, d.Target = d.Target.ID, two, nil // a target that is gone keeps what it has
	apply(t, rt, item(4, d))
	await(t, rt, d, "synced at home again", at(4, two))
	if value(t, two, "a") != "1" || value(t, three, "a") != "1" {
		t.Errorf("in the second %q, on the target %q", value(t, two, "a"), value(t, three, "a"))
	}
	apply(t, rt, gone(5, d))
	await(t, rt, d, "gone", removed)
}
