//go:build e2e

package argocd_test

import (
	"strings"
	"testing"

	authentication "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/droverhq/drover/internal/runtime"
	testargo "github.com/droverhq/drover/test/argocd"
	"github.com/droverhq/drover/test/gitserver"
)

// account is a target: the same cluster by the token of an account that may do
// everything in one namespace.
func account(t *testing.T, a *testargo.Server, namespace string) *runtime.Target {
	t.Helper()
	c := a.Cluster.Client(t)
	if _, err := c.CoreV1().ServiceAccounts(namespace).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "deployer"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := c.RbacV1().RoleBindings(namespace).Create(t.Context(), &rbac.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "deployer"},
		RoleRef:  rbac.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbac.Subject{{Kind: "ServiceAccount", Name: "deployer", Namespace: namespace}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	token, err := c.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), "deployer", &authentication.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	admin := a.Cluster.Admin()
	return &runtime.Target{ID: "t-" + namespace, Name: "prod", Server: admin.Host, Token: token.Status.Token, CA: string(admin.CAData), Namespaces: []string{namespace}}
}

func TestTargets(t *testing.T) {
	a, git, rt := testargo.Shared(t), gitserver.Start(t), open(t, system(t))
	repo, one, two := git.Repo(t, "shop"), a.Cluster.Namespace(t), a.Cluster.Namespace(t)
	first := repo.Commit(t, "main", map[string]gitserver.Entry{"k8s/a.yaml": configMap("a", "1")})
	var all []runtime.Deployment
	for _, ns := range []string{one, two} { // two accounts of one cluster
		d := deployment(repo.URL, ns)
		d.Workspace, d.Namespaces, d.Automated, d.Target = "ws-"+one, nil, true, account(t, a, ns)
		apply(t, rt, item(1, d))
		all = append(all, d)
	}
	for _, d := range all {
		got := await(t, rt, d, "synced", synced(first))
		if c := got.Compared; c == nil || c.Target != d.Target.ID || c.Namespace != d.Namespace {
			t.Errorf("compared: %+v", c)
		}
		if value(t, d.Namespace, "a") != "1" {
			t.Error("nothing was deployed")
		}
	}

	// The token is replaced: Argo CD hears of it.
	fresh, err := a.Cluster.Client(t).CoreV1().ServiceAccounts(one).CreateToken(t.Context(), "deployer", &authentication.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	d := all[0]
	target := *d.Target
	target.Token = fresh.Status.Token
	d.Target = &target
	apply(t, rt, item(2, d))
	await(t, rt, d, "told", func(o runtime.Observed, _ runtime.Deployed) bool {
		return o.Generation == 2 && o.State == runtime.Ready
	})
	s, err := a.Cluster.Client(t).CoreV1().Secrets(a.Namespace).Get(t.Context(), "managed-env-t-"+one, metav1.GetOptions{})
	if err != nil || !strings.Contains(string(s.Data["config"]), fresh.Status.Token) {
		t.Errorf("the token was not replaced: %v", err)
	}

	// The target is gone: what was deployed stays, also when the deployment goes.
	d.Target, d.Detached = nil, true
	apply(t, rt, item(3, d))
	await(t, rt, d, "detached", func(o runtime.Observed, _ runtime.Deployed) bool {
		return o.Generation == 3 && o.State == runtime.Ready
	})
	if _, err := a.Cluster.Client(t).CoreV1().Secrets(a.Namespace).Get(t.Context(), "managed-env-t-"+one, metav1.GetOptions{}); err == nil {
		t.Error("the target's Secret is still there")
	}
	apply(t, rt, gone(4, d))
	await(t, rt, d, "gone", removed)
	if v := value(t, one, "a"); v != "1" {
		t.Errorf("what was deployed to a target that is gone: %q", v)
	}
	apply(t, rt, gone(4, all[1]))
	await(t, rt, all[1], "gone", removed)
	if v := value(t, two, "a"); v != "none" {
		t.Errorf("what was deployed to the other target: %q", v)
	}
	for _, name := range []string{"managed-env-t-" + one, "managed-env-t-" + two} {
		if _, err := a.Cluster.Client(t).CoreV1().Secrets(a.Namespace).Get(t.Context(), name, metav1.GetOptions{}); err == nil {
			t.Errorf("%s is still there", name)
		}
	}
}

func TestSSH(t *testing.T) {
	a, git, rt := testargo.Shared(t), gitserver.Start(t), open(t, system(t))
	repo, ns, door := git.Repo(t, "shop"), a.Cluster.Namespace(t), git.SSH(t)
	first := repo.Commit(t, "main", map[string]gitserver.Entry{"k8s/a.yaml": configMap("a", "1")})
	d := deployment(door.URL(repo), ns)
	d.Automated, d.Credential = true, &runtime.RepositoryCredential{ID: "s-" + ns, SSHKey: string(door.Key), KnownHosts: door.KnownHosts}
	apply(t, rt, item(1, d))
	await(t, rt, d, "made", func(o runtime.Observed, _ runtime.Deployed) bool { return o.State == runtime.Ready })
	d.Refresh = "again" // host keys reach the repository server some time after they are listed
	apply(t, rt, item(2, d))
	await(t, rt, d, "synced", synced(first))
	apply(t, rt, gone(3, d))
	await(t, rt, d, "gone", removed)
}

// A removal that is under way when the target goes cannot end by itself: it is
// detached, and then removed.
func TestTargetGoesDuringTheRemoval(t *testing.T) {
	a, git, rt := testargo.Shared(t), gitserver.Start(t), open(t, system(t))
	repo, ns := git.Repo(t, "shop"), a.Cluster.Namespace(t)
	first := repo.Commit(t, "main", map[string]gitserver.Entry{"k8s/a.yaml": configMap("a", "1")})
	d := deployment(repo.URL, ns)
	d.Namespaces, d.Automated, d.Target = nil, true, account(t, a, ns)
	apply(t, rt, item(1, d))
	await(t, rt, d, "synced", synced(first))
	c := a.Cluster.Client(t)
	m, err := c.CoreV1().ConfigMaps(ns).Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	m.Finalizers = []string{"example.org/never"} // nobody finishes the cascade
	if _, err = c.CoreV1().ConfigMaps(ns).Update(t.Context(), m, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	apply(t, rt, gone(2, d))
	await(t, rt, d, "on its way", func(o runtime.Observed, _ runtime.Deployed) bool { return o.Generation == 2 })
	if err := c.CoreV1().ServiceAccounts(ns).Delete(t.Context(), "deployer", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	d.Target, d.Detached, d.Automated = nil, true, false
	apply(t, rt, item(3, d))
	await(t, rt, d, "detached", func(o runtime.Observed, _ runtime.Deployed) bool {
		return o.Generation == 3 && o.State == runtime.Ready
	})
	apply(t, rt, gone(4, d))
	await(t, rt, d, "gone", removed)
	if _, err := c.CoreV1().ConfigMaps(ns).Patch(t.Context(), "a", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
}
