//go:build e2e

package remote_test

import (
	"bytes"
	"context"
	"path/filepath"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/kubeapi/remote"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
	"github.com/droverhq/drover/internal/reconcile"
	"github.com/droverhq/drover/internal/sqlledger"
	testkube "github.com/droverhq/drover/test/kubernetes"
)

// From the Secret of a managed environment to a token that works on a real cluster,
// in both modes, and back to nothing.
func TestTargetOnARealCluster(t *testing.T) {
	c := testkube.Shared(t)
	ns, k, ctx := c.Namespace(t), c.Client(t), context.Background()
	l, err := sqlledger.Open(ctx, sqlledger.Config{
		URL: filepath.Join(t.TempDir(), "drover.db"), Key: bytes.Repeat([]byte{7}, 32), Kinds: append(gitops.Kinds(), operation.Kind),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	s := gitops.NewService(gitops.Config{Store: l, Keeper: l, Remote: remote.New(remote.Config{Patience: 4 * time.Minute})})
	uid := "11111111-2222-3333-4444-" + ns
	// run is what the loop does with one target, until it waits.
	run := func() gitops.Target {
		t.Helper()
		ref := ledger.Ref{Kind: "target", ID: uid}
		for again := true; again; {
			res, err := gitops.Targets{Service: s}.Reconcile(ctx, reconcile.Task{Ref: ref})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := l.Commit(ctx, res.Write); err != nil {
				t.Fatal(err)
			}
			again = res.Again
		}
		o, err := l.Get(ctx, ref)
		if err != nil {
			t.Fatal(err)
		}
		tg, err := gitops.DecodeTarget(o)
		if err != nil {
			t.Fatal(err)
		}
		return tg
	}
	intent := func(generation int64, kubeconfig []byte, change func(in *gitops.TargetIntent)) {
		t.Helper()
		in := gitops.TargetIntent{
			Intent: gitops.Intent{Namespace: gitops.Namespace{Home: "main", Name: "shop", UID: "ns-1"}, Name: "prod", UID: uid, Generation: generation},
			URL:    c.URL, SecretName: "access",
			Secret:     &gitops.SecretData{Type: "managed-gitops.redhat.com/managed-environment", Data: map[string][]byte{"kubeconfig": kubeconfig}},
			Namespaces: []string{ns},
		}
		change(&in)
		if err := s.IntendTarget(ctx, in); err != nil {
			t.Fatal(err)
		}
	}
	works := func(tg gitops.Target) {
		t.Helper()
		if !tg.Status.Ready || tg.Status.Condition.Reason != "Succeeded" {
			t.Fatalf("%+v", tg.Status.Condition)
		}
		token, err := l.Unseal(ctx, tg.Status.Access.Token)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := as(t, c, string(token)).CoreV1().Pods(ns).List(ctx, metav1.ListOptions{Limit: 1}); err != nil {
			t.Errorf("the token: %v", err)
		}
	}
	intent(1, c.Kubeconfig(), func(in *gitops.TargetIntent) { in.NewAccount = true })
	works(run())
	account := "argocd-manager-" + uid
	if _, err := k.RbacV1().Roles(ns).Get(ctx, account, metav1.GetOptions{}); err != nil {
		t.Errorf("the role: %v", err)
	}

	// A service account of the user's own, without rights and then with them.
	if _, err := k.CoreV1().ServiceAccounts(ns).Create(ctx, &core.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "own"}}, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	own := c.KubeconfigOfAccount(t, ns, "own")
	intent(2, own, func(*gitops.TargetIntent) {})
	before := run()
	if before.Status.Ready || before.Status.Condition.Message != gitops.TargetForbidden || before.Status.Access == nil {
		t.Fatalf("without rights: %+v", before.Status)
	}
	if _, err := k.RbacV1().RoleBindings(ns).Create(ctx, &rbac.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "own"}, Subjects: []rbac.Subject{{Kind: "ServiceAccount", Name: "own", Namespace: ns}},
		RoleRef: rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	generation := int64(3)
	for limit := time.Now().Add(4 * time.Minute); ; generation++ {
		// The API server learns of the binding a moment later; a new generation has
		// the target looked at anew.
		intent(generation, own, func(*gitops.TargetIntent) {})
		tg := run()
		if tg.Status.Ready {
			works(tg)
			break
		}
		if time.Now().After(limit) {
			t.Fatalf("%+v", tg.Status.Condition)
		}
	}
	// With the administrator's once more, and away: nothing is left there.
	intent(generation+1, c.Kubeconfig(), func(in *gitops.TargetIntent) { in.NewAccount = true })
	works(run())
	intent(generation+1, nil, func(in *gitops.TargetIntent) { in.Gone = true })
	if tg := run(); tg.Phase != gitops.Gone || len(tg.Status.Accounts) > 0 {
		t.Errorf("%s, %v", tg.Phase, tg.Status.Accounts)
	}
	if _, err := k.CoreV1().ServiceAccounts("kube-system").Get(ctx, account, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the account: %v", err)
	}
	if _, err := k.RbacV1().Roles(ns).Get(ctx, account, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the role: %v", err)
	}
}
