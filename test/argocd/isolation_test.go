//go:build e2e

package argocd_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/droverhq/drover/test/argocd"
	"github.com/droverhq/drover/test/gitserver"
)

// project makes one that ends with the test, after its Applications.
func project(t *testing.T, a *argocd.Server, name string, spec map[string]any) {
	t.Helper()
	_, err := a.Projects().Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject", "metadata": map[string]any{"name": name}, "spec": spec,
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Projects().Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
}

// account makes a service account that may do everything in its namespace, and
// returns its token.
func account(t *testing.T, a *argocd.Server, ns string) string {
	t.Helper()
	client := a.Cluster.Client(t)
	if _, err := client.CoreV1().ServiceAccounts(ns).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "tenant"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := client.RbacV1().RoleBindings(ns).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "tenant"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: "tenant", Namespace: ns}},
		RoleRef:    rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "cluster-admin"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(a.Cluster.KubeconfigOfAccount(t, ns, "tenant"))
	if err != nil {
		t.Fatal(err)
	}
	return config.BearerToken
}

// login is how a cluster Secret says who one is.
func login(t *testing.T, a *argocd.Server, token string) string {
	t.Helper()
	data, err := json.Marshal(map[string]any{"bearerToken": token, "tlsClientConfig": map[string]any{"caData": a.Cluster.Admin().CAData}})
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestClusters(t *testing.T) {
	a, git := argocd.Shared(t), gitserver.Start(t)
	repo := git.Repo(t, "shop")
	commit := repo.Commit(t, "main", map[string]gitserver.Entry{"k8s/a.yaml": configMap("a", "1")})
	for _, c := range []struct {
		reason string
		secret func(ns string) map[string]string
	}{
		{"somebody who may do everything", func(ns string) map[string]string {
			return map[string]string{"config": login(t, a, a.Cluster.Admin().BearerToken)}
		}},
		{"a service account, in its namespace alone", func(ns string) map[string]string {
			return map[string]string{"config": login(t, a, account(t, a, ns)), "namespaces": ns, "clusterResources": "false"}
		}},
	} {
		t.Run(c.reason, func(t *testing.T) {
			ns := a.Cluster.Namespace(t)
			// The same cluster more than once: the URL must be another one each time.
			server := a.Cluster.URL + "/?tenant=" + ns
			secret(t, a, "cluster", ns, map[string]string{"name": "cluster-" + ns, "server": server}, c.secret(ns))
			for _, to := range []map[string]any{{"name": "cluster-" + ns, "namespace": ns}, {"server": server, "namespace": ns}} {
				name := "to-" + ns
				create(t, a, application(name, repo.URL, ns, map[string]any{"syncPolicy": automated, "destination": to}))
				a.Wait(t, name, "synced", argocd.Synced(commit))
				remove(t, a, name)
			}
		})
	}
}

// remove ends what goes on first: Argo CD keeps an Application for as long as it
// tries to sync it.
func remove(t *testing.T, a *argocd.Server, name string) {
	t.Helper()
	if err := a.Applications().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	defer remind(t, a, name, reminder)()
	a.Wait(t, name, "gone", func(app *unstructured.Unstructured) bool { end(t, a, app); return app == nil })
}

// reminder changes nothing that matters.
func reminder(i int) string {
	return fmt.Sprintf(`{"metadata":{"annotations":{"reminded":"%d"}}}`, i)
}

// remind changes an Application every ten seconds, until it is stopped: now and then Argo
// CD does not see a change until there is another.
func remind(t *testing.T, a *argocd.Server, name string, change func(i int) string) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for i := 0; ; i++ {
			select {
			case <-ctx.Done():
				return
			case <-time.After(10 * time.Second):
				_, _ = a.Applications().Patch(ctx, name, types.MergePatchType, []byte(change(i)), metav1.PatchOptions{})
			}
		}
	}()
	return func() { cancel(); <-ended }
}

func TestProjectsKeepTenantsApart(t *testing.T) {
	t.Run("clusters of the projects' own, with their namespaces", func(t *testing.T) {
		tenants(t, true, func(ns string) map[string]string { return map[string]string{"project": "p-" + ns, "namespaces": ns} })
	})
	t.Run("clusters of nobody", func(t *testing.T) {
		tenants(t, false, func(string) map[string]string { return nil })
	})
}

