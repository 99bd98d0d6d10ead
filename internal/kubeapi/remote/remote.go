package remote

import (
	"context"
	"time"

	core "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/gitops"
)

// Reasons of the condition of a managed environment.
const (
	validate = "UnableToValidateClusterCredentials"
	install  = "UnableToInstallServiceAccount"
	create   = "UnableToCreateClusterCredentials"
)

const (
	accountNamespace = "kube-system"
	accountLabel     = "drover.dev/target-account"
	pollToken        = 200 * time.Millisecond
)

// Check implements gitops.Remote: the namespaces can be listed, or the first of
// those that are asked for can be read.
func (c *Clients) Check(ctx context.Context, at gitops.RemoteCluster) error {
	s, err := c.open(at, validate)
	if err != nil {
		return err
	}
	defer s.close()
	return s.do(ctx, func(ctx context.Context) error {
		if len(at.Namespaces) == 0 {
			return s.List(ctx, &core.NamespaceList{}, client.Limit(1))
		}
		return s.Get(ctx, client.ObjectKey{Name: at.Namespaces[0]}, &core.Namespace{})
	})
}

// Install implements gitops.Remote. Rights that the account had and should not have
// any more are taken away.
func (c *Clients) Install(ctx context.Context, at gitops.RemoteCluster, account string) (string, error) {
	s, err := c.open(at, install)
	if err != nil {
		return "", err
	}
	defer s.close()
	sa := &core.ServiceAccount{ObjectMeta: named(account, accountNamespace)}
	if err := s.ensure(ctx, sa); err != nil {
		return "", err
	}
	if err := s.grant(ctx, at, account); err != nil {
		return "", err
	}
	s.reason = create // the account is there; its token is not
	secret := &core.Secret{ObjectMeta: named(account+"-token", accountNamespace), Type: core.SecretTypeServiceAccountToken}
	secret.Labels[accountLabel] = account
	secret.Annotations = map[string]string{core.ServiceAccountNameKey: account}
	if err := s.ensure(ctx, secret); err != nil {
		return "", err
	}
	token, err := s.token(ctx, client.ObjectKeyFromObject(secret), c.cfg.Patience)
	if err == nil {
		c.settle(ctx, gitops.RemoteCluster{Server: at.Server, CA: at.CA, Insecure: at.Insecure, Namespaces: at.Namespaces, Token: token})
	}
	return token, err
}

// settle waits until an API server knows of a new token and of its rights, which it
// learns a moment after they were written. Whether it does is for Check to say.
func (c *Clients) settle(ctx context.Context, at gitops.RemoteCluster) {
	ctx, stop := context.WithTimeout(ctx, c.cfg.Patience/4)
	defer stop()
	tick := time.NewTicker(pollToken)
	defer tick.Stop()
	for fault.Is(c.Check(ctx, at), fault.Denied) {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func named(name, namespace string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: map[string]string{"app.kubernetes.io/managed-by": "drover", accountLabel: name}}
}

// ensure makes what is not there.
func (s *session) ensure(ctx context.Context, o client.Object) error {
	return s.do(ctx, func(ctx context.Context) error {
		err := s.Create(ctx, o.DeepCopyObject().(client.Object))
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
}

// token waits until the cluster has made one.
func (s *session) token(ctx context.Context, at client.ObjectKey, patience time.Duration) (string, error) {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	tick := time.NewTicker(pollToken)
	defer tick.Stop()
	for {
		var secret core.Secret
		err := s.do(ctx, func(ctx context.Context) error { return s.Get(ctx, at, &secret) })
		if token := string(secret.Data[core.ServiceAccountTokenKey]); err == nil && token != "" {
			return token, nil
		}
		if err != nil && ctx.Err() == nil {
			return "", err
		}
		select {
		case <-ctx.Done():
			return "", fault.New(fault.Unavailable, "The cluster has made no token for the service account yet.").Because(create)
		case <-tick.C:
		}
	}
}

// Remove implements gitops.Remote.
func (c *Clients) Remove(ctx context.Context, at gitops.RemoteCluster, account string) error {
	s, err := c.open(at, install)
	if err != nil {
		return err
	}
	defer s.close()
	// The rights go first: whatever fails then, the account can do nothing.
	if err := s.revoke(ctx, account, nil, false); err != nil {
		return err
	}
	meta := named(account, accountNamespace)
	for _, o := range []client.Object{
		&core.Secret{ObjectMeta: named(account+"-token", accountNamespace)},
		&core.ServiceAccount{ObjectMeta: meta},
	} {
		if err := s.gone(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// gone deletes what may be there.
func (s *session) gone(ctx context.Context, o client.Object) error {
	return s.do(ctx, func(ctx context.Context) error { return client.IgnoreNotFound(s.Delete(ctx, o)) })
}

// revoke takes away what the account may do outside the namespaces, and what it may
// do everywhere unless that is kept.
func (s *session) revoke(ctx context.Context, account string, namespaces map[string]bool, everywhere bool) error {
	var bindings rbac.RoleBindingList
	var roles rbac.RoleList
	mine := client.MatchingLabels{accountLabel: account}
	for _, list := range []client.ObjectList{&bindings, &roles} {
		if err := s.do(ctx, func(ctx context.Context) error { return s.List(ctx, list, mine) }); err != nil {
			return err
		}
	}
	var old []client.Object
	for i := range bindings.Items {
		old = append(old, &bindings.Items[i])
	}
	for i := range roles.Items {
		old = append(old, &roles.Items[i])
	}
	for _, o := range old {
		if namespaces[o.GetNamespace()] {
			continue
		}
		if err := s.gone(ctx, o); err != nil {
			return err
		}
	}
	if everywhere {
		return nil
	}
	meta := named(account, "")
	for _, o := range []client.Object{&rbac.ClusterRoleBinding{ObjectMeta: meta}, &rbac.ClusterRole{ObjectMeta: meta}} {
		if err := s.gone(ctx, o); err != nil {
			return err
		}
	}
	return nil
}
