//go:build e2e

package argocd_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/droverhq/drover/internal/runtime"
	testargo "github.com/droverhq/drover/test/argocd"
	"github.com/droverhq/drover/test/gitserver"
)

// Whatever is changed or deleted behind the runtime's back comes back, and is told.
func TestPutsRight(t *testing.T) {
	a, git, rt := testargo.Shared(t), gitserver.Start(t, gitserver.WithPassword("u", "p")), open(t, system(t))
	repo, ns := git.Repo(t, "shop"), a.Cluster.Namespace(t)
	first := repo.Commit(t, "main", map[string]gitserver.Entry{"k8s/a.yaml": configMap("a", "1")})
	d := deployment(repo.URL, ns)
	d.Automated, d.Credential = true, &runtime.RepositoryCredential{ID: "c-" + ns, Username: "u", Password: "p"}
	apply(t, rt, item(1, d))
	await(t, rt, d, "synced", synced(first))
	app, project, secret := "gitopsdepl-"+d.UID, "app-project-"+d.Workspace, "repo-cred-c-"+ns
	secrets := a.Cluster.Client(t).CoreV1().Secrets(a.Namespace)
	for _, tc := range []struct {
		reason, told string
		spoil        func() error
		right        func()
	}{
		{"an Application that points elsewhere", "the Application was changed", func() error {
			_, err := a.Applications().Patch(t.Context(), app, types.MergePatchType, []byte(`{"spec":{"source":{"path":"other"},"project":"default"}}`), metav1.PatchOptions{})
			return err
		}, func() {
			a.Wait(t, app, "right", testargo.Is(map[string]string{"spec.source.path": "k8s", "spec.project": project}))
		}},
		{"an Application without our label", "the Application was", func() error {
			_, err := a.Applications().Patch(t.Context(), app, types.MergePatchType, []byte(`{"metadata":{"labels":null}}`), metav1.PatchOptions{})
			return err
		}, func() {
			a.Wait(t, app, "right", func(o *unstructured.Unstructured) bool {
				return o != nil && o.GetLabels()["app.kubernetes.io/managed-by"] == "drover"
			})
		}},
		{"an Application that is deleted", "the Application was deleted", func() error {
			return a.Applications().Delete(t.Context(), app, metav1.DeleteOptions{})
		}, func() {
			a.Wait(t, app, "back", func(o *unstructured.Unstructured) bool { return o != nil && o.GetDeletionTimestamp() == nil })
		}},
		{"a project that allows everything", "the AppProject was changed", func() error {
			_, err := a.Projects().Patch(t.Context(), project, types.MergePatchType, []byte(`{"spec":{"sourceRepos":["*"],"clusterResourceWhitelist":[{"group":"*","kind":"*"}]}}`), metav1.PatchOptions{})
			return err
		}, func() {
			testargo.WaitFor(t, a.Projects(), project, "right", func(o *unstructured.Unstructured) bool {
				repos, _, _ := unstructured.NestedStringSlice(o.Object, "spec", "sourceRepos")
				_, wide, _ := unstructured.NestedSlice(o.Object, "spec", "clusterResourceWhitelist")
				return !wide && len(repos) == 1 && repos[0] == repo.URL
			})
		}},
		{"a project that is deleted", "the AppProject was deleted", func() error {
			return a.Projects().Delete(t.Context(), project, metav1.DeleteOptions{})
		}, func() {
			testargo.WaitFor(t, a.Projects(), project, "back", func(o *unstructured.Unstructured) bool { return o != nil })
		}},
		{"a credential that is changed", "the Secret was changed", func() error {
			_, err := secrets.Patch(t.Context(), secret, types.MergePatchType, []byte(`{"data":{"password":"eA=="}}`), metav1.PatchOptions{})
			return err
		}, nil},
		{"a credential that is deleted", "the Secret was deleted", func() error {
			return secrets.Delete(t.Context(), secret, metav1.DeleteOptions{})
		}, nil},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			if err := tc.spoil(); err != nil {
				t.Fatal(err)
			}
			await(t, rt, d, "told: "+tc.told, func(_ runtime.Observed, d runtime.Deployed) bool {
				return d.Healed != nil && strings.Contains(d.Healed.What, tc.told)
			})
			if tc.right != nil {
				tc.right()
			}
			if s, err := secrets.Get(t.Context(), secret, metav1.GetOptions{}); err != nil || string(s.Data["password"]) != "p" || string(s.Data["project"]) != project {
				t.Errorf("the credential is not as it was: %v", err)
			}
		})
	}
	second := repo.Commit(t, "main", map[string]gitserver.Entry{"k8s/a.yaml": configMap("a", "2")})
	d.Refresh = "again"
	apply(t, rt, item(2, d))
	await(t, rt, d, "synced again", synced(second))
	if v := value(t, ns, "a"); v != "2" {
		t.Errorf("what is deployed in the end: %q", v)
	}
	apply(t, rt, gone(3, d))
	await(t, rt, d, "gone", removed)
	if _, err := secrets.Get(t.Context(), secret, metav1.GetOptions{}); err == nil {
		t.Error("the credential is still there")
	}
}