// tenants has one of two try what is the other's, or nobody's.
func tenants(t *testing.T, scoped bool, cluster func(ns string) map[string]string) {
	a, git := argocd.Shared(t), gitserver.Start(t, gitserver.WithPassword("reader", "s3cret"))
	mine, other := a.Cluster.Namespace(t), a.Cluster.Namespace(t)
	repo, theirs := git.Repo(t, "mine"), git.Repo(t, "theirs")
	commit := repo.Commit(t, "main", map[string]gitserver.Entry{
		"k8s/a.yaml":       configMap("a", "1"),
		"elsewhere/a.yaml": gitserver.File("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: " + other + "}\n"),
		"cluster/a.yaml":   gitserver.File("apiVersion: v1\nkind: Namespace\nmetadata: {name: of-" + mine + "}\n"),
	})
	theirs.Commit(t, "main", map[string]gitserver.Entry{"k8s/a.yaml": configMap("a", "1")})
	for tenant, r := range map[string]*gitserver.Repo{mine: repo, other: theirs} {
		server := a.Cluster.URL + "/?tenant=" + tenant
		project(t, a, "p-"+tenant, map[string]any{
			"sourceRepos":                     []any{r.URL},
			"destinations":                    []any{map[string]any{"name": "cluster-" + tenant, "namespace": tenant}},
			"permitOnlyProjectScopedClusters": scoped,
		})
		secret(t, a, "cluster", tenant, map[string]string{"name": "cluster-" + tenant, "server": server, "config": login(t, a, a.Cluster.Admin().BearerToken)}, cluster(tenant))
		secret(t, a, "repository", tenant, map[string]string{"type": "git", "url": r.URL, "project": "p-" + tenant, "username": "reader", "password": "s3cret"})
	}
	project(t, a, "loose-"+mine, map[string]any{
		"sourceRepos": []any{"*"}, "destinations": []any{map[string]any{"server": "*", "namespace": mine}},
	})
	source := func(r *gitserver.Repo, path string) map[string]any {
		return map[string]any{"repoURL": r.URL, "path": path, "targetRevision": "main"}
	}
	to := func(cluster, ns string) map[string]any { return map[string]any{"name": cluster, "namespace": ns} }
	for i, c := range []struct {
		reason string
		spec   map[string]any // besides what is right
		want   string         // a pattern of what it complains about; empty: it is synced
	}{
		{"what is its own", nil, ""},
		{"another's repository", map[string]any{"source": source(theirs, "k8s")}, "is not permitted in project"},
		{"another's cluster", map[string]any{"destination": to("cluster-"+other, mine)}, "do not match any of the allowed destinations"},
		{"the cluster that Argo CD is in", map[string]any{"destination": to("in-cluster", mine)}, "do not match any of the allowed destinations"},
		{"another's namespace", map[string]any{"destination": to("cluster-"+mine, other)}, "do not match any of the allowed destinations"},
		{"another's namespace, by a manifest", map[string]any{"source": source(repo, "elsewhere")}, "namespace .* is not (permitted in project|managed)"},
		{"what is of the whole cluster", map[string]any{"source": source(repo, "cluster")}, "Namespace .*(is not permitted in project|can not be managed)"},
		{"another's project", map[string]any{"project": "p-" + other}, "is not permitted in project"},
		{"a project that there is none of", map[string]any{"project": "none-" + mine}, "does not exist"},
		{"another's credentials, by a project that allows every repository", map[string]any{"project": "loose-" + mine, "source": source(theirs, "k8s")}, "authentication required"},
		{"a path out of the repository", map[string]any{"source": source(repo, "../k8s")}, "path"},
	} {
		t.Run(c.reason, func(t *testing.T) {
			name := fmt.Sprintf("apart-%d-%s", i, mine)
			spec := map[string]any{"project": "p-" + mine, "destination": to("cluster-"+mine, mine), "syncPolicy": automated}
			maps.Copy(spec, c.spec)
			create(t, a, application(name, repo.URL, mine, spec))
			if c.want == "" {
				a.Wait(t, name, "synced", argocd.Synced(commit))
			} else {
				want := regexp.MustCompile(c.want)
				app := a.Wait(t, name, "refused", func(app *unstructured.Unstructured) bool {
					return app != nil && (want.MatchString(said(app)) || argocd.Synced(commit)(app))
				})
				t.Log(said(app))
				if phase := argocd.Field(app, "status.sync.status"); phase == "Synced" {
					t.Error("and it is synced")
				}
				if got := value(t, a.Cluster, other, "a"); got != "none" {
					t.Errorf("it reached the other's namespace: %q", got)
				}
			}
			drop(t, a, name)
		})
	}
}

// Whoever gives a project a cluster of its own should know what else is given.
func TestAProjectsOwnClusterOpensItsNamespaces(t *testing.T) {
	a, git := argocd.Shared(t), gitserver.Start(t)
	repo := git.Repo(t, "shop")
	commit := repo.Commit(t, "main", map[string]gitserver.Entry{"k8s/a.yaml": configMap("a", "1")})
	for _, c := range []struct {
		reason string
		secret func(ns string) map[string]string
		open   bool
	}{
		{"a cluster of the project's own: every namespace", func(ns string) map[string]string { return map[string]string{"project": "p-" + ns} }, true},
		{"one with a list of namespaces: those", func(ns string) map[string]string {
			return map[string]string{"project": "p-" + ns, "namespaces": ns}
		}, false},
		{"one that is nobody's: those of the project alone", func(string) map[string]string { return nil }, false},
	} {
		t.Run(c.reason, func(t *testing.T) {
			mine, other := a.Cluster.Namespace(t), a.Cluster.Namespace(t)
			cluster := "cluster-" + mine
			project(t, a, "p-"+mine, map[string]any{
				"sourceRepos": []any{repo.URL}, "destinations": []any{map[string]any{"name": cluster, "namespace": mine}},
			})
			secret(t, a, "cluster", mine, map[string]string{"name": cluster, "server": a.Cluster.URL + "/?tenant=" + mine, "config": login(t, a, a.Cluster.Admin().BearerToken)}, c.secret(mine))
			name := "open-" + mine
			create(t, a, application(name, repo.URL, other, map[string]any{
				"project": "p-" + mine, "destination": map[string]any{"name": cluster, "namespace": other}, "syncPolicy": automated,
			}))
			a.Wait(t, name, "synced or refused", func(app *unstructured.Unstructured) bool {
				if app == nil {
					return false
				}
				if c.open {
					return argocd.Synced(commit)(app)
				}
				return strings.Contains(said(app), "do not match any of the allowed destinations")
			})
			drop(t, a, name)
		})
	}
}

