//go:build e2e

package remote_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/kubeapi/remote"
	testkube "github.com/droverhq/drover/test/kubernetes"
)

// as is a client with a token.
func as(t *testing.T, c *testkube.Cluster, token string) kubernetes.Interface {
	t.Helper()
	admin := c.Admin()
	k, err := kubernetes.NewForConfig(&rest.Config{Host: admin.Host, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAData: admin.CAData}})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// may tells what a token can do: list pods of a namespace, make a ConfigMap there,
// list nodes, make a cluster role that may do everything.
func may(t *testing.T, k kubernetes.Interface, namespace string) string {
	t.Helper()
	var out []string
	note := func(what string, err error) {
		switch {
		case err == nil || apierrors.IsAlreadyExists(err):
			out = append(out, what)
		case !apierrors.IsForbidden(err):
			t.Fatalf("%s: %v", what, err)
		}
	}
	ctx, dry := t.Context(), metav1.CreateOptions{DryRun: []string{"All"}}
	_, err := k.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{Limit: 1})
	note("pods", err)
	_, err = k.CoreV1().ConfigMaps(namespace).Create(ctx, &core.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, dry)
	note("make", err)
	_, err = k.CoreV1().Nodes().List(ctx, metav1.ListOptions{Limit: 1})
	note("nodes", err)
	_, err = k.RbacV1().ClusterRoles().Create(ctx, &rbac.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Rules: []rbac.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}}}, dry)
	note("escalate", err)
	return strings.Join(out, " ")
}

func TestAccountOnARealCluster(t *testing.T) {
	c := testkube.Shared(t)
	clients := remote.New(remote.Config{Patience: 4 * time.Minute})
	mine, other := c.Namespace(t), c.Namespace(t)
	admin := c.Admin()
	account := fmt.Sprintf("argocd-manager-%x", time.Now().UnixNano())
	at := gitops.RemoteCluster{Server: admin.Host, CA: admin.CAData, Kubeconfig: c.Kubeconfig()}
	t.Cleanup(func() {
		if err := clients.Remove(t.Context(), at, account); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
	})
	var token string
	cases := []struct {
		reason     string
		namespaces []string
		cluster    bool
		mine       string
		other      string
	}{
		{"everything", nil, false, "pods make nodes escalate", "pods make nodes escalate"},
		{"narrowed to a namespace", []string{mine}, false, "pods make", ""},
		{"and what has no namespace, but no more", []string{mine}, true, "pods make nodes", "nodes"},
		{"moved to another namespace", []string{other}, false, "", "pods make"},
		{"both", []string{mine, other}, false, "pods make", "pods make"},
		{"everything again", nil, false, "pods make nodes escalate", "pods make nodes escalate"},
	}
	for _, k := range cases {
		at.Namespaces, at.ClusterResources = k.namespaces, k.cluster
		got, err := clients.Install(t.Context(), at, account)
		if err != nil {
			t.Fatalf("%s: %v", k.reason, err)
		}
		if token != "" && got != token {
			t.Errorf("%s: another token was made", k.reason)
		}
		token = got
		if err := clients.Check(t.Context(), gitops.RemoteCluster{Server: at.Server, CA: at.CA, Token: token, Namespaces: k.namespaces}); err != nil {
			t.Errorf("%s: the token does not work: %v", k.reason, err)
		}
		// The API server learns of new rights by its own watch, a moment later.
		user := as(t, c, token)
		limit := time.Now().Add(4 * time.Minute)
		for {
			inMine, inOther := may(t, user, mine), may(t, user, other)
			if inMine == k.mine && inOther == k.other {
				break
			}
			if time.Now().After(limit) {
				t.Fatalf("%s: may %q and %q, want %q and %q", k.reason, inMine, inOther, k.mine, k.other)
			}
		}
	}
	// Two side by side.
	second := account + "-2"
	if _, err := clients.Install(t.Context(), at, second); err != nil {
		t.Fatal(err)
	}
	for range 2 { // nothing there is fine
		if err := clients.Remove(t.Context(), at, second); err != nil {
			t.Fatal(err)
		}
	}
	if err := clients.Check(t.Context(), gitops.RemoteCluster{Server: at.Server, CA: at.CA, Token: token}); err != nil {
		t.Errorf("the first went with the second: %v", err)
	}
	if err := clients.Remove(t.Context(), at, account); err != nil {
		t.Fatal(err)
	}
	k := c.Client(t)
	if _, err := k.CoreV1().ServiceAccounts("kube-system").Get(t.Context(), account, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the account: %v", err)
	}
	if _, err := k.RbacV1().ClusterRoleBindings().Get(t.Context(), account, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the binding: %v", err)
	}
	left, err := k.RbacV1().RoleBindings("").List(t.Context(), metav1.ListOptions{LabelSelector: "drover.dev/target-account=" + account})
	if err != nil || len(left.Items) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}

func TestRefusalsOfARealCluster(t *testing.T) {
	c := testkube.Shared(t)
	clients := remote.New(remote.Config{})
	admin := c.Admin()
	ns := c.Namespace(t)
	weak := c.KubeconfigOf(t, "weak-"+ns)
	at := gitops.RemoteCluster{Server: admin.Host, CA: admin.CAData}
	with := func(change func(at *gitops.RemoteCluster)) gitops.RemoteCluster {
		out := at
		change(&out)
		return out
	}
	for _, k := range []struct {
		reason string
		at     gitops.RemoteCluster
		kind   fault.Kind
		says   string
	}{
		{"a user without rights", with(func(at *gitops.RemoteCluster) { at.Kubeconfig = weak }), fault.Denied, gitops.TargetForbidden},
		{"a namespace without rights", with(func(at *gitops.RemoteCluster) { at.Kubeconfig, at.Namespaces = weak, []string{ns} }), fault.Denied, gitops.TargetForbidden},
		{"a token that is none", with(func(at *gitops.RemoteCluster) { at.Token = "n0t-a-t0k3n" }), fault.Denied, gitops.TargetUnverified},
		{"an unknown authority", with(func(at *gitops.RemoteCluster) { at.CA, at.Token = nil, "x" }), fault.Invalid, gitops.TargetUnknownCA},
		{"no such namespace", with(func(at *gitops.RemoteCluster) {
			at.Kubeconfig, at.Namespaces = c.Kubeconfig(), []string{"is-not-there"}
		}), fault.Invalid, gitops.TargetUnverified},
		{"nobody there", with(func(at *gitops.RemoteCluster) { at.Server = "https://127.0.0.1:1" }), fault.Unavailable, "cannot be reached"},
	} {
		err := clients.Check(t.Context(), k.at)
		if !fault.Is(err, k.kind) || !strings.Contains(err.Error(), k.says) || fault.Reason(err) != "UnableToValidateClusterCredentials" || strings.Contains(err.Error(), "t0k3n") {
			t.Errorf("%s: %v (%v)", k.reason, err, fault.Of(err))
		}
	}
	if _, err := clients.Install(t.Context(), with(func(at *gitops.RemoteCluster) { at.Kubeconfig = weak }), "argocd-manager-weak"); !fault.Is(err, fault.Denied) || fault.Reason(err) != "UnableToInstallServiceAccount" {
		t.Errorf("a user without rights makes an account: %v", err)
	}
	if err := clients.Check(t.Context(), with(func(at *gitops.RemoteCluster) { at.CA, at.Insecure, at.Kubeconfig = nil, true, c.Kubeconfig() })); err != nil {
		t.Errorf("without comparing: %v", err)
	}
}
