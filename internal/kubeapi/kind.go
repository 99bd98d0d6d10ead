package kubeapi

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/kubeapi/v1alpha1"
)

// Intents is where intent goes. Faults that end the matter: Conflict, NotFound with
// reason "unknown". Everything else is tried again.
type Intents interface {
	IntendDeployment(context.Context, gitops.DeploymentIntent) error
	IntendSyncRun(context.Context, gitops.SyncRunIntent) error
	IntendRepository(context.Context, gitops.RepositoryIntent) error
	IntendTarget(context.Context, gitops.TargetIntent) error
	IntendWorkspace(context.Context, gitops.Namespace) error
}

// Memory is what the ledger has of a home.
type Memory interface {
	KnownOf(ctx context.Context, home, kind, after string, limit int) ([]gitops.Known, error)
	Resync(ctx context.Context, kind, uid string) error
}

// Service is a gitops.Service, as far as it is used here.
type Service interface {
	Intents
	Memory
}

// resource is a kind of custom resource, by the ledger's name of what it stands for.
type resource struct {
	name string
	one  func() client.Object
	many func() client.ObjectList
	// secret names the Secret that belongs to it, and its type; nil: it has none.
	secret func(client.Object) string
	typed  string
	// wish is the intent; o is nothing but empty for one that is gone.
	wish func(in gitops.Intent, o client.Object, secret *gitops.SecretData) wish
}

// wish is an intent of one of the kinds, with the digest of what it asks for.
type wish interface{ Asks() string }

// send hands an intent over.
func (r resource) send(ctx context.Context, to Intents, in gitops.Intent, o client.Object, secret *gitops.SecretData) error {
	switch w := r.wish(in, o, secret).(type) {
	case gitops.RepositoryIntent:
		return to.IntendRepository(ctx, w)
	case gitops.TargetIntent:
		return to.IntendTarget(ctx, w)
	case gitops.DeploymentIntent:
		return to.IntendDeployment(ctx, w)
	case gitops.SyncRunIntent:
		return to.IntendSyncRun(ctx, w)
	}
	return nil
}

// resources in the order in which they are looked through: what others need first.
func resources() []resource {
	return []resource{{
		name: gitops.KindRepository.Name,
		one:  func() client.Object { return &v1alpha1.GitOpsDeploymentRepositoryCredential{} },
		many: func() client.ObjectList { return &v1alpha1.GitOpsDeploymentRepositoryCredentialList{} },
		secret: func(o client.Object) string {
			return o.(*v1alpha1.GitOpsDeploymentRepositoryCredential).Spec.Secret
		},
		typed: v1alpha1.RepositorySecret,
		wish: func(in gitops.Intent, o client.Object, secret *gitops.SecretData) wish {
			spec := o.(*v1alpha1.GitOpsDeploymentRepositoryCredential).Spec
			return gitops.RepositoryIntent{Intent: in, URL: spec.Repository, SecretName: spec.Secret, Secret: secret}
		},
	}, {
		name: gitops.KindTarget.Name,
		one:  func() client.Object { return &v1alpha1.GitOpsDeploymentManagedEnvironment{} },
		many: func() client.ObjectList { return &v1alpha1.GitOpsDeploymentManagedEnvironmentList{} },
		secret: func(o client.Object) string {
			return o.(*v1alpha1.GitOpsDeploymentManagedEnvironment).Spec.ClusterCredentialsSecret
		},
		typed: v1alpha1.EnvironmentSecret,
		wish: func(in gitops.Intent, o client.Object, secret *gitops.SecretData) wish {
			spec := o.(*v1alpha1.GitOpsDeploymentManagedEnvironment).Spec
			return gitops.TargetIntent{
				Intent: in, URL: spec.APIURL, SecretName: spec.ClusterCredentialsSecret, Secret: secret,
				Insecure: spec.AllowInsecureSkipTLSVerify, NewAccount: spec.CreateNewServiceAccount,
				Namespaces: spec.Namespaces, ClusterResources: spec.ClusterResources,
			}
		},
	}, {
		name: gitops.KindDeployment.Name,
		one:  func() client.Object { return &v1alpha1.GitOpsDeployment{} },
		many: func() client.ObjectList { return &v1alpha1.GitOpsDeploymentList{} },
		wish: func(in gitops.Intent, o client.Object, _ *gitops.SecretData) wish {
			spec := o.(*v1alpha1.GitOpsDeployment).Spec
			intent := gitops.DeploymentIntent{
				Intent: in, Repository: spec.Source.RepoURL, Path: spec.Source.Path, Revision: spec.Source.TargetRevision,
				Environment: spec.Destination.Environment, ToNamespace: spec.Destination.Namespace, Type: spec.Type,
			}
			if spec.SyncPolicy != nil {
				intent.SyncOptions = spec.SyncPolicy.SyncOptions
			}
			return intent
		},
	}, {
		name: gitops.KindSyncRun.Name,
		one:  func() client.Object { return &v1alpha1.GitOpsDeploymentSyncRun{} },
		many: func() client.ObjectList { return &v1alpha1.GitOpsDeploymentSyncRunList{} },
		wish: func(in gitops.Intent, o client.Object, _ *gitops.SecretData) wish {
			spec := o.(*v1alpha1.GitOpsDeploymentSyncRun).Spec
			return gitops.SyncRunIntent{Intent: in, Deployment: spec.GitopsDeploymentName, Revision: spec.RevisionID, Prune: spec.Prune, Phase: o.GetAnnotations()[phaseKey]}
		},
	}}
}

// resourceOf finds a kind by the ledger's name.
func resourceOf(kind string) (resource, bool) {
	for _, r := range resources() {
		if r.name == kind {
			return r, true
		}
	}
	return resource{}, false
}