// drop deletes an Application that may have no project any more, which would keep it.
func drop(t *testing.T, a *argocd.Server, name string) {
	t.Helper()
	patch(t, a, name, `{"metadata":{"finalizers":null}}`)
	if _, err := a.Applications().Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		remove(t, a, name)
	}
}

// said is all that an Application complains about.
func said(app *unstructured.Unstructured) string {
	var all []string
	list, _, _ := unstructured.NestedSlice(app.Object, "status", "conditions")
	for _, c := range list {
		c := c.(map[string]any)
		all = append(all, c["type"].(string)+": "+c["message"].(string))
	}
	results, _, _ := unstructured.NestedSlice(app.Object, "status", "operationState", "syncResult", "resources")
	for _, r := range results {
		if text, is := r.(map[string]any)["message"].(string); is {
			all = append(all, "resource: "+text)
		}
	}
	return strings.Join(append(all, argocd.Field(app, "status.operationState.message")), "\n")
}

// What is taken away before the Application decides what its deletion leaves behind.
func TestDeletionNeedsWhatTheApplicationStandsOn(t *testing.T) {
	a, git := argocd.Shared(t), gitserver.Start(t)
	repo := git.Repo(t, "shop")
	commit := repo.Commit(t, "main", map[string]gitserver.Entry{"k8s/a.yaml": configMap("a", "1")})
	for _, c := range []struct {
		reason string
		first  func(t *testing.T, ns string) // takes it away; nil: nothing is
		stays  bool                          // the Application
		leaves string                        // the object's value
	}{
		{"nothing is missing", nil, false, "none"},
		{"the repository is gone", func(t *testing.T, ns string) { git.Stop(); t.Cleanup(func() { git.Start() }) }, false, "none"},
		{"the project allows it no more", func(t *testing.T, ns string) {
			merge(t, a, "p-"+ns, `{"spec":{"destinations":[]}}`)
		}, false, "1"},
		{"the cluster is unknown", func(t *testing.T, ns string) {
			if err := a.Cluster.Client(t).CoreV1().Secrets(a.Namespace).Delete(t.Context(), "cluster-"+ns, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}, false, "1"},
		{"the project is gone", func(t *testing.T, ns string) {
			if err := a.Projects().Delete(t.Context(), "p-"+ns, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}, true, "1"},
	} {
		t.Run(c.reason, func(t *testing.T) {
			ns := a.Cluster.Namespace(t)
			name := "deleted-" + ns
			project(t, a, "p-"+ns, map[string]any{"sourceRepos": []any{"*"}, "destinations": []any{map[string]any{"name": "cluster-" + ns, "namespace": ns}}})
			secret(t, a, "cluster", ns, map[string]string{"name": "cluster-" + ns, "server": a.Cluster.URL + "/?tenant=" + ns, "config": login(t, a, a.Cluster.Admin().BearerToken)})
			create(t, a, application(name, repo.URL, ns, map[string]any{"project": "p-" + ns, "destination": map[string]any{"name": "cluster-" + ns, "namespace": ns}, "syncPolicy": automated}))
			a.Wait(t, name, "synced", argocd.Synced(commit))
			if c.first != nil {
				c.first(t, ns)
				patch(t, a, name, refresh)
				stop := remind(t, a, name, func(int) string { return refresh })
				a.Wait(t, name, "aware of it", func(app *unstructured.Unstructured) bool {
					return condition(app, "InvalidSpecError")+condition(app, "ComparisonError") != ""
				})
				stop()
			}
			if err := a.Applications().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			defer remind(t, a, name, reminder)()
			a.Wait(t, name, "gone, or stuck", func(app *unstructured.Unstructured) bool {
				end(t, a, app) // as in remove
				return app == nil || c.stays && condition(app, "DeletionError") != ""
			})
			if got := value(t, a.Cluster, ns, "a"); got != c.leaves {
				t.Errorf("it leaves %q, want %q", got, c.leaves)
			}
			if c.stays {
				drop(t, a, name)
			}
		})
	}
}

func merge(t *testing.T, a *argocd.Server, project, change string) {
	t.Helper()
	if _, err := a.Projects().Patch(t.Context(), project, types.MergePatchType, []byte(change), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}