// What workspaces have is kept apart, whatever their repositories ask for.
func TestWorkspacesApart(t *testing.T) {
	a, git, rt := testargo.Shared(t), gitserver.Start(t, gitserver.WithPassword("u", "p")), open(t, system(t))
	repo, mine, other := git.Repo(t, "shop"), a.Cluster.Namespace(t), a.Cluster.Namespace(t)
	first := repo.Commit(t, "main", map[string]gitserver.Entry{"k8s/a.yaml": configMap("a", "1"),
		"abroad/a.yaml": gitserver.File("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: stray\n  namespace: " + other + "\n"),
		"quota/a.yaml":  gitserver.File("apiVersion: v1\nkind: ResourceQuota\nmetadata:\n  name: mine\nspec:\n  hard:\n    pods: \"1000\"\n"),
		"wide/a.yaml":   gitserver.File("apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: stray-" + mine + "\n"),
		"apps/a.yaml":   gitserver.File("apiVersion: argoproj.io/v1alpha1\nkind: AppProject\nmetadata:\n  name: stray\nspec: {}\n")})
	credential := &runtime.RepositoryCredential{ID: "c-" + mine, Username: "u", Password: "p"}
	good := deployment(repo.URL, mine)
	good.Automated, good.Credential = true, credential
	apply(t, rt, item(1, good))
	await(t, rt, good, "synced", synced(first))

	stranger := deployment(repo.URL, other)
	stranger.Automated = true
	apply(t, rt, item(1, stranger))
	kept := func(d runtime.Deployed) bool {
		return slices.ContainsFunc(d.Conditions, func(c runtime.DeployedCondition) bool {
			return c.Type == "ComparisonError" && strings.Contains(c.Message, "authentication")
		})
	}
	got := await(t, rt, stranger, "refused", func(_ runtime.Observed, d runtime.Deployed) bool { // a server that is slow is none
		return kept(d) || d.Sync.Status == "Synced" || d.Sync.Status == "OutOfSync"
	})
	if !kept(got) {
		t.Errorf("another workspace's credential: %+v", got)
	}
	for _, tc := range []struct{ reason, path, words string }{
		{"another workspace's namespace", "abroad", "is not permitted in project"},
		{"what bounds the workspace", "quota", "is not permitted in project"},
		{"what has no namespace", "wide", "is not permitted in project"},
		{"Argo CD's own objects", "apps", "is not permitted in project"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			d := deployment(repo.URL, mine)
			d.Workspace, d.Path, d.Credential = good.Workspace, tc.path, credential
			d.Sync = &runtime.SyncRequest{ID: "run-" + tc.path}
			apply(t, rt, item(1, d))
			got := await(t, rt, d, "refused", func(_ runtime.Observed, d runtime.Deployed) bool {
				return d.Run != nil && (d.Run.Phase == "Failed" || d.Run.Phase == "Error" || d.Run.Phase == "Succeeded")
			})
			if b, _ := json.Marshal(got); got.Run.Phase == "Succeeded" || !strings.Contains(string(b), tc.words) {
				t.Errorf("got %s", b)
			}
			apply(t, rt, gone(2, d))
			await(t, rt, d, "gone", removed)
		})
	}
	if v := value(t, other, "stray"); v != "none" {
		t.Error("a deployment reached another workspace's namespace")
	}
	// The credential stays for as long as somebody needs it.
	if v, err := a.Cluster.Client(t).CoreV1().Secrets(a.Namespace).Get(t.Context(), "repo-cred-c-"+mine, metav1.GetOptions{}); err != nil || string(v.Data["password"]) != "p" {
		t.Errorf("the credential: %v", err)
	}
	for _, d := range []runtime.Deployment{good, stranger} {
		apply(t, rt, gone(2, d))
		await(t, rt, d, "gone", removed)
	}
}
