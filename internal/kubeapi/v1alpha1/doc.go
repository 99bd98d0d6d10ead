// Package v1alpha1 has the custom resources by which people on Kubernetes say what
// is to be deployed: managed-gitops.redhat.com/v1alpha1, with the fields, required
// keys and columns that users of the earlier service know.
//
// It owns the shapes, what the API server itself refuses, and the words of kubectl
// explain. It must not know who reads them: deep copies and the definitions in
// manifests are generated from these types (make generate manifests).
//
// +kubebuilder:object:generate=true
// +groupName=managed-gitops.redhat.com
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion of all kinds here.
var GroupVersion = schema.GroupVersion{Group: "managed-gitops.redhat.com", Version: "v1alpha1"}

// Finalizer keeps a GitOpsDeployment until all that it deployed is gone. Users set
// it; Drover only takes it off.
const Finalizer = "resources-finalizer.managed-gitops.redhat.com"

// Types of the Secrets that credentials and managed environments name.
const (
	RepositorySecret  = "managed-gitops.redhat.com/repository-credential"
	EnvironmentSecret = "managed-gitops.redhat.com/managed-environment"
)

// AddToScheme makes the kinds known to clients.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&GitOpsDeployment{}, &GitOpsDeploymentList{},
		&GitOpsDeploymentSyncRun{}, &GitOpsDeploymentSyncRunList{},
		&GitOpsDeploymentRepositoryCredential{}, &GitOpsDeploymentRepositoryCredentialList{},
		&GitOpsDeploymentManagedEnvironment{}, &GitOpsDeploymentManagedEnvironmentList{},
		&Operation{}, &OperationList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
